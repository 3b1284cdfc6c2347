#include "runtime/base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace rz {

uint32_t Crc32c(uint32_t crc, const void* data, size_t size) {
  // crc32_iscsi counts in int and takes the inverted register.
  constexpr size_t kPiece = size_t{1} << 30;
  auto* bytes = static_cast<unsigned char*>(const_cast<void*>(data));
  while (size > 0) {
    const size_t piece = std::min(size, kPiece);
    crc = ~crc32_iscsi(bytes, static_cast<int>(piece), ~crc);
    bytes += piece;
    size -= piece;
  }
  return crc;
}

}  // namespace rz
