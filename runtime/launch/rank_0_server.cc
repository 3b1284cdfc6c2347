#include "runtime/launch/rank_0_server.h"

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/sync.h"

namespace rz {
namespace {

// A rank that joins asks for the verdict within this, unless its machine is very busy: then it
// hears only that rank 0 has gone.
constexpr absl::Duration kLastWords = absl::Milliseconds(500);

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

void Rank0Server::ServeUntilEnded(const std::string& job, Epoch epoch) {
  if (!server_.service()->WaitUntilEnded(job, epoch)) absl::SleepFor(kLastWords);
}

}  // namespace rz
