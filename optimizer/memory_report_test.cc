#include "optimizer/memory_report.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"

namespace rz {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMlp = 247766;  // 784-256-128-100-10

ModelShape Shape(ZeroStage stage, int64_t parameters, int world, DType dtype = DType::kBFloat16) {
  ModelShape shape;
  shape.parameter_elements = parameters;
  shape.world = world;
  shape.stage = stage;
  shape.dtype = dtype;
  return shape;
}

double Gigabytes(ZeroStage stage, int64_t parameters, int world) {
  return ModelStateFormula(Shape(stage, parameters, world)).bytes() / 1e9;
}

struct Reference {
  int64_t parameters;
  int world;
  double ddp, one, two, three;
  double tolerance;  // half of the last digit published
};

TEST(MemoryFormulaTest, GivesThePublishedFigures) {
  for (const Reference& r : std::vector<Reference>{
           {7'500'000'000, 64, 120, 31.4, 16.6, 1.88, 0.05},
           {128'000'000'000, 16, 2048, 608, 368, 128, 0.5},
           {1'000'000'000'000, 1024, 16000, 4011.7, 2013.7, 15.6, 0.05},
           {1'557'611'200, 8, 24.92, 8.57, 5.84, 3.12, 0.005},
       }) {
    EXPECT_THAT(Gigabytes(ZeroStage::kDdp, r.parameters, r.world), DoubleNear(r.ddp, r.tolerance));
    EXPECT_THAT(Gigabytes(ZeroStage::kOne, r.parameters, r.world), DoubleNear(r.one, r.tolerance));
    EXPECT_THAT(Gigabytes(ZeroStage::kTwo, r.parameters, r.world), DoubleNear(r.two, r.tolerance));
    EXPECT_THAT(Gigabytes(ZeroStage::kThree, r.parameters, r.world),
                DoubleNear(r.three, r.tolerance));
  }
}

TEST(MemoryFormulaTest, SavesWhatTheTableSays) {
  const double ddp = Gigabytes(ZeroStage::kDdp, kMlp, 8);
  EXPECT_THAT(100 * (Gigabytes(ZeroStage::kOne, kMlp, 8) / ddp - 1), DoubleNear(-65.6, 0.05));
  EXPECT_THAT(100 * (Gigabytes(ZeroStage::kOne, kMlp, 64) / ddp - 1), DoubleNear(-73.8, 0.05));
}

TEST(MemoryFormulaTest, OneMomentOfPaddedGpt2) {
  const auto mebibytes = [](int world) {
    return static_cast<int64_t>(
        StateFormula(Shape(ZeroStage::kOne, 124'475'904, world), MemoryTag::kMoment1).bytes() /
        (1 << 20));
  };
  EXPECT_EQ(mebibytes(1), 474);
  EXPECT_EQ(mebibytes(2), 237);
  EXPECT_EQ(mebibytes(8), 59);
}

TEST(MemoryFormulaTest, MlpToTheByte) {
  EXPECT_EQ(ModelStateFormula(Shape(ZeroStage::kDdp, kMlp, 4)).ToString(), "3964256");
  EXPECT_EQ(ModelStateFormula(Shape(ZeroStage::kOne, kMlp, 4)).ToString(), "1734362");
  EXPECT_EQ(ModelStateFormula(Shape(ZeroStage::kTwo, kMlp, 4)).ToString(), "1362713");
  EXPECT_EQ(ModelStateFormula(Shape(ZeroStage::kThree, kMlp, 4)).ToString(), "991064");
}

TEST(MemoryFormulaTest, OptimizerStateOfSevenBillionIsTwelveBytesEach) {
  const ModelShape shape = Shape(ZeroStage::kDdp, 7'000'000'000, 1);
  EXPECT_EQ(OptimizerStateFormula(shape).ToString(), "84000000000");
  EXPECT_EQ(OptimizerStateFormula(Shape(ZeroStage::kTwo, 7'000'000'000, 8)).ToString(),
            "10500000000");
  EXPECT_EQ(ModelStateFormula(shape).ToString(), "112000000000");
  MemoryReport report;
  report.shape = shape;
  EXPECT_THAT(RenderMemoryTable({&report, 1}), Not(HasSubstr("28 GB")));
}

TEST(MemoryFormulaTest, WithFloat32TheParametersAreTheMaster) {
  const ModelShape ddp = Shape(ZeroStage::kDdp, 1000, 4, DType::kFloat32);
  EXPECT_EQ(StateFormula(ddp, MemoryTag::kMaster).total, 0);
  EXPECT_EQ(ModelStateFormula(ddp).ToString(), "16000");
  EXPECT_EQ(ModelStateFormula(Shape(ZeroStage::kOne, 1000, 4, DType::kFloat32)).ToString(),
            "10000");
}

TEST(MemoryFormulaTest, AnOptimizerTakesFourBytesAStateAndFourForTheMaster) {
  for (int states = 0; states <= 2; ++states) {
    ModelShape shape = Shape(ZeroStage::kDdp, 1000, 4);
    shape.optimizer_states = states;
    EXPECT_EQ(ModelStateFormula(shape).total, 1000 * (2 + 2 + 4 + 4 * states));
    shape.stage = ZeroStage::kOne;
    EXPECT_EQ(ModelStateFormula(shape).bytes(), 1000 * 4 + 250 * (4 + 4 * states));
  }
}

TEST(ByteShareTest, ShowsFractionsOnlyWhereTheyAre) {
  EXPECT_EQ((ByteShare{12, 4}).ToString(), "3");
  EXPECT_EQ((ByteShare{13, 5}).ToString(), "2.6");
  EXPECT_EQ((ByteShare{10, 3}).ToString(), "3.33");
  EXPECT_EQ((ByteShare{0, 7}).ToString(), "0");
}

TEST(MemoryReportTest, BooksBalanceOnlyToTheByte) {
  MemoryLedger ledger;
  ModelShape shape = Shape(ZeroStage::kOne, 1000, 3);
  shape.padding_elements = 56;  // 1056 = 3 * 352
  ledger.Add(MemoryTag::kParameters, 2 * 1056);
  ledger.Add(MemoryTag::kGradients, 2 * 1056);
  ledger.Add(MemoryTag::kMaster, 4 * 352);
  ledger.Add(MemoryTag::kMoment1, 4 * 352);
  ledger.Add(MemoryTag::kMoment2, 4 * 352);
  EXPECT_TRUE(MeasureMemory(shape, ledger).Balances());
  ledger.Add(MemoryTag::kMoment2, 1);
  const MemoryReport report = MeasureMemory(shape, ledger);
  EXPECT_FALSE(report.Balances());
  EXPECT_EQ(report.Difference(4).ToString(), "1");
}

TEST(MemoryReportTest, TableShowsBothStagesSideBySide) {
  MemoryLedger ledger;
  ledger.Add(MemoryTag::kParameters, 495616);
  ledger.Add(MemoryTag::kGradients, 495616);
  for (const MemoryTag tag : {MemoryTag::kMaster, MemoryTag::kMoment1, MemoryTag::kMoment2}) {
    ledger.Add(tag, 247808);
  }
  ledger.Add(MemoryTag::kBucket, 123904);
  ModelShape shape = Shape(ZeroStage::kOne, kMlp, 4);
  shape.padding_elements = 247808 - kMlp;
  std::vector<MemoryReport> reports(2);
  reports[0].shape = shape;
  reports[0].shape.stage = ZeroStage::kDdp;
  reports[1] = MeasureMemory(shape, ledger);
  const std::string table = RenderMemoryTable(reports);
  EXPECT_THAT(table,
              AllOf(HasSubstr("ddp"), HasSubstr("zero-1"), HasSubstr("3964256"),
                    HasSubstr("1734362"), HasSubstr("1734656"), HasSubstr("56.2 % less than ddp"),
                    HasSubstr("bucket 123904 (peak 123904)")));
  EXPECT_TRUE(reports[1].Balances());
}

TEST(MemoryReportTest, NoReportsNoTable) { EXPECT_EQ(RenderMemoryTable({}), ""); }

}  // namespace
}  // namespace rz
