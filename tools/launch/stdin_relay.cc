#include "tools/launch/stdin_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace rz {
namespace {

// A background job that reads from its terminal would be stopped.
bool MayRead(int fd) { return !isatty(fd) || tcgetpgrp(fd) == getpgrp(); }

}  // namespace

StdinRelay::StdinRelay(int source, ScopedFd sink) : source_(source), sink_(std::move(sink)) {
  fcntl(sink_.get(), F_SETFL, O_NONBLOCK);
}

int StdinRelay::readable() const {
  return !ended_ && pending_.empty() && sink_.get() >= 0 && MayRead(source_) ? source_ : -1;
}

int StdinRelay::writable() const { return pending_.empty() ? -1 : sink_.get(); }

void StdinRelay::Move() {
  pollfd input{.fd = readable(), .events = POLLIN, .revents = 0};
  if (input.fd >= 0 && poll(&input, 1, 0) == 1) {
    char buffer[4096];
    const ssize_t got = read(source_, buffer, sizeof(buffer));
    if (got > 0) pending_.assign(buffer, got);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) ended_ = true;
  }
  if (!pending_.empty() && sink_.get() >= 0) {
    const ssize_t put = write(sink_.get(), pending_.data(), pending_.size());
    if (put > 0) pending_.erase(0, put);
    if (put < 0 && errno != EINTR && errno != EAGAIN) sink_.Close();
  }
  if (ended_ && pending_.empty()) sink_.Close();
  if (sink_.get() < 0) pending_.clear();
}

}  // namespace rz
