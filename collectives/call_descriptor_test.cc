#include "collectives/call_descriptor.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

CallDescriptor AllReduce() {
  CallDescriptor call;
  call.kind = static_cast<uint8_t>(Collective::kAllReduce);
  call.dtype = static_cast<uint8_t>(DType::kFloat32);
  call.op = static_cast<uint8_t>(ReduceOp::kSum);
  call.number = 41;
  call.count = 1000;
  call.slice_bytes = 1 << 18;
  call.history = 0x1234;
  return call;
}

CallDescriptor Broadcast() {
  CallDescriptor call;
  call.kind = static_cast<uint8_t>(Collective::kBroadcast);
  call.dtype = static_cast<uint8_t>(DType::kFloat32);
  call.number = 41;
  call.count = 1000;
  call.root = 0;
  return call;
}

absl::Span<const std::byte> BytesOf(const CallDescriptor& call) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&call), sizeof call);
}

// AllReduce() with one field changed, for each field.
std::vector<CallDescriptor> Variations() {
  std::vector<CallDescriptor> calls(12, AllReduce());
  calls[0].kind = static_cast<uint8_t>(Collective::kReduceScatter);
  calls[1].dtype = static_cast<uint8_t>(DType::kInt32);
  calls[2].op = static_cast<uint8_t>(ReduceOp::kMax);
  calls[3].algorithm = 1;
  calls[4].mode = 1;
  calls[5].root = 1;
  calls[6].count = 1001;
  calls[7].counts_hash = 1;
  calls[8].tile_chunk = 5;
  calls[9].slice_bytes = 64;
  calls[10].history = 0x1235;
  calls[11].function = 1;
  return calls;
}

TEST(CallDescriptorTest, EveryFieldCounts) {
  EXPECT_TRUE(SameCall(AllReduce(), AllReduce()));
  for (const CallDescriptor& other : Variations()) {
    EXPECT_FALSE(SameCall(AllReduce(), other)) << DescribeCall(other);
    EXPECT_NE(HashesOf(AllReduce()).history_after, HashesOf(other).history_after)
        << DescribeCall(other);
    EXPECT_NE(HashesOf(AllReduce()).fingerprint, HashesOf(other).fingerprint)
        << DescribeCall(other);
  }
}

TEST(CallDescriptorTest, PayloadOnTheWireIsNoPartOfTheCall) {
  CallDescriptor with_payload = AllReduce();
  with_payload.payload_bytes = 8;
  EXPECT_TRUE(SameCall(AllReduce(), with_payload));
  EXPECT_EQ(HashesOf(AllReduce()).history_after, HashesOf(with_payload).history_after);
  EXPECT_EQ(HashesOf(AllReduce()).fingerprint, HashesOf(with_payload).fingerprint);
}

TEST(CallDescriptorTest, OtherKindDtypeOrOpIsAnotherFingerprint) {
  for (size_t kind = 0; kind < kCollectiveCount; ++kind) {
    for (DType dtype : kAllDTypes) {
      for (ReduceOp op : kAllReduceOps) {
        CallDescriptor call = AllReduce();
        call.kind = static_cast<uint8_t>(kind);
        call.dtype = static_cast<uint8_t>(dtype);
        call.op = static_cast<uint8_t>(op);
        EXPECT_LT(HashesOf(call).fingerprint, kFingerprints);
        if (SameCall(call, AllReduce())) continue;
        EXPECT_NE(HashesOf(call).fingerprint, HashesOf(AllReduce()).fingerprint)
            << DescribeCall(call);
      }
    }
  }
}

TEST(CallDescriptorTest, SwappedCallsLeaveAnotherHistory) {
  const auto history_after = [](std::vector<CallDescriptor> calls) {
    uint64_t history = 0;
    for (CallDescriptor& call : calls) {
      call.history = history;
      history = HashesOf(call).history_after;
    }
    return history;
  };
  CallDescriptor first = AllReduce();
  CallDescriptor second = Broadcast();
  EXPECT_NE(history_after({first, second}), history_after({second, first}));
  EXPECT_EQ(history_after({first, second}), history_after({first, second}));
}

TEST(CallDescriptorTest, WireFormatDoesNotChange) {
  CallDescriptor call = AllReduce();
  call.kind = 1;
  call.dtype = 2;
  call.op = 3;
  call.algorithm = 4;
  call.mode = 1;
  call.payload_bytes = 0x0506;
  call.root = 7;
  call.number = 8;
  call.count = 9;
  call.counts_hash = 10;
  call.tile_chunk = 11;
  call.slice_bytes = 12;
  call.function = 14;
  call.history = 13;
  const unsigned char expected[64] = {'R', 'Z', 'C', 'D', 2,  1, 2, 3, 4,  1, 6, 5, 7, 0, 0, 0,
                                      8,   0,   0,   0,   0,  0, 0, 0, 9,  0, 0, 0, 0, 0, 0, 0,
                                      10,  0,   0,   0,   0,  0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0,
                                      12,  0,   0,   0,   14, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(std::memcmp(&call, expected, sizeof expected), 0);
}

TEST(CallDescriptorTest, DecodesWhatWasEncoded) {
  for (const CallDescriptor& call : Variations()) {
    auto decoded = DecodeCall(BytesOf(call));
    ASSERT_OK(decoded);
    EXPECT_TRUE(SameCall(*decoded, call));
  }
}

TEST(CallDescriptorTest, RefusesOtherBytes) {
  const auto decode = [](auto change) {
    CallDescriptor call = AllReduce();
    change(call);
    return DecodeCall(BytesOf(call)).status();
  };
  const auto malformed = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(DecodeCall(BytesOf(AllReduce()).first(63)).status(), malformed("63 bytes"));
  EXPECT_THAT(DecodeCall({}).status(), malformed("0 bytes"));
  EXPECT_THAT(decode([](CallDescriptor& c) { c.magic = 1; }), malformed("RZCD"));
  EXPECT_THAT(decode([](CallDescriptor& c) { c.version = 3; }),
              malformed("version 3, this rank knows 2"));
  EXPECT_THAT(decode([](CallDescriptor& c) { c.kind = kCollectiveCount; }),
              malformed("collective"));
  EXPECT_THAT(decode([](CallDescriptor& c) { c.dtype = 200; }), malformed("dtype 200"));
  EXPECT_THAT(decode([](CallDescriptor& c) { c.op = 100; }), malformed("op 100"));
  EXPECT_THAT(decode([](CallDescriptor& c) { c.op = 7; }), malformed("op 7"));
  EXPECT_THAT(decode([](CallDescriptor& c) { c.algorithm = 99; }), malformed("algorithm 99"));
  EXPECT_THAT(decode([](CallDescriptor& c) { c.mode = 2; }), malformed("mode 2"));
  EXPECT_THAT(decode([](CallDescriptor& c) { c.number = 0; }), malformed("operation 0"));
  EXPECT_THAT(decode([](CallDescriptor& c) { c.count = -1; }), malformed("count -1"));
  EXPECT_THAT(decode([](CallDescriptor& c) { c.tile_chunk = -1; }), malformed("tile_chunk -1"));
  EXPECT_THAT(decode([](CallDescriptor& c) { c.root = -2; }), malformed("root -2"));
}

TEST(CallDescriptorTest, RandomBytesNeverBreakIt) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    CallDescriptor call = AllReduce();
    auto* bytes = reinterpret_cast<unsigned char*>(&call);
    // Few changes get past the first checks, many do not.
    for (uint64_t n = random() % 12; n > 0; --n) bytes[random() % sizeof call] = random() % 256;
    const auto decoded = DecodeCall(BytesOf(call).first(random() % 4 == 0 ? random() % 65 : 64));
    if (!decoded.ok()) continue;
    EXPECT_FALSE(DescribeMismatch(Rank(0), *decoded, Rank(1), AllReduce()).empty());
    EXPECT_LT(HashesOf(*decoded).fingerprint, kFingerprints);
  }
}

TEST(CallDescriptorTest, MismatchNamesBothRanksAndCalls) {
  EXPECT_EQ(
      DescribeMismatch(Rank(1), AllReduce(), Rank(2), Broadcast()),
      "operation 41: rank 1 called all_reduce of 1000 float32 sum, rank 2 called broadcast of "
      "1000 float32 from root 0");
  CallDescriptor barrier;
  barrier.kind = static_cast<uint8_t>(Collective::kBarrier);
  EXPECT_EQ(DescribeCall(barrier), "barrier");
  CallDescriptor by_function = AllReduce();
  by_function.op = static_cast<uint8_t>(ReduceOp::kFunction);
  by_function.function = 3;
  EXPECT_EQ(DescribeCall(by_function), "all_reduce of 1000 float32 function 3");
}

TEST(CallDescriptorTest, MismatchShowsWhatTheShortFormDoesNot) {
  CallDescriptor other = AllReduce();
  other.tile_chunk = 100;
  EXPECT_THAT(DescribeMismatch(Rank(0), AllReduce(), Rank(1), other),
              HasSubstr("float32 sum, tile_chunk 0, rank 1 called all_reduce of 1000 float32 sum, "
                        "tile_chunk 100"));
  other = AllReduce();
  other.slice_bytes = 64;
  EXPECT_THAT(DescribeMismatch(Rank(0), AllReduce(), Rank(1), other),
              HasSubstr("slices of 64 bytes"));
  other = AllReduce();
  other.history = 0xabc;
  EXPECT_THAT(DescribeMismatch(Rank(0), AllReduce(), Rank(1), other),
              HasSubstr("after other calls (their hash is abc)"));
}

}  // namespace
}  // namespace rz
