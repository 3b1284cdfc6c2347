#include "runtime/rendezvous/rpc_handler.h"

#include <limits>

#include "gmock/gmock.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/rendezvous/limits.h"
#include "runtime/rendezvous/wire.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

pb::JoinRequest ValidJoin(int64_t world_size, int64_t rank) {
  pb::JoinRequest request;
  request.mutable_protocol()->set_major(limits::kProtocolMajor);
  request.set_job("job");
  request.set_world_size(world_size);
  request.set_wanted_rank(rank);
  request.set_incarnation(100 + rank);
  request.set_address("address");
  request.set_host("host");
  return request;
}

pb::Member ValidMember(int rank) {
  pb::Member member;
  member.set_job("job");
  member.set_epoch(1);
  member.set_rank(rank);
  member.set_incarnation(100 + rank);
  return member;
}

TEST(ReadJoinTest, SizesAtTheLimitAndOnePastIt) {
  const auto check = [](auto set, size_t limit, char fill) {
    pb::JoinRequest request = ValidJoin(2, 0);
    set(request, std::string(limit, fill));
    EXPECT_OK(ReadJoin(request));
    set(request, std::string(limit + 1, fill));
    EXPECT_THAT(ReadJoin(request),
                StatusIs(Code::kInvalidArgument, HasSubstr(absl::StrCat(limit + 1, " bytes"))));
  };
  check([](auto& r, std::string s) { r.set_job(s); }, limits::kMaxJobIdBytes, 'j');
  check([](auto& r, std::string s) { r.set_address(s); }, limits::kMaxAddressBytes, '\xff');
  check([](auto& r, std::string s) { r.set_host(s); }, limits::kMaxHostBytes, 'h');
}

TEST(ReadJoinTest, OnlyAllowedCharacters) {
  for (const char* job : {"", "a b", "a/b", "a\n", "\xc3\xa4", "a:b"}) {
    pb::JoinRequest request = ValidJoin(2, 0);
    request.set_job(job);
    EXPECT_THAT(ReadJoin(request), StatusIs(Code::kInvalidArgument)) << job;
  }
  for (const char* host : {"", "a\nb", "a\x1b[31m", "\x7f", "\xff", "\xc0\x80", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xe2\x82"}) {
    pb::JoinRequest request = ValidJoin(2, 0);
    request.set_host(host);
    EXPECT_THAT(ReadJoin(request), StatusIs(Code::kInvalidArgument)) << host;
  }
  pb::JoinRequest request = ValidJoin(2, 0);
  request.set_job("Az09._-");
  request.set_host("h\xc3\xb6st \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_OK(ReadJoin(request));
}

TEST(ReadJoinTest, NumbersAtTheirLimits) {
  pb::JoinRequest request = ValidJoin(2, 0);
  request.set_local_index(limits::kMaxLocalIndex);
  EXPECT_OK(ReadJoin(request));
  request.set_local_index(limits::kMaxLocalIndex + 1);
  EXPECT_THAT(ReadJoin(request), StatusIs(Code::kInvalidArgument));
  request.set_local_index(-1);
  EXPECT_THAT(ReadJoin(request), StatusIs(Code::kInvalidArgument));
  request.clear_local_index();

  EXPECT_EQ(ReadJoin(request)->timeout, limits::kDefaultJoinTimeout);
  request.set_timeout_ms(1);
  EXPECT_EQ(ReadJoin(request)->timeout, absl::Milliseconds(1));
  request.set_timeout_ms(absl::ToInt64Milliseconds(limits::kMaxTimeout) + 1);
  EXPECT_EQ(ReadJoin(request)->timeout, limits::kMaxTimeout);
  request.set_timeout_ms(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ReadJoin(request)->timeout, limits::kMaxTimeout);
  request.set_timeout_ms(-1);
  EXPECT_THAT(ReadJoin(request), StatusIs(Code::kInvalidArgument));
}

TEST(ReadJoinTest, WhatASurvivorSaysIsChecked) {
  pb::JoinRequest request = ValidJoin(2, 0);
  EXPECT_FALSE(ReadJoin(request)->survivor_of.has_value());
  *request.mutable_survivor_of() = ValidMember(1);
  request.set_job(request.survivor_of().job());
  request.set_least_ranks(limits::kMaxWorldSize);
  ASSERT_OK(ReadJoin(request));
  EXPECT_EQ(ReadJoin(request)->survivor_of->rank, Rank(1));
  EXPECT_EQ(ReadJoin(request)->least_ranks, limits::kMaxWorldSize);
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}, int64_t{limits::kMaxWorldSize} + 1}) {
    request.set_least_ranks(wrong);
    EXPECT_THAT(ReadJoin(request), StatusIs(Code::kInvalidArgument)) << wrong;
  }
  request.set_least_ranks(1);
  request.mutable_survivor_of()->set_job("another");
  EXPECT_THAT(ReadJoin(request), StatusIs(Code::kInvalidArgument));
  *request.mutable_survivor_of() = ValidMember(1);
  request.mutable_survivor_of()->set_epoch(0);
  EXPECT_THAT(ReadJoin(request), StatusIs(Code::kInvalidArgument));
}

TEST(ReadMemberTest, EveryFieldIsChecked) {
  EXPECT_OK(ReadMember(ValidMember(0)));
  pb::Member member = ValidMember(limits::kMaxWorldSize - 1);
  EXPECT_OK(ReadMember(member));
  member.set_rank(limits::kMaxWorldSize);
  EXPECT_THAT(ReadMember(member), StatusIs(Code::kInvalidArgument));
  member.set_rank(-1);
  EXPECT_THAT(ReadMember(member), StatusIs(Code::kInvalidArgument));
  member = ValidMember(0);
  member.set_epoch(0);
  EXPECT_THAT(ReadMember(member), StatusIs(Code::kInvalidArgument));
  member = ValidMember(0);
  member.set_incarnation(0);
  EXPECT_THAT(ReadMember(member), StatusIs(Code::kInvalidArgument));
  member = ValidMember(0);
  member.set_job("");
  EXPECT_THAT(ReadMember(member), StatusIs(Code::kInvalidArgument));
}

TEST(ReadBarrierTest, SizesAndNumbersAtTheLimitAndOnePastIt) {
  pb::BarrierRequest request;
  *request.mutable_member() = ValidMember(0);
  request.set_id(std::string(limits::kMaxBarrierIdBytes, 'b'));
  EXPECT_OK(ReadBarrier(request));
  request.set_id(std::string(limits::kMaxBarrierIdBytes + 1, 'b'));
  EXPECT_THAT(ReadBarrier(request), StatusIs(Code::kInvalidArgument));
  request.set_id("");
  EXPECT_THAT(ReadBarrier(request), StatusIs(Code::kInvalidArgument));
  request.set_id("b");
  request.set_counter(std::numeric_limits<int64_t>::max() - 1);
  EXPECT_OK(ReadBarrier(request));
  request.set_counter(std::numeric_limits<int64_t>::max());
  EXPECT_THAT(ReadBarrier(request), StatusIs(Code::kInvalidArgument));
  request.set_counter(-1);
  EXPECT_THAT(ReadBarrier(request), StatusIs(Code::kInvalidArgument));
  request.set_counter(0);
  for (int r = 0; r < limits::kMaxWorldSize; ++r) request.add_participants(r);
  EXPECT_OK(ReadBarrier(request));
  request.add_participants(0);
  EXPECT_THAT(ReadBarrier(request), StatusIs(Code::kInvalidArgument, HasSubstr("16385")));
  request.clear_participants();
  request.add_participants(-1);
  EXPECT_THAT(ReadBarrier(request), StatusIs(Code::kInvalidArgument));
}

TEST(ReadFailureReportTest, EveryFieldIsChecked) {
  pb::ReportFailureRequest valid;
  valid.set_job("job");
  valid.set_rank(1);
  valid.set_kind(pb::FAILURE_KIND_ENDED);
  valid.set_detail(std::string(limits::kMaxDetailBytes, 'd'));
  EXPECT_OK(ReadFailureReport(valid));
  EXPECT_FALSE(ReadFailureReport(valid)->epoch.has_value());

  pb::ReportFailureRequest request = valid;
  request.set_detail(std::string(limits::kMaxDetailBytes + 1, 'd'));
  EXPECT_THAT(ReadFailureReport(request), StatusIs(Code::kInvalidArgument));
  request.set_detail("two\nlines");
  EXPECT_THAT(ReadFailureReport(request), StatusIs(Code::kInvalidArgument));
  request = valid;
  request.set_epoch(-1);
  EXPECT_THAT(ReadFailureReport(request), StatusIs(Code::kInvalidArgument));
  request = valid;
  request.set_kind(static_cast<pb::FailureKind>(99));
  EXPECT_THAT(ReadFailureReport(request), StatusIs(Code::kInvalidArgument));
  request.set_kind(pb::FAILURE_KIND_UNSPECIFIED);
  EXPECT_THAT(ReadFailureReport(request), StatusIs(Code::kInvalidArgument));
  request = valid;
  *request.mutable_reporter() = ValidMember(0);
  request.set_epoch(1);
  EXPECT_OK(ReadFailureReport(request));
  request.set_epoch(2);
  EXPECT_THAT(ReadFailureReport(request), StatusIs(Code::kInvalidArgument, HasSubstr("another")));
  request.clear_epoch();
  EXPECT_THAT(ReadFailureReport(request), StatusIs(Code::kInvalidArgument));
}

class RpcHandlerTest : public ::testing::Test {
 protected:
  template <typename Response>
  struct Answer {
    int count = 0;
    absl::Status status;
    Response response;

    RpcHandler::Done<Response> Done() {
      return [this](const absl::Status& got, const Response& given) {
        ++count;
        status = got;
        response = given;
      };
    }
  };

  ManualClock clock_;
  RendezvousService service_{&clock_};
  RpcHandler handler_{&service_};
};

TEST_F(RpcHandlerTest, AJoinIsAnsweredWithRankEpochAndAddresses) {
  Answer<pb::JoinResponse> zero, one;
  handler_.Join(ValidJoin(2, 0), zero.Done());
  EXPECT_EQ(zero.count, 0);
  handler_.Join(ValidJoin(2, 1), one.Done());
  EXPECT_EQ(zero.count, 1);
  EXPECT_OK(one.status);
  EXPECT_EQ(one.response.rank(), 1);
  EXPECT_EQ(one.response.epoch(), 1);
  EXPECT_EQ(one.response.world_size(), 2);
  EXPECT_EQ(one.response.addresses_size(), 2);
}

TEST_F(RpcHandlerTest, AddressesComeInPagesBelowTheMessageLimit) {
  constexpr int kWorld = 200;
  Answer<pb::JoinResponse> first, other;
  for (int r = 0; r < kWorld; ++r) {
    pb::JoinRequest request = ValidJoin(kWorld, r);
    request.set_address(std::string(limits::kMaxAddressBytes, static_cast<char>(r)));
    handler_.Join(request, r == 0 ? first.Done() : other.Done());
  }
  ASSERT_OK(first.status);
  std::vector<std::string> all(first.response.addresses().begin(),
                               first.response.addresses().end());
  EXPECT_LT(all.size(), kWorld);
  EXPECT_LE(first.response.ByteSizeLong(), limits::kMaxMessageBytes);
  while (all.size() < kWorld) {
    pb::PeersRequest request;
    *request.mutable_member() = ValidMember(0);
    request.set_first_rank(static_cast<int32_t>(all.size()));
    Answer<pb::PeersResponse> page;
    handler_.Peers(request, page.Done());
    ASSERT_OK(page.status);
    ASSERT_GT(page.response.addresses_size(), 0);
    EXPECT_LE(page.response.ByteSizeLong(), limits::kMaxMessageBytes);
    all.insert(all.end(), page.response.addresses().begin(), page.response.addresses().end());
  }
  ASSERT_EQ(all.size(), kWorld);
  for (int r = 0; r < kWorld; ++r) EXPECT_EQ(all[r][0], static_cast<char>(r));
  for (int out : {-1, kWorld, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    pb::PeersRequest request;
    *request.mutable_member() = ValidMember(0);
    request.set_first_rank(out);
    Answer<pb::PeersResponse> page;
    handler_.Peers(request, page.Done());
    EXPECT_THAT(page.status, StatusIs(Code::kInvalidArgument)) << out;
  }
}

TEST_F(RpcHandlerTest, AVerdictTravelsAsPayloadOfTheStatus) {
  Answer<pb::JoinResponse> waiting;
  handler_.Join(ValidJoin(2, 0), waiting.Done());
  pb::ReportFailureRequest report;
  report.set_job("job");
  report.set_rank(1);
  report.set_kind(pb::FAILURE_KIND_ENDED);
  report.set_detail("exit status 3");
  Answer<pb::ReportFailureResponse> reported;
  handler_.ReportFailure(report, reported.Done());
  EXPECT_OK(reported.status);
  const std::string message = "rank 1 ended before it joined: exit status 3";
  EXPECT_EQ(reported.response.verdict().message(), message);
  EXPECT_THAT(waiting.status, StatusIs(Code::kUnavailable, message));
  const auto payload = waiting.status.GetPayload(kVerdictPayload);
  ASSERT_TRUE(payload.has_value());
  pb::Verdict verdict;
  ASSERT_TRUE(verdict.ParseFromString(std::string(*payload)));
  EXPECT_EQ(verdict.rank(), 1);
  EXPECT_EQ(verdict.epoch(), 1);
}

TEST_F(RpcHandlerTest, WatchBarrierAndLeaveAnswerOnce) {
  Answer<pb::JoinResponse> joined;
  handler_.Join(ValidJoin(1, 0), joined.Done());
  pb::WatchRequest watch;
  *watch.mutable_member() = ValidMember(0);
  Answer<pb::WatchResponse> watched;
  handler_.Watch(watch, watched.Done());
  EXPECT_EQ(watched.count, 0);
  pb::BarrierRequest barrier;
  *barrier.mutable_member() = ValidMember(0);
  barrier.set_id("b");
  Answer<pb::BarrierResponse> passed;
  handler_.Barrier(barrier, passed.Done());
  EXPECT_EQ(passed.count, 1);
  EXPECT_OK(passed.status);
  pb::LeaveRequest leave;
  *leave.mutable_member() = ValidMember(0);
  Answer<pb::LeaveResponse> left;
  handler_.Leave(leave, left.Done());
  EXPECT_OK(left.status);
  EXPECT_EQ(watched.count, 1);
  EXPECT_OK(watched.status);
  EXPECT_FALSE(watched.response.has_verdict());
}

TEST_F(RpcHandlerTest, ALaunchersWordIsRememberedByItsNumber) {
  pb::ReportFailureRequest report;
  report.set_job("job");
  report.set_rank(1);
  report.set_kind(pb::FAILURE_KIND_EXITED);
  report.set_detail("exit status 0");
  report.set_launch(9);
  Answer<pb::ReportFailureResponse> reported;
  handler_.ReportFailure(report, reported.Done());
  EXPECT_OK(reported.status);
  EXPECT_FALSE(reported.response.has_verdict());
  pb::JoinRequest request = ValidJoin(2, 0);
  request.set_launch(9);
  Answer<pb::JoinResponse> joined;
  handler_.Join(request, joined.Done());
  EXPECT_THAT(joined.status,
              StatusIs(Code::kUnavailable, "rank 1 ended before it joined: exit status 0"));
}

TEST_F(RpcHandlerTest, AGatheringIsToldInWords) {
  pb::GatheringRequest request;
  Answer<pb::GatheringResponse> malformed, unknown, known;
  handler_.Gathering(request, malformed.Done());
  EXPECT_THAT(malformed.status, StatusIs(Code::kInvalidArgument, HasSubstr("job id")));
  request.set_job("job");
  handler_.Gathering(request, unknown.Done());
  EXPECT_THAT(unknown.status, StatusIs(Code::kNotFound));
  Answer<pb::JoinResponse> waiting;
  handler_.Join(ValidJoin(4, 1), waiting.Done());
  handler_.Gathering(request, known.Done());
  EXPECT_OK(known.status);
  EXPECT_EQ(known.response.world_size(), 4);
  EXPECT_EQ(known.response.missing_count(), 3);
  EXPECT_EQ(known.response.missing(), "ranks 0, 2-3");
}

TEST_F(RpcHandlerTest, DeadlinesGoByTheClockThatWasGiven) {
  Answer<pb::JoinResponse> waiting;
  pb::JoinRequest request = ValidJoin(2, 0);
  request.set_timeout_ms(1000);
  handler_.Join(request, waiting.Done());
  service_.Expire();
  EXPECT_EQ(waiting.count, 0);
  clock_.Advance(absl::Seconds(1));
  service_.Expire();
  EXPECT_THAT(waiting.status, StatusIs(Code::kDeadlineExceeded, HasSubstr("missing rank 1")));
}

TEST_F(RpcHandlerTest, CancelAndShutdownAnswerWhoWaits) {
  Answer<pb::JoinResponse> gone, waiting, late;
  handler_.Cancel(handler_.Join(ValidJoin(3, 0), gone.Done()));
  EXPECT_THAT(gone.status, StatusIs(Code::kCancelled));
  handler_.Join(ValidJoin(3, 1), waiting.Done());
  service_.Shutdown();
  EXPECT_THAT(waiting.status, StatusIs(Code::kUnavailable));
  handler_.Join(ValidJoin(3, 2), late.Done());
  EXPECT_THAT(late.status, StatusIs(Code::kUnavailable));
  EXPECT_EQ(gone.count + waiting.count + late.count, 3);
}

}  // namespace
}  // namespace rz
