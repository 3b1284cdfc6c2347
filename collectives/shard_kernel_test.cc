// Shard kernels over SimWorld: what every rank gets is what the owners' kernels made of the sums
// that the same call gives without one, bit for bit, whoever's buffers are in reach.
#include "collectives/shard_kernel.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/testing/oracle.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::Bytes;
using ::rz::testing::RandomElements;
using ::rz::testing::SimJob;
using ::rz::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kCases = 400;
constexpr int kLargestWorld = 7;
constexpr int64_t kLargestCount = 5000;

// Flips bits of each element, by its place in the shard, and keeps what it saw.
class Flip final : public ShardKernel {
 public:
  Flip(DType dtype, const ChunkLayout& layout, Rank rank)
      : size_(SizeOf(dtype)), chunk_(layout.tile_chunk()), shard_(layout.ShardCount(rank)) {}

  static void At(int64_t place, std::byte* element) { *element ^= std::byte(1 + place % 251); }

  void Run(int64_t offset, int64_t count, void* elements) override {
    EXPECT_EQ(offset, next_);
    EXPECT_GT(count, 0);
    next_ = offset + count;
    const bool ends_chunk = next_ == shard_ || (chunk_ > 0 && next_ % chunk_ == 0);
    EXPECT_TRUE(ends_chunk || static_cast<size_t>(count) * size_ % 64 == 0) << count;
    auto* at = static_cast<std::byte*>(elements);
    seen_.insert(seen_.end(), at, at + static_cast<size_t>(count) * size_);
    for (int64_t i = 0; i < count; ++i) At(offset + i, at + static_cast<size_t>(i) * size_);
  }

  bool done() const { return next_ == shard_; }
  // The sums, as they came.
  const std::vector<std::byte>& seen() const { return seen_; }

 private:
  const size_t size_;
  const int64_t chunk_;
  const int64_t shard_;
  int64_t next_ = 0;
  std::vector<std::byte> seen_;
};

struct Case {
  int world;
  int64_t count;
  int64_t tile_chunk;
  DType dtype;
  size_t slot_bytes;
  int reach;  // 0: nobody's buffers are in reach of others, 1: everybody's, 2: some ranks'
};

Case Draw(uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  constexpr size_t kSlots[] = {64 * kLargestWorld, 4096, 256 << 10};
  Case c;
  c.world = 1 + static_cast<int>(random() % kLargestWorld);
  c.count = static_cast<int64_t>(random() % kLargestCount);
  c.tile_chunk = random() % 2 == 0 ? 0 : int64_t{64} << random() % 4;
  c.dtype = kDTypes[random() % 3];
  c.slot_bytes = kSlots[random() % 3];
  c.reach = static_cast<int>(random() % 3);
  return c;
}

CommunicatorOptions OptionsWith(size_t slot_bytes) {
  CommunicatorOptions options;
  options.shared_slot_bytes = slot_bytes;
  return options;
}

// One rank's buffers, in reach of others or not.
class Memory {
 public:
  std::byte* Allocate(Communicator& comm, size_t bytes, bool in_reach) {
    if (in_reach) {
      shared_.push_back(*comm.AllocateBuffer(bytes));
      return shared_.back().data();
    }
    private_.push_back(std::make_unique<std::vector<std::byte>>(bytes + 1));
    return private_.back()->data();
  }

 private:
  std::vector<CommunicatorBuffer> shared_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> private_;
};

void RunCase(uint64_t seed) {
  const Case c = Draw(seed);
  SCOPED_TRACE(seed);
  SimJob job(c.world, {.seed = seed, .idle_polls = 1000}, OptionsWith(c.slot_bytes));
  ASSERT_OK_AND_ASSIGN(const bool shared, job.ShareMemory());
  ASSERT_TRUE(shared);
  const size_t bytes = static_cast<size_t>(c.count) * SizeOf(c.dtype);
  const ChunkLayout layout(c.count, c.world, c.tile_chunk);
  std::vector<Memory> memory(static_cast<size_t>(c.world));
  std::vector<std::byte*> send, plain, made;
  std::vector<std::unique_ptr<Flip>> flips, looks;
  for (int r = 0; r < c.world; ++r) {
    EXPECT_TRUE(job.comm(r).RunsShardKernels(c.dtype));
    const bool in_reach = c.reach == 1 || (c.reach == 2 && r % 2 == 0);
    Memory& own = memory[static_cast<size_t>(r)];
    for (auto* list : {&send, &plain, &made}) {
      list->push_back(own.Allocate(job.comm(r), bytes, in_reach));
    }
    const Bytes elements =
        RandomElements(c.dtype, c.count, seed * kLargestWorld + static_cast<uint64_t>(r));
    std::copy(elements.begin(), elements.end(), send.back());
    flips.push_back(std::make_unique<Flip>(c.dtype, layout, Rank(r)));
    looks.push_back(std::make_unique<Flip>(c.dtype, layout, Rank(r)));
  }
  ASSERT_OK(job.Run(3, [&](int rank, int operation) {
    const auto r = static_cast<size_t>(rank);
    CallOptions call = {.tile_chunk = c.tile_chunk};
    if (operation == 0) {
      return job.comm(rank).StartAllReduce(send[r], plain[r], c.count, c.dtype, ReduceOp::kAvg,
                                           call);
    }
    call.kernel = operation == 1 ? flips[r].get() : looks[r].get();
    return operation == 1 ? job.comm(rank).StartAllReduce(send[r], made[r], c.count, c.dtype,
                                                          ReduceOp::kAvg, call)
                          : job.comm(rank).StartReduceScatter(send[r], nullptr, c.count, c.dtype,
                                                              ReduceOp::kAvg, call);
  }));
  EXPECT_THAT(job.results(), Each(::rz::testing::IsOk()));
  std::vector<std::byte> expected(plain[0], plain[0] + bytes);
  for (int r = 0; r < c.world; ++r) {
    const Flip& look = *looks[static_cast<size_t>(r)];
    EXPECT_TRUE(flips[static_cast<size_t>(r)]->done());
    EXPECT_TRUE(look.done());
    EXPECT_EQ(look.seen(), flips[static_cast<size_t>(r)]->seen());
    int64_t place = 0;
    for (int64_t tile = 0; tile < layout.tile_count(); ++tile) {
      const Range chunk = layout.Chunk(tile, Rank(r));
      for (int64_t i = chunk.offset; i < chunk.end(); ++i, ++place) {
        std::byte* const element = expected.data() + static_cast<size_t>(i) * SizeOf(c.dtype);
        ASSERT_EQ(std::memcmp(look.seen().data() + static_cast<size_t>(place) * SizeOf(c.dtype),
                              element, SizeOf(c.dtype)),
                  0)
            << i;
        Flip::At(place, element);
      }
    }
  }
  for (int r = 0; r < c.world && bytes > 0; ++r) {
    ASSERT_EQ(std::memcmp(made[static_cast<size_t>(r)], expected.data(), bytes), 0) << r;
  }
}

TEST(ShardKernelTest, EverybodyGetsWhatTheOwnersKernelsMadeOfTheSums) {
  for (uint64_t seed = 1; seed <= kCases && !::testing::Test::HasFailure(); ++seed) RunCase(seed);
}

TEST(ShardKernelTest, WithoutSharedMemoryTheErrorSaysWhatToAsk) {
  SimJob job(2, {}, {});
  EXPECT_FALSE(job.comm(0).RunsShardKernels(DType::kFloat32));
  std::vector<float> data(10);
  Flip flip(DType::kFloat32, ChunkLayout(10, 2, 0), Rank(0));
  EXPECT_THAT(job.comm(0).StartAllReduce(data.data(), data.data(), 10, DType::kFloat32,
                                         ReduceOp::kSum, {.kernel = &flip}),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("RunsShardKernels")));
  EXPECT_THAT(
      job.comm(0).StartAllGather(data.data(), data.data(), 10, DType::kFloat32, {.kernel = &flip}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("in all_reduce and reduce_scatter alone")));
}

TEST(ShardKernelTest, ARankWithoutItsKernelIsAMismatch) {
  SimJob job(3, {.seed = 1, .idle_polls = 1000}, {});
  ASSERT_OK_AND_ASSIGN(const bool shared, job.ShareMemory());
  ASSERT_TRUE(shared);
  std::vector<std::vector<float>> data(3, std::vector<float>(1000));
  Flip flip(DType::kFloat32, ChunkLayout(1000, 3, 0), Rank(1));
  ASSERT_OK(job.Run(1, [&](int rank, int) {
    float* const own = data[static_cast<size_t>(rank)].data();
    return job.comm(rank).StartAllReduce(own, own, 1000, DType::kFloat32, ReduceOp::kSum,
                                         {.kernel = rank == 1 ? &flip : nullptr});
  }));
  EXPECT_THAT(job.results(),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                            HasSubstr("rank 1 called all_reduce of 1000 float32 sum, "
                                      "with a shard kernel"))));
}

}  // namespace
}  // namespace rz
