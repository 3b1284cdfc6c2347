// Where texts to train on come from.
#ifndef RINGZERO_TOOLS_TRAIN_TEXT_SOURCE_H_
#define RINGZERO_TOOLS_TRAIN_TEXT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rz {

// The King James Bible as the command `bible` of Debian's bible-kjv prints it: 4,298,239 bytes.
//   NotFound             there is no such command; the message names the package
//   FailedPrecondition   the command failed; the message has its exit status
//   OutOfRange, Unknown  more than kMaxTextBytes; not to be read
absl::StatusOr<std::string> ReadBible();

// What a command, found through PATH, writes to its standard output; its standard input is empty.
//   NotFound                                 there is none
//   FailedPrecondition, OutOfRange, Unknown  as above
absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& command);

// A file's bytes.
//   NotFound, Unknown  missing, unreadable
//   OutOfRange         more than kMaxTextBytes
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// Letters of which each mostly follows from the two before it, in a way that depends on the seed:
// a model that sees more than one does better than the text's bigrams. The same for the same
// arguments everywhere.
std::string SyntheticText(uint64_t seed, size_t length);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_TEXT_SOURCE_H_
