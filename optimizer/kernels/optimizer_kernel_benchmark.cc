// Parameters (items) and bytes a second of every optimizer's step and of the gradient's sum of
// squares, by level, in cache (16 Ki parameters) and in memory (4 Mi and 64 Mi parameters).
//
// "roofline" of a step: its bytes a second over those of a loop in the same run that does nothing
// but read four float32 arrays of that many elements, and write three of them.
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "optimizer/kernels/gradient_stats.h"
#include "optimizer/kernels/optimizer_config.h"
#include "optimizer/kernels/optimizer_kernel.h"

namespace rz {
namespace {

constexpr size_t kCounts[] = {size_t{16} << 10, size_t{4} << 20, size_t{64} << 20};

// As wide as every processor has it, so that only memory bounds the loop; in cache the kernels may
// be faster.
constexpr size_t kWide = 4;
typedef float Wide __attribute__((vector_size(kWide * sizeof(float))));
inline void AddTo(float* to, const Wide& x) {
  Wide sum;
  __builtin_memcpy(&sum, to, sizeof(sum));
  sum += x;
  __builtin_memcpy(to, &sum, sizeof(sum));
}

// Of the best of some passes, in bytes a second: AdamW's traffic with one addition an element.
double MeasureRoofline(size_t count) {
  std::vector<float> a(count, 1.0f), b(count, 1.0f), c(count, 1.0f), d(count, 1.0f);
  constexpr size_t kBytes = 7 * sizeof(float);
  const int passes = std::max<int>(5, static_cast<int>((size_t{1} << 24) / count));
  double best = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < count; i += kWide) {
      Wide x;
      __builtin_memcpy(&x, &d[i], sizeof(x));
      AddTo(&a[i], x);
      AddTo(&b[i], x);
      AddTo(&c[i], x);
    }
    benchmark::ClobberMemory();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(kBytes * count) / taken.count());
  }
  return best;
}

double Roofline(size_t count) {
  static auto* const measured = new std::map<size_t, double>();
  const auto [entry, is_new] = measured->try_emplace(count, 0);
  if (is_new) entry->second = MeasureRoofline(count);
  return entry->second;
}

// One with every rule.
struct Optimizer {
  const char* name;
  OptimizerKind kind;
  double momentum = 0;
  bool nesterov = false;
};
constexpr Optimizer kOptimizers[] = {
    {"adamw", OptimizerKind::kAdamW},
    {"adam", OptimizerKind::kAdam},
    {"sgd", OptimizerKind::kSgd},
    {"momentum", OptimizerKind::kSgd, 0.9},
    {"nesterov", OptimizerKind::kSgd, 0.9, true},
    {"lion", OptimizerKind::kLion},
    {"adagrad", OptimizerKind::kAdagrad},
};

void Update(benchmark::State& state, const Optimizer& optimizer, SimdLevel level, DType gradient,
            DType working, size_t count) {
  OptimizerConfig config = DefaultsOf(optimizer.kind);
  config.momentum = optimizer.momentum;
  config.nesterov = optimizer.nesterov;
  const OptimizerKernel kernel = *OptimizerKernel::Create(RuleOf(config), gradient, working, level);
  const StepConstants step = ConstantsOf(config, {.learning_rate = 1e-3});
  const double roofline = Roofline(count);
  std::vector<unsigned char> gradients(count * SizeOf(gradient), 0x3c);
  std::vector<float> master(count, 1.0f), m(count, 0.01f), v(count, 0.01f);
  // In float32 the master is what the model works with, as in ZeroOptimizer.
  const bool apart = working != DType::kFloat32;
  std::vector<unsigned char> own(apart ? count * SizeOf(working) : 0);
  void* const weights = apart ? static_cast<void*>(own.data()) : master.data();
  for (auto _ : state) {
    kernel.Update(step, gradients.data(), master.data(), {m.data(), v.data()}, weights, count);
    benchmark::ClobberMemory();
  }
  // Read and written: the master and the states.
  const size_t bytes =
      SizeOf(gradient) + (apart ? SizeOf(working) : 0) + 8 * (1 + StateCount(config));
  state.SetItemsProcessed(state.iterations() * count);
  state.SetBytesProcessed(state.iterations() * bytes * count);
  state.counters["roofline"] =
      benchmark::Counter(static_cast<double>(state.iterations() * bytes * count) / roofline,
                         benchmark::Counter::kIsRate);
}

void Norm(benchmark::State& state, SimdLevel level, DType dtype, size_t count) {
  const std::vector<unsigned char> data(count * SizeOf(dtype), 0x3c);
  for (auto _ : state) {
    benchmark::DoNotOptimize(SumOfSquares(dtype, data.data(), count, level));
  }
  state.SetItemsProcessed(state.iterations() * count);
  state.SetBytesProcessed(state.iterations() * data.size());
}

void NonFinite(benchmark::State& state, SimdLevel level, DType dtype, size_t count) {
  const std::vector<unsigned char> data(count * SizeOf(dtype), 0x3c);
  for (auto _ : state) {
    benchmark::DoNotOptimize(CountNonFinite(dtype, data.data(), count, level));
  }
  state.SetItemsProcessed(state.iterations() * count);
  state.SetBytesProcessed(state.iterations() * data.size());
}

void RegisterAll() {
  for (SimdLevel level : SupportedSimdLevels()) {
    for (size_t count : kCounts) {
      const std::string tail =
          "/" + std::to_string(count >> 10) + "Ki/" + std::string(NameOf(level));
      for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        const std::string name = std::string(NameOf(dtype)) + tail;
        for (const Optimizer& optimizer : kOptimizers) {
          benchmark::RegisterBenchmark((std::string(optimizer.name) + "/" + name).c_str(), Update,
                                       optimizer, level, dtype, dtype, count);
        }
        benchmark::RegisterBenchmark(("sum_of_squares/" + name).c_str(), Norm, level, dtype, count);
        benchmark::RegisterBenchmark(("non_finite/" + name).c_str(), NonFinite, level, dtype,
                                     count);
      }
    }
  }
}

}  // namespace
}  // namespace rz

int main(int argc, char** argv) {
  rz::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
