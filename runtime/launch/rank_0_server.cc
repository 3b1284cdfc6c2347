#include "runtime/launch/rank_0_server.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/sync.h"
#include "runtime/rendezvous/limits.h"
#include "runtime/rendezvous/membership_text.h"
#include "runtime/rendezvous/wait_notices.h"

namespace rz {
namespace {

struct Shared {
  std::unique_ptr<RendezvousServer> server;
  int users = 0;
};

struct Registry {
  Mutex mutex;
  std::map<std::string, Shared> servers ABSL_GUARDED_BY(mutex);  // by where they listen
};

Registry& TheRegistry() {
  static auto* const registry = new Registry;
  return *registry;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Rank0Server>> Rank0Server::Start(
    const RendezvousServerOptions& options) {
  Registry& registry = TheRegistry();
  MutexLock lock(&registry.mutex);
  auto entry = registry.servers.find(options.listen);
  if (entry == registry.servers.end()) {
    RZ_ASSIGN_OR_RETURN(std::unique_ptr<RendezvousServer> started,
                        RendezvousServer::Start(options));
    entry = registry.servers.emplace(options.listen, Shared{std::move(started)}).first;
  }
  ++entry->second.users;
  return std::unique_ptr<Rank0Server>(new Rank0Server(options.listen, entry->second.server.get()));
}

Rank0Server::~Rank0Server() {
  Registry& registry = TheRegistry();
  // Under the lock: the next job's server may want the same port.
  MutexLock lock(&registry.mutex);
  const auto entry = registry.servers.find(listen_);
  if (--entry->second.users == 0) registry.servers.erase(entry);
}

absl::Status Rank0Server::ServeUntilDone(const std::string& job, Epoch epoch,
                                         absl::Duration patience) {
  RendezvousService& service = *server_.service();
  const WaitNotices notices(
      limits::kFirstNotice,
      [&](absl::Duration waited) {
        return absl::StrCat("rank 0 is done and serves the rendezvous, ",
                            absl::FormatDuration(absl::Floor(waited, absl::Seconds(1))), " of ",
                            absl::FormatDuration(patience), ", for ",
                            FormatRanks(service.NotDone(job, epoch, Rank(0))));
      },
      [](const std::string& text) { Log(LogLevel::kWarning, text); });
  const std::vector<Rank> left = service.WaitUntilDone(job, epoch, Rank(0), patience);
  if (left.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      FormatRanks(left), left.size() == 1 ? " was" : " were", " not done within ",
      absl::FormatDuration(patience), " of the end of rank 0, which served the rendezvous; ",
      "RZ_JOIN_TIMEOUT says how long others are waited for"));
}

}  // namespace rz
