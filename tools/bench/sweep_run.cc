#include "tools/bench/sweep_run.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "tools/bench/cliffs.h"
#include "tools/bench/limit_subject.h"

namespace rz {
namespace {

// How often what stands out is measured again.
constexpr int kMostTurnsOfCliffs = 3;

}  // namespace

absl::Status SweepRun::Run(const std::vector<std::string>& preface) {
  for (int64_t cycle = 0; config_.cycles == 0 || cycle < config_.cycles; ++cycle) {
    rows_.clear();
    for (BenchOperation operation : config_.operations) {
      const std::string name(NameOf(operation));
      print_(absl::StrCat("# Collective test starting: ", name));
      // Once: it is the same for all operations.
      if (cycle == 0 && operation == config_.operations.front()) {
        for (const std::string& line : preface) print_(line);
      }
      print_("#");
      print_(TableHeader(config_.columns));
      const size_t first = rows_.size();
      RZ_RETURN_IF_ERROR(RunOperation(operation));
      const ResultSummary summary = SummarizeRows({rows_.begin() + first, rows_.end()});
      print_(TableFooter(summary));
      if (config_.cliffs > 0) RZ_RETURN_IF_ERROR(LookForCliffs(first));
      print_(absl::StrCat("#\n# Collective test concluded: ", name, "\n#"));
      wrong_ += summary.wrong;
    }
  }
  return absl::OkStatus();
}

absl::Status SweepRun::RunOperation(BenchOperation operation) {
  const OperationTraits& traits = TraitsOf(operation);
  std::vector<int> roots = {-1};
  if (traits.has_root) roots = {config_.root};
  if (traits.has_root && config_.all_roots) {
    roots.clear();
    for (int root = 0; root < exchange_.world_size(); ++root) roots.push_back(root);
  }
  const bool has_bytes = operation != BenchOperation::kBarrier;
  const std::vector<int64_t> sizes = has_bytes ? config_.sizes : std::vector<int64_t>{0};
  for (ElementKind kind : config_.KindsOf(operation)) {
    for (int root : roots) {
      int64_t last_elements = -1;
      for (int64_t bytes : sizes) {
        // Of sizes that fill as many elements, the first.
        const int64_t elements = bytes / static_cast<int64_t>(SizeOf(kind.dtype));
        if (elements == last_elements) continue;
        last_elements = elements;
        RZ_RETURN_IF_ERROR(RunRow(operation, kind, root, bytes));
      }
    }
  }
  return absl::OkStatus();
}

// Of the rows from `first` on. What stands out once may have been held up: it is measured again,
// and the faster time counts.
absl::Status SweepRun::LookForCliffs(size_t first) {
  std::vector<ResultRow> rows(rows_.begin() + static_cast<std::ptrdiff_t>(first), rows_.end());
  std::vector<Cliff> cliffs = FindCliffs(rows, config_.cliffs);
  for (int turn = 0; turn < kMostTurnsOfCliffs && !cliffs.empty(); ++turn) {
    for (const Cliff& cliff : cliffs) {
      ResultRow& row = rows[static_cast<size_t>(cliff.row - rows.data())];
      RZ_ASSIGN_OR_RETURN(const ResultRow again,
                          MeasureRow(row.operation, {row.dtype, row.op}, row.root, row.size_bytes));
      TakeFaster(row, again);
    }
    cliffs = FindCliffs(rows, config_.cliffs);
  }
  print_(CliffsText(cliffs, config_.cliffs));
  return absl::OkStatus();
}

absl::Status SweepRun::RunRow(BenchOperation operation, ElementKind kind, int root, int64_t bytes) {
  RZ_ASSIGN_OR_RETURN(ResultRow row, MeasureRow(operation, kind, root, bytes));
  print_(TableRow(row, config_.columns));
  rows_.push_back(std::move(row));
  return absl::OkStatus();
}

absl::StatusOr<ResultRow> SweepRun::MeasureRow(BenchOperation operation, ElementKind kind, int root,
                                               int64_t bytes) {
  CallRequest request;
  request.request = {.operation = operation,
                     .bytes = bytes,
                     .element_size = static_cast<int64_t>(SizeOf(kind.dtype)),
                     .world = exchange_.world_size(),
                     .rank = Rank(exchange_.rank()),
                     .root = Rank(root < 0 ? 0 : root),
                     .pattern = config_.counts};
  request.dtype = kind.dtype;
  request.op = kind.op;
  request.aggregate = config_.aggregate;
  request.unalign = config_.unalign;
  ResultRow row;
  row.operation = operation;
  row.dtype = kind.dtype;
  row.op = kind.op;
  row.root = root;
  const OperationTraits& traits = TraitsOf(operation);
  if (traits.out_of_place) {
    request.placement = Placement::kOutOfPlace;
    RZ_ASSIGN_OR_RETURN(row.out_of_place, RunHalf(request));
  }
  if (traits.in_place) {
    request.placement = Placement::kInPlace;
    RZ_ASSIGN_OR_RETURN(row.in_place, RunHalf(request));
  }
  if (config_.columns.limit) {
    RZ_ASSIGN_OR_RETURN(row.limit_us, RunLimit(request));
  }
  row.size_bytes = memory_.shape().size_bytes;
  row.count = memory_.shape().count;
  row.timestamp = absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::Now(), absl::LocalTimeZone());
  return row;
}

absl::StatusOr<HalfResult> SweepRun::RunHalf(const CallRequest& request) {
  const MeasuredCall& call = memory_.Prepare(request);
  HalfResult half;
  RZ_ASSIGN_OR_RETURN(half.wrong, Check(call));
  RZ_ASSIGN_OR_RETURN(const Timing timing, Measure(subject_, exchange_, call, config_.plan,
                                                   [this] { memory_.RewriteInputs(); }));
  const auto aggregate = static_cast<double>(request.aggregate);
  half.iterations = timing.iterations;
  half.time_us = timing.time_us / aggregate;
  half.cpu_us = timing.cpu_us / aggregate;
  half.samples_us = timing.samples_us;
  for (double* value : {&half.samples_us.min, &half.samples_us.p50, &half.samples_us.p90,
                        &half.samples_us.p99, &half.samples_us.max, &half.samples_us.mean}) {
    *value /= aggregate;
  }
  SetBandwidths(request.request.operation, request.request.world, memory_.shape().size_bytes, half);
  return half;
}

// us an operation.
absl::StatusOr<double> SweepRun::RunLimit(CallRequest request) {
  request.placement = Placement::kOutOfPlace;
  const MeasuredCall& call = memory_.Prepare(request);
  memory_.FillInputs(seed_);
  LimitSubject limit(exchange_.rank(), exchange_.world_size());
  RZ_ASSIGN_OR_RETURN(const Timing timing, Measure(limit, exchange_, call, config_.plan,
                                                   [this] { memory_.RewriteInputs(); }));
  return timing.time_us / static_cast<double>(request.aggregate);
}

// Elements wrong over all ranks and checks; -1 where nothing is checked. The inputs are filled
// either way.
absl::StatusOr<int64_t> SweepRun::Check(const MeasuredCall& call) {
  if (config_.checks == 0) {
    memory_.FillInputs(++seed_);
    return -1;
  }
  int64_t wrong = 0;
  for (int64_t i = 0; i < config_.checks; ++i) {
    memory_.FillInputs(++seed_);
    RZ_RETURN_IF_ERROR(exchange_.Barrier());
    RZ_RETURN_IF_ERROR(subject_.Run(call));
    wrong += memory_.CountWrong(seed_);
  }
  return exchange_.Sum(wrong);
}

}  // namespace rz
