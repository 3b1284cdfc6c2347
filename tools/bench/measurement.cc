// 1. Warm up; time the last warm-up calls for an estimate, the slowest rank's.
// 2. From it, on all ranks alike, how many samples of how many calls.
// 3. Meet; take the samples.
// 4. Gather the ranks' totals, and of each sample the slowest.
#include "tools/bench/measurement.h"

#include <time.h>

#include <algorithm>

#include "runtime/base/status_macros.h"
#include "tools/bench/batch_method.h"

namespace rz {
namespace {

double NowUs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

struct SamplePlan {
  int64_t samples = 1;
  int64_t calls = 1;  // a sample
};

// Step 1.
absl::StatusOr<double> Estimate(Subject& subject, RankExchange& exchange, const MeasuredCall& call,
                                int64_t warmup) {
  for (int64_t i = 0; i < warmup; ++i) RZ_RETURN_IF_ERROR(subject.Run(call));
  RZ_RETURN_IF_ERROR(exchange.Barrier());
  const double begin = NowUs(CLOCK_MONOTONIC);
  for (int64_t i = 0; i < kEstimateCalls; ++i) RZ_RETURN_IF_ERROR(subject.Run(call));
  double estimate = (NowUs(CLOCK_MONOTONIC) - begin) / kEstimateCalls;
  RZ_RETURN_IF_ERROR(exchange.TakeLargest(absl::MakeSpan(&estimate, 1)));
  return estimate;
}

// Step 2.
SamplePlan PlanSamples(const MeasurementPlan& plan, double estimate_us) {
  const double budget_us = absl::ToDoubleMicroseconds(plan.budget);
  const bool automatic = plan.iterations == 0;
  if (plan.sampling == Sampling::kBatches) {
    const int64_t calls = CallsPerBatch(estimate_us);
    const double batch_us = estimate_us * static_cast<double>(calls);
    return {automatic ? IterationsFor(budget_us, batch_us) : (plan.iterations + calls - 1) / calls,
            calls};
  }
  const int64_t iterations = automatic ? IterationsFor(budget_us, estimate_us) : plan.iterations;
  if (plan.sampling == Sampling::kPlain) return {1, iterations};
  return {iterations, 1};
}

// Step 3. `cpu_us` is added to.
absl::Status TakeSamples(Subject& subject, RankExchange& exchange, const MeasuredCall& call,
                         const MeasurementPlan& plan, int64_t calls,
                         const std::function<void()>& rewrite_input, std::vector<double>& samples,
                         double& cpu_us) {
  const bool fresh = plan.sampling == Sampling::kFresh;
  const bool meet = fresh || plan.sampling == Sampling::kBatches;
  RZ_RETURN_IF_ERROR(exchange.Barrier());
  for (double& sample : samples) {
    if (fresh) rewrite_input();
    if (meet) RZ_RETURN_IF_ERROR(exchange.Barrier());
    const double cpu_begin = plan.cpu_time ? NowUs(CLOCK_PROCESS_CPUTIME_ID) : 0;
    const double begin = NowUs(CLOCK_MONOTONIC);
    for (int64_t i = 0; i < calls; ++i) RZ_RETURN_IF_ERROR(subject.Run(call));
    sample = NowUs(CLOCK_MONOTONIC) - begin;
    if (plan.cpu_time) cpu_us += NowUs(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Timing> Measure(Subject& subject, RankExchange& exchange, const MeasuredCall& call,
                               const MeasurementPlan& plan,
                               const std::function<void()>& rewrite_input) {
  RZ_ASSIGN_OR_RETURN(const double estimate, Estimate(subject, exchange, call, plan.warmup));
  const SamplePlan sample_plan = PlanSamples(plan, estimate);
  std::vector<double> samples(sample_plan.samples);
  double cpu_us = 0;
  RZ_RETURN_IF_ERROR(TakeSamples(subject, exchange, call, plan, sample_plan.calls, rewrite_input,
                                 samples, cpu_us));

  Timing timing;
  timing.iterations = sample_plan.samples * sample_plan.calls;
  double total = 0;
  for (double& sample : samples) {
    total += sample;
    sample /= static_cast<double>(sample_plan.calls);
  }
  const auto iterations = static_cast<double>(timing.iterations);
  RZ_ASSIGN_OR_RETURN(const std::vector<double> times, exchange.Gather(total / iterations));
  RZ_ASSIGN_OR_RETURN(const std::vector<double> cpu_times, exchange.Gather(cpu_us / iterations));
  RZ_RETURN_IF_ERROR(exchange.TakeLargest(absl::MakeSpan(samples)));
  const auto skipped = std::min<int64_t>(plan.skip_samples, sample_plan.samples - 1);
  samples.erase(samples.begin(), samples.begin() + skipped);
  timing.samples_us = Summarize(std::move(samples));
  timing.time_us = plan.sampling == Sampling::kBatches ? timing.samples_us.p50
                                                       : CombineRanks(times, plan.average);
  timing.cpu_us = CombineRanks(cpu_times, plan.average);
  return timing;
}

}  // namespace rz
