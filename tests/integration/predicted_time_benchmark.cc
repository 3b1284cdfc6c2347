// The cost model against the clock: for some collectives, sizes and worlds, what each algorithm is
// predicted to take and what it takes between processes over UCX, the best of several blocks of
// calls, ranks bound to cores. A line a shape: the chosen algorithm with its time, measured by
// predicted; the fastest one; and how much longer the chosen one took than that.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectives/communicator.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/transport/transport.h"
#include "tests/integration/process_job.h"

namespace rz {
namespace {

constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                       Collective::kAllGather, Collective::kBroadcast,
                                       Collective::kAllToAll};
constexpr int64_t kCounts[] = {16, 1024, 16 << 10, 256 << 10, 2 << 20};  // of float32, in all
constexpr int64_t kLargest = kCounts[4];
// Blocks are short and many, so that some fall into moments in which all ranks have a core.
constexpr absl::Duration kBlockTime = absl::Microseconds(200);
constexpr absl::Duration kShapeTime = absl::Milliseconds(50);
constexpr int64_t kFewestBlocks = 20;
constexpr int64_t kMostBlocks = 500;

struct Contender {
  Candidate candidate;
  std::unique_ptr<Communicator> comm;
  double best = std::numeric_limits<double>::infinity();
};

class Bench {
 public:
  Bench(Transport* transport, LinkKind link)
      : transport_(transport), link_(link), send_(kLargest, 1), recv_(kLargest) {}

  absl::StatusOr<std::string> Run() {
    std::string text =
        absl::StrFormat("%-14s %9s  %-18s %10s %10s %9s  %-18s %6s\n", "collective", "bytes",
                        "chosen", "predicted", "measured", "ratio", "fastest", "loss");
    for (Collective collective : kCollectives) {
      for (int64_t count : kCounts) {
        RZ_ASSIGN_OR_RETURN(const std::string line, Shape(collective, count));
        text += line;
      }
    }
    absl::StrAppendFormat(
        &text,
        "measured by predicted: %.2f on average (geometric), %.2f to %.2f; loss at most %.2f\n",
        std::exp(log_ratios_ / shapes_), least_ratio_, most_ratio_, most_loss_);
    return text;
  }

 private:
  absl::StatusOr<std::string> Shape(Collective collective, int64_t count) {
    RZ_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> plain, Open(""));
    // Of all_to_all for each rank.
    if (collective == Collective::kAllToAll) count /= plain->world_size();
    RZ_ASSIGN_OR_RETURN(const Explanation explained,
                        plain->Explain(collective, DType::kFloat32, ReduceOp::kSum, count));
    std::vector<Contender> contenders;
    for (const Candidate& candidate : explained.candidates) {
      if (!candidate.excluded.empty()) continue;
      Contender& contender = contenders.emplace_back();
      contender.candidate = candidate;
      RZ_ASSIGN_OR_RETURN(contender.comm,
                          Open(absl::StrCat(std::string(NameOf(collective)), ":",
                                            std::string(NameOf(candidate.algorithm)))));
    }
    RZ_RETURN_IF_ERROR(Measure(contenders, collective, count, *plain));
    const auto chosen =
        std::find_if(contenders.begin(), contenders.end(),
                     [](const Contender& contender) { return contender.candidate.chosen; });
    const auto fastest =
        std::min_element(contenders.begin(), contenders.end(),
                         [](const Contender& x, const Contender& y) { return x.best < y.best; });
    const double predicted = absl::ToDoubleMicroseconds(chosen->candidate.predicted);
    const double measured = chosen->best;
    const double ratio = measured / predicted;
    ++shapes_;
    log_ratios_ += std::log(ratio);
    least_ratio_ = std::min(least_ratio_, ratio);
    most_ratio_ = std::max(most_ratio_, ratio);
    most_loss_ = std::max(most_loss_, measured / fastest->best);
    const int64_t ranks = collective == Collective::kAllToAll ? plain->world_size() : 1;
    return absl::StrFormat(
        "%-14s %9d  %-18s %10.1f %10.1f %9.2f  %-18s %6.2f\n", std::string(NameOf(collective)),
        count * ranks * 4, std::string(NameOf(chosen->candidate.algorithm)), predicted, measured,
        ratio, std::string(NameOf(fastest->candidate.algorithm)), measured / fastest->best);
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Open(const std::string& algorithms) {
    CommunicatorOptions options;
    options.link = link_;
    options.algorithms = algorithms;
    options.id = next_id_;
    next_id_ = (next_id_ + 1) % 256;
    return Communicator::Create(transport_, options);
  }

  // Blocks of calls by all in turn; microseconds a call in the best one.
  absl::Status Measure(std::vector<Contender>& contenders, Collective collective, int64_t count,
                       Communicator& agreeing) {
    const absl::Duration predicted = contenders.front().candidate.predicted;
    const int64_t calls = std::max<int64_t>(1, kBlockTime / predicted);
    const int64_t blocks =
        std::clamp<int64_t>(kShapeTime / (predicted * calls), kFewestBlocks, kMostBlocks);
    for (int64_t block = 0; block < blocks; ++block) {
      for (Contender& contender : contenders) {
        const absl::Duration begin = Clock::Steady()->Now();
        for (int64_t i = 0; i < calls; ++i) {
          RZ_RETURN_IF_ERROR(Call(*contender.comm, collective, count));
        }
        const double took = absl::ToDoubleMicroseconds((Clock::Steady()->Now() - begin) / calls);
        if (block > 0) contender.best = std::min(contender.best, took);
      }
    }
    // What all ranks say is the slowest one's.
    for (Contender& contender : contenders) {
      RZ_RETURN_IF_ERROR(
          agreeing.AllReduce(&contender.best, &contender.best, 1, DType::kFloat64, ReduceOp::kMax));
    }
    return absl::OkStatus();
  }

  absl::Status Call(Communicator& comm, Collective collective, int64_t count) {
    const float* const send = send_.data();
    float* const recv = recv_.data();
    constexpr DType kDType = DType::kFloat32;
    switch (collective) {
      case Collective::kReduceScatter:
        return comm.ReduceScatter(send, recv, count, kDType, ReduceOp::kSum);
      case Collective::kAllGather:
        return comm.AllGather(send, recv, count, kDType);
      case Collective::kBroadcast:
        return comm.Broadcast(recv, count, kDType, Rank(0));
      case Collective::kAllToAll:
        return comm.AllToAll(send, recv, count, kDType);
      default:
        return comm.AllReduce(send, recv, count, kDType, ReduceOp::kSum);
    }
  }

  Transport* const transport_;
  const LinkKind link_;
  std::vector<float> send_;
  std::vector<float> recv_;
  uint32_t next_id_ = 0;

  int shapes_ = 0;
  double log_ratios_ = 0;
  double least_ratio_ = std::numeric_limits<double>::infinity();
  double most_ratio_ = 0;
  double most_loss_ = 0;
};

int Main() {
  UcxOptions tcp;
  tcp.transports = UcxOptions::Transports::kTcp;
  tcp.net_device = "lo";
  for (int world : {2, 4}) {
    for (LinkKind link : {LinkKind::kSharedMemory, LinkKind::kNetwork}) {
      const bool network = link == LinkKind::kNetwork;
      const std::vector<std::string> texts = testing::RunInProcesses(
          world, network ? tcp : UcxOptions(), [link](Transport* transport) {
            testing::BindToCore(transport->rank().value());
            const absl::StatusOr<std::string> text = Bench(transport, link).Run();
            return text.ok() ? *text : text.status().ToString();
          });
      std::printf("%d ranks, %s\n%s\n", world, std::string(NameOf(link)).c_str(), texts[0].c_str());
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace rz

int main() { return rz::Main(); }
