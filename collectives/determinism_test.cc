// Numeric modes: in deterministic mode the bits of a sum depend on nothing but inputs and world; in
// fast mode on the algorithm. error_bound_test.cc has their errors.
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/algorithm.h"
#include "collectives/chunk_layout.h"
#include "collectives/communicator.h"
#include "collectives/testing/oracle.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::Bytes;
using ::rz::testing::IsOk;
using ::rz::testing::RandomElements;
using ::rz::testing::SimJob;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kWorld = 5;
constexpr int64_t kCount = 1234;

struct How {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;  // "": chosen
  NumericMode communicator_mode = NumericMode::kDeterministic;
  std::optional<NumericMode> call_mode = std::nullopt;
  size_t slice_bytes = 256 << 10;
  int lanes = 4;
  SendMode send_mode = SendMode::kMixed;
  uint64_t seed = 1;
};

CommunicatorOptions OptionsOf(const How& how) {
  CommunicatorOptions options;
  options.numeric_mode = how.communicator_mode;
  options.slice_bytes = how.slice_bytes;
  options.lanes_in_flight = how.lanes;
  if (!how.algorithm.empty()) {
    options.algorithms = absl::StrCat(std::string(NameOf(how.collective)), ":", how.algorithm);
  }
  return options;
}

// The whole sum, put together from all ranks where it is scattered.
Bytes SumOf(const How& how, DType dtype, ReduceOp op) {
  SimJob job(kWorld, {.seed = how.seed, .send_mode = how.send_mode}, OptionsOf(how));
  const size_t size = SizeOf(dtype);
  std::vector<Bytes> send;
  std::vector<Bytes> recv(kWorld, Bytes(kCount * size));
  for (int r = 0; r < kWorld; ++r) send.push_back(RandomElements(dtype, kCount, 100 + r));
  const CallOptions call = {.numeric_mode = how.call_mode, .premul = {.floating = 0.7}};
  EXPECT_THAT(job.Run(1,
                      [&](int r, int) {
                        Communicator& comm = job.comm(r);
                        const void* in = send[r].data();
                        void* out = recv[r].data();
                        if (how.collective == Collective::kReduce) {
                          return comm.StartReduce(in, out, kCount, dtype, op, Rank(3), call);
                        }
                        if (how.collective == Collective::kReduceScatter) {
                          return comm.StartReduceScatter(in, out, kCount, dtype, op, call);
                        }
                        return comm.StartAllReduce(in, out, kCount, dtype, op, call);
                      }),
              IsOk());
  if (how.collective == Collective::kReduce) return recv[3];
  if (how.collective == Collective::kAllReduce) {
    for (const Bytes& result : recv) EXPECT_EQ(result, recv[0]);
    return recv[0];
  }
  Bytes whole;
  for (int r = 0; r < kWorld; ++r) {
    const auto bytes =
        static_cast<ptrdiff_t>(EvenSplit(kCount, kWorld, r).count) * static_cast<ptrdiff_t>(size);
    whole.insert(whole.end(), recv[r].begin(), recv[r].begin() + bytes);
  }
  return whole;
}

class DeterminismTest : public ::testing::TestWithParam<std::tuple<DType, ReduceOp>> {};

TEST_P(DeterminismTest, NothingButInputsAndWorldMatters) {
  const auto [dtype, op] = GetParam();
  const Bytes expected = SumOf({}, dtype, op);
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    if (!IsReduction(traits.collective) || !traits.canonical) continue;
    for (size_t slice : {64, 100, 4096}) {
      for (int lanes : {1, 3}) {
        How how;
        how.collective = traits.collective;
        how.algorithm = std::string(NameOf(traits.algorithm));
        how.slice_bytes = slice;
        how.lanes = lanes;
        how.seed = slice + static_cast<uint64_t>(lanes);
        EXPECT_EQ(SumOf(how, dtype, op), expected) << how.algorithm << ", slice " << slice;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeterminismTest,
                         ::testing::Combine(::testing::Values(DType::kFloat32, DType::kBFloat16,
                                                              DType::kFloat16, DType::kFloat8E4M3),
                                            ::testing::Values(ReduceOp::kSum, ReduceOp::kAvg,
                                                              ReduceOp::kProd,
                                                              ReduceOp::kPremulSum)),
                         [](const auto& info) {
                           return absl::StrCat(std::string(NameOf(std::get<0>(info.param))), "_",
                                               std::string(NameOf(std::get<1>(info.param))));
                         });

TEST(RepeatTest, HundredRunsGiveOneCrc) {
  std::vector<uint32_t> crcs;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    How how;
    how.seed = seed;
    how.slice_bytes = 64 + seed * 8;
    how.lanes = 1 + static_cast<int>(seed % 6);
    how.send_mode = seed % 2 == 0 ? SendMode::kEager : SendMode::kRendezvous;
    const Bytes sum = SumOf(how, DType::kBFloat16, ReduceOp::kSum);
    crcs.push_back(Crc32c(0, sum.data(), sum.size()));
  }
  EXPECT_THAT(crcs, ::testing::Each(crcs.front()));
}

TEST(ModeOfACallTest, OverridesThatOfTheCommunicator) {
  const Bytes deterministic = SumOf({}, DType::kBFloat16, ReduceOp::kSum);
  How fast;
  fast.algorithm = "ring";
  fast.communicator_mode = NumericMode::kFast;
  const Bytes rounded = SumOf(fast, DType::kBFloat16, ReduceOp::kSum);
  EXPECT_NE(rounded, deterministic);

  How overridden = fast;
  overridden.call_mode = NumericMode::kDeterministic;
  EXPECT_EQ(SumOf(overridden, DType::kBFloat16, ReduceOp::kSum), deterministic);
  overridden.communicator_mode = NumericMode::kDeterministic;
  overridden.call_mode = NumericMode::kFast;
  EXPECT_EQ(SumOf(overridden, DType::kBFloat16, ReduceOp::kSum), rounded);
}

TEST(ModeOfACallTest, AlgorithmThatCannotKeepItIsAnErrorAtTheCall) {
  How how;
  how.algorithm = "halving";
  how.communicator_mode = NumericMode::kFast;
  SimJob job(1, {}, OptionsOf(how));
  float value = 1;
  EXPECT_THAT(job.comm(0).AllReduce(&value, &value, 1, DType::kFloat32, ReduceOp::kSum,
                                    {.numeric_mode = NumericMode::kDeterministic}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("all_reduce:halving"), HasSubstr("deterministic"))));
  EXPECT_OK(job.comm(0).AllReduce(&value, &value, 1, DType::kFloat32, ReduceOp::kSum));
}

}  // namespace
}  // namespace rz
