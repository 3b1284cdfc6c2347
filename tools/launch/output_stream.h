// Where the prefixed lines of all ranks go: standard output or standard error of the launcher.
#ifndef RINGZERO_TOOLS_LAUNCH_OUTPUT_STREAM_H_
#define RINGZERO_TOOLS_LAUNCH_OUTPUT_STREAM_H_

#include <string>

namespace rz {

// Remembers whose unfinished line (one that ends in a carriage return) the screen shows, so that
// another rank's line does not overwrite it. Shared by streams that go to one screen.
struct Cursor {
  int unfinished = -1;  // source, or none
};

// One owner thread.
class OutputStream {
 public:
  // Writes to `fd`, which stays the caller's. `cursor` outlives this.
  OutputStream(int fd, Cursor* cursor) : fd_(fd), cursor_(*cursor) {}

  // Writes whole lines of `source`, all of them. False once it could not: see error().
  bool Write(int source, const std::string& lines);

  // errno of the first write that failed (EPIPE: nobody reads any more); 0: none has.
  int error() const { return error_; }

  // Ends a line that is still unfinished.
  void Finish();

  // Whether the two descriptors are one file or terminal.
  static bool AreOne(int fd, int other);

 private:
  bool WriteAll(const std::string& bytes);

  const int fd_;
  Cursor& cursor_;
  int error_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_LAUNCH_OUTPUT_STREAM_H_
