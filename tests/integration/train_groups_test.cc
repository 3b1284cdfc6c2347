// rz_train with parameter groups, frozen parameters and gradients of another dtype, from a
// configuration, in real processes: every stage gives the same weights and its books balance.
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/integration/train_ranks.h"

namespace rz {
namespace {

using ::rz::testing::Arguments;
using ::rz::testing::Concat;
using ::rz::testing::Ending;
using ::rz::testing::TrainRanks;
using ::rz::testing::WeightsOf;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// `keys` beside a batch size; "groups" are those of ringzero.parameter_groups.
std::string Config(const std::string& keys, const std::string& groups) {
  return absl::StrCat(R"({"train_batch_size": 60, "bf16": {"enabled": true},
      "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.1}}, )",
                      keys, R"("ringzero": {"parameter_groups": [)", groups, "]}}");
}

Ending TrainConfig(int ranks, const std::string& config, const Arguments& arguments) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/groups.json");
  std::ofstream(path) << config;
  return TrainRanks(ranks, Concat({"--dataset=synthetic", "--model=20-24-16-5", "--steps=6",
                                   absl::StrCat("--config=", path)},
                                  arguments));
}

constexpr char kNoDecay[] = R"({"match": "*.bias", "weight_decay": 0, "lr_scale": 0.5})";
constexpr char kFrozen[] = R"(, {"match": "layer2.*", "frozen": true})";

TEST(TrainGroupsTest, CompareOfEveryStageGivesOneResultOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    const Ending run = TrainConfig(ranks, Config("", kNoDecay), {"--compare"});
    EXPECT_EQ(run.exit_code, 0) << ranks << " ranks: " << run.out << run.err;
  }
  const Ending mixed = TrainConfig(3,
                                   Config(R"("communication_data_type": "fp32",
      "data_types": {"grad_accum_dtype": "fp32"}, "gradient_accumulation_steps": 2, )",
                                          absl::StrCat(kNoDecay, kFrozen)),
                                   {"--compare"});
  EXPECT_EQ(mixed.exit_code, 0) << mixed.out << mixed.err;
  EXPECT_THAT(mixed.out, HasSubstr("float32 gradients"));
  EXPECT_THAT(mixed.out, HasSubstr(" frozen, 3 ranks"));
}

TEST(TrainGroupsTest, GroupsAreShownAndChangeTheWeights) {
  const Ending grouped = TrainConfig(2, Config("", absl::StrCat(kNoDecay, kFrozen)), {});
  EXPECT_EQ(grouped.exit_code, 0) << grouped.err;
  // 20-24-16-5: the second layer's bias is of the first group that matches it.
  EXPECT_THAT(grouped.out,
              AllOf(HasSubstr("all others: 2 parameters, 560 elements; lr 0.001, weight decay 0.1"),
                    HasSubstr("group *.bias: 3 parameters, 45 elements; lr 0.001 * 0.5, weight "
                              "decay 0"),
                    HasSubstr("group layer2.*: 1 parameters, 384 elements; frozen")));
  const Ending plain = TrainConfig(2, Config("", ""), {});
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_NE(WeightsOf(grouped), WeightsOf(plain));
  EXPECT_FALSE(WeightsOf(plain).empty());
}

TEST(TrainGroupsTest, APatternThatMatchesNothingIsAnErrorWithTheNames) {
  const Ending run = TrainConfig(1, Config("", R"({"match": "*.gain"})"), {});
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.err, AllOf(HasSubstr("'*.gain' matches no parameter"),
                             HasSubstr("layer1.weight, layer1.bias")));
}

}  // namespace
}  // namespace rz
