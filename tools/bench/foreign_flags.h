// Flags of nccl-tests that speak of GPUs, threads and streams. They are taken, so that its command
// lines run unchanged, with the values that ask for nothing, and refused with any other.
#ifndef RINGZERO_TOOLS_BENCH_FOREIGN_FLAGS_H_
#define RINGZERO_TOOLS_BENCH_FOREIGN_FLAGS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tools/flag_set.h"

namespace rz {

class ForeignFlags {
 public:
  ForeignFlags();

  // `flags` keeps pointers into this object.
  void Declare(FlagSet* flags);

  //   InvalidArgument  a value that asks for something; the message says what to do instead
  absl::Status Check() const;

 private:
  std::vector<int64_t> values_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_FOREIGN_FLAGS_H_
