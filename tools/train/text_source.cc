#include "tools/train/text_source.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tools/train/limits.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

// Streams of a synthetic text's seed.
constexpr uint64_t kTableStream = 4;
constexpr uint64_t kTextStream = 5;

// Reads to the end; `what` begins messages.
absl::StatusOr<std::string> ReadAll(int fd, const std::string& what) {
  constexpr size_t kPart = size_t{1} << 20;
  std::string text;
  while (true) {
    const size_t had = text.size();
    text.resize(had + kPart);
    const ssize_t got = read(fd, text.data() + had, kPart);
    text.resize(had + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnknownError(absl::StrCat(what, ": ", std::strerror(errno)));
    if (got == 0) return text;
    if (text.size() > kMaxTextBytes) {
      return absl::OutOfRangeError(
          absl::StrCat(what, ": larger than the ", kMaxTextBytes, " bytes a text may have"));
    }
  }
}

// Ends it where it still runs.
int ExitStatusOf(pid_t pid, bool kill_it) {
  if (kill_it) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::UnknownError(absl::StrCat("no pipe: ", std::strerror(errno)));
  }
  const auto close_reader = absl::MakeCleanup([&ends] { close(ends[0]); });
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    const std::string reason = absl::StrCat("cannot run ", command[0], ": ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(reason) : absl::UnknownError(reason);
  }
  absl::StatusOr<std::string> text = ReadAll(ends[0], command[0]);
  const int exit_status = ExitStatusOf(pid, !text.ok());
  if (!text.ok() || exit_status == 0) return text;
  return absl::FailedPreconditionError(
      absl::StrCat(command[0], " failed with exit status ", exit_status));
}

absl::StatusOr<std::string> ReadBible() {
  // The lines' width depends on the environment, and its data on the directory, unless they are
  // given.
  const absl::StatusOr<std::string> text =
      OutputOf({"bible", "-l79", "-p", "/usr/lib", "gen1:1-rev22:21"});
  if (text.ok()) return text;
  return absl::Status(
      text.status().code(),
      absl::StrCat(text.status().message(),
                   ": run apt-get install bible-kjv, or name a text file with --data-dir"));
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const std::string reason = absl::StrCat(path, ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(reason) : absl::UnknownError(reason);
  }
  const auto close_it = absl::MakeCleanup([fd] { close(fd); });
  return ReadAll(fd, path);
}

std::string SyntheticText(uint64_t seed, size_t length) {
  constexpr std::string_view kLetters = "abcdefghijklmno\n";
  constexpr uint64_t kCount = kLetters.size();
  constexpr uint64_t kSurprise = 8;  // one in so many letters does not follow
  const RandomStream table(seed, kTableStream);
  const RandomStream random(seed, kTextStream);
  std::string text;
  text.reserve(length);
  uint64_t before = 0;
  uint64_t last = 0;
  for (size_t i = 0; i < length; ++i) {
    const uint64_t follows = table.Below(before * kCount + last, kCount);
    const bool surprise = random.Below(2 * i, kSurprise) == 0;
    before = last;
    last = surprise ? random.Below(2 * i + 1, kCount) : follows;
    text.push_back(kLetters[last]);
  }
  return text;
}

}  // namespace rz
