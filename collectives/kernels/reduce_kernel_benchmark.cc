// Bytes a second that the reduction kernels read and write, by level, dtype and size of the working
// set: 16 KiB of wire elements an operand (L1), 256 KiB (L2) and 64 MiB (memory).
#include <cstdint>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "collectives/kernels/reduce_kernel.h"
#include "runtime/base/simd_level.h"

namespace rz {
namespace {

constexpr size_t kOperandBytes[] = {size_t{16} << 10, size_t{256} << 10, size_t{64} << 20};

struct Operands {
  Operands(DType dtype, size_t bytes)
      : count(bytes / SizeOf(dtype)),
        partial(count * SizeOf(AccumulatorOf(dtype))),
        wire(bytes),
        other(bytes) {}
  size_t count;
  std::vector<unsigned char> partial, wire, other;
};

void Accumulate(benchmark::State& state, const ReduceKernel* kernel, DType dtype, size_t bytes) {
  Operands on(dtype, bytes);
  for (auto _ : state) {
    kernel->accumulate(on.partial.data(), on.partial.data(), on.wire.data(), on.count);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * (2 * on.partial.size() + on.wire.size()));
}

void AccumulateScaled(benchmark::State& state, const ReduceKernel* kernel, DType dtype,
                      size_t bytes) {
  Operands on(dtype, bytes);
  for (auto _ : state) {
    kernel->accumulate_scaled(on.partial.data(), on.partial.data(), on.wire.data(), on.count,
                              {0.5, 3});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * (2 * on.partial.size() + on.wire.size()));
}

void Combine(benchmark::State& state, const ReduceKernel* kernel, DType dtype, size_t bytes) {
  Operands on(dtype, bytes);
  for (auto _ : state) {
    kernel->combine(on.other.data(), on.other.data(), on.wire.data(), on.count);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 3 * bytes);
}

void Widen(benchmark::State& state, const ReduceKernel* kernel, DType dtype, size_t bytes) {
  Operands on(dtype, bytes);
  for (auto _ : state) {
    kernel->widen(on.partial.data(), on.wire.data(), on.count);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * (on.partial.size() + bytes));
}

void Finish(benchmark::State& state, const ReduceKernel* kernel, DType dtype, size_t bytes) {
  Operands on(dtype, bytes);
  for (auto _ : state) {
    kernel->finish(on.wire.data(), on.partial.data(), on.count, 4.0);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * (on.partial.size() + bytes));
}

void RegisterAll() {
  using Body = void (*)(benchmark::State&, const ReduceKernel*, DType, size_t);
  const struct {
    const char* name;
    Body body;
    ReduceOp op;
  } kMoves[] = {{"accumulate_sum", Accumulate, ReduceOp::kSum},
                {"combine_sum", Combine, ReduceOp::kSum},
                {"combine_min", Combine, ReduceOp::kMin},
                {"combine_prod", Combine, ReduceOp::kProd},
                {"accumulate_scaled", AccumulateScaled, ReduceOp::kPremulSum},
                {"widen", Widen, ReduceOp::kSum},
                {"finish_avg", Finish, ReduceOp::kAvg}};
  for (const auto& move : kMoves) {
    for (DType dtype : kAllDTypes) {
      for (size_t bytes : kOperandBytes) {
        for (SimdLevel level : SupportedSimdLevels()) {
          const absl::StatusOr<const ReduceKernel*> kernel = GetReduceKernel(dtype, move.op, level);
          if (!kernel.ok()) continue;
          const std::string name = std::string(move.name) + "/" + std::string(NameOf(dtype)) + "/" +
                                   std::to_string(bytes >> 10) + "KiB/" +
                                   std::string(NameOf(level));
          benchmark::RegisterBenchmark(name.c_str(), move.body, *kernel, dtype, bytes);
        }
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
