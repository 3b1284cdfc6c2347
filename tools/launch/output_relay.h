// OutputRelay: carries what the ranks write to the launcher's own outputs, line by line, each with
// its rank where that is wanted.
#ifndef RINGZERO_TOOLS_LAUNCH_OUTPUT_RELAY_H_
#define RINGZERO_TOOLS_LAUNCH_OUTPUT_RELAY_H_

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/launch/line_prefixer.h"
#include "tools/launch/output_stream.h"
#include "tools/launch/process.h"

namespace rz {

// One owner thread.
class OutputRelay {
 public:
  // `program` begins the launcher's own lines; with `prefix` each line of a rank begins with it.
  OutputRelay(std::string program, bool prefix);

  // Takes the reading end, which does not block, of what `rank` writes to standard output (`target`
  // 0) or standard error (1).
  void Add(int rank, int target, ScopedFd from);

  // A line of the launcher itself, on standard error.
  void Say(const std::string& text);

  void AddToPoll(std::vector<pollfd>* waits) const;

  // Takes one piece of each, so that a rank that writes without end does not starve the others.
  void Move();

  // To be called when all ranks have ended: takes what is left, and ends what has no end.
  void Finish();

  // What the launcher's exit code becomes: kExitFailure where ours could not be written, and 128 +
  // SIGPIPE in place of 0 where nobody read it.
  int WithWriteErrors(int code) const;

 private:
  // One output of one rank on its way to ours.
  struct Output {
    int rank = 0;
    int target = 0;
    ScopedFd fd;
    LinePrefixer prefixer;
  };

  // Whether there may be more at once.
  bool MoveOutput(Output& output);
  bool Write(const Output& output, const std::string& lines);

  const std::string program_;
  const bool prefix_;
  Cursor cursors_[2];
  OutputStream streams_[2];  // standard output, standard error
  std::vector<Output> outputs_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_LAUNCH_OUTPUT_RELAY_H_
