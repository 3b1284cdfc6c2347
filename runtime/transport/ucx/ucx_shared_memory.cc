#include "runtime/transport/ucx/ucx_shared_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/transport/ucx/huge_alias.h"
#include "runtime/transport/ucx/open_file.h"
#include "runtime/transport/ucx/shared_room.h"

namespace rz {
namespace {

constexpr size_t kPage = 4096;

struct Key {
  static constexpr uint64_t kMagic = 0x324d48535a52;  // "RZSHM2"
  uint64_t magic = kMagic;
  uint64_t size = 0;   // without the proof's page
  uint64_t proof = 0;  // what stands behind them
  OpenFile file;
  uint64_t ipc_namespace = 0;  // of the owner: messages to another one go over the network
};
static_assert(sizeof(Key) <= kMaxSharedKeyBytes);

// Empty where the mapping has no whole huge page.
HugeAlias AliasOf(std::byte* data, size_t bytes) {
  return bytes < kHugePage ? HugeAlias() : HugeAlias(absl::MakeSpan(data, bytes));
}

uint64_t RandomNumber() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

// 0 where the system does not say.
uint64_t IpcNamespace() {
  struct stat info;
  return stat("/proc/self/ns/ipc", &info) == 0 ? info.st_ino : 0;
}

absl::Status Unreachable(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("its memory cannot be reached from here: ", what));
}

class OwnRegion final : public SharedMemory {
 public:
  OwnRegion(ucp_context_h context, std::atomic<int>* regions)
      : context_(context), regions_(regions) {
    ++*regions_;
  }
  ~OwnRegion() override {
    if (memory_ != nullptr) ucp_mem_unmap(context_, memory_);
    --*regions_;
  }

  absl::Status Open(size_t bytes);

 private:
  const ucp_context_h context_;
  std::atomic<int>* const regions_;
  ucp_mem_h memory_ = nullptr;
  HugeAlias alias_;
};

absl::Status OwnRegion::Open(size_t bytes) {
  RZ_RETURN_IF_ERROR(CheckSharedRoom(bytes));
  Key key;
  key.size = (bytes + kPage - 1) / kPage * kPage;
  ucp_mem_map_params_t params = {};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.length = key.size + kPage;
  params.flags = UCP_MEM_MAP_ALLOCATE;
  ucs_status_t status = ucp_mem_map(context_, &params, &memory_);
  if (status != UCS_OK) {
    memory_ = nullptr;
    return absl::ResourceExhaustedError(absl::StrCat(
        "UCX gives no ", params.length, " bytes of shared memory: ", ucs_status_string(status),
        "; is /dev/shm large enough?"));
  }
  ucp_mem_attr_t attributes = {};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  status = ucp_mem_query(memory_, &attributes);
  if (status != UCS_OK || attributes.length < params.length) {
    return absl::InternalError("UCX does not say where its memory is");
  }
  key.proof = RandomNumber();
  auto* data = static_cast<std::byte*>(attributes.address);
  std::memcpy(data + key.size, &key.proof, sizeof key.proof);
  key.file = FindOpenFile(data);
  key.ipc_namespace = IpcNamespace();
  key_.assign(reinterpret_cast<const char*>(&key), sizeof key);
  alias_ = AliasOf(data, params.length);
  if (!alias_.bytes().empty()) {
    alias_.Collapse();
    data = alias_.bytes().data();
  }
  bytes_ = absl::MakeSpan(data, key.size);
  return absl::OkStatus();
}

class PeerRegion final : public SharedMemory {
 public:
  // `mapping`: with the proof's page.
  PeerRegion(absl::Span<std::byte> mapping, std::string key)
      : mapping_(mapping), alias_(AliasOf(mapping.data(), mapping.size())) {
    std::byte* const data = alias_.bytes().empty() ? mapping.data() : alias_.bytes().data();
    bytes_ = absl::MakeSpan(data, mapping.size() - kPage);
    key_ = std::move(key);
  }
  ~PeerRegion() override { munmap(mapping_.data(), mapping_.size()); }

 private:
  const absl::Span<std::byte> mapping_;
  const HugeAlias alias_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SharedMemory>> AllocateUcxShared(ucp_context_h context, size_t bytes,
                                                                std::atomic<int>* regions) {
  auto region = std::make_unique<OwnRegion>(context, regions);
  RZ_RETURN_IF_ERROR(region->Open(bytes));
  return region;
}

absl::StatusOr<std::unique_ptr<SharedMemory>> MapUcxShared(std::string_view key) {
  Key read;
  if (key.size() != sizeof read) {
    return absl::InvalidArgumentError(absl::StrCat("a key of shared memory has ", sizeof read,
                                                   " bytes, this one has ", key.size()));
  }
  std::memcpy(&read, key.data(), sizeof read);
  if (read.magic != Key::kMagic) {
    return absl::InvalidArgumentError("not a key of shared memory: it does not begin with RZSHM2");
  }
  if (read.size > SIZE_MAX - kPage) return Unreachable("no memory is so large");
  if (read.ipc_namespace != IpcNamespace()) {
    return Unreachable("it is in another IPC namespace, to which UCX uses the network");
  }
  const auto mapping = MapOpenFile(read.file, read.size + kPage);
  if (!mapping.ok()) return Unreachable(mapping.status().message());
  auto region = std::make_unique<PeerRegion>(*mapping, std::string(key));
  if (std::memcmp(mapping->data() + read.size, &read.proof, sizeof read.proof) != 0) {
    return Unreachable("something else is mapped there");
  }
  return region;
}

}  // namespace rz
