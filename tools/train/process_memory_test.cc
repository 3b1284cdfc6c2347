#include "tools/train/process_memory.h"

#include <cstring>
#include <vector>

#include "gmock/gmock.h"

namespace rz {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Eq;
using ::testing::Not;

constexpr char kRollup[] =
    "55d0c9a4a000-7ffd6b5f3000 ---p 00000000 00:00 0    [rollup]\n"
    "Rss:                2048 kB\n"
    "Pss:                 600 kB\n"
    "Pss_Dirty:           300 kB\n"
    "Pss_File:            200 kB\n"
    "Shared_Clean:        500 kB\n";

TEST(ProcessMemoryTest, ReadsWhatTheKernelWrites) {
  const std::optional<ProcessMemory> memory = ParseSmapsRollup(kRollup);
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->pss_bytes, 600 * 1024);
  EXPECT_EQ(memory->pss_of_files_bytes, 200 * 1024);
  EXPECT_EQ(memory->rss_bytes, 2048 * 1024);
}

TEST(ProcessMemoryTest, WhatIsNoRollupIsNothing) {
  for (const char* text : {"", "Pss: 600 kB\n", "Rss: 5 MB\nPss: 1 kB\n", "Rss: x kB\nPss: 1 kB\n",
                           "Rss: -4 kB\nPss: 1 kB\n", "Rss: 99999999999999999999 kB\nPss: 1 kB"}) {
    EXPECT_THAT(ParseSmapsRollup(text).has_value(), Eq(false)) << text;
  }
}

TEST(ProcessMemoryTest, MemoryThatIsTouchedShows_AndThePeakStays) {
  ProcessMemorySamples samples;
  samples.Take();
  if (!samples.now()) GTEST_SKIP() << "/proc/self/smaps_rollup is not there";
  const int64_t before = samples.now()->pss_bytes;
  constexpr size_t kBytes = size_t{64} << 20;
  {
    std::vector<char> touched(kBytes, 1);
    samples.Take();
    EXPECT_GE(samples.now()->pss_bytes, before + static_cast<int64_t>(kBytes) - (4 << 20))
        << touched[kBytes / 2];
    EXPECT_GE(samples.now()->rss_bytes, samples.now()->pss_bytes);
  }
  samples.Take();
  EXPECT_LT(samples.now()->pss_bytes, samples.peak()->pss_bytes);
}

TEST(ProcessMemoryTest, TableHasARowAStageAndWhatItHasLessThanDdp) {
  const auto run = [](ZeroStage stage, double pss) {
    ShapeProcessMemory one;
    one.shape = {.parameter_elements = 1'000'000, .world = 4, .stage = stage};
    one.memory.pss = {.mean = pss * 1e6, .max = 90'000'000, .max_rank = 3};
    one.memory.pss_of_files = {.mean = 5e6};
    return one;
  };
  EXPECT_THAT(
      RenderProcessMemory({run(ZeroStage::kDdp, 80), run(ZeroStage::kThree, 70)}),
      AllOf(ContainsRegex("\nddp +\\| +16.0 \\| +80.0 +90.0 \\(3\\) +\\|"),
            ContainsRegex(
                "\nzero-3 +\\| +4.0 \\| +70.0 +90.0 \\(3\\) .*\\| +5.0 \\| +12.0 +10.0\n")));
  EXPECT_THAT(RenderProcessMemory({run(ZeroStage::kThree, 70)}), Not(ContainsRegex("12.0")));
}

}  // namespace
}  // namespace rz
