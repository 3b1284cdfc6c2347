// Runs a program from a test and sees what it says and how it ends.
#ifndef RINGZERO_TESTS_INTEGRATION_PROGRAM_H_
#define RINGZERO_TESTS_INTEGRATION_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rz::testing {

// How a program ended and all it wrote.
struct ProgramResult {
  int exit_code = -1;  // -1 where a signal ended it
  int signal = 0;
  std::string out;
  std::string err;
};

// A child process. It is killed with its test. Nothing here has a deadline of its own: the test's
// own limit ends what hangs. For tests without other threads.
class Program {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  // Starts argv[0], with `environment` put over the test's own.
  Program(const std::vector<std::string>& argv, const Environment& environment);

  // Kills what is still running.
  ~Program();

  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }

  // Reads until standard output holds `text`; false where it ends without.
  bool WaitForOutput(std::string_view text);

  const std::string& out() const { return result_.out; }

  void Kill(int signal) const;

  // Reads everything and waits for the end.
  ProgramResult Wait();

 private:
  // Reads what is there of both outputs; false once both have ended.
  bool ReadSome();

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  ProgramResult result_;
};

// The constructor and Wait.
ProgramResult RunProgram(const std::vector<std::string>& argv,
                         const Program::Environment& environment = {});

// Processes whose environment has NAME=VALUE, as their command lines.
std::vector<std::string> ProcessesWith(const std::string& name, const std::string& value);

}  // namespace rz::testing

#endif  // RINGZERO_TESTS_INTEGRATION_PROGRAM_H_
