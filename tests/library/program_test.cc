// libringzero.so in programs: the examples, a program with another protobuf and gRPC, with its own
// protobuf in it, with another malloc, and Python with PyTorch.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/integration/subprocess.h"

namespace rz::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kSystemPython[] = "/usr/bin/python3";

// A sanitizer has to be the first in every process, and lets no library be bound to its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Three ranks of `command`; what all of them wrote.
std::string RunRanks(const std::vector<std::string>& command,
                     const Subprocess::Environment& environment = {}) {
  std::vector<std::string> whole = {ProgramPath("tools/rz_run"), "-n", "3", "--"};
  whole.insert(whole.end(), command.begin(), command.end());
  Subprocess run(whole, "", environment);
  const Ending ending = EndOf(run);
  EXPECT_EQ(ending.exit_code, 0) << ending.out << ending.err;
  EXPECT_EQ(ending.err, "");
  return ending.out;
}

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ExampleTest, AllReduceInC) {
  EXPECT_EQ(CountOf(RunRanks({ProgramPath("examples/all_reduce")}), "of 3: sum 6\n"), 3);
}

TEST(ExampleTest, ZeroInC) {
  const std::string out = RunRanks({ProgramPath("examples/zero")});
  EXPECT_THAT(out, HasSubstr("step 200 loss 0.0"));
  // 120 parameters of 16 bytes over 3 ranks would be 640; a shard starts at a multiple of 32.
  EXPECT_EQ(CountOf(out, "of 3 holds 1024 bytes"), 3) << out;
}

TEST(ExampleTest, GridInCxx) {
  const std::string out = RunRanks({ProgramPath("examples/grid")});
  EXPECT_EQ(CountOf(out, "of 3, grid of 1 columns: sum 3\n"), 3) << out;
}

TEST(ProgramTest, UsesEverything) {
  EXPECT_EQ(CountOf(RunRanks({ProgramPath("tests/library/whole_library")}), "sum 9 norm 1\n"), 3);
}

TEST(ProgramTest, WithSymbolsOfAnotherProtobufAndGrpc) {
  if (kSanitized) GTEST_SKIP() << "not under a sanitizer";
  const std::string out = RunRanks({ProgramPath("tests/library/with_traps")});
  EXPECT_EQ(CountOf(out, "sum 9 norm 1\n"), 3);
}

TEST(ProgramTest, WithAProtobufOfItsOwn) {
  if (kSanitized) GTEST_SKIP() << "not under a sanitizer";
  const std::string out = RunRanks({ProgramPath("tests/library/other_protobuf")});
  EXPECT_EQ(CountOf(out, "sum 9 norm 1\n"), 3);
}

TEST(ProgramTest, WithAMallocOfItsOwn) {
  if (kSanitized) GTEST_SKIP() << "not under a sanitizer";
  const std::string out = RunRanks(
      {"/usr/bin/env", absl::StrCat("LD_PRELOAD=", ProgramPath("tests/library/libother_malloc.so")),
       ProgramPath("tests/library/whole_library")});
  EXPECT_EQ(CountOf(out, "sum 9 norm 1\n"), 3);
}

class TorchTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TorchTest, AndRingzeroInOneProcess) {
  if (kSanitized) GTEST_SKIP() << "not under a sanitizer";
  Subprocess probe({kSystemPython, "-c", "import torch"});
  if (EndOf(probe).exit_code != 0) {
    GTEST_SKIP() << "no PyTorch for " << kSystemPython << ": tools/setup --with torch";
  }
  const std::string out = RunRanks({kSystemPython, ProgramPath("tests/library/torch_program.py"),
                                    ProgramPath("library/libringzero.so.0.1"), GetParam()});
  EXPECT_EQ(CountOf(out, "ringzero 30.0 torch 4.0\n"), 3) << out;
}

INSTANTIATE_TEST_SUITE_P(InOrder, TorchTest,
                         ::testing::Values("ringzero-first", "torch-first", "between"),
                         [](const auto& order) {
                           std::string name = order.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace rz::testing
