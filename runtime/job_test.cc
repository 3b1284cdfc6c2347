#include "runtime/job.h"

#include <stdlib.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/base/sync.h"
#include "runtime/rendezvous/server.h"
#include "runtime/transport/idle_transport.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr absl::Duration kGenerous = absl::Seconds(120);

// What a transport was told.
struct Record {
  std::vector<std::string> addresses;
  absl::Status connect_result;
  Notification aborted;
  absl::Status cause;
};

class RecordingTransport final : public IdleTransport {
 public:
  RecordingTransport(Record* record, std::string address)
      : record_(*record), address_(std::move(address)) {}

  std::string LocalAddress() const override { return address_; }
  absl::Status Connect(Rank self, absl::Span<const std::string> addresses, Epoch epoch) override {
    record_.addresses.assign(addresses.begin(), addresses.end());
    static_cast<void>(IdleTransport::Connect(self, addresses, epoch));
    return record_.connect_result;
  }
  void Abort(absl::Status cause) override {
    record_.cause = std::move(cause);
    record_.aborted.Notify();
  }

 private:
  Record& record_;
  const std::string address_;
};

using JobOr = absl::StatusOr<std::unique_ptr<Job>>;

class JobTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(server_, RendezvousServer::Start({})); }

  JobOr Join(int world, int rank, Record* record) {
    JobEnvironment environment;
    if (meeting_.has_value()) {
      environment.meeting = meeting_;
    } else {
      environment.rendezvous = server_->address();
    }
    environment.world_size = world;
    environment.rank = Rank(rank);
    return Job::Join(environment,
                     std::make_unique<RecordingTransport>(record, std::string(1, 'a' + rank)),
                     options_);
  }

  void JoinBoth() {
    std::thread other([&] { one_ = Join(2, 1, &records_[1]); });
    zero_ = Join(2, 0, &records_[0]);
    other.join();
  }

  // As a launcher's ranks: rank 0 serves.
  void MeetInASocketFile() {
    ASSERT_NE(mkdtemp(folder_), nullptr);
    meeting_.emplace();
    meeting_->address = absl::StrCat("unix:", folder_, "/socket");
  }

  void TearDown() override {
    one_ = absl::UnknownError("");  // the first: rank 0 waits for it
    zero_ = absl::UnknownError("");
    if (meeting_.has_value()) std::filesystem::remove_all(folder_);
  }

  char folder_[32] = "/tmp/job_testXXXXXX";
  std::optional<Meeting> meeting_;
  JobOptions options_;
  std::unique_ptr<RendezvousServer> server_;
  Record records_[2];
  JobOr zero_, one_;
};

TEST(JobAloneTest, AWorldOfOneNeedsNoRendezvous) {
  Record record;
  ASSERT_OK_AND_ASSIGN(const auto job,
                       Job::Join({}, std::make_unique<RecordingTransport>(&record, "a"), {}));
  EXPECT_THAT(record.addresses, ElementsAre("a"));
  EXPECT_EQ(job->rank(), Rank(0));
  EXPECT_EQ(job->world_size(), 1);
  EXPECT_OK(job->Barrier("b", absl::ZeroDuration()));
  EXPECT_THAT(job->Verdict(absl::DataLossError("mine")), StatusIs(Code::kDataLoss, "mine"));
  EXPECT_OK(job->Leave());
}

TEST_F(JobTest, TheTransportIsConnectedToAllByRank) {
  JoinBoth();
  ASSERT_OK(zero_);
  ASSERT_OK(one_);
  EXPECT_THAT(records_[0].addresses, ElementsAre("a", "b"));
  EXPECT_THAT(records_[1].addresses, ElementsAre("a", "b"));
  EXPECT_EQ((*one_)->rank(), Rank(1));
  EXPECT_EQ((*one_)->epoch(), (*zero_)->epoch());
  absl::Status met;
  std::thread other([&] { met = (*one_)->Barrier("b", kGenerous); });
  EXPECT_OK((*zero_)->Barrier("b", kGenerous));
  other.join();
  EXPECT_OK(met);
}

TEST_F(JobTest, TheVerdictAbortsTheTransportAndReplacesLocalGuesses) {
  JoinBoth();
  ASSERT_OK(zero_);
  ASSERT_OK(one_);
  (*one_)->ReportFailure(absl::DataLossError("disk full"));
  ASSERT_TRUE(records_[0].aborted.WaitFor(kGenerous));
  EXPECT_THAT(records_[0].cause,
              StatusIs(Code::kUnavailable, "rank 1 failed: DATA_LOSS: disk full"));
  EXPECT_EQ((*zero_)->Verdict(absl::InternalError("link broke"), kGenerous), records_[0].cause);
}

TEST_F(JobTest, AGuessIsReportedWhereNobodyKnowsBetter) {
  JoinBoth();
  ASSERT_OK(zero_);
  ASSERT_OK(one_);
  EXPECT_THAT((*zero_)->Verdict(absl::InternalError("my own"), absl::Milliseconds(1)).code(),
              ::testing::AnyOf(Code::kInternal, Code::kUnavailable));
  EXPECT_EQ((*one_)->Verdict(absl::InternalError("link broke"), kGenerous).message(),
            "rank 0 failed: INTERNAL: my own");
}

// One rank has found the cause and left; the other sees that alone, and asks for the verdict first.
TEST_F(JobTest, WhoHasFoundTheCauseIsHeardBeforeWhoSeesThatItIsGone) {
  options_.verdict_wait = kGenerous;
  JoinBoth();
  ASSERT_OK(zero_);
  ASSERT_OK(one_);
  const absl::Status found = absl::FailedPreconditionError("receive of 4 met send of 3");
  const absl::Status seen = absl::UnavailableError("rank 0 has aborted");
  absl::Status heard;
  std::thread other([&] { heard = (*one_)->FirstCause(seen); });
  EXPECT_EQ((*zero_)->FirstCause(found), found);
  other.join();
  EXPECT_THAT(heard.message(), HasSubstr("rank 0 failed: FAILED_PRECONDITION: receive of 4 met"));
}

TEST_F(JobTest, AfterTheRendezvousIsLostARanksOwnWordIsTheVerdict) {
  JoinBoth();
  ASSERT_OK(zero_);
  server_->Shutdown();
  EXPECT_THAT((*zero_)->Verdict(absl::InternalError("link broke"), absl::InfiniteDuration()),
              StatusIs(Code::kInternal, "link broke"));
}

TEST_F(JobTest, DestructionLeaves) {
  JoinBoth();
  ASSERT_OK(zero_);
  ASSERT_OK(one_);
  zero_->reset();
  EXPECT_OK((*one_)->Leave());
  // Both have left, so the job is over and its id is free for a new epoch.
  JoinBoth();
  ASSERT_OK(zero_);
  EXPECT_EQ((*zero_)->epoch(), Epoch(2));
  EXPECT_FALSE(records_[1].aborted.HasHappened());
}

TEST_F(JobTest, RankZeroServesUntilAllAreDone) {
  MeetInASocketFile();
  JoinBoth();
  ASSERT_OK(zero_);
  ASSERT_OK(one_);
  EXPECT_OK((*zero_)->Leave());
  Notification gone;
  std::thread zero([&] {
    zero_->reset();
    gone.Notify();
  });
  EXPECT_FALSE(gone.WaitFor(absl::Milliseconds(300)));
  EXPECT_OK((*one_)->Leave());
  zero.join();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(JobTest, RankZeroThatServesDoesNotWaitForAFailedJob) {
  MeetInASocketFile();
  JoinBoth();
  ASSERT_OK(zero_);
  ASSERT_OK(one_);
  (*zero_)->ReportFailure(absl::DataLossError("disk full"));
  zero_->reset();
  ASSERT_TRUE(records_[1].aborted.WaitFor(kGenerous));
  EXPECT_THAT(records_[1].cause,
              StatusIs(Code::kUnavailable, "rank 0 failed: DATA_LOSS: disk full"));
  EXPECT_OK((*one_)->Leave());
}

TEST_F(JobTest, OneJobAfterTheOtherAndTwoAtOnceMeetInTheSamePlace) {
  MeetInASocketFile();
  for (int round = 0; round < 2; ++round) {
    JoinBoth();
    ASSERT_OK(zero_);
    ASSERT_OK(one_);
    JobOr first_zero = std::move(zero_);
    JobOr first_one = std::move(one_);
    JoinBoth();
    ASSERT_OK(zero_);
    ASSERT_OK(one_);
    one_->reset();
    zero_->reset();
    EXPECT_OK((*first_one)->Leave());
    first_zero->reset();
  }
}

TEST_F(JobTest, ATransportThatCannotConnectFailsTheJobForAll) {
  records_[0].connect_result = absl::UnavailableError("no route");
  JoinBoth();
  EXPECT_THAT(zero_, StatusIs(Code::kUnavailable, HasSubstr("no route")));
  if (one_.ok()) {
    EXPECT_THAT((*one_)->Verdict(absl::InternalError("?"), kGenerous).message(),
                HasSubstr("rank 0 failed"));
  }
}

}  // namespace
}  // namespace rz
