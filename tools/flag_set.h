// The command line of every tool: declared once, read once.
//
//   int64_t ranks = 1;
//   FlagSet flags("rz_run", "starts the ranks of a job on this host");
//   flags.Int("ranks", &ranks, {1, 64}, "how many", {"n", "np"});
//   flags.Example("rz_run -n 4 -- bazel-bin/tools/rz_train --quick");
//   flags.ParseOrExit(argc, argv);
//
// `--name value` and `--name=value` are the same; an alias of any length takes one dash (`-np 4`,
// `-n=4`). A switch stands alone (`--compare`), is denied as `--no-compare`, and takes a value only
// behind `=`. What follows `--` is kept as it is. Where a flag stands twice, the last one counts.
// A variable keeps its value as the default unless its flag was given.
#ifndef RINGZERO_TOOLS_FLAG_SET_H_
#define RINGZERO_TOOLS_FLAG_SET_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace rz {

inline constexpr std::string_view kToolsVersion = "0.1.0";

// What K, M, G and T multiply by: 1024 (buffers) or 1000 (parameters, bandwidths). Ki, Mi, Gi and
// Ti are 1024 always.
enum class SizeUnit { kBinary, kDecimal };

// What a number may be, both ends included. Infinity and NaN are never within.
struct IntRange {
  int64_t low = 0;
  int64_t high = 0;
};
struct DoubleRange {
  double low = 0;
  double high = 0;
};
struct DurationRange {
  absl::Duration low;
  absl::Duration high;
};

class FlagSet {
 public:
  using Aliases = std::vector<std::string>;

  FlagSet(std::string program, std::string summary);

  // Declares a flag `--name` that writes to `*value`, which outlives this object. Names are unique.
  // --help shows the default, where it is a value that the flag takes.
  void String(std::string name, std::string* value, std::string help, Aliases aliases = {});
  void Int(std::string name, int64_t* value, IntRange range, std::string help,
           Aliases aliases = {});
  void Double(std::string name, double* value, DoubleRange range, std::string help,
              Aliases aliases = {});
  void Bool(std::string name, bool* value, std::string help, Aliases aliases = {});
  void Size(std::string name, int64_t* value, std::string help, Aliases aliases = {},
            SizeUnit unit = SizeUnit::kBinary);
  // "1.5s", "300ms", "5m"; a bare number is seconds.
  void Duration(std::string name, absl::Duration* value, DurationRange range, std::string help,
                Aliases aliases = {});
  // One of `choices`, in any case; the value is spelled as there.
  void Enum(std::string name, std::string* value, std::vector<std::string> choices,
            std::string help, Aliases aliases = {});

  // For --help: what the program does, beyond its summary, as lines of text.
  void Description(std::string text);
  // For --help: a variable of the environment that it reads, or several, and what they say.
  void Environment(std::string names, std::string help);
  // A line for the examples of --help.
  void Example(std::string line);
  // What --help says of exit codes, for a program that has others than exit_code.h's first three.
  void ExitCodes(std::string text);
  // What stands for the arguments without a flag in the usage line, e.g. "OPERATION"; without it
  // such arguments are errors.
  void Positional(std::string usage);
  // What stands behind `--` in the usage line, e.g. "PROGRAM ARGS"; without it `--` is an error.
  void Rest(std::string usage);

  // Reads the arguments without the program's name. --help and --version are noticed and reading
  // stops there: see help_requested().
  //   InvalidArgument  unknown flag (the message has the nearest name), missing or malformed value
  //                    or one out of range (the message has both), unexpected argument
  absl::Status Parse(const std::vector<std::string>& arguments);

  // Parse, then acts on it: --help and --version print and exit 0, an error is one line on standard
  // error and exit code 2.
  void ParseOrExit(int argc, char** argv);

  // One line on standard error, `PROGRAM: MESSAGE (see PROGRAM --help)`, and exit code 2: for
  // combinations of flags that only the program can judge.
  [[noreturn]] void UsageError(std::string_view message) const;

  // The end of a program that prints: sends out standard output, and makes of a success a failure,
  // with one line on standard error, where that cannot be written.
  [[noreturn]] void ExitWith(int code) const;

  // Gives flag `name` (without dashes) the value `text`, as the command line would.
  //   InvalidArgument  unknown name, or a value it does not take
  absl::Status Set(std::string_view name, const std::string& text);

  bool WasSet(std::string_view name) const;
  bool help_requested() const { return help_requested_; }
  bool version_requested() const { return version_requested_; }
  const std::vector<std::string>& positional() const { return positional_; }
  const std::vector<std::string>& rest() const { return rest_; }

  std::string Help() const;
  std::string Version() const;

 private:
  struct Flag {
    std::string name = {};
    Aliases aliases = {};
    std::string help = {};
    std::string type = {};  // as --help shows it
    std::string default_text = {};
    bool is_switch = false;
    bool was_set = false;
    std::optional<SizeUnit> size_unit = {};
    // Reads a value; the message of an error says only what is expected.
    std::function<absl::Status(const std::string&)> read = {};
  };

  void Add(Flag flag);
  Flag* Find(std::string_view name);
  absl::Status UnknownFlag(std::string_view shown, std::string_view name) const;
  absl::Status Assign(Flag& flag, std::string_view shown, const std::string& text);
  // What SIZE and TIME stand for, where flags take them.
  std::string Units() const;
  // Reads arguments[*index], which starts with a dash, and its value where it has one.
  absl::Status ParseFlag(const std::vector<std::string>& arguments, size_t* index);

  const std::string program_;
  const std::string summary_;
  std::string positional_usage_;
  std::string rest_usage_;
  std::string description_;
  std::vector<Flag> flags_;
  std::vector<std::pair<std::string, std::string>> environment_;
  std::vector<std::string> examples_;
  std::string exit_codes_ = "0 ok, 1 failed (one line on standard error says why), 2 wrong usage";
  std::vector<std::string> positional_;
  std::vector<std::string> rest_;
  bool help_requested_ = false;
  bool version_requested_ = false;
};

// "64", "4K", "1.5M", "2Gi", "80GB" in units of one; what FlagSet::Size reads.
//   InvalidArgument  not a number, an unknown suffix, negative, or beyond 64 bits
absl::Status ParseSize(std::string_view text, SizeUnit unit, int64_t* value);

}  // namespace rz

#endif  // RINGZERO_TOOLS_FLAG_SET_H_
