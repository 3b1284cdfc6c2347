#include "collectives/shared/reduce_sources.h"

#include <algorithm>

#include "collectives/shared/stream_copy.h"

namespace rz {
namespace {

// Sums in the making stay in the first-level cache.
constexpr size_t kPieceElements = 1024;

Operand Input(const std::byte* data) {
  return {const_cast<std::byte*>(data), Format::kWire, /*is_input=*/true};
}

// `at`: elements of each source before the piece.
void ReducePiece(std::byte* dst, absl::Span<const std::byte* const> sources, size_t at,
                 size_t count, const Arithmetic& arithmetic) {
  const size_t offset = at * arithmetic.SizeOfFormat(Format::kWire);
  const auto source = [&](size_t i) { return Input(sources[i] + offset); };
  const Operand to = {dst, Format::kWire};
  if (sources.size() == 1) {
    RunLocalStep(LocalKind::kFinish, to, source(0), {}, count, arithmetic);
    return;
  }
  if (sources.size() == 2) {
    RunLocalStep(LocalKind::kReduceFinish, to, source(0), source(1), count, arithmetic);
    return;
  }
  alignas(64) std::byte memory[kPieceElements * sizeof(double)];
  const Operand sum = {memory, Format::kAccumulator};
  const size_t last = sources.size() - 1;
  RunLocalStep(LocalKind::kReduce, sum, source(0), source(1), count, arithmetic);
  for (size_t i = 2; i < last; ++i) {
    RunLocalStep(LocalKind::kReduce, sum, sum, source(i), count, arithmetic);
  }
  RunLocalStep(LocalKind::kReduceFinish, to, sum, source(last), count, arithmetic);
}

}  // namespace

void ReduceSources(std::byte* dst, absl::Span<const std::byte* const> sources, size_t count,
                   const Arithmetic& arithmetic, bool stream) {
  // Two sources or one need no sum in the making.
  if (!stream && sources.size() <= 2) {
    ReducePiece(dst, sources, 0, count, arithmetic);
    return;
  }
  const size_t size = arithmetic.SizeOfFormat(Format::kWire);
  alignas(64) std::byte result[kPieceElements * sizeof(double)];
  for (size_t at = 0; at < count; at += kPieceElements) {
    const size_t piece = std::min(kPieceElements, count - at);
    std::byte* const to = dst + at * size;
    ReducePiece(stream ? result : to, sources, at, piece, arithmetic);
    if (stream) StreamCopy(to, result, piece * size);
  }
}

}  // namespace rz
