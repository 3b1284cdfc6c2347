#include "tools/launch/output_stream.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace rz {

bool OutputStream::AreOne(int fd, int other) {
  struct stat a, b;
  return fstat(fd, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

bool OutputStream::WriteAll(const std::string& bytes) {
  for (size_t done = 0; done < bytes.size() && error_ == 0;) {
    const ssize_t written = write(fd_, bytes.data() + done, bytes.size() - done);
    if (written >= 0) {
      done += written;
    } else if (errno == EAGAIN) {
      // A descriptor that somebody else made non-blocking.
      pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  return error_ == 0;
}

bool OutputStream::Write(int source, const std::string& lines) {
  if (lines.empty()) return error_ == 0;
  const bool interrupts = cursor_.unfinished >= 0 && cursor_.unfinished != source;
  cursor_.unfinished = lines.back() == '\r' ? source : -1;
  return WriteAll(interrupts ? "\n" + lines : lines);
}

void OutputStream::Finish() {
  if (cursor_.unfinished < 0) return;
  cursor_.unfinished = -1;
  WriteAll("\n");
}

}  // namespace rz
