#include "tools/launch/output_relay.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/exit_code.h"

namespace rz {

OutputRelay::OutputRelay(std::string program, bool prefix)
    : program_(std::move(program)),
      prefix_(prefix),
      streams_{
          OutputStream(STDOUT_FILENO, &cursors_[0]),
          OutputStream(STDERR_FILENO,
                       &cursors_[OutputStream::AreOne(STDOUT_FILENO, STDERR_FILENO) ? 0 : 1])} {}

void OutputRelay::Add(int rank, int target, ScopedFd from) {
  // Redrawn lines are for people: a file gets the last state of each.
  const bool show_updates = rank == 0 && isatty(target == 0 ? STDOUT_FILENO : STDERR_FILENO) == 1;
  const std::string prefix = prefix_ ? absl::StrCat("[", rank, "] ") : "";
  outputs_.push_back({rank, target, std::move(from), LinePrefixer(prefix, show_updates)});
}

void OutputRelay::Say(const std::string& text) {
  streams_[1].Write(-1, absl::StrCat(program_, ": ", text, "\n"));
}

void OutputRelay::AddToPoll(std::vector<pollfd>* waits) const {
  for (const Output& output : outputs_) waits->push_back({output.fd.get(), POLLIN, 0});
}

void OutputRelay::Move() {
  for (Output& output : outputs_) MoveOutput(output);
}

bool OutputRelay::MoveOutput(Output& output) {
  if (output.fd.get() < 0) return false;
  char buffer[16384];
  const ssize_t got = read(output.fd.get(), buffer, sizeof(buffer));
  if (got < 0) return errno == EINTR;
  const std::string lines =
      got > 0 ? output.prefixer.Feed(std::string_view(buffer, got)) : output.prefixer.Finish();
  // Where ours takes no more, the ranks shall notice as if they wrote there themselves.
  const bool read_on = Write(output, lines);
  if (got == 0 || !read_on) output.fd.Close();
  return got > 0 && read_on;
}

bool OutputRelay::Write(const Output& output, const std::string& lines) {
  OutputStream& stream = streams_[output.target];
  const bool worked_before = stream.error() == 0;
  const bool works = stream.Write(output.rank, lines);
  if (worked_before && !works && stream.error() != EPIPE) {
    Say(absl::StrCat("cannot write to standard ", output.target == 0 ? "output" : "error", ": ",
                     std::strerror(stream.error())));
  }
  return works;
}

void OutputRelay::Finish() {
  for (Output& output : outputs_) {
    while (MoveOutput(output)) {
    }
    // A process that left the group may hold the pipe open: that is not waited for.
    if (output.fd.get() >= 0) Write(output, output.prefixer.Finish());
  }
  for (OutputStream& stream : streams_) stream.Finish();
}

int OutputRelay::WithWriteErrors(int code) const {
  for (const OutputStream& stream : streams_) {
    if (stream.error() != 0 && stream.error() != EPIPE) return kExitFailure;
  }
  for (const OutputStream& stream : streams_) {
    if (stream.error() == EPIPE && code == kExitOk) return kExitSignal + SIGPIPE;
  }
  return code;
}

}  // namespace rz
