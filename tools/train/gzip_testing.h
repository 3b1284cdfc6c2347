// Small gzip and IDX files for tests.
#ifndef RINGZERO_TOOLS_TRAIN_GZIP_TESTING_H_
#define RINGZERO_TOOLS_TRAIN_GZIP_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

namespace rz::testing {

using Bytes = std::vector<uint8_t>;

// `bytes` as one gzip member.
Bytes Gzip(const Bytes& bytes);

// An IDX array of unsigned bytes: header for `lengths`, then `elements` as they are.
Bytes IdxBytes(const std::vector<uint32_t>& lengths, const Bytes& elements);

// Writes the file, or ends the test program.
void WriteBytes(const std::string& path, const Bytes& bytes);

}  // namespace rz::testing

#endif  // RINGZERO_TOOLS_TRAIN_GZIP_TESTING_H_
