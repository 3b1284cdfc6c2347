#include "collectives/shared/reduce_sources.h"

#include <algorithm>

namespace rz {
namespace {

// Sums in the making stay in the first-level cache.
constexpr size_t kPieceElements = 1024;

Operand Input(const std::byte* data) {
  return {const_cast<std::byte*>(data), Format::kWire, /*is_input=*/true};
}

}  // namespace

void ReduceSources(std::byte* dst, absl::Span<const std::byte* const> sources, size_t count,
                   const Arithmetic& arithmetic) {
  const Operand to = {dst, Format::kWire};
  if (sources.size() == 1) {
    RunLocalStep(LocalKind::kFinish, to, Input(sources[0]), {}, count, arithmetic);
    return;
  }
  if (sources.size() == 2) {
    RunLocalStep(LocalKind::kReduceFinish, to, Input(sources[0]), Input(sources[1]), count,
                 arithmetic);
    return;
  }
  const size_t wire = arithmetic.SizeOfFormat(Format::kWire);
  alignas(64) std::byte memory[kPieceElements * sizeof(double)];
  const Operand sum = {memory, Format::kAccumulator};
  const size_t last = sources.size() - 1;
  for (size_t at = 0; at < count; at += kPieceElements) {
    const size_t piece = std::min(kPieceElements, count - at);
    const size_t offset = at * wire;
    RunLocalStep(LocalKind::kReduce, sum, Input(sources[0] + offset), Input(sources[1] + offset),
                 piece, arithmetic);
    for (size_t i = 2; i < last; ++i) {
      RunLocalStep(LocalKind::kReduce, sum, sum, Input(sources[i] + offset), piece, arithmetic);
    }
    RunLocalStep(LocalKind::kReduceFinish, {dst + offset, Format::kWire}, sum,
                 Input(sources[last] + offset), piece, arithmetic);
  }
}

}  // namespace rz
