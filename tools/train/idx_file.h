// IDX, the array format of MNIST and its kin, inside gzip.
//
//   bytes 0-1  zero        byte 2  element type (0x08: unsigned byte)     byte 3  dimensions D
//   then D big-endian 32-bit lengths, then the elements, row-major, and nothing after them.
//
// The parsers are strict and work on bytes in memory; every error is one line that names the file,
// what was expected and what was found. Memory grows with the bytes really there, never with a
// length that a file claims.
#ifndef RINGZERO_TOOLS_TRAIN_IDX_FILE_H_
#define RINGZERO_TOOLS_TRAIN_IDX_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rz {

// An array of unsigned bytes.
struct IdxArray {
  std::vector<int64_t> lengths;
  std::vector<uint8_t> elements;
};

// Unpacks one gzip member that fills all of `compressed`. `name` stands at the start of errors.
//   DataLoss         not gzip, damaged, cut off, followed by further bytes
//   OutOfRange       more than `max_bytes` come out
absl::StatusOr<std::vector<uint8_t>> Gunzip(const std::string& name,
                                            absl::Span<const uint8_t> compressed, size_t max_bytes);

// Reads an array of `dimensions` dimensions from `bytes`; none may have length 0.
//   DataLoss  anything that is not exactly such an array
absl::StatusOr<IdxArray> ParseIdx(const std::string& name, std::vector<uint8_t> bytes,
                                  size_t dimensions);

// Reads the file, unpacks and parses it.
//   NotFound    there is no such file
//   OutOfRange  larger than kMaxCompressedBytes or kMaxUnpackedBytes
//   DataLoss    as above
//   Unknown     the system cannot read it; the message has its reason
absl::StatusOr<IdxArray> ReadIdxGzipFile(const std::string& path, size_t dimensions);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_IDX_FILE_H_
