// The sequential oracle: what a collective must leave, computed element by element in plain scalar
// code that shares nothing with schedules, lanes and kernels.
#ifndef RINGZERO_COLLECTIVES_TESTING_ORACLE_H_
#define RINGZERO_COLLECTIVES_TESTING_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/chunk_layout.h"
#include "collectives/kernels/reduce_kernel.h"
#include "runtime/base/dtype.h"
#include "runtime/base/types.h"

namespace rz::testing {

using Bytes = std::vector<std::byte>;

// `count` elements, the same for the same seed: both signs, zeros, several magnitudes, no NaN.
Bytes RandomElements(DType dtype, int64_t count, uint64_t seed);

// Where partial sums are rounded to the dtype.
enum class Rounding : uint8_t { kOnce, kEveryHop };

// Elementwise reduction of inputs[rank], each of layout.count() elements, in canonical order: an
// element of rank r's chunk is added from rank r + 1 round to r. kPremulSum: each input times the
// factor, rounded to the accumulator, before that.
Bytes ReduceAll(const std::vector<Bytes>& inputs, const ChunkLayout& layout, DType dtype,
                ReduceOp op, Rounding rounding, PremulFactor premul = {});

// Rank's shard of a whole buffer.
Bytes ShardOf(const Bytes& whole, const ChunkLayout& layout, Rank rank, DType dtype);

}  // namespace rz::testing

#endif  // RINGZERO_COLLECTIVES_TESTING_ORACLE_H_
