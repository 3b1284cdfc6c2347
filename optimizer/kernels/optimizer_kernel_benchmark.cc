// Parameters (items) and bytes a second of AdamW and of the gradient's sum of squares, by level, in
// cache (16 Ki parameters) and in memory (4 Mi parameters).
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "optimizer/kernels/adamw.h"
#include "optimizer/kernels/gradient_stats.h"

namespace rz {
namespace {

constexpr size_t kCounts[] = {size_t{16} << 10, size_t{4} << 20};

void Update(benchmark::State& state, SimdLevel level, DType gradient, DType working, size_t count) {
  const AdamW adamw = *AdamW::Create(gradient, working, level);
  AdamWStep step;
  step.bias_correction1 = 0.1;
  step.bias_correction2 = 0.001;
  std::vector<unsigned char> gradients(count * SizeOf(gradient), 0x3c);
  std::vector<unsigned char> weights(count * SizeOf(working));
  std::vector<float> master(count, 1.0f), m(count, 0.01f), v(count, 0.01f);
  for (auto _ : state) {
    adamw.Update(step, gradients.data(), master.data(), m.data(), v.data(), weights.data(), count);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * count);
  state.SetBytesProcessed(state.iterations() * (gradients.size() + weights.size() + 24 * count));
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
        benchmark::RegisterBenchmark(("adamw/" + name).c_str(), Update, level, dtype, dtype, count);
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
