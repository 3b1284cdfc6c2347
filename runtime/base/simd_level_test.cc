#include "runtime/base/simd_level.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using rz::testing::IsOk;
using rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr SimdLevel kAllLevels[] = {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512};

// Sets RZ_SIMD for a scope.
class ScopedRzSimd {
 public:
  explicit ScopedRzSimd(const char* value) {
    if (const char* old = std::getenv("RZ_SIMD")) old_ = old;
    if (value != nullptr) {
      setenv("RZ_SIMD", value, 1);
    } else {
      unsetenv("RZ_SIMD");
    }
  }
  ~ScopedRzSimd() {
    if (old_.has_value()) {
      setenv("RZ_SIMD", old_->c_str(), 1);
    } else {
      unsetenv("RZ_SIMD");
    }
  }

 private:
  std::optional<std::string> old_;
};

TEST(SimdLevelTest, NamesParseBack) {
  for (SimdLevel level : kAllLevels) EXPECT_EQ(ParseSimdLevel(NameOf(level)), level);
  EXPECT_EQ(ParseSimdLevel("AVX2"), std::nullopt);
  EXPECT_EQ(ParseSimdLevel(""), std::nullopt);
}

TEST(SimdLevelTest, SupportedBeginsPortableAndAscends) {
  const std::vector<SimdLevel> levels = SupportedSimdLevels();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front(), SimdLevel::kPortable);
  EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end()));
  EXPECT_EQ(std::adjacent_find(levels.begin(), levels.end()), levels.end());
}

TEST(SimdLevelTest, UnsetOrEmptyTakesTheHighest) {
  for (const char* value : {static_cast<const char*>(nullptr), ""}) {
    ScopedRzSimd environment(value);
    ASSERT_OK_AND_ASSIGN(SimdLevel level, ChooseSimdLevel());
    EXPECT_EQ(level, SupportedSimdLevels().back());
  }
}

TEST(SimdLevelTest, EverySupportedLevelCanBeForced) {
  for (SimdLevel level : SupportedSimdLevels()) {
    ScopedRzSimd environment(std::string(NameOf(level)).c_str());
    ASSERT_OK_AND_ASSIGN(SimdLevel chosen, ChooseSimdLevel());
    EXPECT_EQ(chosen, level);
  }
}

TEST(SimdLevelTest, UnknownNameIsRefusedWithTheChoices) {
  ScopedRzSimd environment("sse9");
  EXPECT_THAT(ChooseSimdLevel(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("RZ_SIMD=sse9 is no level"), HasSubstr("portable"))));
}

TEST(SimdLevelTest, LevelTheProcessorLacksIsRefused) {
  const SimdLevel highest = SupportedSimdLevels().back();
  if (highest == SimdLevel::kAvx512) GTEST_SKIP() << "this processor has every level";
  ScopedRzSimd environment("avx512");
  EXPECT_THAT(ChooseSimdLevel(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("a level this processor lacks")));
}

}  // namespace
}  // namespace rz
