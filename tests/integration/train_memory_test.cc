// What the operating system says that a rank holds falls with the stage as the formula of the model
// states does.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/integration/train_ranks.h"
#include "tools/train/process_memory.h"

namespace rz {
namespace {

using ::rz::testing::Ending;
using ::rz::testing::TrainRanks;

// What a table's row says of a stage, in MB.
struct Row {
  double formula = 0;
  double pss = 0;  // without files, which other jobs share as they come and go
};

// Rows "zero-1 | 18.5 | 43.2 44.0 (1) | ... | 4.1 | ..." below the table's heading, by stage.
std::map<std::string, Row> RowsOf(const std::string& output) {
  std::map<std::string, Row> rows;
  bool in_table = false;
  for (const absl::string_view line : absl::StrSplit(output, '\n')) {
    if (absl::StrContains(line, "process memory, MB a rank")) in_table = true;
    if (absl::StrContains(line, "wire, bytes")) in_table = false;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (!in_table || cells.size() < 7) continue;
    const std::vector<std::string> names = absl::StrSplit(cells[0], ' ', absl::SkipEmpty());
    const std::vector<std::string> pss = absl::StrSplit(cells[2], ' ', absl::SkipEmpty());
    Row row;
    double files = 0;
    if (names.empty() || pss.empty() || !absl::SimpleAtod(cells[1], &row.formula) ||
        !absl::SimpleAtod(pss[0], &row.pss) || !absl::SimpleAtod(cells[6], &files)) {
      continue;
    }
    row.pss -= files;
    rows[names.back()] = row;
  }
  return rows;
}

// 3,157,002 parameters in layers of one size: 50.5 MB of states a rank in ddp, 202 MB together.
TEST(TrainMemoryTest, PssFallsWithTheStageAsTheFormulaSays) {
  if (!ReadProcessMemory()) GTEST_SKIP() << "/proc/self/smaps_rollup is not there";
  const Ending ending = TrainRanks(
      4, {"--dataset=synthetic", "--model=512-512-512-512-512-512-512-512-512-512-512-512-512-10",
          "--global-batch=16", "--steps=2", "--compare"});
  ASSERT_EQ(ending.exit_code, 0) << ending.err;
  std::map<std::string, Row> rows = RowsOf(ending.out);
  ASSERT_EQ(rows.size(), 5u) << ending.out;
  const auto expect_falls = [&](const std::string& from, const std::string& to) {
    const double formula = rows[from].formula - rows[to].formula;
    EXPECT_GT(formula, 0) << from << " to " << to;
    EXPECT_GE(rows[from].pss - rows[to].pss, 0.7 * formula) << from << " to " << to << ":\n"
                                                            << ending.out;
  };
  EXPECT_NEAR(rows["ddp"].formula, 50.5, 0.1);
  expect_falls("ddp", "zero-1");
  expect_falls("ddp", "zero-2");
  expect_falls("zero-1", "zero-3");
  expect_falls("ddp", "zero-3");
}

}  // namespace
}  // namespace rz
