// Long rows of small calls, of which some ranks are always late: what is handed back only now and
// then (lines, slots, windows) must be handed back by those too that never have to wait. Ranks of
// one host, of two and of none with shared memory, calls through it and over messages in turn.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

constexpr uint64_t kCases = 150;
constexpr int kCalls = 300;
constexpr int kLargestWorld = 5;
constexpr int kMostRests = 10;

// A rank that rests so many polls before each of its calls.
class LateRank {
 public:
  LateRank(Communicator* comm, uint64_t seed, int rests)
      : comm_(comm),
        seed_(seed),
        first_kind_(static_cast<int>(seed / 3 % kKinds)),
        kinds_(1 + static_cast<int>(seed / 3 / kKinds % kKinds)),
        rests_(rests),
        left_(rests) {}

  // True when all calls are done.
  bool Poll() {
    if (call_ == kCalls) return true;
    if (left_ > 0) {
      --left_;
      return false;
    }
    if (!operation_.has_value()) Start();
    if (!operation_.has_value() || !operation_->Poll()) return call_ == kCalls;
    Check();
    operation_.reset();
    left_ = rests_;
    return ++call_ == kCalls;
  }

 private:
  static constexpr int kKinds = 4;

  // Some rows are of one kind of call, which is carried in one way.
  int Kind() const { return (first_kind_ + call_ % kinds_) % kKinds; }

  // The same on all ranks.
  int Draw(int below) const {
    std::mt19937_64 draw(seed_ * kCalls + static_cast<uint64_t>(call_));
    return static_cast<int>(draw() % static_cast<uint64_t>(below));
  }

  void Start() {
    const int world = comm_->world_size();
    count_ = Draw(3) == 0 ? 0 : world * (1 + Draw(70));
    in_.assign(static_cast<size_t>(count_), call_);
    out_.assign(static_cast<size_t>(count_), -1);
    absl::StatusOr<Operation> started = [&] {
      switch (Kind()) {
        case 0:
          return comm_->StartBarrier();
        case 1:
          return comm_->StartReduceScatter(in_.data(), out_.data(), count_, DType::kInt32,
                                           ReduceOp::kSum);
        case 2:
          return comm_->StartAllGather(in_.data(), out_.data(), count_, DType::kInt32);
        default:
          return comm_->StartAllReduce(in_.data(), out_.data(), count_, DType::kInt32,
                                       ReduceOp::kSum);
      }
    }();
    EXPECT_OK(started);
    if (started.ok()) {
      operation_ = *started;
    } else {
      call_ = kCalls;
    }
  }

  void Check() const {
    EXPECT_OK(operation_->status());
    const int world = comm_->world_size();
    if (Kind() == 0 || count_ == 0) return;
    const int expected = Kind() == 2 ? call_ : call_ * world;
    const int filled = Kind() == 1 ? count_ / world : count_;
    for (int i = 0; i < filled; ++i) {
      if (out_[static_cast<size_t>(i)] == expected) continue;
      ADD_FAILURE() << "call " << call_ << ", element " << i << " of " << count_ << " is "
                    << out_[static_cast<size_t>(i)] << ", not " << expected;
      return;
    }
  }

  Communicator* const comm_;
  const uint64_t seed_;
  const int first_kind_;
  const int kinds_;
  const int rests_;
  int left_;
  int call_ = 0;
  int count_ = 0;
  std::vector<int32_t> in_;
  std::vector<int32_t> out_;
  std::optional<Operation> operation_;
};

void RunCase(uint64_t seed) {
  std::mt19937_64 draw(seed);
  const int world = 2 + static_cast<int>(draw() % (kLargestWorld - 1));
  // One host, each rank alone, or two hosts.
  std::vector<int> hosts;
  const uint64_t placement = seed % 3;
  for (int r = 0; r < world; ++r) hosts.push_back(placement == 0 ? 0 : placement == 1 ? r : r / 2);
  const std::string algorithms[] = {
      "", "reduce_scatter:ring,all_gather:ring,all_reduce:ring", "all_gather:ring"};
  SimWorld sim(world, {.seed = seed, .idle_polls = 500, .hosts = hosts});
  CommunicatorOptions options;
  options.clock = sim.clock();
  options.shared_slot_bytes = 4096;
  options.algorithms = algorithms[draw() % 3];
  std::vector<std::unique_ptr<Communicator>> comms;
  std::vector<ShareOperation> shares;
  std::vector<std::function<bool()>> polls;
  for (int r = 0; r < world; ++r) {
    comms.push_back(*Communicator::Create(sim.transport(Rank(r)), options));
    shares.push_back(*comms.back()->StartShareMemory());
  }
  for (ShareOperation& share : shares) polls.push_back([&share] { return share.Poll(); });
  ASSERT_OK(sim.Run(polls));
  for (ShareOperation& share : shares) ASSERT_OK(share.Finish());
  std::vector<LateRank> ranks;
  ranks.reserve(static_cast<size_t>(world));
  std::string text = absl::StrCat("seed ", seed, ", ", options.algorithms, ", placement ",
                                  placement, ", rests");
  for (int r = 0; r < world; ++r) {
    const int rests = draw() % 2 == 0 ? 0 : static_cast<int>(draw() % (kMostRests * world));
    absl::StrAppend(&text, " ", rests);
    ranks.emplace_back(comms[static_cast<size_t>(r)].get(), seed, rests);
  }
  SCOPED_TRACE(text);
  polls.clear();
  for (LateRank& rank : ranks) polls.push_back([&rank] { return rank.Poll(); });
  EXPECT_OK(sim.Run(polls));
}

TEST(LateRanksTest, LongRowsOfCallsComeToTheirEnd) {
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RunCase(seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace rz
