// Different calls in real processes over UCX: every rank with a call under way ends with the
// verdict, which names two ranks and both calls, and one that had returned at its next call. The
// deadline is far beyond what the test may take, and a call that it ended would say so.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "collectives/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/process_job.h"

namespace rz {
namespace {

using ::rz::testing::RunInProcesses;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kBeyondTheTest = absl::Hours(1);
constexpr int kCallsBefore = 3;
constexpr int kCallsThatShare = 2;  // ShareMemory is made of
constexpr int64_t kMostElements = 40'000;

struct Difference {
  std::string name;
  std::vector<Call> usual;  // what all ranks but one call, one after the other
  std::vector<Call> other;
  std::string usual_words;
  std::string other_words;
  // Nobody gets through the first of them without everybody.
  bool needs_all = true;
};

Call Make(Collective collective, int64_t count = 300, DType dtype = DType::kFloat32,
          ReduceOp op = ReduceOp::kSum, int root = 0) {
  Call call;
  call.collective = collective;
  call.count = count;
  call.dtype = dtype;
  call.op = op;
  call.root = Rank(root);
  return call;
}

Call Fast(Call call) {
  call.options.numeric_mode = NumericMode::kFast;
  return call;
}

std::vector<Difference> Differences() {
  using enum Collective;
  const Call sum = Make(kAllReduce);
  const std::string sum_words = "all_reduce of 300 float32 sum";
  return {
      {"Kind", {sum}, {Make(kBroadcast)}, sum_words, "broadcast of 300 float32 from root 0"},
      {"KindWithoutData", {sum}, {Make(kBarrier)}, sum_words, "barrier"},
      {"DtypeOfOneSize",
       {Make(kAllGather)},
       {Make(kAllGather, 300, DType::kInt32)},
       "all_gather of 300 float32",
       "all_gather of 300 int32"},
      {"DtypeOfAnotherSize",
       {sum},
       {Make(kAllReduce, 300, DType::kBFloat16)},
       sum_words,
       "all_reduce of 300 bfloat16 sum"},
      {"Count", {sum}, {Make(kAllReduce, 301)}, sum_words, "all_reduce of 301 float32 sum"},
      {"CountOfNothing",
       {sum},
       {Make(kAllReduce, 0)},
       sum_words,
       "all_reduce of 0 float32 sum",
       false},
      {"CountOfMuch",
       {Make(kReduceScatter)},
       {Make(kReduceScatter, kMostElements)},
       "reduce_scatter of 300 float32 sum",
       "reduce_scatter of 40000 float32 sum"},
      {"Op",
       {sum},
       {Make(kAllReduce, 300, DType::kFloat32, ReduceOp::kMax)},
       sum_words,
       "all_reduce of 300 float32 max"},
      {"Root",
       {Make(kBroadcast)},
       {Make(kBroadcast, 300, DType::kFloat32, ReduceOp::kSum, 1)},
       "broadcast of 300 float32 from root 0",
       "broadcast of 300 float32 from root 1",
       false},
      {"RootOfMuch",
       {Make(kReduce, kMostElements)},
       {Make(kReduce, kMostElements, DType::kFloat32, ReduceOp::kSum, 1)},
       "reduce of 40000 float32 sum to root 0",
       "reduce of 40000 float32 sum to root 1",
       false},
      {"Mode",
       {Make(kAllReduce, 300, DType::kBFloat16)},
       {Fast(Make(kAllReduce, 300, DType::kBFloat16))},
       "all_reduce of 300 bfloat16 sum, mode deterministic",
       "all_reduce of 300 bfloat16 sum, mode fast"},
      {"Order", {sum, Make(kBarrier)}, {Make(kBarrier), sum}, sum_words, "barrier"},
  };
}

std::string Text(const absl::Status& status) {
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ", status.message());
}

// This rank's part: calls that match, those that may not, one more; a line for each.
std::string MakeCalls(Transport* transport, bool shares_memory, const std::vector<Call>& calls) {
  CommunicatorOptions options;
  options.operation_timeout = kBeyondTheTest;
  absl::StatusOr<std::unique_ptr<Communicator>> comm = Communicator::Create(transport, options);
  if (!comm.ok()) return Text(comm.status());
  if (shares_memory) {
    if (const absl::Status shared = (*comm)->ShareMemory(); !shared.ok()) return Text(shared);
    if (!(*comm)->shares_memory()) return "no memory is shared";
  }
  std::vector<double> send(kMostElements), recv(kMostElements);
  const auto run = [&](Call call) {
    call.send = call.collective == Collective::kBroadcast ? recv.data() : send.data();
    call.recv = recv.data();
    return (*comm)->RunGroup({&call, 1});
  };
  std::vector<std::string> lines;
  for (int i = 0; i < kCallsBefore; ++i)
    lines.push_back(Text(run(Make(Collective::kAllReduce, i))));
  for (const Call& call : calls) lines.push_back(Text(run(call)));
  lines.push_back(Text(run(Make(Collective::kBarrier))));
  return absl::StrJoin(lines, "\n");
}

// What carries the calls.
enum class Carrier { kSharedMemory, kMessagesInSharedMemory, kMessagesOverTcp };

struct Parameters {
  Difference difference;
  int world;
  Carrier carrier;
};

std::string NameOf(const Parameters& parameters) {
  constexpr const char* kNames[] = {"SharedMemory", "MessagesInSharedMemory", "MessagesOverTcp"};
  return absl::StrCat(parameters.difference.name, "World", parameters.world,
                      kNames[static_cast<size_t>(parameters.carrier)]);
}

std::ostream& operator<<(std::ostream& os, const Parameters& parameters) {
  return os << NameOf(parameters);
}

class MismatchProcessTest : public ::testing::TestWithParam<Parameters> {};

TEST_P(MismatchProcessTest, TheVerdictEndsEveryRank) {
  const auto& [difference, world, carrier] = GetParam();
  UcxOptions ucx;
  ucx.transports = UcxOptions::Transports::kSharedMemory;
  if (carrier == Carrier::kMessagesOverTcp) {
    ucx.transports = UcxOptions::Transports::kTcp;
    ucx.net_device = "lo";
  }
  const int deviator = static_cast<int>(difference.name.size()) % world;
  const bool shares_memory = carrier == Carrier::kSharedMemory;
  const std::vector<std::string> texts = RunInProcesses(world, ucx, [&](Transport* transport) {
    const bool deviates = transport->rank() == Rank(deviator);
    return MakeCalls(transport, shares_memory, deviates ? difference.other : difference.usual);
  });
  const int number = kCallsBefore + 1 + (shares_memory ? kCallsThatShare : 0);
  const auto is_verdict =
      AllOf(StartsWith(absl::StrCat("FAILED_PRECONDITION: operation ", number, ": rank ")),
            HasSubstr(absl::StrCat("called ", difference.usual_words)),
            HasSubstr(absl::StrCat("rank ", deviator, " called ", difference.other_words)));
  for (int r = 0; r < world; ++r) {
    SCOPED_TRACE(::testing::Message() << "rank " << r);
    std::vector<std::string> lines = absl::StrSplit(texts[r], '\n');
    // The verdict may overtake the end of a call before it. A rank that needs nobody else, or
    // nobody but ranks that agree with it, may get through one call more.
    const auto first = std::find_if(lines.begin(), lines.end(),
                                    [](const std::string& line) { return line != "OK: "; });
    EXPECT_LE(first - lines.begin(), kCallsBefore + (difference.needs_all ? 0 : 1));
    EXPECT_THAT(std::vector<std::string>(first, lines.end()), ::testing::Each(is_verdict));
  }
}

std::vector<Parameters> All() {
  std::vector<Parameters> all;
  for (const Difference& difference : Differences()) {
    for (int world : {2, 3, 5}) {
      for (Carrier carrier :
           {Carrier::kSharedMemory, Carrier::kMessagesInSharedMemory, Carrier::kMessagesOverTcp}) {
        all.push_back({difference, world, carrier});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, MismatchProcessTest, ::testing::ValuesIn(All()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace rz
