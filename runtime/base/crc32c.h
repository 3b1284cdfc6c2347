// CRC-32C (Castagnoli), as iSCSI and safetensors-style manifests use it.
#ifndef RINGZERO_RUNTIME_BASE_CRC32C_H_
#define RINGZERO_RUNTIME_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace rz {

// Continues `crc` (0 to begin) over `size` bytes: Crc32c(Crc32c(0, a), b) is the CRC of a followed
// by b.
uint32_t Crc32c(uint32_t crc, const void* data, size_t size);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_BASE_CRC32C_H_
