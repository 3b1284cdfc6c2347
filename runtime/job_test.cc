#include "runtime/job.h"

#include <map>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/base/sync.h"
#include "runtime/rendezvous/server.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr absl::Duration kGenerous = absl::Seconds(120);

absl::StatusOr<JobEnvironment> Parse(const std::map<std::string, std::string>& variables) {
  return JobEnvironment::Parse([&](const char* name) -> const char* {
    const auto entry = variables.find(name);
    return entry == variables.end() ? nullptr : entry->second.c_str();
  });
}

TEST(JobEnvironmentTest, NothingSetIsAWorldOfOne) {
  ASSERT_OK_AND_ASSIGN(const JobEnvironment environment, Parse({}));
  EXPECT_EQ(environment.world_size, 1);
  EXPECT_EQ(environment.rendezvous, "");
  EXPECT_FALSE(environment.rank.has_value());
  EXPECT_OK(Parse({{"RZ_WORLD_SIZE", "1"}}));
  EXPECT_OK(Parse({{"RZ_WORLD_SIZE", ""}, {"RZ_RENDEZVOUS", ""}}));
}

TEST(JobEnvironmentTest, HandStartedWorkersNeedTwoVariables) {
  ASSERT_OK_AND_ASSIGN(const JobEnvironment environment,
                       Parse({{"RZ_RENDEZVOUS", "h:1"}, {"RZ_WORLD_SIZE", "4"}}));
  EXPECT_EQ(environment.rendezvous, "h:1");
  EXPECT_EQ(environment.world_size, 4);
  EXPECT_EQ(environment.job, "default");
}

TEST(JobEnvironmentTest, EverythingIsRead) {
  ASSERT_OK_AND_ASSIGN(const JobEnvironment environment,
                       Parse({{"RZ_RENDEZVOUS", "h:1"},
                              {"RZ_JOB", "j"},
                              {"RZ_WORLD_SIZE", "16384"},
                              {"RZ_RANK", "16383"},
                              {"RZ_LOCAL_RANK", "3"},
                              {"RZ_TOKEN_FILE", "/t"},
                              {"RZ_LAUNCH", "18446744073709551615"},
                              {"RZ_JOIN_TIMEOUT", "1.5m"},
                              {"RZ_CONNECT_TIMEOUT", "7"}}));
  EXPECT_EQ(environment.job, "j");
  EXPECT_EQ(environment.rank, Rank(16383));
  EXPECT_EQ(environment.local_rank, 3);
  EXPECT_EQ(environment.token_file, "/t");
  EXPECT_EQ(environment.launch, ~uint64_t{0});
  EXPECT_EQ(environment.join_timeout, absl::Seconds(90));
  EXPECT_EQ(environment.connect_timeout, absl::Seconds(7));
}

TEST(JobEnvironmentTest, MalformedNumbersAreNamed) {
  for (const char* wrong : {"0", "-1", "16385", "four", "4x", "1e3", "99999999999999999999"}) {
    EXPECT_THAT(
        Parse({{"RZ_RENDEZVOUS", "h:1"}, {"RZ_WORLD_SIZE", wrong}}),
        StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("RZ_WORLD_SIZE="), HasSubstr(wrong))));
  }
  for (const char* wrong : {"-1", "4", "x"}) {
    EXPECT_THAT(Parse({{"RZ_RENDEZVOUS", "h:1"}, {"RZ_WORLD_SIZE", "4"}, {"RZ_RANK", wrong}}),
                StatusIs(Code::kInvalidArgument, HasSubstr("RZ_RANK=")));
  }
  EXPECT_THAT(Parse({{"RZ_LOCAL_RANK", "-1"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("RZ_LOCAL_RANK")));
  EXPECT_THAT(Parse({{"RZ_LAUNCH", "-1"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("RZ_LAUNCH=-1")));
  for (const char* name : {"RZ_JOIN_TIMEOUT", "RZ_CONNECT_TIMEOUT"}) {
    EXPECT_OK(Parse({{name, "1ms"}}));
    EXPECT_OK(Parse({{name, "1h"}}));
    for (const char* wrong : {"0", "-1", "0.9ms", "3601", "soon", "inf"}) {
      EXPECT_THAT(Parse({{name, wrong}}),
                  StatusIs(Code::kInvalidArgument,
                           AllOf(HasSubstr(name), HasSubstr(wrong), HasSubstr("1ms to 1h"))));
    }
  }
}

TEST(JobEnvironmentTest, OneVariableWithoutTheOtherIsExplained) {
  EXPECT_THAT(Parse({{"RZ_RENDEZVOUS", "h:1"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("RZ_WORLD_SIZE is not")));
  EXPECT_THAT(Parse({{"RZ_WORLD_SIZE", "2"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("RZ_RENDEZVOUS is not")));
}

// What a transport was told.
struct Record {
  std::vector<std::string> addresses;
  absl::Status connect_result;
  Notification aborted;
  absl::Status cause;
};

class RecordingTransport : public Transport {
 public:
  RecordingTransport(Record* record, std::string address)
      : record_(*record), address_(std::move(address)) {}

  std::string LocalAddress() const override { return address_; }
  absl::Status Connect(Rank self, absl::Span<const std::string> addresses, Epoch) override {
    self_ = self;
    record_.addresses.assign(addresses.begin(), addresses.end());
    return record_.connect_result;
  }
  Rank rank() const override { return self_; }
  int world_size() const override { return static_cast<int>(record_.addresses.size()); }
  absl::Status PostSend(Rank, Tag, absl::Span<const std::byte>, CompletionSink*,
                        uint64_t) override {
    return absl::FailedPreconditionError("moves nothing");
  }
  absl::Status PostRecv(Rank, Tag, absl::Span<std::byte>, CompletionSink*, uint64_t) override {
    return absl::FailedPreconditionError("moves nothing");
  }
  void CancelReceives(CompletionSink*) override {}
  int Progress() override { return 0; }
  void WaitForEvent(Deadline) override {}
  void Wake() override {}
  void Abort(absl::Status cause) override {
    record_.cause = std::move(cause);
    record_.aborted.Notify();
  }
  std::string Description() const override { return "recording"; }

 private:
  Record& record_;
  const std::string address_;
  Rank self_;
};

using JobOr = absl::StatusOr<std::unique_ptr<Job>>;

class JobTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(server_, RendezvousServer::Start({})); }

  JobOr Join(int world, int rank, Record* record) {
    JobEnvironment environment;
    environment.rendezvous = server_->address();
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
