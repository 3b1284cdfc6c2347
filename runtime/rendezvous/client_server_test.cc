// The real gRPC client and server in one process.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/base/sync.h"
#include "runtime/rendezvous/client.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/server.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

using ClientOr = absl::StatusOr<std::unique_ptr<RendezvousClient>>;

// Longer than any loaded machine needs; never waited for when the code is right.
constexpr absl::Duration kGenerous = absl::Seconds(120);

class ClientServerTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(server_, RendezvousServer::Start({})); }

  RendezvousClientOptions Options(int world_size, std::optional<int> rank = std::nullopt) {
    RendezvousClientOptions options;
    options.address = server_->address();
    options.world_size = world_size;
    if (rank.has_value()) options.wanted_rank = *rank;
    options.worker_address = absl::StrCat("address of ", rank.value_or(-1));
    options.join_timeout = kGenerous;
    return options;
  }

  // Joins all of `options` at once, each from a thread of its own.
  static std::vector<ClientOr> JoinAll(const std::vector<RendezvousClientOptions>& options) {
    std::vector<ClientOr> clients(options.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < options.size(); ++i) {
      threads.emplace_back([&, i] { clients[i] = RendezvousClient::Join(options[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    return clients;
  }

  std::vector<ClientOr> JoinWorld(int world_size) {
    std::vector<RendezvousClientOptions> options;
    for (int r = 0; r < world_size; ++r) options.push_back(Options(world_size, r));
    return JoinAll(options);
  }

  std::unique_ptr<RendezvousServer> server_;
};

TEST_F(ClientServerTest, EveryRankLearnsItsRankAndAllAddresses) {
  std::vector<ClientOr> clients = JoinWorld(4);
  for (int r = 0; r < 4; ++r) {
    ASSERT_OK(clients[r]);
    EXPECT_EQ((*clients[r])->rank(), Rank(r));
    EXPECT_EQ((*clients[r])->epoch(), Epoch(1));
    EXPECT_THAT((*clients[r])->addresses(), ::testing::ElementsAre("address of 0", "address of 1",
                                                                   "address of 2", "address of 3"));
  }
}

TEST_F(ClientServerTest, SixtyFourRanksJoinAndMeetAtOnce) {
  std::vector<ClientOr> clients = JoinWorld(64);
  std::vector<absl::Status> passed(clients.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < clients.size(); ++r) {
    ASSERT_OK(clients[r]);
    threads.emplace_back([&, r] {
      for (int pass = 0; pass < 3 && passed[r].ok(); ++pass) {
        passed[r] = (*clients[r])->Barrier("step", kGenerous, {});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : passed) EXPECT_OK(status);
}

TEST_F(ClientServerTest, AddressesThatFillManyPagesArrive) {
  constexpr int kWorld = 100;
  std::vector<RendezvousClientOptions> options;
  for (int r = 0; r < kWorld; ++r) {
    options.push_back(Options(kWorld, r));
    options.back().worker_address = std::string(limits::kMaxAddressBytes, static_cast<char>(r));
  }
  for (const ClientOr& client : JoinAll(options)) {
    ASSERT_OK(client);
    ASSERT_EQ((*client)->addresses().size(), kWorld);
    for (int r = 0; r < kWorld; ++r) {
      EXPECT_EQ((*client)->addresses()[r], options[r].worker_address);
    }
  }
}

TEST_F(ClientServerTest, MissingRanksAreListedWhenAJoinTimesOut) {
  std::vector<RendezvousClientOptions> options = {Options(5, 1), Options(5, 3)};
  for (auto& option : options) option.join_timeout = absl::Seconds(2);
  for (const ClientOr& client : JoinAll(options)) {
    EXPECT_THAT(client,
                StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("missing ranks 0, 2, 4")));
  }
}

TEST_F(ClientServerTest, RefusalsShowBothValues) {
  JoinRequest first;
  first.job = "default";
  first.world_size = 2;
  first.wanted_rank = 0;
  first.incarnation = Incarnation(1);
  first.host = "here";
  absl::Status joined = absl::UnknownError("not answered");
  Notification answered;
  server_->service()->Join(first, [&](const Reply& reply) {
    joined = reply.status;
    answered.Notify();
  });

  EXPECT_THAT(RendezvousClient::Join(Options(3, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("world size 2"), HasSubstr("says 3"))));
  RendezvousClientOptions other_config = Options(2, 1);
  other_config.config_hash = 0xabc;
  EXPECT_THAT(RendezvousClient::Join(other_config),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("0000000000000000"), HasSubstr("0000000000000abc"))));
  EXPECT_THAT(RendezvousClient::Join(Options(2, 0)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("rank 0")));
  EXPECT_THAT(RendezvousClient::Join(Options(2, 2)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 2")));
  EXPECT_THAT(RendezvousClient::Join(Options(0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("world size 0")));
  EXPECT_OK(RendezvousClient::Join(Options(2, 1)));
  ASSERT_TRUE(answered.WaitFor(kGenerous));
  EXPECT_OK(joined);
}

TEST_F(ClientServerTest, AnUnreachableServerIsNamedWithTheTimeWaited) {
  RendezvousClientOptions options = Options(2, 0);
  options.address = server_->address();
  options.connect_timeout = absl::Milliseconds(300);
  server_->Shutdown();
  EXPECT_THAT(RendezvousClient::Join(options),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(options.address), HasSubstr("tried for"))));
  options.address = "nowhere";
  EXPECT_THAT(RendezvousClient::Join(options), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ClientServerTest, AClientWaitsForAServerThatStartsLater) {
  RendezvousClientOptions options = Options(1, 0);
  options.connect_timeout = kGenerous;
  server_->Shutdown();
  ClientOr client;
  std::thread joining([&] { client = RendezvousClient::Join(options); });
  RendezvousServerOptions later;
  later.listen = options.address;
  ASSERT_OK_AND_ASSIGN(server_, RendezvousServer::Start(later));
  joining.join();
  EXPECT_OK(client);
}

TEST_F(ClientServerTest, ADeadMemberIsNamedToTheOthers) {
  std::vector<ClientOr> clients = JoinWorld(3);
  for (const ClientOr& client : clients) ASSERT_OK(client);
  ASSERT_OK((*clients[2])->ReportFailure(Rank(2), "disk\nfull"));
  for (int r = 0; r < 2; ++r) {
    const std::optional<absl::Status> verdict = (*clients[r])->WaitForVerdict(kGenerous);
    ASSERT_TRUE(verdict.has_value());
    EXPECT_THAT(*verdict, StatusIs(absl::StatusCode::kUnavailable, "rank 2 failed: disk full"));
    EXPECT_THAT((*clients[r])->Barrier("late", kGenerous, {}),
                StatusIs(absl::StatusCode::kUnavailable, "rank 2 failed: disk full"));
  }
}

TEST_F(ClientServerTest, TheVerdictCallbackIsCalledOnceWhetherEarlyOrLate) {
  std::vector<ClientOr> clients = JoinWorld(2);
  for (const ClientOr& client : clients) ASSERT_OK(client);
  std::atomic<int> calls{0};
  Notification early;
  (*clients[0])->SetVerdictCallback([&](const absl::Status& cause) {
    EXPECT_THAT(cause, StatusIs(absl::StatusCode::kUnavailable, "rank 1 failed: gone"));
    if (calls++ == 0) early.Notify();
  });
  EXPECT_OK((*clients[1])->ReportFailure(Rank(1), "gone"));
  ASSERT_TRUE(early.WaitFor(kGenerous));
  ASSERT_TRUE((*clients[1])->WaitForVerdict(kGenerous).has_value());
  (*clients[1])->SetVerdictCallback([&](const absl::Status&) { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST_F(ClientServerTest, LeavingIsNoFailureAndTheJobIdServesAgain) {
  for (int round = 1; round <= 3; ++round) {
    std::vector<ClientOr> clients = JoinWorld(2);
    for (const ClientOr& client : clients) {
      ASSERT_OK(client);
      EXPECT_EQ((*client)->epoch(), Epoch(round));
    }
    EXPECT_OK((*clients[0])->Leave());
    EXPECT_OK((*clients[0])->Leave());
    EXPECT_OK((*clients[1])->Leave());
    EXPECT_FALSE((*clients[1])->WaitForVerdict(absl::ZeroDuration()).has_value());
  }
}

TEST_F(ClientServerTest, BarrierDisagreementsAndTimeoutsNameTheRanks) {
  std::vector<ClientOr> clients = JoinWorld(3);
  for (const ClientOr& client : clients) ASSERT_OK(client);
  EXPECT_THAT((*clients[0])->Barrier("half", absl::Milliseconds(200), {}),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("missing ranks 1-2")));
  absl::Status waiting;
  std::thread other([&] {
    waiting = (*clients[0])->Barrier("pair", kGenerous, {Rank(0), Rank(1)});
  });
  absl::Status differing;
  differing = (*clients[2])->Barrier("pair", kGenerous, {Rank(0), Rank(2)});
  other.join();
  EXPECT_THAT(differing, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("wants to meet")));
  EXPECT_EQ(waiting, differing);
}

TEST_F(ClientServerTest, AServerThatForgotTheJobIsAVerdict) {
  std::vector<ClientOr> clients = JoinWorld(1);
  ASSERT_OK(clients[0]);
  RendezvousServerOptions again;
  again.listen = server_->address();
  server_->Shutdown();
  ASSERT_OK_AND_ASSIGN(server_, RendezvousServer::Start(again));
  const std::optional<absl::Status> verdict = (*clients[0])->WaitForVerdict(kGenerous);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_THAT(*verdict, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no job 'default'")));
}

TEST_F(ClientServerTest, ALauncherElsewhereReportsAnEndedProcess) {
  std::vector<ClientOr> clients = JoinWorld(2);
  for (const ClientOr& client : clients) ASSERT_OK(client);
  FailureReport report;
  report.job = "default";
  report.rank = Rank(1);
  report.detail = "killed by signal 9 (Killed)";
  ASSERT_OK_AND_ASSIGN(const std::optional<Verdict> verdict,
                       ReportEndedProcess(server_->address(), "", report));
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, Rank(1));
  EXPECT_EQ((*clients[0])->WaitForVerdict(kGenerous)->message(),
            "rank 1 ended: killed by signal 9 (Killed)");
  report.job = "other";
  EXPECT_THAT(ReportEndedProcess(server_->address(), "", report).status(),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ClientServerTest, AProcessThatEndedBeforeItsJobBeganFailsTheJoinOfTheOthers) {
  FailureReport report;
  report.job = "default";
  report.rank = Rank(1);
  report.kind = FailureKind::kExited;
  report.detail = "exit status 0";
  report.launch = LaunchId(5);
  EXPECT_OK(ReportEndedProcess(server_->address(), "", report).status());
  RendezvousClientOptions options = Options(2, 0);
  options.launch = LaunchId(5);
  EXPECT_THAT(
      RendezvousClient::Join(options),
      StatusIs(absl::StatusCode::kUnavailable, "rank 1 ended before it joined: exit status 0"));
}

// Nothing comes of waiting for a server that is gone, for a rank that is about to end.
TEST_F(ClientServerTest, AFailedRankDoesNotWaitForAServerThatIsLost) {
  std::vector<ClientOr> clients = JoinWorld(1);
  ASSERT_OK(clients[0]);
  server_->Shutdown();
  EXPECT_FALSE((*clients[0])->AskForVerdict(absl::InfiniteDuration()).has_value());
  EXPECT_THAT((*clients[0])->ReportFailure(Rank(0), "link broke"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is lost")));
}

TEST_F(ClientServerTest, WhereRankZeroServesALostServerIsItsEnd) {
  std::vector<RendezvousClientOptions> options = {Options(2, 0), Options(2, 1)};
  for (RendezvousClientOptions& client : options) {
    client.rank_0_serves = true;
    client.connect_timeout = absl::Hours(1);
  }
  std::vector<ClientOr> clients = JoinAll(options);
  ASSERT_OK(clients[1]);
  server_->Shutdown();
  const std::optional<absl::Status> verdict = (*clients[1])->WaitForVerdict(kGenerous);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_THAT(*verdict, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 0 has ended")));
  EXPECT_EQ((*clients[1])->Leave(), *verdict);
}

TEST_F(ClientServerTest, LeavingAFailedJobNeedsNoServer) {
  std::vector<ClientOr> clients = JoinWorld(2);
  for (const ClientOr& client : clients) ASSERT_OK(client);
  ASSERT_OK((*clients[0])->ReportFailure(Rank(0), "disk full"));
  ASSERT_TRUE((*clients[1])->WaitForVerdict(kGenerous).has_value());
  server_->Shutdown();
  EXPECT_OK((*clients[1])->Leave());
}

TEST_F(ClientServerTest, GarbageOnThePortDisturbsNobody) {
  ASSERT_OK_AND_ASSIGN(const Endpoint endpoint, ParseEndpoint(server_->address()));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint.port);
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  std::vector<int> sockets;
  const absl::Cleanup close_all = [&] {
    for (int fd : sockets) close(fd);
  };
  for (int i = 0; i < 50; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_GE(fd, 0);
    sockets.push_back(fd);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    std::string garbage(static_cast<size_t>(1 + 97 * i), '\0');
    for (size_t k = 0; k < garbage.size(); ++k) {
      garbage[k] = static_cast<char>(k * 2654435761u >> (i % 24));
    }
    // Some as if HTTP/2 had begun, some from the first byte.
    if (i % 2 == 0) garbage = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + garbage;
    (void)!send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL);
  }
  for (const ClientOr& client : JoinWorld(4)) EXPECT_OK(client);
}

class TokenTest : public ::testing::Test {
 protected:
  std::string WriteToken(const std::string& name, const std::string& token, mode_t mode = 0600) {
    const std::string path = ::testing::TempDir() + "/" + name;
    std::ofstream(path) << token;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
};

TEST_F(TokenTest, OnlyTheRightTokenJoins) {
  RendezvousServerOptions options;
  options.token_file = WriteToken("right", "0123456789abcdef-right\n");
  ASSERT_OK_AND_ASSIGN(const auto server, RendezvousServer::Start(options));
  RendezvousClientOptions client;
  client.address = server->address();
  client.world_size = 1;
  EXPECT_THAT(RendezvousClient::Join(client),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("RZ_TOKEN_FILE")));
  client.token_file = WriteToken("wrong", "0123456789abcdef-wrong\n");
  EXPECT_THAT(RendezvousClient::Join(client), StatusIs(absl::StatusCode::kPermissionDenied));
  client.token_file = options.token_file;
  EXPECT_OK(RendezvousClient::Join(client));
}

TEST_F(TokenTest, AFileOthersMayReadIsRefused) {
  RendezvousServerOptions options;
  options.token_file = WriteToken("open", "0123456789abcdef", 0640);
  EXPECT_THAT(RendezvousServer::Start(options).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("chmod 600")));
}

TEST(ServerTest, RefusesAddressesOthersCanReachUnlessToldOtherwise) {
  RendezvousServerOptions options;
  options.listen = "0.0.0.0:0";
  EXPECT_THAT(RendezvousServer::Start(options).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("other machines"), HasSubstr("--insecure"))));
  options.insecure = true;
  EXPECT_OK(RendezvousServer::Start(options));
}

// In /tmp: a socket's path must be short.
class SocketFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_), nullptr);
    path_ = absl::StrCat(folder_, "/socket");
    options_.listen = absl::StrCat("unix:", path_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  char folder_[32] = "/tmp/socket_fileXXXXXX";
  std::string path_;
  RendezvousServerOptions options_;
};

TEST_F(SocketFileTest, IsJoinedAndReachedByThisUserAlone) {
  ASSERT_OK_AND_ASSIGN(const auto server, RendezvousServer::Start(options_));
  EXPECT_EQ(server->address(), options_.listen);
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  RendezvousClientOptions client;
  client.address = server->address();
  EXPECT_OK(RendezvousClient::Join(client));
  server->Shutdown();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SocketFileTest, IsTakenFromADeadServerOnly) {
  // As a server that was killed leaves it: bound, and nobody accepts.
  const int left = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(left);
  ASSERT_OK_AND_ASSIGN(const auto server, RendezvousServer::Start(options_));
  EXPECT_THAT(RendezvousServer::Start(options_).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another process serves there")));
  RendezvousClientOptions client;
  client.address = server->address();
  EXPECT_OK(RendezvousClient::Join(client));
}

TEST(ServerTest, ATakenPortIsSaid) {
  ASSERT_OK_AND_ASSIGN(const auto first, RendezvousServer::Start({}));
  RendezvousServerOptions options;
  options.listen = first->address();
  EXPECT_THAT(RendezvousServer::Start(options).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(first->address())));
}

}  // namespace
}  // namespace rz
