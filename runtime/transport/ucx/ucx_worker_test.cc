#include "runtime/transport/ucx/ucx_worker.h"

#include <dlfcn.h>

#include <csignal>
#include <string>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/ucx/ucx_errors.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

UcxOptions With(UcxOptions::Transports transports) {
  UcxOptions options;
  options.transports = transports;
  return options;
}

TEST(TransportListTest, AutomaticLeavesSharedMemoryOutWhereItIsTooSmall) {
  const UcxOptions options;
  EXPECT_EQ(*TransportList(options, kSharedMemoryBytesPerWorker, false), "^sysv");
  EXPECT_EQ(*TransportList(options, kSharedMemoryBytesPerWorker - 1, false), "^sysv,posix");
}

TEST(TransportListTest, UsersChoiceStandsInAutomatic) {
  EXPECT_EQ(*TransportList(UcxOptions(), kSharedMemoryBytesPerWorker, true), "");
  EXPECT_EQ(*TransportList(With(UcxOptions::Transports::kTcp), 0, true), "tcp");
}

TEST(TransportListTest, SharedMemoryAloneSaysWhatIsMissing) {
  const UcxOptions options = With(UcxOptions::Transports::kSharedMemory);
  EXPECT_EQ(*TransportList(options, kSharedMemoryBytesPerWorker, false), "posix");
  EXPECT_THAT(TransportList(options, 1000, false),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("/dev/shm has 1000 bytes"), HasSubstr("4718592"))));
}

TEST(UcxWorkerTest, UnknownNetDeviceIsRefused) {
  UcxOptions options = With(UcxOptions::Transports::kTcp);
  options.net_device = "no_such_device0";
  EXPECT_THAT(UcxWorker::Create(options),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no_such_device0")));
}

TEST(UcxWorkerTest, WithoutNetworkDevicesErrorsSayWhatIsMissing) {
  EXPECT_EQ(WhyNoTcp(::testing::TempDir()), "");
  EXPECT_THAT(WhyNoTcp("/none/class/net"),
              AllOf(HasSubstr("without /none/class/net"), HasSubstr("has no TCP: mount /sys")));
}

TEST(UcxWorkerTest, AddressFitsTheContract) {
  ASSERT_OK_AND_ASSIGN(auto worker, UcxWorker::Create(UcxOptions()));
  EXPECT_LE(worker->address().size(), 4000u);
  EXPECT_GE(worker->event_fd(), 0);
}

// What a message's head may have at most is a little less than what UCX sends in one piece.
TEST(UcxWorkerTest, TcpSendsLargePieces) {
  ASSERT_OK_AND_ASSIGN(auto worker, UcxWorker::Create(With(UcxOptions::Transports::kTcp)));
  ucp_worker_attr_t attributes = {};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  ASSERT_EQ(ucp_worker_query(worker->handle(), &attributes), UCS_OK);
  EXPECT_GT(attributes.max_am_header, size_t{200} << 10);
  EXPECT_LE(attributes.max_am_header, size_t{256} << 10);
}

TEST(UcxWorkerTest, SignalsAreNotUcxs) {
  ASSERT_OK_AND_ASSIGN(auto worker, UcxWorker::Create(UcxOptions()));
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGHUP}) {
    struct sigaction action;
    ASSERT_EQ(sigaction(signal, nullptr, &action), 0);
    Dl_info owner = {};
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) continue;
    dladdr(reinterpret_cast<void*>(action.sa_handler), &owner);
    EXPECT_THAT(std::string(owner.dli_fname), ::testing::Not(HasSubstr("libucs"))) << signal;
  }
}

}  // namespace
}  // namespace rz
