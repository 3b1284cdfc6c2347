#include "runtime/transport/ucx/ucx_shared_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/transport/ucx/huge_alias.h"
#include "runtime/transport/ucx/shared_room.h"

namespace rz {
namespace {

constexpr size_t kPage = 4096;

// What a key begins with; UCX's packed remote key follows.
struct KeyHeader {
  static constexpr uint64_t kMagic = 0x314d48535a52;  // "RZSHM1"
  uint64_t magic = kMagic;
  uint64_t address = 0;  // in the owner
  uint64_t size = 0;     // without the proof's page
  uint64_t proof = 0;    // what stands behind them
};

// Empty where the mapping has no whole huge page.
HugeAlias AliasOf(std::byte* data, size_t bytes) {
  return bytes < kHugePage ? HugeAlias() : HugeAlias(absl::MakeSpan(data, bytes));
}

uint64_t RandomNumber() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

// False where nothing is mapped, or less than was said: a load would end the process.
bool ReadCarefully(const std::byte* from, uint64_t* value) {
  const iovec local = {value, sizeof *value};
  const iovec remote = {const_cast<std::byte*>(from), sizeof *value};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) ==
         static_cast<ssize_t>(sizeof *value);
}

absl::Status Unreachable(std::string_view what) {
  return absl::UnavailableError(absl::StrCat("its memory cannot be reached from here: ",
                                             absl::string_view(what.data(), what.size())));
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
  absl::Status MakeKey(KeyHeader header);

  const ucp_context_h context_;
  std::atomic<int>* const regions_;
  ucp_mem_h memory_ = nullptr;
  HugeAlias alias_;
};

absl::Status OwnRegion::Open(size_t bytes) {
  RZ_RETURN_IF_ERROR(CheckSharedRoom(bytes));
  KeyHeader header;
  header.size = (bytes + kPage - 1) / kPage * kPage;
  ucp_mem_map_params_t params = {};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.length = header.size + kPage;
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
  header.address = reinterpret_cast<uint64_t>(attributes.address);
  header.proof = RandomNumber();
  auto* data = static_cast<std::byte*>(attributes.address);
  std::memcpy(data + header.size, &header.proof, sizeof header.proof);
  alias_ = AliasOf(data, params.length);
  if (!alias_.bytes().empty()) {
    alias_.Collapse();
    data = alias_.bytes().data();
  }
  bytes_ = absl::MakeSpan(data, header.size);
  return MakeKey(header);
}

absl::Status OwnRegion::MakeKey(KeyHeader header) {
  void* packed = nullptr;
  size_t length = 0;
  const ucs_status_t status = ucp_rkey_pack(context_, memory_, &packed, &length);
  if (status != UCS_OK) {
    return absl::InternalError(
        absl::StrCat("UCX packs no key of shared memory: ", ucs_status_string(status)));
  }
  key_.assign(reinterpret_cast<const char*>(&header), sizeof header);
  key_.append(static_cast<const char*>(packed), length);
  ucp_rkey_buffer_release(packed);
  if (key_.size() > kMaxSharedKeyBytes) {
    return absl::InternalError(absl::StrCat("UCX's key of shared memory has ", length, " bytes"));
  }
  return absl::OkStatus();
}

class PeerRegion final : public SharedMemory {
 public:
  // `size`: without the proof's page.
  PeerRegion(ucp_rkey_h rkey, std::byte* data, size_t size, std::string key)
      : rkey_(rkey), alias_(AliasOf(data, size + kPage)) {
    if (!alias_.bytes().empty()) data = alias_.bytes().data();
    bytes_ = absl::MakeSpan(data, size);
    key_ = std::move(key);
  }
  ~PeerRegion() override { ucp_rkey_destroy(rkey_); }

 private:
  const ucp_rkey_h rkey_;
  const HugeAlias alias_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SharedMemory>> AllocateUcxShared(ucp_context_h context, size_t bytes,
                                                                std::atomic<int>* regions) {
  auto region = std::make_unique<OwnRegion>(context, regions);
  RZ_RETURN_IF_ERROR(region->Open(bytes));
  return region;
}

absl::StatusOr<std::unique_ptr<SharedMemory>> MapUcxShared(ucp_ep_h endpoint,
                                                           std::string_view key) {
  KeyHeader header;
  if (key.size() <= sizeof header || key.size() > kMaxSharedKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a key of shared memory has ", sizeof header + 1,
                                                   " to ", kMaxSharedKeyBytes,
                                                   " bytes, this one has ", key.size()));
  }
  std::memcpy(&header, key.data(), sizeof header);
  if (header.magic != KeyHeader::kMagic) {
    return absl::InvalidArgumentError("not a key of shared memory: it does not begin with RZSHM1");
  }
  if (endpoint == nullptr) return Unreachable("the connection is closed");
  ucp_rkey_h rkey = nullptr;
  ucs_status_t status = ucp_ep_rkey_unpack(endpoint, key.data() + sizeof header, &rkey);
  if (status != UCS_OK) return Unreachable(ucs_status_string(status));
  absl::Cleanup give_back = [&rkey] { ucp_rkey_destroy(rkey); };
  void* address = nullptr;
  status = ucp_rkey_ptr(rkey, header.address, &address);
  if (status != UCS_OK) return Unreachable(ucs_status_string(status));
  auto* const data = static_cast<std::byte*>(address);
  uint64_t proof = 0;
  if (!ReadCarefully(data + header.size, &proof) || proof != header.proof) {
    return Unreachable("something else is mapped there");
  }
  std::move(give_back).Cancel();
  return std::make_unique<PeerRegion>(rkey, data, header.size, std::string(key));
}

}  // namespace rz
