// The rendezvous server of the C interface.
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/status_macros.h"
#include "runtime/c_api/c_api.h"
#include "runtime/c_api/handle_table.h"
#include "runtime/rendezvous/server.h"

namespace rz::c_api {
namespace {

using ServerTable = HandleTable<RendezvousServer, HandleKind::kServer>;

absl::Status Start(const rz_server_options_t* given, rz_server_t** server) {
  RZ_ASSIGN_OR_RETURN(const rz_server_options_t read,
                      ReadOptions(given, rz_server_options_t(RZ_SERVER_OPTIONS_INIT)));
  RendezvousServerOptions options;
  if (const std::string listen = TextOf(read.listen); !listen.empty()) options.listen = listen;
  options.token_file = TextOf(read.token_file);
  options.insecure = read.insecure != 0;
  GuardAgainstForks();
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<RendezvousServer> started, RendezvousServer::Start(options));
  RZ_ASSIGN_OR_RETURN(void* const handle, ServerTable::Get().Insert(started.get()));
  static_cast<void>(started.release());  // the table's
  *server = static_cast<rz_server_t*>(handle);
  return absl::OkStatus();
}

}  // namespace
}  // namespace rz::c_api

using namespace rz::c_api;  // NOLINT: the functions below are its face

rz_result_t rz_server_start(const rz_server_options_t* options, rz_server_t** server) {
  return Guarded(__func__, [&] {
    RZ_RETURN_IF_ERROR(CheckNotNull(server, "server"));
    *server = nullptr;
    return Start(options, server);
  });
}

rz_result_t rz_server_address(rz_server_t* server, char* address, size_t size) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const auto found, ServerTable::Get().Find(server));
    RZ_RETURN_IF_ERROR(CheckNotNull(address, "address"));
    const std::string& text = found->address();
    if (text.size() >= size) {
      return absl::InvalidArgumentError(
          absl::StrCat("the address needs ", text.size() + 1, " bytes, and there are ", size));
    }
    std::memcpy(address, text.c_str(), text.size() + 1);
    return absl::OkStatus();
  });
}

rz_result_t rz_server_stop(rz_server_t* server) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(auto found, ServerTable::Get().Find(server));
    const std::unique_ptr<rz::RendezvousServer> ended(ServerTable::Get().Close(std::move(found)));
    return ended != nullptr ? absl::OkStatus() : BadHandle(server, HandleKind::kServer);
  });
}
