// What counts of each rank's own cost: reduce_scatter_v, all_gather_v and all_to_all_v against
// their even forms of as many bytes, between four processes over UCX. Once with equal counts, once
// with half of everything at one rank (of all_to_all_v: half of what each rank sends goes to the
// next). The forms take turns, call by call, in one run; printed are the medians of the even form's
// time on the slowest rank, and of the others' ratios to it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
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

constexpr int kWorld = 4;
// Bytes of a call, that fall into quarters and sixths.
constexpr int64_t kSizes[] = {960, 61'440, 983'040, 15'728'640};
constexpr int64_t kLargest = kSizes[3];
constexpr int64_t kBytesARun = int64_t{2} << 30;
constexpr int kFewestCalls = 60;
constexpr int kMostCalls = 1500;
constexpr DType kDType = DType::kFloat32;

enum Form { kEven, kEqualCounts, kHalfAtOne, kForms };

// Counts of the ranks that add up to `total`; the first one's is the largest.
std::vector<int64_t> CountsOf(Form form, int64_t total) {
  if (form != kHalfAtOne) return std::vector<int64_t>(kWorld, total / kWorld);
  std::vector<int64_t> counts(kWorld, total / 2 / (kWorld - 1));
  counts[0] = total / 2;
  return counts;
}

// With the first one at `first`.
std::vector<int64_t> Rotated(const std::vector<int64_t>& counts, int first) {
  std::vector<int64_t> rotated(kWorld);
  for (int r = 0; r < kWorld; ++r) rotated[(r + first + kWorld) % kWorld] = counts[r];
  return rotated;
}

double MedianOf(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Bench {
 public:
  explicit Bench(Communicator* comm)
      : comm_(*comm), send_(kLargest / sizeof(float), 1), recv_(kLargest / sizeof(float)) {}

  absl::Status Call(Collective collective, Form form, int64_t total) {
    const std::vector<int64_t> counts = CountsOf(form, total);
    const float* const send = send_.data();
    float* const recv = recv_.data();
    switch (collective) {
      case Collective::kReduceScatter:
        if (form == kEven) return comm_.ReduceScatter(send, recv, total, kDType, ReduceOp::kSum);
        return comm_.ReduceScatterV(send, recv, counts, kDType, ReduceOp::kSum);
      case Collective::kAllGather:
        if (form == kEven) return comm_.AllGather(send, recv, total, kDType);
        return comm_.AllGatherV(send, recv, counts, kDType);
      default:
        if (form == kEven) return comm_.AllToAll(send, recv, total / kWorld, kDType);
        return comm_.AllToAllV(send, Rotated(counts, rank() + 1), recv, Rotated(counts, rank() - 1),
                               kDType);
    }
  }

  // Nanoseconds of one call on the slowest rank.
  absl::StatusOr<double> Time(Collective collective, Form form, int64_t total) {
    RZ_RETURN_IF_ERROR(comm_.Barrier());
    const absl::Duration begin = Clock::Steady()->Now();
    RZ_RETURN_IF_ERROR(Call(collective, form, total));
    double took = absl::ToDoubleNanoseconds(Clock::Steady()->Now() - begin);
    RZ_RETURN_IF_ERROR(comm_.AllReduce(&took, &took, 1, DType::kFloat64, ReduceOp::kMax));
    return took;
  }

  absl::StatusOr<std::string> Line(Collective collective, int64_t bytes) {
    const int64_t total = bytes / static_cast<int64_t>(sizeof(float));
    const int64_t calls = std::clamp<int64_t>(kBytesARun / bytes / 8, kFewestCalls, kMostCalls);
    std::vector<double> even_times;
    std::vector<double> ratios[kForms];
    for (int64_t i = 0; i < calls + calls / 10; ++i) {
      double times[kForms];
      for (Form form : {kEven, kEqualCounts, kHalfAtOne}) {
        RZ_ASSIGN_OR_RETURN(times[form], Time(collective, form, total));
      }
      if (i < calls / 10) continue;
      even_times.push_back(times[kEven]);
      for (Form form : {kEqualCounts, kHalfAtOne}) {
        ratios[form].push_back(times[form] / times[kEven]);
      }
    }
    return absl::StrFormat("%-15s %9d %12.1f %13.2f %13.2f\n", std::string(NameOf(collective)),
                           bytes, MedianOf(even_times) / 1000, MedianOf(ratios[kEqualCounts]),
                           MedianOf(ratios[kHalfAtOne]));
  }

 private:
  int rank() const { return comm_.rank().value(); }

  Communicator& comm_;
  std::vector<float> send_;
  std::vector<float> recv_;
};

absl::StatusOr<std::string> MeasureAll(Transport* transport, LinkKind link) {
  CommunicatorOptions options;
  options.link = link;
  RZ_ASSIGN_OR_RETURN(auto comm, Communicator::Create(transport, options));
  Bench bench(comm.get());
  std::string text = absl::StrFormat("%-15s %9s %12s %13s %13s\n", "collective", "bytes",
                                     "even (us)", "equal counts", "half at one");
  for (Collective collective :
       {Collective::kReduceScatter, Collective::kAllGather, Collective::kAllToAll}) {
    for (int64_t bytes : kSizes) {
      RZ_ASSIGN_OR_RETURN(const std::string line, bench.Line(collective, bytes));
      text += line;
    }
  }
  return text;
}

int Main() {
  UcxOptions tcp;
  tcp.transports = UcxOptions::Transports::kTcp;
  tcp.net_device = "lo";
  const auto measure = [](LinkKind link) {
    return [link](Transport* transport) {
      const absl::StatusOr<std::string> text = MeasureAll(transport, link);
      return text.ok() ? *text : text.status().ToString();
    };
  };
  std::printf("shared memory\n%s",
              testing::RunInProcesses(kWorld, {}, measure(LinkKind::kSharedMemory))[0].c_str());
  std::printf("tcp, loopback\n%s",
              testing::RunInProcesses(kWorld, tcp, measure(LinkKind::kNetwork))[0].c_str());
  return 0;
}

}  // namespace
}  // namespace rz

int main() { return rz::Main(); }
