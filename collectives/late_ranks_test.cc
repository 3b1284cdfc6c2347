// Long rows of small calls, of which some ranks are always late: what is handed back only now and
// then (lines, slots, windows) must be handed back by those too that never have to wait. Ranks of
// one host, of two and of none with shared memory; one communicator or several of one transport;
// one call under way or several, which ranks wait for in orders of their own.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

constexpr uint64_t kCases = 200;
constexpr int kCalls = 250;
constexpr int kLargestWorld = 5;
constexpr int kMostRests = 10;
constexpr int kMostUnderWay = 6;
constexpr int kMostInGroup = 3;
constexpr int kComms = 3;

using Draw = std::mt19937_64;

int Below(Draw& draw, int bound) { return static_cast<int>(draw() % static_cast<uint64_t>(bound)); }

// What the calls of a row have in common, the same on all ranks.
struct Row {
  enum class Empty : uint8_t { kNone, kSome, kMost, kAll };
  static constexpr int kMessages = -1;  // in the place of a collective
  static constexpr int kLargeOneIn = 16;
  static constexpr int kLongRun = 70;

  explicit Row(uint64_t from) : seed(from) {
    Draw draw(from);
    const int all = static_cast<int>(Collective::kBarrier) + 1;
    for (int n = 1 + Below(draw, 3); n > 0; --n) kinds.push_back(Below(draw, all + 1) - 1);
    empty = static_cast<Empty>(Below(draw, 4));
    comms = 1 + Below(draw, kComms);
    run = Below(draw, 2) == 0 ? 1 : kLongRun;
    one_root = Below(draw, 2) == 0;
    groups = Below(draw, 3) == 0;
    v_variants = Below(draw, 3) == 0;
  }

  const uint64_t seed;
  std::vector<int> kinds;
  Empty empty;
  int comms;  // of a rank's, the first so many
  int run;    // calls of one of them in a row
  bool one_root;
  bool groups;
  bool v_variants;
};

// A call that is under way, or a group of them, or a message to the next rank and one from that
// before.
class Flight {
 public:
  Flight(Communicator* comm, const Row& row, int number)
      : comm_(comm), number_(number), draw_(row.seed * kCalls + static_cast<uint64_t>(number)) {
    const int kind =
        row.kinds[static_cast<size_t>(Below(draw_, static_cast<int>(row.kinds.size())))];
    const int calls = kind != Row::kMessages && row.groups ? 1 + Below(draw_, kMostInGroup) : 1;
    buffers_.resize(static_cast<size_t>(calls));
    for (Buffers& buffers : buffers_) Fill(row, kind, buffers);
    if (kind == Row::kMessages) {
      SendOn();
      return;
    }
    for (Buffers& buffers : buffers_) calls_.push_back(buffers.call);
    Keep(comm_->StartGroup(calls_));
  }

  bool Poll() {
    while (done_ < operations_.size() && operations_[done_].Poll()) ++done_;
    return done_ == operations_.size();
  }

  void Check() const {
    for (const Operation& operation : operations_) EXPECT_OK(operation.status());
    for (const Buffers& buffers : buffers_) {
      const auto wrong = std::find_if(buffers.out.begin(), buffers.out.begin() + buffers.filled,
                                      [&](int32_t value) { return value != buffers.expected; });
      if (wrong == buffers.out.begin() + buffers.filled) continue;
      ADD_FAILURE() << "call " << number_ << ", element " << wrong - buffers.out.begin() << " is "
                    << *wrong << ", not " << buffers.expected;
    }
  }

 private:
  struct Buffers {
    Call call;
    std::vector<int64_t> counts;
    std::vector<int64_t> recv_counts;
    std::vector<int32_t> in;
    std::vector<int32_t> out;
    int64_t filled = 0;
    int32_t expected = 0;
  };

  int64_t DrawCount(const Row& row) {
    const bool empty = row.empty == Row::Empty::kAll ||
                       (row.empty == Row::Empty::kMost && number_ % 50 != 0) ||
                       (row.empty == Row::Empty::kSome && Below(draw_, 3) == 0);
    const int count =
        Below(draw_, Row::kLargeOneIn) == 0 ? 1 + Below(draw_, 3000) : 1 + Below(draw_, 30);
    return empty ? 0 : count;
  }

  // Each rank gives the number of the call in all elements.
  void Fill(const Row& row, int kind, Buffers& buffers) {
    const int world = comm_->world_size();
    const int self = comm_->rank().value();
    Call& call = buffers.call;
    call.collective = static_cast<Collective>(std::max(kind, 0));
    call.dtype = DType::kInt32;
    call.root = Rank(row.one_root ? 0 : Below(draw_, world));
    const int64_t block = DrawCount(row);
    const bool all_to_all = call.collective == Collective::kAllToAll;
    const bool has_root =
        call.collective == Collective::kReduce || call.collective == Collective::kGather;
    call.has_counts = row.v_variants && (all_to_all || call.collective == Collective::kAllGather ||
                                         call.collective == Collective::kReduceScatter);
    std::vector<std::vector<int64_t>> counts(static_cast<size_t>(world));
    for (std::vector<int64_t>& of : counts) {
      for (int r = 0; r < world; ++r) of.push_back(call.has_counts ? DrawCount(row) : block);
    }
    // All ranks have the same, but in all_to_all.
    const auto from = static_cast<size_t>(all_to_all ? self : 0);
    buffers.counts = counts[from];
    for (const std::vector<int64_t>& of : counts) {
      buffers.recv_counts.push_back(of[static_cast<size_t>(self)]);
    }
    const auto sum = [](const std::vector<int64_t>& of) {
      return std::accumulate(of.begin(), of.end(), int64_t{0});
    };
    call.count = all_to_all || kind == Row::kMessages ? block : world * block;
    if (call.has_counts) {
      call.count = 0;
      call.counts = buffers.counts;
      if (all_to_all) call.recv_counts = buffers.recv_counts;
    }
    const int64_t largest = std::max(sum(buffers.counts), sum(buffers.recv_counts));
    buffers.in.assign(static_cast<size_t>(largest), number_);
    buffers.out.assign(static_cast<size_t>(largest), -1);
    call.send = buffers.in.data();
    call.recv = buffers.out.data();
    buffers.expected = IsReduction(call.collective) ? number_ * world : number_;
    switch (call.collective) {
      case Collective::kBarrier:
        call.count = 0;
        break;
      case Collective::kReduceScatter:
      case Collective::kScatter:
        buffers.filled = buffers.counts[static_cast<size_t>(self)];
        break;
      case Collective::kAllToAll:
        buffers.filled = sum(buffers.recv_counts);
        break;
      default:
        buffers.filled = sum(buffers.counts);
    }
    if (has_root && call.root != comm_->rank()) buffers.filled = 0;
    if (call.collective == Collective::kBroadcast) {
      if (call.root == comm_->rank()) buffers.out = buffers.in;
      call.send = call.recv;
    }
  }

  void SendOn() {
    Buffers& buffers = buffers_.front();
    const int world = comm_->world_size();
    const int self = comm_->rank().value();
    buffers.filled = buffers.call.count;
    buffers.expected = number_;
    Keep(comm_->StartSend(buffers.in.data(), buffers.call.count, DType::kInt32,
                          Rank((self + 1) % world)));
    Keep(comm_->StartRecv(buffers.out.data(), buffers.call.count, DType::kInt32,
                          Rank((self + world - 1) % world)));
  }

  void Keep(const absl::StatusOr<Operation>& started) {
    EXPECT_OK(started);
    if (started.ok()) operations_.push_back(*started);
  }

  Communicator* const comm_;
  const int number_;
  Draw draw_;
  std::vector<Buffers> buffers_;
  std::vector<Call> calls_;
  std::vector<Operation> operations_;
  size_t done_ = 0;
};

// A rank that rests so many polls before each of its calls, and between polls looks at nothing but
// the one call that it waits for.
class LateRank {
 public:
  LateRank(std::vector<Communicator*> comms, const Row* row, int rests, int most, uint64_t own_seed)
      : comms_(std::move(comms)), row_(row), rests_(rests), most_(most), draw_(own_seed) {}

  // True when all calls are done.
  bool Poll() {
    if (left_ > 0) {
      --left_;
      return false;
    }
    if (awaited_ == nullptr && call_ < kCalls && under_way_.size() < most_) Start();
    if (awaited_ == nullptr && (under_way_.size() == most_ || call_ == kCalls)) Choose();
    if (awaited_ == nullptr || !awaited_->Poll()) return false;
    awaited_->Check();
    std::erase_if(under_way_, [&](const auto& flight) { return flight.get() == awaited_; });
    awaited_ = nullptr;
    left_ = rests_;
    return call_ == kCalls && under_way_.empty();
  }

 private:
  void Start() {
    // The same on all ranks of it.
    Draw draw(~(row_->seed * kCalls + static_cast<uint64_t>(call_ / row_->run)));
    Communicator* const comm = comms_[static_cast<size_t>(Below(draw, row_->comms))];
    under_way_.push_back(std::make_unique<Flight>(comm, *row_, call_++));
    left_ = rests_;
  }

  void Choose() {
    awaited_ =
        under_way_[static_cast<size_t>(Below(draw_, static_cast<int>(under_way_.size())))].get();
  }

  const std::vector<Communicator*> comms_;
  const Row* const row_;
  const int rests_;
  const size_t most_;  // under way at once
  Draw draw_;
  int left_ = 0;
  int call_ = 0;
  std::vector<std::unique_ptr<Flight>> under_way_;
  Flight* awaited_ = nullptr;
};

// Ranks with communicators of all, of all again, and of every other one.
class World {
 public:
  World(uint64_t seed, int world, const std::vector<int>& hosts, const std::string& algorithms)
      : sim_(world, {.seed = seed, .idle_polls = 500, .hosts = hosts}), comms_(kComms) {
    CommunicatorOptions options;
    options.clock = sim_.clock();
    options.shared_slot_bytes = 4096;
    options.algorithms = algorithms;
    for (int r = 0; r < world; ++r) {
      comms_[0].push_back(*Communicator::Create(sim_.transport(Rank(r)), options));
    }
    for (int i = 1; i < kComms; ++i) Split(i);
    for (auto& comms : comms_) Share(comms);
  }

  absl::Status Run(const std::vector<std::function<bool()>>& polls) { return sim_.Run(polls); }

  std::vector<Communicator*> CommsOf(int rank) const {
    std::vector<Communicator*> comms;
    for (const auto& each : comms_) comms.push_back(each[static_cast<size_t>(rank)].get());
    return comms;
  }

 private:
  using Comms = std::vector<std::unique_ptr<Communicator>>;

  void Split(int i) {
    std::vector<SplitOperation> splits;
    for (size_t r = 0; r < comms_[0].size(); ++r) {
      splits.push_back(*comms_[0][r]->StartSplit(static_cast<int64_t>(r) % i, 0));
    }
    RunAll(splits);
    for (SplitOperation& split : splits) comms_[static_cast<size_t>(i)].push_back(*split.Finish());
  }

  void Share(const Comms& comms) {
    std::vector<ShareOperation> shares;
    for (const auto& comm : comms) shares.push_back(*comm->StartShareMemory());
    RunAll(shares);
    for (ShareOperation& share : shares) EXPECT_OK(share.Finish());
  }

  template <typename T>
  void RunAll(std::vector<T>& operations) {
    std::vector<std::function<bool()>> polls;
    for (T& operation : operations) polls.push_back([&operation] { return operation.Poll(); });
    EXPECT_OK(sim_.Run(polls));
  }

  SimWorld sim_;
  std::vector<Comms> comms_;
};

void RunCase(uint64_t seed) {
  Draw draw(seed);
  const int ranks = 2 + Below(draw, kLargestWorld - 1);
  // One host, each rank alone, or two hosts.
  std::vector<int> hosts;
  const uint64_t placement = seed % 3;
  for (int r = 0; r < ranks; ++r) hosts.push_back(placement == 0 ? 0 : placement == 1 ? r : r / 2);
  const std::string algorithms[] = {"", "reduce_scatter:ring,all_gather:ring,all_reduce:ring",
                                    "all_gather:ring"};
  const Row row(seed);
  World world(seed, ranks, hosts, algorithms[draw() % 3]);
  std::string text = absl::StrCat("seed ", seed, ", rests, under way:");
  std::deque<LateRank> late;
  for (int r = 0; r < ranks; ++r) {
    const int rests = Below(draw, 2) == 0 ? 0 : Below(draw, kMostRests * ranks);
    const int most = Below(draw, 2) == 0 ? 1 : 1 + Below(draw, kMostUnderWay);
    absl::StrAppend(&text, " ", rests, ", ", most, ";");
    late.emplace_back(world.CommsOf(r), &row, rests, most, draw());
  }
  SCOPED_TRACE(text);
  std::vector<std::function<bool()>> polls;
  for (LateRank& rank : late) polls.push_back([&rank] { return rank.Poll(); });
  EXPECT_OK(world.Run(polls));
}

// The late rank finds all that others have called as it calls, so no call of its own is ever under
// way; what it owes the others it must give them while it waits for something else.
TEST(LateRanksTest, LinesAreGivenBackWhileAnotherCommunicatorIsWaitedFor) {
  World world(1, 2, {0, 0}, "all_reduce:ring");
  const std::vector<Communicator*> early = world.CommsOf(0);
  const std::vector<Communicator*> late = world.CommsOf(1);
  const auto start = [](Communicator* comm) {
    return *comm->StartAllReduce(nullptr, nullptr, 0, DType::kInt32, ReduceOp::kSum);
  };
  Operation first = start(early[0]);
  Operation last = first;
  do {
    first = start(early[0]);
    EXPECT_FALSE(first.Poll());
    last = start(late[0]);
  } while (last.done());
  last = start(late[0]);
  Operation barrier_of_late = *late[1]->StartBarrier();
  std::optional<Operation> barrier_of_early;
  EXPECT_OK(world.Run({[&] {
                         if (!first.Poll()) return false;
                         if (!barrier_of_early) barrier_of_early = *early[1]->StartBarrier();
                         return barrier_of_early->Poll();
                       },
                       [&] { return barrier_of_late.Poll(); }}));
}

TEST(LateRanksTest, LongRowsOfCallsComeToTheirEnd) {
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RunCase(seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace rz
