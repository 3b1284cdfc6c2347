#include "runtime/rendezvous/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/support/server_callback.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/rendezvous.grpc.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/grpc_log.h"
#include "runtime/rendezvous/grpc_status.h"
#include "runtime/rendezvous/limits.h"
#include "runtime/rendezvous/rpc_handler.h"
#include "runtime/rendezvous/token.h"
#include "runtime/rendezvous/wire.h"

namespace rz {
namespace {

// One call. gRPC deletes it through OnDone, after Finish and every other reaction have returned.
template <typename Response>
class Call : public grpc::ServerUnaryReactor {
 public:
  Call(RpcHandler* handler, Response* response) : handler_(*handler), response_(*response) {}

  RpcHandler::Done<Response> Done() {
    return [this](const absl::Status& status, const Response& response) {
      response_ = response;
      Finish(ToGrpc(status));
    };
  }

  // Called before the reactor is given to gRPC, so before OnCancel can come.
  void SetTicket(Ticket ticket) { ticket_ = ticket; }

  void OnCancel() override { handler_.Cancel(ticket_); }
  void OnDone() override { delete this; }

 private:
  RpcHandler& handler_;
  Response& response_;
  Ticket ticket_ = 0;
};

class GrpcService : public pb::Rendezvous::CallbackService {
 public:
  GrpcService(RpcHandler* handler, std::string token)
      : handler_(*handler), token_(std::move(token)) {}

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const pb::JoinRequest* request,
                                 pb::JoinResponse* response) override {
    return Serve(context, &RpcHandler::Join, request, response);
  }
  grpc::ServerUnaryReactor* Peers(grpc::CallbackServerContext* context,
                                  const pb::PeersRequest* request,
                                  pb::PeersResponse* response) override {
    return Serve(context, &RpcHandler::Peers, request, response);
  }
  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext* context,
                                  const pb::WatchRequest* request,
                                  pb::WatchResponse* response) override {
    // Lasts as long as the job, so without a deadline; the members of a job bound their number.
    auto* const call =
        Serve(context, &RpcHandler::Watch, request, response, /*needs_deadline=*/false);
    call->StartSendInitialMetadata();
    return call;
  }
  grpc::ServerUnaryReactor* Barrier(grpc::CallbackServerContext* context,
                                    const pb::BarrierRequest* request,
                                    pb::BarrierResponse* response) override {
    return Serve(context, &RpcHandler::Barrier, request, response);
  }
  grpc::ServerUnaryReactor* ReportFailure(grpc::CallbackServerContext* context,
                                          const pb::ReportFailureRequest* request,
                                          pb::ReportFailureResponse* response) override {
    return Serve(context, &RpcHandler::ReportFailure, request, response);
  }
  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext* context,
                                  const pb::LeaveRequest* request,
                                  pb::LeaveResponse* response) override {
    return Serve(context, &RpcHandler::Leave, request, response);
  }
  grpc::ServerUnaryReactor* Gathering(grpc::CallbackServerContext* context,
                                      const pb::GatheringRequest* request,
                                      pb::GatheringResponse* response) override {
    return Serve(context, &RpcHandler::Gathering, request, response);
  }

 private:
  absl::Status CheckToken(const grpc::CallbackServerContext& context) const {
    if (token_.empty()) return absl::OkStatus();
    const auto& metadata = context.client_metadata();
    const auto entry = metadata.find(kTokenMetadata);
    if (entry == metadata.end()) {
      return absl::UnauthenticatedError(
          "this rendezvous asks for a job token: set RZ_TOKEN_FILE for the worker");
    }
    if (!TokensEqual(token_, std::string_view(entry->second.data(), entry->second.size()))) {
      return absl::PermissionDeniedError("the worker's job token is not this rendezvous's");
    }
    return absl::OkStatus();
  }

  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Serve(grpc::CallbackServerContext* context,
                                  Ticket (RpcHandler::*method)(const Request&,
                                                               RpcHandler::Done<Response>),
                                  const Request* request, Response* response,
                                  bool needs_deadline = true) {
    auto* const call = new Call<Response>(&handler_, response);
    if (const absl::Status status = CheckToken(*context); !status.ok()) {
      Log(LogLevel::kInfo, "rendezvous: ", context->peer(), " refused: ", status.ToString());
      call->Finish(ToGrpc(status));
    } else if (needs_deadline &&
               context->deadline() == std::chrono::system_clock::time_point::max()) {
      call->Finish(ToGrpc(absl::InvalidArgumentError("the call has no deadline")));
    } else {
      call->SetTicket((handler_.*method)(*request, call->Done()));
    }
    return call;
  }

  RpcHandler& handler_;
  const std::string token_;
};

// gRPC removes a file that is there and binds anew: right for one that a killed server has left,
// not for one that is in use.
bool SomebodyServesAt(const std::string& socket_path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const absl::Cleanup close_socket = [fd] { close(fd); };
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  // EAGAIN: it has more callers than it takes just now.
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
         errno == EAGAIN;
}

absl::Status CheckReach(const Endpoint& endpoint, bool insecure) {
  if (!endpoint.socket_path.empty()) return absl::OkStatus();
  RZ_ASSIGN_OR_RETURN(const bool loopback, IsLoopback(endpoint.host));
  if (loopback || insecure) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "refusing to listen on ", endpoint.ToString(),
      ": other machines can reach it, and tokens and worker addresses would cross the network "
      "unencrypted; listen on 127.0.0.1, or say --insecure on a network you trust"));
}

class GrpcServer : public RendezvousServer {
 public:
  GrpcServer(std::string token, Endpoint endpoint)
      : endpoint_(std::move(endpoint)),
        service_(Clock::Steady()),
        handler_(&service_),
        grpc_service_(&handler_, std::move(token)) {}

  ~GrpcServer() override { Shutdown(); }

  absl::Status Listen() {
    TameGrpcLog();
    const std::string& socket_path = endpoint_.socket_path;
    if (!socket_path.empty() && SomebodyServesAt(socket_path)) {
      return absl::UnavailableError(absl::StrCat("cannot listen on ", endpoint_.ToString(),
                                                 ": another process serves there"));
    }
    grpc::ServerBuilder builder;
    grpc::ResourceQuota quota("rendezvous");
    quota.Resize(limits::kMaxServerMemoryBytes);
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(limits::kMaxMessageBytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits::kMaxStreamsPerConnection);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                               static_cast<int>(limits::kMaxMetadataBytes));
    // A second server on the port must fail, not share it.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    int port = 0;
    builder.AddListeningPort(endpoint_.ToString(), grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&grpc_service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", endpoint_.ToString(),
                       ": is the port taken, or the address another machine's?"));
    }
    if (socket_path.empty()) {
      endpoint_.port = port;
    } else if (chmod(socket_path.c_str(), 0600) != 0) {
      return absl::UnavailableError(absl::StrCat(endpoint_.ToString(), ": ", std::strerror(errno)));
    }
    address_ = endpoint_.ToString();
    expirer_ = std::thread([this] { service_.ExpireUntilShutdown(); });
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }
  RendezvousService* service() override { return &service_; }

  void Shutdown() override {
    service_.Shutdown();
    if (expirer_.joinable()) expirer_.join();
    if (server_ == nullptr) return;
    // Every call has been answered: what is left is to send the answers.
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
    server_.reset();
  }

 private:
  Endpoint endpoint_;
  std::string address_;
  RendezvousService service_;
  RpcHandler handler_;
  GrpcService grpc_service_;
  std::thread expirer_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(
    const RendezvousServerOptions& options) {
  RZ_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(options.listen));
  RZ_RETURN_IF_ERROR(CheckReach(endpoint, options.insecure));
  RZ_ASSIGN_OR_RETURN(std::string token, ReadTokenFile(options.token_file));
  auto server = std::make_unique<GrpcServer>(std::move(token), std::move(endpoint));
  RZ_RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<RendezvousServer>(std::move(server));
}

}  // namespace rz
