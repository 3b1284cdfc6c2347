#include "tools/bench/test_data.h"

#include <cstddef>
#include <set>
#include <tuple>
#include <vector>

#include "collectives/chunk_layout.h"
#include "collectives/kernels/reduce_kernel.h"
#include "collectives/testing/oracle.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

using ::rz::testing::Bytes;
using ::rz::testing::ReduceAll;
using ::rz::testing::Rounding;

constexpr int64_t kCount = 1500;  // more than a block, and odd in its last one

class ReductionTest : public ::testing::TestWithParam<std::tuple<DType, ReduceOp, int>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  ReduceOp op() const { return std::get<1>(GetParam()); }
  int world() const { return std::get<2>(GetParam()); }
};

// An element's ring starts behind its owner: with one owner for everything, each of them gives
// another order.
TEST_P(ReductionTest, TheOracleAgreesInEveryOrderAndRounding) {
  const TestData data(dtype(), op(), world());
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < world(); ++rank) {
    inputs.emplace_back(kCount * SizeOf(dtype()));
    data.Fill(5, rank, 0, kCount, inputs.back().data());
  }
  Bytes expected(kCount * SizeOf(dtype()));
  data.Expect(5, {.count = kCount}, expected.data());
  for (Rounding rounding : {Rounding::kOnce, Rounding::kEveryHop}) {
    for (int64_t tile_chunk : {0, 1, 7}) {
      const ChunkLayout layout(kCount, world(), tile_chunk);
      EXPECT_EQ(ReduceAll(inputs, layout, dtype(), op(), rounding, data.premul()), expected);
    }
  }
}

// A check that would pass with whatever bytes is none.
TEST_P(ReductionTest, InputsAndResultsVary) {
  const TestData data(dtype(), op(), world());
  const size_t size = SizeOf(dtype());
  Bytes expected(kCount * size), other(kCount * size);
  data.Expect(5, {.count = kCount}, expected.data());
  data.Expect(6, {.count = kCount}, other.data());
  EXPECT_NE(expected, other);
  std::set<Bytes> values;
  for (int64_t i = 0; i < kCount; ++i) {
    values.insert(Bytes(expected.begin() + i * size, expected.begin() + (i + 1) * size));
  }
  EXPECT_GE(values.size(), 3);
}

std::vector<std::tuple<DType, ReduceOp, int>> AllReductions() {
  std::vector<std::tuple<DType, ReduceOp, int>> reductions;
  for (DType dtype : kAllDTypes) {
    for (ReduceOp op : kAllReduceOps) {
      if (!GetReduceKernel(dtype, op).ok()) continue;
      for (int world : {1, 2, 3, 5, 8, 40}) reductions.emplace_back(dtype, op, world);
    }
  }
  return reductions;
}

INSTANTIATE_TEST_SUITE_P(All, ReductionTest, ::testing::ValuesIn(AllReductions()));

TEST(TestDataTest, ACopyMovesTheSourcesElements) {
  for (DType dtype : kAllDTypes) {
    const TestData data(dtype, std::nullopt, 3);
    const size_t size = SizeOf(dtype);
    Bytes input(100 * size), expected(20 * size);
    data.Fill(9, 2, 0, 100, input.data());
    data.Expect(9, {.count = 20, .source = 2, .source_index = 70}, expected.data());
    EXPECT_EQ(Bytes(input.begin() + 70 * size, input.begin() + 90 * size), expected);
  }
}

TEST(TestDataTest, EveryWrongElementIsCounted) {
  const TestData data(DType::kBFloat16, ReduceOp::kSum, 4);
  const ExpectedPiece piece = {.offset = 3, .count = 2000, .source_index = 11};
  Bytes recv(2 * 2003);
  data.Expect(1, piece, recv.data() + 2 * 3);
  EXPECT_EQ(data.CountWrong(1, piece, recv.data()), 0);
  recv[2 * 3] ^= std::byte{1};
  recv[2 * (3 + 1024)] ^= std::byte{0x80};
  recv[2 * (3 + 1999) + 1] ^= std::byte{0x80};
  EXPECT_EQ(data.CountWrong(1, piece, recv.data()), 3);
  EXPECT_GT(data.CountWrong(2, piece, recv.data()), 1000);
}

}  // namespace
}  // namespace rz
