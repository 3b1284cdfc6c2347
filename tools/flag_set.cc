#include "tools/flag_set.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/duration_text.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/status_macros.h"
#include "tools/exit_code.h"
#include "tools/standard_output.h"

namespace rz {
namespace {

// "4 to 16" of what is read, whatever its type.
template <typename Range, typename Text>
std::string RangeText(const Range& range, Text text) {
  return absl::StrCat(text(range.low), " to ", text(range.high));
}

std::string NumberText(double value) { return absl::StrCat(value); }
std::string IntText(int64_t value) { return absl::StrCat(value); }

// Reads base 10 only, all of the text.
template <typename T, typename Range, typename Read, typename Text>
absl::Status ReadWithin(const std::string& text, T* value, const Range& range, Read read, Text show,
                        const char* what) {
  T parsed;
  if (!read(text, &parsed) || !(parsed >= range.low && parsed <= range.high)) {
    return absl::InvalidArgumentError(absl::StrCat(what, " from ", RangeText(range, show)));
  }
  *value = parsed;
  return absl::OkStatus();
}

bool ReadDuration(const std::string& text, absl::Duration* value) {
  const std::optional<absl::Duration> parsed = ParseDuration(text);
  if (parsed.has_value()) *value = *parsed;
  return parsed.has_value();
}

// 0 where the suffix is none of ours.
double Multiplier(std::string suffix, SizeUnit unit) {
  if (absl::EndsWithIgnoreCase(suffix, "b")) suffix.pop_back();
  if (suffix.empty()) return 1;
  const bool binary = suffix.size() == 2 && absl::ascii_tolower(suffix[1]) == 'i';
  if (suffix.size() != (binary ? 2u : 1u)) return 0;
  const size_t power = std::string_view("kmgt").find(absl::ascii_tolower(suffix[0]));
  if (power == std::string_view::npos) return 0;
  return std::pow(binary || unit == SizeUnit::kBinary ? 1024.0 : 1000.0, power + 1);
}

// In the largest unit that it is a whole number of.
std::string SizeText(int64_t size, SizeUnit unit) {
  const int64_t step = unit == SizeUnit::kBinary ? 1024 : 1000;
  const char* suffix = "";
  for (const char* next : {"K", "M", "G", "T"}) {
    if (size == 0 || size % step != 0) break;
    size /= step;
    suffix = next;
  }
  return absl::StrCat(size, suffix);
}

// "" for what stands for "not given".
template <typename T, typename Range>
std::string DefaultText(T value, const Range& range) {
  return value >= range.low && value <= range.high ? absl::StrCat(value) : "";
}

// Two columns of --help; a long left one has a line for itself.
std::string Columns(std::string left, const std::string& right) {
  const bool alone = left.size() > 24;
  if (alone) absl::StrAppend(&left, "\n", std::string(26, ' '));
  return absl::StrCat(absl::StrFormat("  %-24s", left), alone ? "" : " ", right, "\n");
}

std::string Dashed(std::string_view name) { return absl::StrCat("--", std::string(name)); }

}  // namespace

absl::Status ParseSize(std::string_view text, SizeUnit unit, int64_t* value) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string number(text.substr(0, digits));
  const double multiplier = Multiplier(std::string(text.substr(digits)), unit);
  double count;
  absl::Status malformed = absl::InvalidArgumentError("a size such as 4096, 64K, 1.5M or 2G");
  if (multiplier == 0 || !absl::SimpleAtod(number, &count)) return malformed;
  int64_t whole;
  if (multiplier == 1 && absl::SimpleAtoi(number, &whole)) {
    *value = whole;
    return absl::OkStatus();
  }
  const double size = count * multiplier;
  if (!(size < 9.2e18)) return absl::InvalidArgumentError("a size below 2^63");
  if (size != std::floor(size)) return absl::InvalidArgumentError("a whole number");
  *value = static_cast<int64_t>(size);
  return absl::OkStatus();
}

FlagSet::FlagSet(std::string program, std::string summary)
    : program_(std::move(program)), summary_(std::move(summary)) {}

void FlagSet::Add(Flag flag) { flags_.push_back(std::move(flag)); }

void FlagSet::String(std::string name, std::string* value, std::string help, Aliases aliases) {
  Add({.name = std::move(name),
       .aliases = std::move(aliases),
       .help = std::move(help),
       .type = "TEXT",
       .default_text = *value,
       .read = [value](const std::string& text) {
         *value = text;
         return absl::OkStatus();
       }});
}

void FlagSet::Int(std::string name, int64_t* value, IntRange range, std::string help,
                  Aliases aliases) {
  Add({.name = std::move(name),
       .aliases = std::move(aliases),
       .help = std::move(help),
       .type = "N",
       .default_text = DefaultText(*value, range),
       .read = [value, range](const std::string& text) {
         return ReadWithin(
             text, value, range,
             [](const std::string& t, int64_t* v) { return absl::SimpleAtoi(t, v); }, IntText,
             "a whole number");
       }});
}

void FlagSet::Double(std::string name, double* value, DoubleRange range, std::string help,
                     Aliases aliases) {
  Add({.name = std::move(name),
       .aliases = std::move(aliases),
       .help = std::move(help),
       .type = "X",
       .default_text = DefaultText(*value, range),
       .read = [value, range](const std::string& text) {
         return ReadWithin(
             text, value, range,
             [](const std::string& t, double* v) { return absl::SimpleAtod(t, v); }, NumberText,
             "a number");
       }});
}

void FlagSet::Bool(std::string name, bool* value, std::string help, Aliases aliases) {
  Add({.name = std::move(name),
       .aliases = std::move(aliases),
       .help = std::move(help),
       .default_text = *value ? "true" : "",
       .is_switch = true,
       .read = [value](const std::string& text) {
         return absl::SimpleAtob(text, value) ? absl::OkStatus()
                                              : absl::InvalidArgumentError("true or false");
       }});
}

void FlagSet::Size(std::string name, int64_t* value, std::string help, Aliases aliases,
                   SizeUnit unit) {
  Add({.name = std::move(name),
       .aliases = std::move(aliases),
       .help = std::move(help),
       .type = "SIZE",
       .default_text = SizeText(*value, unit),
       .size_unit = unit,
       .read = [value, unit](const std::string& text) { return ParseSize(text, unit, value); }});
}

void FlagSet::Duration(std::string name, absl::Duration* value, DurationRange range,
                       std::string help, Aliases aliases) {
  Add({.name = std::move(name),
       .aliases = std::move(aliases),
       .help = std::move(help),
       .type = "TIME",
       .default_text = absl::FormatDuration(*value),
       .read = [value, range](const std::string& text) {
         return ReadWithin(text, value, range, ReadDuration, absl::FormatDuration,
                           "a time such as 1.5s, 300ms or 5m,");
       }});
}

void FlagSet::Enum(std::string name, std::string* value, std::vector<std::string> choices,
                   std::string help, Aliases aliases) {
  std::string type = absl::StrJoin(choices, "|");
  Add({.name = std::move(name),
       .aliases = std::move(aliases),
       .help = std::move(help),
       .type = std::move(type),
       .default_text = *value,
       .read = [value, choices = std::move(choices)](const std::string& text) {
         for (const std::string& choice : choices) {
           if (!absl::EqualsIgnoreCase(choice, text)) continue;
           *value = choice;
           return absl::OkStatus();
         }
         return absl::InvalidArgumentError(absl::StrCat("one of ", absl::StrJoin(choices, ", ")));
       }});
}

void FlagSet::Description(std::string text) { description_ = std::move(text); }
void FlagSet::Environment(std::string names, std::string help) {
  environment_.emplace_back(std::move(names), std::move(help));
}
void FlagSet::Example(std::string line) { examples_.push_back(std::move(line)); }
void FlagSet::ExitCodes(std::string text) { exit_codes_ = std::move(text); }
void FlagSet::Positional(std::string usage) { positional_usage_ = std::move(usage); }
void FlagSet::Rest(std::string usage) { rest_usage_ = std::move(usage); }

FlagSet::Flag* FlagSet::Find(std::string_view name) {
  for (Flag& flag : flags_) {
    if (flag.name == name ||
        std::find(flag.aliases.begin(), flag.aliases.end(), name) != flag.aliases.end()) {
      return &flag;
    }
  }
  return nullptr;
}

bool FlagSet::WasSet(std::string_view name) const {
  const Flag* const flag = const_cast<FlagSet*>(this)->Find(name);
  return flag != nullptr && flag->was_set;
}

absl::Status FlagSet::UnknownFlag(std::string_view shown, std::string_view name) const {
  std::vector<std::string> known = {"help", "version"};
  for (const Flag& flag : flags_) known.push_back(flag.name);
  const std::string nearest = NearestName(name, known);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag ", std::string(shown),
                   nearest.empty() ? "" : absl::StrCat(": did you mean --", nearest, "?")));
}

absl::Status FlagSet::Assign(Flag& flag, std::string_view shown, const std::string& text) {
  if (const absl::Status status = flag.read(text); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(shown), " takes ", status.message(),
                                                   ", not '", absl::CHexEscape(text), "'"));
  }
  flag.was_set = true;
  return absl::OkStatus();
}

absl::Status FlagSet::Set(std::string_view name, const std::string& text) {
  Flag* const flag = Find(name);
  if (flag == nullptr) return UnknownFlag(Dashed(name), name);
  return Assign(*flag, Dashed(name), text);
}

absl::Status FlagSet::ParseFlag(const std::vector<std::string>& arguments, size_t* index) {
  const std::string& argument = arguments[*index];
  const bool is_long = absl::StartsWith(argument, "--");
  const size_t equals = argument.find('=');
  const std::string shown = argument.substr(0, equals);
  const std::string name = shown.substr(is_long ? 2 : 1);
  Flag* flag = Find(name);
  // One dash is for aliases and two for names, except that nobody should have to know which is
  // which for a long name.
  if (flag != nullptr && is_long && flag->name != name) flag = nullptr;
  if (flag == nullptr && is_long && absl::StartsWith(name, "no-") && equals == std::string::npos) {
    Flag* const denied = Find(name.substr(3));
    if (denied != nullptr && denied->is_switch) return Assign(*denied, shown, "false");
  }
  if (flag == nullptr) return UnknownFlag(shown, name);
  if (equals != std::string::npos) return Assign(*flag, shown, argument.substr(equals + 1));
  if (flag->is_switch) return Assign(*flag, shown, "true");
  if (*index + 1 == arguments.size()) {
    return absl::InvalidArgumentError(absl::StrCat(shown, " needs a value (", flag->type, ")"));
  }
  return Assign(*flag, shown, arguments[++*index]);
}

absl::Status FlagSet::Parse(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      help_requested_ = true;
      return absl::OkStatus();
    }
    if (argument == "--version") {
      version_requested_ = true;
      return absl::OkStatus();
    }
    if (argument == "--") {
      if (rest_usage_.empty()) return absl::InvalidArgumentError("nothing may follow '--' here");
      rest_.assign(arguments.begin() + i + 1, arguments.end());
      return absl::OkStatus();
    }
    if (argument.size() > 1 && argument[0] == '-') {
      RZ_RETURN_IF_ERROR(ParseFlag(arguments, &i));
    } else if (positional_usage_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unexpected argument '", absl::CHexEscape(argument), "'",
                       rest_usage_.empty() ? "" : absl::StrCat(": put -- before ", rest_usage_)));
    } else {
      positional_.push_back(argument);
    }
  }
  return absl::OkStatus();
}

void FlagSet::ParseOrExit(int argc, char** argv) {
  const absl::Status status = Parse(std::vector<std::string>(argv + 1, argv + argc));
  if (!status.ok()) UsageError(absl::StrCat(status.message()));
  if (help_requested_ || version_requested_) {
    std::cout << (help_requested_ ? Help() : Version());
    ExitWith(kExitOk);
  }
}

void FlagSet::ExitWith(int code) const {
  if (const absl::Status status = FlushStandardOutput(); !status.ok()) {
    std::cerr << absl::StrCat(program_, ": ", status.message(), "\n");
    if (code == kExitOk) code = kExitFailure;
  }
  std::exit(code);
}

void FlagSet::UsageError(std::string_view message) const {
  std::cerr << absl::StrCat(program_, ": ", std::string(message), " (see ", program_, " --help)\n");
  std::exit(kExitUsage);
}

std::string FlagSet::Version() const {
  return absl::StrCat(program_, " (ringzero) ", std::string(kToolsVersion), "\n");
}

std::string FlagSet::Units() const {
  std::vector<std::string> decimal;
  bool binary = false, times = false;
  for (const Flag& flag : flags_) {
    if (flag.size_unit == SizeUnit::kDecimal) decimal.push_back(Dashed(flag.name));
    binary |= flag.size_unit == SizeUnit::kBinary;
    times |= flag.type == "TIME";
  }
  std::string text;
  if (binary || !decimal.empty()) {
    absl::StrAppend(&text, "  SIZE is like 4096, 64K or 1.5M: K, M, G and T are powers of ",
                    binary ? "1024" : "1000",
                    binary && !decimal.empty()
                        ? absl::StrCat(" (", absl::StrJoin(decimal, ", "), ": of 1000)")
                        : "",
                    ", Ki, Mi, Gi and Ti of 1024.\n");
  }
  if (times)
    absl::StrAppend(&text, "  TIME is like 300ms, 1.5s or 5m; a bare number is seconds.\n");
  return text.empty() ? "" : absl::StrCat("\nunits:\n", text);
}

std::string FlagSet::Help() const {
  std::string text = absl::StrCat(program_, ": ", summary_, "\n\nusage: ", program_, " [FLAGS]");
  if (!positional_usage_.empty()) absl::StrAppend(&text, " ", positional_usage_);
  if (!rest_usage_.empty()) absl::StrAppend(&text, " -- ", rest_usage_);
  absl::StrAppend(&text, "\n");
  if (!description_.empty()) absl::StrAppend(&text, "\n", description_, "\n");
  absl::StrAppend(&text, "\nflags:\n");
  for (const Flag& flag : flags_) {
    std::string left = Dashed(flag.name);
    for (const std::string& alias : flag.aliases) absl::StrAppend(&left, ", -", alias);
    if (!flag.type.empty()) absl::StrAppend(&left, " ", flag.type);
    const std::string default_text =
        flag.default_text.empty() ? "" : absl::StrCat(" (default ", flag.default_text, ")");
    absl::StrAppend(&text, Columns(std::move(left), absl::StrCat(flag.help, default_text)));
  }
  absl::StrAppend(&text, Columns("--help, -h", "this text"), Columns("--version", "what this is"),
                  Units());
  if (!environment_.empty()) absl::StrAppend(&text, "\nenvironment:\n");
  for (const auto& [names, help] : environment_) absl::StrAppend(&text, Columns(names, help));
  if (!examples_.empty()) absl::StrAppend(&text, "\nexamples:\n");
  for (const std::string& example : examples_) absl::StrAppend(&text, "  ", example, "\n");
  absl::StrAppend(&text, "\nexit codes: ", exit_codes_, "\n");
  return text;
}

}  // namespace rz
