#include "runtime/rendezvous/connection.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/grpc_log.h"
#include "runtime/rendezvous/grpc_status.h"
#include "runtime/rendezvous/limits.h"
#include "runtime/rendezvous/token.h"
#include "runtime/rendezvous/wire.h"

namespace rz {
namespace {

namespace pb = ::ringzero::rendezvous::v1;

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kLongestBackoff = absl::Seconds(2);
// Stop is noticed at least this often while a connection is waited for.
constexpr absl::Duration kConnectSlice = absl::Milliseconds(100);

// By the steady clock: jumps of the wall clock must not end or prolong a call.
gpr_timespec AfterNow(absl::Duration wait) {
  const absl::Duration bounded = std::clamp(wait, absl::ZeroDuration(), absl::Hours(24));
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(bounded), GPR_TIMESPAN));
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  TameGrpcLog();
  grpc::ChannelArguments arguments;
  // Every rank has its own connection, also where several live in one process: a connection that
  // breaks stands for its rank.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(kFirstBackoff)));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(kLongestBackoff)));
  arguments.SetMaxReceiveMessageSize(limits::kMaxMessageBytes);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// A server that goes away answers either, depending on how far it has come.
bool IsLoss(const absl::Status& status) {
  return (status.code() == absl::StatusCode::kUnavailable ||
          status.code() == absl::StatusCode::kCancelled) &&
         !HasVerdict(status);
}

}  // namespace

Connection::Connection(std::string address, std::string token, absl::Duration connect_timeout,
                       std::string advice)
    : address_(std::move(address)),
      token_(std::move(token)),
      advice_(std::move(advice)),
      channel_(MakeChannel(address_)),
      stub_(ringzero::rendezvous::v1::Rendezvous::NewStub(channel_)),
      connect_timeout_(connect_timeout) {}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Create(const std::string& address,
                                                               const std::string& token_file,
                                                               absl::Duration connect_timeout,
                                                               std::string advice) {
  RZ_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(address));
  RZ_ASSIGN_OR_RETURN(std::string token, ReadTokenFile(token_file));
  return std::unique_ptr<Connection>(
      new Connection(endpoint.ToString(), std::move(token), connect_timeout, std::move(advice)));
}

void Connection::GiveUpOnceLost() {
  MutexLock lock(&mutex_);
  connect_timeout_ = absl::ZeroDuration();
}

bool Connection::Stopped() {
  MutexLock lock(&mutex_);
  return stopped_;
}

bool Connection::Pause(absl::Duration pause) {
  MutexLock lock(&mutex_);
  return !stop_.WaitFor(&mutex_, pause, [this] { return stopped_; });
}

absl::Duration Connection::ConnectTimeout() {
  MutexLock lock(&mutex_);
  return connect_timeout_;
}

void Connection::SetTryingSince(absl::Duration time) {
  MutexLock lock(&mutex_);
  trying_since_ = time;
}

absl::Duration Connection::TriedFor() {
  MutexLock lock(&mutex_);
  return std::max(absl::ZeroDuration(), Clock::Steady()->Now() - trying_since_);
}

absl::Status Connection::WaitUntilConnected(Deadline deadline) {
  const Clock& clock = *Clock::Steady();
  const absl::Duration start = clock.Now();
  const absl::Duration limit = std::min(deadline.at(), start + ConnectTimeout());
  SetTryingSince(start);
  const absl::Cleanup done = [this] { SetTryingSince(absl::InfiniteDuration()); };
  while (true) {
    if (Stopped()) return absl::CancelledError("the client was closed");
    const absl::Duration left = limit - clock.Now();
    if (channel_->WaitForConnected(AfterNow(std::min(left, kConnectSlice)))) {
      return absl::OkStatus();
    }
    if (left <= absl::ZeroDuration()) break;
  }
  const absl::Duration waited = absl::Trunc(clock.Now() - start, absl::Milliseconds(100));
  return absl::UnavailableError(absl::StrCat("cannot reach the rendezvous at ", address_,
                                             " (tried for ", absl::FormatDuration(waited),
                                             "): ", advice_));
}

absl::Status Connection::CallOnce(Deadline deadline, const CallFunction& call) {
  grpc::ClientContext context;
  if (deadline.at() != absl::InfiniteDuration()) {
    context.set_deadline(AfterNow(deadline.Remaining(*Clock::Steady())));
  }
  if (!token_.empty()) context.AddMetadata(kTokenMetadata, token_);
  {
    MutexLock lock(&mutex_);
    if (stopped_) return absl::CancelledError("the client was closed");
    active_.push_back(&context);
  }
  const grpc::Status status = call(*stub_, &context);
  MutexLock lock(&mutex_);
  std::erase(active_, &context);
  return FromGrpc(status);
}

absl::Status Connection::Call(Deadline deadline, const CallFunction& call) {
  absl::Duration backoff = kFirstBackoff;
  while (true) {
    RZ_RETURN_IF_ERROR(WaitUntilConnected(deadline));
    absl::Status status = CallOnce(deadline, call);
    if (Stopped()) return absl::CancelledError("the client was closed");
    if (!IsLoss(status)) return status;
    if (deadline.Remaining(*Clock::Steady()) <= backoff) {
      return absl::UnavailableError(
          absl::StrCat("the rendezvous at ", address_, " broke off: ", status.message()));
    }
    if (!Pause(backoff)) return absl::CancelledError("the client was closed");
    backoff = std::min(2 * backoff, kLongestBackoff);
  }
}

absl::Status Connection::Watch(const pb::WatchRequest& request, pb::WatchResponse* response,
                               const std::function<void(bool open)>& on_change) {
  return Call(Deadline::InfiniteFuture(), [&](Stub& stub, grpc::ClientContext* context) {
    grpc::CompletionQueue queue;
    grpc::Status status;
    const auto call = stub.PrepareAsyncWatch(context, request, &queue);
    call->StartCall();
    void* tag = nullptr;
    bool ok = false;
    // The server sends it at once; the answer comes when the job has an end.
    call->ReadInitialMetadata(nullptr);
    queue.Next(&tag, &ok);
    if (ok) on_change(true);
    call->Finish(response, &status, nullptr);
    queue.Next(&tag, &ok);
    if (IsLoss(FromGrpc(status)) && !Stopped()) on_change(false);
    return status;
  });
}

absl::Status Connection::TryOnce(Deadline deadline, const CallFunction& call) {
  if (channel_->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY) {
    return absl::UnavailableError("not connected");
  }
  return CallOnce(deadline, call);
}

void Connection::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  stop_.NotifyAll();
  for (grpc::ClientContext* context : active_) context->TryCancel();
}

}  // namespace rz
