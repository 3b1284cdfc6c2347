#include "tools/train/gemm.h"

#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

using ::testing::Combine;
using ::testing::Values;
using ::testing::ValuesIn;

using Sizes = std::tuple<size_t, size_t, size_t>;  // rows, columns, depth

std::vector<float> RandomFloats(size_t count, uint64_t stream) {
  const RandomStream random(7, stream);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = random.Uniform(i) - 0.5f;
  return values;
}

// The definition: one sum an element, in order of k.
void Oracle(Sizes sizes, StridedMatrix a, StridedMatrix b, float* c, size_t c_stride,
            bool accumulate) {
  const auto [rows, columns, depth] = sizes;
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      float sum = accumulate ? c[i * c_stride + j] : 0.0f;
      for (size_t k = 0; k < depth; ++k) {
        sum += a.data[i * a.row_stride + k * a.column_stride] *
               b.data[k * b.row_stride + j * b.column_stride];
      }
      c[i * c_stride + j] = sum;
    }
  }
}

class GemmTest : public ::testing::TestWithParam<std::tuple<SimdLevel, Sizes>> {
 protected:
  void ExpectOracleBits(bool transposed, bool b_transposed, size_t gap, bool accumulate) {
    const auto [level, sizes] = GetParam();
    const auto [rows, columns, depth] = sizes;
    const std::vector<float> a = RandomFloats(rows * depth, 1);
    const std::vector<float> b = RandomFloats(depth * columns, 2);
    const size_t c_stride = columns + gap;
    std::vector<float> c = RandomFloats(rows * c_stride + 1, 3);
    std::vector<float> expected = c;
    const StridedMatrix view =
        transposed ? StridedMatrix{a.data(), 1, rows} : StridedMatrix{a.data(), depth, 1};
    const StridedMatrix b_view =
        b_transposed ? StridedMatrix{b.data(), 1, depth} : StridedMatrix{b.data(), columns, 1};
    Gemm(level, rows, columns, depth, view, b_view, c.data(), c_stride, accumulate);
    Oracle(sizes, view, b_view, expected.data(), c_stride, accumulate);
    EXPECT_EQ(std::memcmp(c.data(), expected.data(), c.size() * sizeof(float)), 0);
  }
};

TEST_P(GemmTest, HasTheBitsOfTheTripleLoop) {
  for (const bool transposed : {false, true}) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(::testing::Message() << transposed << accumulate);
      ExpectOracleBits(transposed, false, 0, accumulate);
      ExpectOracleBits(transposed, true, 3, accumulate);
    }
  }
}

// Around every block size: lanes 4, 8, 16, panels of two vectors, 5 and 12 rows, runs of 256.
INSTANTIATE_TEST_SUITE_P(Edges, GemmTest,
                         Combine(ValuesIn(SupportedSimdLevels()),
                                 Combine(Values(size_t{0}, size_t{1}, size_t{4}, size_t{5},
                                                size_t{12}, size_t{23}),
                                         Values(size_t{0}, size_t{1}, size_t{7}, size_t{8},
                                                size_t{10}, size_t{16}, size_t{31}, size_t{33}),
                                         Values(size_t{0}, size_t{1}, size_t{3}, size_t{256},
                                                size_t{257}, size_t{513}))));

INSTANTIATE_TEST_SUITE_P(TheDemosLayers, GemmTest,
                         Combine(ValuesIn(SupportedSimdLevels()),
                                 Values(Sizes{64, 256, 784}, Sizes{784, 256, 64},
                                        Sizes{63, 128, 256}, Sizes{65, 10, 100})));

TEST(GemmLevelTest, ChosenLevel_GivesTheSameBits) {
  const std::vector<float> a = RandomFloats(9 * 300, 1);
  const std::vector<float> b = RandomFloats(300 * 40, 2);
  std::vector<float> chosen(9 * 40);
  std::vector<float> portable(9 * 40);
  Gemm(9, 40, 300, {a.data(), 300, 1}, b.data(), chosen.data(), false);
  Gemm(SimdLevel::kPortable, 9, 40, 300, {a.data(), 300, 1}, {b.data(), 40, 1}, portable.data(), 40,
       false);
  EXPECT_EQ(chosen, portable);
}

}  // namespace
}  // namespace rz
