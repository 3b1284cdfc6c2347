#include "collectives/shared/reduce_sources.h"

#include <algorithm>

#include "collectives/shared/stream_copy.h"

namespace rz {
namespace {

// Sums in the making stay in the first-level cache.
constexpr size_t kPieceElements = 1024;
constexpr size_t kPieceBytes = kPieceElements * sizeof(double);

Operand Input(const std::byte* data) {
  return {const_cast<std::byte*>(data), Format::kWire, /*is_input=*/true};
}

// `at`: elements of each source before the piece. False: a function failed.
bool ReducePiece(std::byte* dst, absl::Span<const std::byte* const> sources, size_t at,
                 size_t count, const Arithmetic& arithmetic) {
  const size_t offset = at * arithmetic.SizeOfFormat(Format::kWire);
  const auto source = [&](size_t i) { return Input(sources[i] + offset); };
  const Operand to = {dst, Format::kWire};
  if (sources.size() == 1) {
    return RunLocalStep(LocalKind::kFinish, to, source(0), {}, count, arithmetic);
  }
  if (sources.size() == 2) {
    return RunLocalStep(LocalKind::kReduceFinish, to, source(0), source(1), count, arithmetic);
  }
  alignas(64) std::byte memory[kPieceBytes];
  const Operand sum = {memory, Format::kAccumulator};
  const size_t last = sources.size() - 1;
  bool runs = RunLocalStep(LocalKind::kReduce, sum, source(0), source(1), count, arithmetic);
  for (size_t i = 2; i < last && runs; ++i) {
    runs = RunLocalStep(LocalKind::kReduce, sum, sum, source(i), count, arithmetic);
  }
  return runs && RunLocalStep(LocalKind::kReduceFinish, to, sum, source(last), count, arithmetic);
}

}  // namespace

bool ReduceSources(std::byte* dst, absl::Span<const std::byte* const> sources, size_t count,
                   const Arithmetic& arithmetic, bool stream) {
  if (!stream && sources.size() == 2 && arithmetic.combines_at_once()) [[likely]] {
    arithmetic.kernel->combine(dst, sources[0], sources[1], count);
    return true;
  }
  // Two sources or one need no sum in the making.
  if (!stream && sources.size() <= 2) {
    return ReducePiece(dst, sources, 0, count, arithmetic);
  }
  const size_t size = arithmetic.SizeOfFormat(Format::kWire);
  // To call a function costs more than to leave the first-level cache.
  const size_t most = arithmetic.function == nullptr ? kPieceElements : kPieceBytes / size;
  alignas(64) std::byte result[kPieceBytes];
  for (size_t at = 0; at < count; at += most) {
    const size_t piece = std::min(most, count - at);
    std::byte* const to = dst + at * size;
    if (!ReducePiece(stream ? result : to, sources, at, piece, arithmetic)) return false;
    if (stream) StreamCopy(to, result, piece * size);
  }
  return true;
}

}  // namespace rz
