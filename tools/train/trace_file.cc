// 1. All ranks agree on the first step that everybody still has whole.
// 2. Each sorts its events, gives them lanes and brings their times to the common clock.
// 3. Rank 0 learns how many each has, and takes them rank after rank, in blocks, straight into the
//    file. If the file fails it goes on taking them: the others need not know.
#include "tools/train/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "optimizer/step_timeline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/types.h"
#include "tools/bench/json.h"

namespace rz {
namespace {

constexpr size_t kBlockEvents = 4096;
constexpr size_t kEventWords = sizeof(TraceEvent) / sizeof(int64_t);
static_assert(std::is_trivially_copyable_v<TraceEvent> &&
              kEventWords * sizeof(int64_t) == sizeof(TraceEvent));

// Lanes of a kind are numbered from here on, which is the order they are shown in.
constexpr int64_t kLanesOfAKind = 10'000;
constexpr std::array<const char*, 4> kLaneNames = {"reduce", "gather", "control", "replicas"};

// What a rank tells of its events.
struct Summary {
  int64_t events = 0;
  int64_t dropped = 0;
  int64_t clock_error_ns = 0;
  int64_t last_step = 0;
  TraceLanes lanes = {};
};
constexpr size_t kSummaryWords = sizeof(Summary) / sizeof(int64_t);

bool IsCollective(TraceKind kind) { return kind >= TraceKind::kReduce; }
size_t LaneGroup(TraceKind kind) {
  return static_cast<size_t>(kind) - static_cast<size_t>(TraceKind::kReduce);
}

int64_t ThreadOf(const TraceEvent& event) {
  if (!IsCollective(event.kind)) return 0;
  return kLanesOfAKind * (1 + static_cast<int64_t>(LaneGroup(event.kind))) + event.lane;
}

std::string Category(TraceKind kind) {
  return IsCollective(kind) ? kLaneNames[LaneGroup(kind)]
                            : std::string(NameOf(static_cast<StepPart>(kind)));
}

// "reduce layer1 bucket 3".
std::string EventName(const TraceEvent& event, absl::Span<const std::string> units) {
  std::string name = Category(event.kind);
  if (event.place.unit >= 0) {
    absl::StrAppend(&name, " ", units[static_cast<size_t>(event.place.unit)]);
  }
  if (event.place.bucket >= 0) absl::StrAppend(&name, " bucket ", event.place.bucket);
  return name;
}

double Microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

std::string NameJson(int rank, int64_t thread, const char* what, const std::string& name) {
  return absl::StrFormat(R"({"ph":"M","pid":%d,"tid":%d,"name":"%s","args":{"name":%s}})", rank,
                         thread, what, QuoteJson(name));
}

std::string SortJson(int rank, int64_t thread, const char* what, int64_t index) {
  return absl::StrFormat(R"({"ph":"M","pid":%d,"tid":%d,"name":"%s","args":{"sort_index":%d}})",
                         rank, thread, what, index);
}

Summary Summarize(const StepTrace& trace, const ClockAlignment& alignment,
                  absl::Span<const TraceEvent> events) {
  Summary summary;
  summary.events = static_cast<int64_t>(events.size());
  summary.dropped = trace.dropped();
  summary.clock_error_ns = alignment.error_ns;
  for (const TraceEvent& event : events) {
    summary.last_step = std::max(summary.last_step, event.step);
    if (!IsCollective(event.kind)) continue;
    int64_t& lanes = summary.lanes[LaneGroup(event.kind)];
    lanes = std::max<int64_t>(lanes, event.lane + 1);
  }
  return summary;
}

// Rank 0's file; what fails is kept until Close.
class File {
 public:
  explicit File(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "w")) {
    if (file_ == nullptr) error_ = errno;
  }
  ~File() { (void)Close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void Write(const std::string& text) {
    if (error_ != 0 || std::fwrite(text.data(), 1, text.size(), file_) == text.size()) return;
    error_ = errno;
  }

  absl::Status Close() {
    if (file_ != nullptr && std::fclose(std::exchange(file_, nullptr)) != 0 && error_ == 0) {
      error_ = errno;
    }
    if (error_ == 0) return absl::OkStatus();
    return absl::UnknownError(
        absl::StrCat(path_, ": the trace cannot be written: ", std::strerror(error_)));
  }

 private:
  const std::string path_;
  FILE* file_;
  int error_ = 0;
};

// What is to be said of the file, and stands in it.
std::string Describe(absl::Span<const Summary> all, int64_t first_step) {
  Summary sum;
  for (const Summary& one : all) {
    sum.events += one.events;
    sum.dropped += one.dropped;
    sum.last_step = std::max(sum.last_step, one.last_step);
    sum.clock_error_ns = std::max(sum.clock_error_ns, one.clock_error_ns);
  }
  std::string text = sum.events == 0 ? std::string("no whole step")
                                     : absl::StrCat("steps ", first_step, " to ", sum.last_step,
                                                    ", ", sum.events, " events of ", all.size(),
                                                    all.size() == 1 ? " rank" : " ranks");
  if (first_step > 1) {
    absl::StrAppend(&text, "; earlier steps did not fit (", sum.dropped, " events were dropped)");
  }
  absl::StrAppendFormat(&text, "; clocks agree to %.1f us", Microseconds(sum.clock_error_ns));
  return text;
}

std::string BlockJson(int rank, absl::Span<const TraceEvent> events,
                      absl::Span<const std::string> units) {
  std::string json;
  for (const TraceEvent& event : events) {
    absl::StrAppend(&json, ",\n", TraceEventJson(rank, event, units));
  }
  return json;
}

// Calls take(block) for each of another rank's blocks.
template <typename Take>
absl::Status Receive(Communicator* communicator, Rank from, int64_t events, Take take) {
  std::vector<TraceEvent> block(kBlockEvents);
  for (int64_t at = 0; at < events;) {
    const auto count =
        static_cast<size_t>(std::min<int64_t>(events - at, static_cast<int64_t>(kBlockEvents)));
    RZ_RETURN_IF_ERROR(communicator->Recv(block.data(), static_cast<int64_t>(count * kEventWords),
                                          DType::kInt64, from));
    take(absl::MakeConstSpan(block).first(count));
    at += static_cast<int64_t>(count);
  }
  return absl::OkStatus();
}

absl::Status Send(Communicator* communicator, absl::Span<const TraceEvent> events) {
  for (size_t at = 0; at < events.size(); at += kBlockEvents) {
    const absl::Span<const TraceEvent> block = events.subspan(at, kBlockEvents);
    RZ_RETURN_IF_ERROR(communicator->Send(
        block.data(), static_cast<int64_t>(block.size() * kEventWords), DType::kInt64, Rank(0)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string TraceEventJson(int rank, const TraceEvent& event, absl::Span<const std::string> units) {
  std::string json = absl::StrFormat(
      R"({"ph":"X","pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f,"cat":"%s","name":%s,"args":{"step":%d)",
      rank, ThreadOf(event), Microseconds(event.begin_ns),
      Microseconds(event.end_ns - event.begin_ns), Category(event.kind),
      QuoteJson(EventName(event, units)), event.step);
  if (event.place.unit >= 0) {
    absl::StrAppend(&json, R"(,"unit":)", QuoteJson(units[static_cast<size_t>(event.place.unit)]));
  }
  if (event.place.bucket >= 0) absl::StrAppend(&json, R"(,"bucket":)", event.place.bucket);
  if (IsCollective(event.kind)) absl::StrAppend(&json, R"(,"bytes":)", event.bytes);
  return json + "}}";
}

std::string TraceLanesJson(int rank, const TraceLanes& lanes) {
  std::string json = absl::StrCat(NameJson(rank, 0, "process_name", absl::StrCat("rank ", rank)),
                                  ",\n", SortJson(rank, 0, "process_sort_index", rank), ",\n",
                                  NameJson(rank, 0, "thread_name", "compute"), ",\n",
                                  SortJson(rank, 0, "thread_sort_index", 0));
  for (size_t group = 0; group < lanes.size(); ++group) {
    for (int64_t lane = 0; lane < lanes[group]; ++lane) {
      const int64_t thread = kLanesOfAKind * (1 + static_cast<int64_t>(group)) + lane;
      absl::StrAppend(&json, ",\n",
                      NameJson(rank, thread, "thread_name",
                               lane == 0 ? std::string(kLaneNames[group])
                                         : absl::StrCat(kLaneNames[group], " ", lane + 1)),
                      ",\n", SortJson(rank, thread, "thread_sort_index", thread));
    }
  }
  return json;
}

absl::StatusOr<std::string> WriteTrace(StepTrace* trace, const ClockAlignment& alignment,
                                       absl::Span<const std::string> units,
                                       Communicator* communicator, const std::string& path) {
  int64_t first_step = trace->first_whole_step();
  RZ_RETURN_IF_ERROR(
      communicator->AllReduce(&first_step, &first_step, 1, DType::kInt64, ReduceOp::kMax));
  const absl::Span<TraceEvent> own = trace->TakeSorted(first_step);
  AssignLanes(own);
  for (TraceEvent& event : own) {
    event.begin_ns = alignment.ToCommon(event.begin_ns);
    event.end_ns = alignment.ToCommon(event.end_ns);
  }
  const Summary summary = Summarize(*trace, alignment, own);
  std::vector<Summary> all(static_cast<size_t>(communicator->world_size()));
  RZ_RETURN_IF_ERROR(communicator->AllGather(
      &summary, all.data(), static_cast<int64_t>(kSummaryWords * all.size()), DType::kInt64));
  const std::string description = Describe(all, first_step);
  if (communicator->rank() != Rank(0)) {
    RZ_RETURN_IF_ERROR(Send(communicator, own));
    return description;
  }
  File file(path);
  file.Write(absl::StrCat(R"({"displayTimeUnit":"ms","otherData":{"summary":)",
                          QuoteJson(description), "},\n\"traceEvents\":[\n"));
  for (int rank = 0; rank < communicator->world_size(); ++rank) {
    const Summary& theirs = all[static_cast<size_t>(rank)];
    file.Write(absl::StrCat(rank == 0 ? "" : ",\n", TraceLanesJson(rank, theirs.lanes)));
    const auto write = [&](absl::Span<const TraceEvent> events) {
      file.Write(BlockJson(rank, events, units));
    };
    if (rank == 0) {
      for (size_t at = 0; at < own.size(); at += kBlockEvents) write(own.subspan(at, kBlockEvents));
    } else {
      RZ_RETURN_IF_ERROR(Receive(communicator, Rank(rank), theirs.events, write));
    }
  }
  file.Write("\n]}\n");
  RZ_RETURN_IF_ERROR(file.Close());
  return description;
}

}  // namespace rz
