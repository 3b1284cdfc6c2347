// Standard output to the last byte: a full disk shows only when what is buffered goes out.
#ifndef RINGZERO_TOOLS_STANDARD_OUTPUT_H_
#define RINGZERO_TOOLS_STANDARD_OUTPUT_H_

#include "absl/status/status.h"

namespace rz {

// Sends out what std::cout and stdout hold.
//   Unknown  this or a write before failed; the message has the system's reason where it is known
absl::Status FlushStandardOutput();

}  // namespace rz

#endif  // RINGZERO_TOOLS_STANDARD_OUTPUT_H_
