// A program as a child of a test: its outputs, its end, and proof that nothing of it is left.
#ifndef RINGZERO_TESTS_INTEGRATION_SUBPROCESS_H_
#define RINGZERO_TESTS_INTEGRATION_SUBPROCESS_H_

#include <sys/types.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "runtime/base/sync.h"

namespace rz::testing {

// Waits are long enough for any machine; one that runs out is a failure of the test.
class Subprocess {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  explicit Subprocess(const std::vector<std::string>& command, const std::string& input = "",
                      const Environment& environment = {});

  // Kills it where it still runs, and whatever it left.
  ~Subprocess();

  // Waits until the output (standard output and standard error together) has `text`.
  bool WaitForOutput(const std::string& text);

  // Waits for its end; the exit status, or 128 + the signal.
  int Wait();

  // Waits until the program and every process it has started have ended: each holds a pipe open.
  bool WaitUntilNothingIsLeft();

  void Signal(int number);

  std::string Output() const;       // standard output so far
  std::string ErrorOutput() const;  // standard error so far
  pid_t pid() const { return pid_; }

 private:
  void Gather(int fd, std::string* into);

  pid_t pid_ = -1;
  int exit_code_ = -1;
  int witness_ = -1;
  std::vector<std::thread> threads_;
  mutable Mutex mutex_;
  CondVar more_output_;
  std::string output_ ABSL_GUARDED_BY(mutex_);
  std::string error_output_ ABSL_GUARDED_BY(mutex_);
};

// The program of Bazel target `label_path`, e.g. "tools/rz_run", among the test's data.
std::string ProgramPath(const std::string& label_path);

// How a program ended, and all it wrote.
struct Ending {
  int exit_code = -1;  // 128 + the signal that ended it
  std::string out;
  std::string err;
};

// Waits for the end, and expects that nothing the program started is left.
Ending EndOf(Subprocess& program);

}  // namespace rz::testing

#endif  // RINGZERO_TESTS_INTEGRATION_SUBPROCESS_H_
