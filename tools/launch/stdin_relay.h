// Hands the terminal's input to rank 0. A rank leads a process group of its own, which the terminal
// would stop for reading from it; the launcher may read.
#ifndef RINGZERO_TOOLS_LAUNCH_STDIN_RELAY_H_
#define RINGZERO_TOOLS_LAUNCH_STDIN_RELAY_H_

#include <string>

#include "tools/launch/process.h"

namespace rz {

// From descriptor `source` into a pipe, without blocking on either. One owner thread, which polls
// the two descriptors and calls Move whenever one is ready.
class StdinRelay {
 public:
  StdinRelay(int source, ScopedFd sink);

  // What to wait for: -1 where nothing.
  int readable() const;
  int writable() const;

  // Moves what there is. At the end of the input, and when nobody reads, the pipe is closed.
  void Move();

 private:
  const int source_;
  ScopedFd sink_;
  std::string pending_;
  bool ended_ = false;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_LAUNCH_STDIN_RELAY_H_
