#include "tools/train/idx_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "tools/train/limits.h"

namespace rz {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr size_t kFixedHeader = 4;

std::string HexByte(uint8_t byte) { return absl::StrCat("0x", absl::Hex(byte, absl::kZeroPad2)); }

absl::StatusOr<std::vector<uint8_t>> ReadFile(const std::string& path, size_t max_bytes) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) {
    const std::string reason = absl::StrCat(path, ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(reason) : absl::UnknownError(reason);
  }
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> block(size_t{1} << 20);
  while (true) {
    const size_t count = std::fread(block.data(), 1, block.size(), file.get());
    bytes.insert(bytes.end(), block.begin(), block.begin() + static_cast<ptrdiff_t>(count));
    if (bytes.size() > max_bytes) {
      return absl::OutOfRangeError(
          absl::StrCat(path, ": larger than the ", max_bytes, " bytes a data file may have"));
    }
    if (count < block.size()) break;
  }
  if (std::ferror(file.get()) != 0) {
    return absl::UnknownError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return bytes;
}

// Ends an inflate stream whatever way its user returns.
struct Inflater {
  ~Inflater() {
    if (open) inflateEnd(&stream);
  }
  z_stream stream = {};
  bool open = false;
};

}  // namespace

absl::StatusOr<std::vector<uint8_t>> Gunzip(const std::string& name,
                                            absl::Span<const uint8_t> compressed,
                                            size_t max_bytes) {
  if (compressed.size() < 2 || compressed[0] != 0x1f || compressed[1] != 0x8b) {
    return absl::DataLossError(absl::StrCat(
        name, ": not a gzip file: expected 0x1f 0x8b at its start, found ",
        compressed.size() < 2 ? absl::StrCat(compressed.size(), " bytes in all")
                              : absl::StrCat(HexByte(compressed[0]), " ", HexByte(compressed[1]))));
  }
  Inflater inflater;
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  if (inflateInit2(&inflater.stream, kGzipOnly) != Z_OK) {
    return absl::ResourceExhaustedError(absl::StrCat(name, ": zlib has no memory to unpack it"));
  }
  inflater.open = true;
  z_stream& stream = inflater.stream;
  stream.next_in = const_cast<Bytef*>(compressed.data());
  stream.avail_in = static_cast<uInt>(compressed.size());

  std::vector<uint8_t> bytes;
  std::vector<uint8_t> block(size_t{1} << 18);
  int result = Z_OK;
  while (result != Z_STREAM_END) {
    stream.next_out = block.data();
    stream.avail_out = static_cast<uInt>(block.size());
    result = inflate(&stream, Z_NO_FLUSH);
    const size_t count = block.size() - stream.avail_out;
    if (result == Z_BUF_ERROR || (result == Z_OK && count == 0 && stream.avail_in == 0)) {
      return absl::DataLossError(absl::StrCat(name, ": cut off: the gzip stream has no end after ",
                                              compressed.size(), " bytes; fetch the file again"));
    }
    if (result != Z_OK && result != Z_STREAM_END) {
      return absl::DataLossError(absl::StrCat(
          name, ": damaged gzip stream near byte ", compressed.size() - stream.avail_in, ": ",
          stream.msg != nullptr ? stream.msg : "no reason given", "; fetch the file again"));
    }
    if (bytes.size() + count > max_bytes) {
      return absl::OutOfRangeError(absl::StrCat(name, ": unpacks to more than the ", max_bytes,
                                                " bytes a data file may have"));
    }
    bytes.insert(bytes.end(), block.begin(), block.begin() + static_cast<ptrdiff_t>(count));
  }
  if (stream.avail_in != 0) {
    return absl::DataLossError(absl::StrCat(name,
                                            ": expected its end after the gzip stream, found ",
                                            stream.avail_in, " further bytes"));
  }
  return bytes;
}

absl::StatusOr<IdxArray> ParseIdx(const std::string& name, std::vector<uint8_t> bytes,
                                  size_t dimensions) {
  const size_t header = kFixedHeader + 4 * dimensions;
  if (bytes.size() < header) {
    return absl::DataLossError(absl::StrCat(name, ": expected an IDX header of ", header,
                                            " bytes, found ", bytes.size(), " bytes in all"));
  }
  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != kUnsignedByte || bytes[3] != dimensions) {
    return absl::DataLossError(
        absl::StrCat(name, ": expected IDX magic 0x00 0x00 ", HexByte(kUnsignedByte), " ",
                     HexByte(static_cast<uint8_t>(dimensions)), " (unsigned bytes, ", dimensions,
                     " dimensions), found ", HexByte(bytes[0]), " ", HexByte(bytes[1]), " ",
                     HexByte(bytes[2]), " ", HexByte(bytes[3])));
  }
  const size_t payload = bytes.size() - header;
  IdxArray array;
  // The product stays at or below the bytes really there, so it cannot overflow.
  uint64_t expected = 1;
  bool fits = true;
  for (size_t d = 0; d < dimensions; ++d) {
    const uint8_t* at = bytes.data() + kFixedHeader + 4 * d;
    const uint64_t length =
        uint64_t{at[0]} << 24 | uint64_t{at[1]} << 16 | uint64_t{at[2]} << 8 | uint64_t{at[3]};
    if (length == 0) {
      return absl::DataLossError(absl::StrCat(name, ": dimension ", d + 1, " has length 0"));
    }
    array.lengths.push_back(static_cast<int64_t>(length));
    fits = fits && length <= payload / expected;
    if (fits) expected *= length;
  }
  if (!fits || expected != payload) {
    return absl::DataLossError(
        absl::StrCat(name, ": expected ", absl::StrJoin(array.lengths, " x "),
                     " bytes after the header, as it says, found ", payload));
  }
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(header));
  array.elements = std::move(bytes);
  return array;
}

absl::StatusOr<IdxArray> ReadIdxGzipFile(const std::string& path, size_t dimensions) {
  RZ_ASSIGN_OR_RETURN(const std::vector<uint8_t> compressed, ReadFile(path, kMaxCompressedBytes));
  RZ_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, Gunzip(path, compressed, kMaxUnpackedBytes));
  return ParseIdx(path, std::move(bytes), dimensions);
}

}  // namespace rz
