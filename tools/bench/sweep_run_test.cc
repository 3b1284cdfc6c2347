#include "tools/bench/sweep_run.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "absl/strings/str_join.h"
#include "collectives/testing/allocation_counter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"
#include "tools/bench/batch_method.h"

namespace rz {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Runs the library's call, then spoils what it left.
class SpoiledSubject : public Subject {
 public:
  enum class Spoil { kOutput, kInput, kBehind };
  SpoiledSubject(Subject* subject, Spoil spoil) : subject_(*subject), spoil_(spoil) {}

  absl::Status Run(const MeasuredCall& call) override {
    absl::Status status = subject_.Run(call);
    const Call& first = call.calls[0];
    const size_t bytes = static_cast<size_t>(first.count) * SizeOf(first.dtype);
    std::byte* target = static_cast<std::byte*>(first.recv);
    if (spoil_ == Spoil::kInput) {
      target = static_cast<std::byte*>(const_cast<void*>(first.send));
    }
    target[spoil_ == Spoil::kBehind ? bytes : bytes - 1] ^= std::byte{1};
    return status;
  }

 private:
  Subject& subject_;
  const Spoil spoil_;
};

// Runs the first call only, and answers with its result ever after.
class StaleSubject : public Subject {
 public:
  explicit StaleSubject(Subject* subject) : subject_(*subject) {}

  absl::Status Run(const MeasuredCall& call) override {
    const Call& first = call.calls[0];
    const size_t bytes = static_cast<size_t>(first.count) * SizeOf(first.dtype);
    if (result_.empty()) {
      const absl::Status status = subject_.Run(call);
      const auto* const recv = static_cast<const std::byte*>(first.recv);
      result_.assign(recv, recv + bytes);
      return status;
    }
    std::copy(result_.begin(), result_.end(), static_cast<std::byte*>(first.recv));
    return absl::OkStatus();
  }

 private:
  Subject& subject_;
  std::vector<std::byte> result_;
};

// Runs the library's call, and notes how much had been allocated when each began.
class CountingSubject : public Subject {
 public:
  explicit CountingSubject(Subject* subject) : subject_(*subject) { counts_.reserve(1000); }

  absl::Status Run(const MeasuredCall& call) override {
    counts_.push_back(testing::CountedAllocations().ours());
    return subject_.Run(call);
  }

  // Of the last `calls` calls.
  int64_t AllocatedDuring(size_t calls) const {
    return counts_.back() - counts_[counts_.size() - calls];
  }

 private:
  Subject& subject_;
  std::vector<int64_t> counts_;
};

// A world of one rank.
class SweepRunTest : public ::testing::Test {
 protected:
  SweepRunTest() {
    CommunicatorOptions options;
    communicator_ = *Communicator::Create(world_.transport(Rank(0)), options);
    options.id = 255;
    control_ = *Communicator::Create(world_.transport(Rank(0)), options);
    subject_ = std::make_unique<CommunicatorSubject>(communicator_.get());
    config_.operations = AllOperations();
    config_.sizes = {0, 1, 4, 12, 100, 4097};
    config_.dtypes = {DType::kFloat32};
    config_.ops = {ReduceOp::kSum};
    config_.plan.iterations = 3;
    config_.plan.warmup = 1;
  }

  std::unique_ptr<SweepRun> Run(Subject* subject) {
    exchange_ = std::make_unique<RankExchange>(control_.get());
    memory_ = std::make_unique<CallMemory>(
        *CallMemory::Create(communicator_.get(), config_.sizes.back(), config_.aggregate,
                            config_.unalign, config_.registration));
    auto run = std::make_unique<SweepRun>(
        &config_, subject, exchange_.get(), memory_.get(),
        [this](const std::string& line) { absl::StrAppend(&output_, line, "\n"); });
    EXPECT_OK(run->Run({"# preface"}));
    return run;
  }

  SimWorld world_{1, {}};
  std::unique_ptr<Communicator> communicator_, control_;
  std::unique_ptr<CommunicatorSubject> subject_;
  std::unique_ptr<RankExchange> exchange_;
  std::unique_ptr<CallMemory> memory_;
  BenchConfig config_;
  std::string output_;
};

TEST_F(SweepRunTest, EveryOperationIsRightAtEverySize) {
  const auto run = Run(subject_.get());
  EXPECT_EQ(run->wrong(), 0);
  EXPECT_THAT(run->rows(), SizeIs(12 * 5 + 1));  // 0 and 1 byte are both no element
  for (const ResultRow& row : run->rows()) {
    EXPECT_EQ(row.out_of_place.has_value(), TraitsOf(row.operation).out_of_place);
    EXPECT_EQ(row.in_place.has_value(), TraitsOf(row.operation).in_place);
    for (const auto& half : {row.out_of_place, row.in_place}) {
      if (!half.has_value()) continue;
      EXPECT_EQ(half->wrong, 0);
      EXPECT_EQ(half->iterations, 3);
    }
  }
  EXPECT_THAT(output_, AllOf(HasSubstr("# Collective test starting: all_reduce\n# preface\n#\n"),
                             HasSubstr("# Collective test starting: all_to_all_v\n#\n"),
                             HasSubstr("# Out of bounds values : 0 OK"), Not(HasSubstr("FAILED"))));
}

TEST_F(SweepRunTest, GroupsUnalignedBuffersAndEveryKindAreRight) {
  config_.aggregate = 3;
  config_.unalign = 1;
  config_.registration = Registration::kRegistered;
  config_.dtypes.assign(std::begin(kAllDTypes), std::end(kAllDTypes));
  config_.ops.assign(std::begin(kAllReduceOps), std::end(kAllReduceOps));
  EXPECT_EQ(Run(subject_.get())->wrong(), 0);
}

TEST_F(SweepRunTest, EverySamplingMeasures) {
  config_.operations = {BenchOperation::kAllReduce};
  for (Sampling sampling : {Sampling::kPlain, Sampling::kEach, Sampling::kFresh}) {
    config_.plan.sampling = sampling;
    const auto run = Run(subject_.get());
    EXPECT_THAT(run->rows(), SizeIs(5));
    for (const ResultRow& row : run->rows()) {
      EXPECT_EQ(row.out_of_place->iterations, 3);
      EXPECT_GT(row.out_of_place->time_us, 0);
    }
  }
  config_.plan.sampling = Sampling::kBatches;
  const auto run = Run(subject_.get());
  for (const ResultRow& row : run->rows()) {
    EXPECT_EQ(row.out_of_place->time_us, row.out_of_place->samples_us.p50);
  }
}

TEST_F(SweepRunTest, TheLimitStandsBesideEverySize) {
  config_.columns.limit = true;
  const auto run = Run(subject_.get());
  EXPECT_EQ(run->wrong(), 0);
  for (const ResultRow& row : run->rows()) EXPECT_TRUE(row.limit_us.has_value());
  EXPECT_THAT(output_, HasSubstr("limit"));
}

TEST_F(SweepRunTest, TheMeasuringLoopAllocatesNothing) {
  config_.operations = {BenchOperation::kAllReduce};
  config_.sizes = {4096};
  config_.plan.iterations = 50;
  for (Sampling sampling : {Sampling::kPlain, Sampling::kEach}) {
    config_.plan.sampling = sampling;
    testing::BeginCountingAllocations();
    CountingSubject counting(subject_.get());
    Run(&counting);
    EXPECT_EQ(counting.AllocatedDuring(50), 0);
    EXPECT_GT(counting.AllocatedDuring(80), 0);  // it does count: the second half begins with some
  }
}

TEST_F(SweepRunTest, OneWrongElementIsCountedAndFails) {
  config_.operations = {BenchOperation::kAllReduce};
  config_.sizes = {4096};
  SpoiledSubject spoiled(subject_.get(), SpoiledSubject::Spoil::kOutput);
  const auto run = Run(&spoiled);
  EXPECT_EQ(run->wrong(), 2);  // one in each half
  EXPECT_EQ(run->rows()[0].out_of_place->wrong, 1);
  EXPECT_EQ(run->rows()[0].in_place->wrong, 1);
  EXPECT_THAT(output_, HasSubstr("# Out of bounds values : 2 FAILED"));
}

TEST_F(SweepRunTest, AnEarlierChecksResultIsWrong) {
  config_.operations = {BenchOperation::kAllReduce};
  config_.sizes = {4096};
  config_.checks = 1;
  StaleSubject once(subject_.get());
  EXPECT_EQ(Run(&once)->rows()[0].out_of_place->wrong, 0);
  config_.checks = 2;
  StaleSubject twice(subject_.get());
  EXPECT_GT(Run(&twice)->rows()[0].out_of_place->wrong, 1000);
}

TEST_F(SweepRunTest, AChangedInputAndAByteBehindTheOutputAreWrong) {
  config_.operations = {BenchOperation::kAllReduce};
  config_.sizes = {4096};
  SpoiledSubject input(subject_.get(), SpoiledSubject::Spoil::kInput);
  EXPECT_EQ(Run(&input)->rows()[0].out_of_place->wrong, 1);
  SpoiledSubject behind(subject_.get(), SpoiledSubject::Spoil::kBehind);
  EXPECT_EQ(Run(&behind)->rows()[0].out_of_place->wrong, 1);
}

TEST_F(SweepRunTest, WithoutChecksNothingIsCalledRightOrWrong) {
  config_.operations = {BenchOperation::kAllReduce};
  config_.sizes = {4096};
  config_.checks = 0;
  SpoiledSubject spoiled(subject_.get(), SpoiledSubject::Spoil::kOutput);
  const auto run = Run(&spoiled);
  EXPECT_EQ(run->wrong(), 0);
  EXPECT_EQ(run->rows()[0].in_place->wrong, -1);
  EXPECT_THAT(output_, HasSubstr("N/A"));
}

TEST(BatchMethodTest, IterationsFitTheBudget) {
  EXPECT_EQ(IterationsFor(100'000, 1000), 100);
  EXPECT_EQ(IterationsFor(100'000, 1e9), 5);
  EXPECT_EQ(IterationsFor(100'000, 0), 10'000);
  EXPECT_EQ(CallsPerBatch(1), 200);
  EXPECT_EQ(CallsPerBatch(1000), 1);
  EXPECT_EQ(CallsPerBatch(0), 1024);
}

}  // namespace
}  // namespace rz
