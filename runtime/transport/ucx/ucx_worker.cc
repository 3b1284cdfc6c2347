#include "runtime/transport/ucx/ucx_worker.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/sync.h"
#include "runtime/transport/ucx/shared_room.h"
#include "runtime/transport/ucx/ucx_errors.h"
#include "runtime/transport/ucx/ucx_process.h"

namespace rz {
namespace {

absl::Status UcxError(std::string_view what, ucs_status_t status) {
  return absl::UnavailableError(absl::StrCat(absl::string_view(what.data(), what.size()),
                                             " failed: ", ucs_status_string(status), WhyNoTcp()));
}

absl::Status Configure(ucp_config_t* config, const char* key, const std::string& value) {
  const ucs_status_t status = ucp_config_modify(config, key, value.c_str());
  if (status == UCS_OK) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("UCX refuses ", key, "=", value, ": ", ucs_status_string(status)));
}

// Where the user has not chosen.
absl::Status ConfigureUnlessSet(ucp_config_t* config, const char* key, const std::string& value) {
  if (std::getenv(absl::StrCat("UCX_", key).c_str()) != nullptr) return absl::OkStatus();
  return Configure(config, key, value);
}

absl::Status ConfigureAll(ucp_config_t* config, const UcxOptions& options,
                          const std::string& transports) {
  if (!transports.empty()) RZ_RETURN_IF_ERROR(Configure(config, "TLS", transports));
  if (!options.net_device.empty()) {
    RZ_RETURN_IF_ERROR(Configure(config, "NET_DEVICES", options.net_device));
  }
  RZ_RETURN_IF_ERROR(Configure(config, "MM_ERROR_HANDLING", "y"));
  RZ_RETURN_IF_ERROR(ConfigureUnlessSet(config, "ZCOPY_THRESH", "inf"));
  RZ_RETURN_IF_ERROR(ConfigureUnlessSet(config, "RNDV_THRESH", "2m"));
  // By these names TCP's alone, without the prefix that the variables have. UCX refuses segments
  // that are sent larger than those received.
  if (std::getenv("UCX_TCP_RX_SEG_SIZE") == nullptr &&
      std::getenv("UCX_TCP_TX_SEG_SIZE") == nullptr) {
    RZ_RETURN_IF_ERROR(Configure(config, "RX_SEG_SIZE", "256k"));
    RZ_RETURN_IF_ERROR(Configure(config, "TX_SEG_SIZE", "256k"));
  }
  return Configure(config, "KEEPALIVE_INTERVAL",
                   absl::StrCat(absl::ToInt64Milliseconds(options.keepalive_interval), "ms"));
}

}  // namespace

absl::StatusOr<std::string> TransportList(const UcxOptions& options, uint64_t shared_memory_bytes,
                                          bool user_chose_transports) {
  if (options.transports == UcxOptions::Transports::kTcp) return std::string("tcp");
  const bool enough = shared_memory_bytes >= kSharedMemoryBytesPerWorker;
  if (options.transports == UcxOptions::Transports::kSharedMemory) {
    if (enough) return std::string("posix");
    return absl::ResourceExhaustedError(
        absl::StrCat(kSharedMemoryDirectory, " has ", shared_memory_bytes, " bytes free, and ",
                     kSharedMemoryBytesPerWorker,
                     " are needed for each rank on this host: enlarge it (mount -o remount,size=, "
                     "docker --shm-size) or allow TCP"));
  }
  if (user_chose_transports) return std::string();
  return std::string(enough ? "^sysv" : "^sysv,posix");
}

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Create(const UcxOptions& options) {
  TameUcx();
  const uint64_t free_bytes = FreeSharedMemory().value_or(0);
  const bool user_chose = std::getenv("UCX_TLS") != nullptr;
  RZ_ASSIGN_OR_RETURN(const std::string transports, TransportList(options, free_bytes, user_chose));
  RZ_ASSIGN_OR_RETURN(const std::string without_shared_memory,
                      TransportList(UcxOptions(), 0, user_chose));
  const auto warn = [&] {
    Log(LogLevel::kWarning, kSharedMemoryDirectory, " has ", free_bytes, " bytes free and ",
        kSharedMemoryBytesPerWorker,
        " are needed for each rank on this host: ranks here talk over the network instead");
  };
  const bool automatic = options.transports == UcxOptions::Transports::kAutomatic && !user_chose;
  if (automatic && transports == without_shared_memory) warn();

  std::unique_ptr<UcxWorker> worker(new UcxWorker);
  absl::Status status = worker->Open(options, transports);
  if (!status.ok() && automatic && transports != without_shared_memory) {
    // Other processes may have filled it between the look and the use.
    if (FreeSharedMemory().value_or(0) >= kSharedMemoryBytesPerWorker) return status;
    warn();
    worker.reset(new UcxWorker);
    status = worker->Open(options, without_shared_memory);
  }
  if (!status.ok()) return status;
  return worker;
}

absl::Status UcxWorker::Open(const UcxOptions& options, const std::string& transports) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return UcxError("reading UCX's configuration", status);
  absl::Cleanup release_config = [config] { ucp_config_release(config); };
  RZ_RETURN_IF_ERROR(ConfigureAll(config, options, transports));

  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  // RMA for the keys of shared memory alone: nothing is ever put or got.
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  status = ucp_init(&params, config, &context_);
  if (status != UCS_OK) {
    return UcxError(absl::StrCat("opening UCX (transports ", transports, ", network device ",
                                 options.net_device.empty() ? "any" : options.net_device, ")"),
                    status);
  }

  ucp_worker_params_t worker_params = {};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucp_worker_create(context_, &worker_params, &worker_);
  if (status != UCS_OK) {
    return UcxError(absl::StrCat("creating a UCX worker (transports ", transports, ", ",
                                 FreeSharedMemory().value_or(0), " bytes free in ",
                                 kSharedMemoryDirectory, ")"),
                    status);
  }
  status = ucp_worker_get_efd(worker_, &event_fd_);
  if (status != UCS_OK) return UcxError("getting the UCX worker's event descriptor", status);

  ucp_address_t* address = nullptr;
  size_t length = 0;
  status = ucp_worker_get_address(worker_, &address, &length);
  if (status != UCS_OK) return UcxError("getting the UCX worker's address", status);
  address_.assign(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker_, address);
  return absl::OkStatus();
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

void UcxWorker::Leak() {
  // Kept within reach, so that leak checkers see that it is meant.
  static Mutex mutex;
  static auto* const leaked = new std::vector<std::pair<ucp_worker_h, ucp_context_h>>;
  MutexLock lock(&mutex);
  leaked->emplace_back(std::exchange(worker_, nullptr), std::exchange(context_, nullptr));
}

}  // namespace rz
