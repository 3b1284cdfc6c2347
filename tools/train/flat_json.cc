#include "tools/train/flat_json.h"

#include <cctype>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr int kMaxDepth = 16;

// A recursive-descent reader; every method leaves position_ behind what it read.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  absl::StatusOr<FlatJson> Read() {
    RZ_RETURN_IF_ERROR(Value("", 0));
    SkipSpace();
    if (position_ != text_.size()) return Expected("the end");
    return std::move(values_);
  }

 private:
  absl::Status Expected(const char* what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("not the JSON it should be: expected ", what, " at byte ", position_));
  }

  void SkipSpace() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n' ||
                                        text_[position_] == '\r' || text_[position_] == '\t')) {
      ++position_;
    }
  }

  // Takes `c`, after white space, where it is next.
  bool Take(char c) {
    SkipSpace();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  absl::Status Store(const std::string& path, std::string value) {
    if (!values_.emplace(path, std::move(value)).second) return Expected("another name");
    return absl::OkStatus();
  }

  absl::Status Value(const std::string& path, int depth) {
    if (depth > kMaxDepth) return Expected("less nesting");
    if (Take('{')) return Object(path, depth);
    if (Take('[')) return Array(path, depth);
    if (position_ < text_.size() && text_[position_] == '"') {
      RZ_ASSIGN_OR_RETURN(std::string text, String());
      return Store(path, std::move(text));
    }
    return Literal(path);
  }

  static std::string Join(const std::string& path, const std::string& name) {
    return path.empty() ? name : absl::StrCat(path, ".", name);
  }

  absl::Status Object(const std::string& path, int depth) {
    if (Take('}')) return absl::OkStatus();
    do {
      SkipSpace();
      RZ_ASSIGN_OR_RETURN(const std::string name, String());
      if (!Take(':')) return Expected("':'");
      RZ_RETURN_IF_ERROR(Value(Join(path, name), depth + 1));
    } while (Take(','));
    return Take('}') ? absl::OkStatus() : Expected("',' or '}'");
  }

  absl::Status Array(const std::string& path, int depth) {
    if (Take(']')) return absl::OkStatus();
    size_t index = 0;
    do {
      RZ_RETURN_IF_ERROR(Value(Join(path, absl::StrCat(index++)), depth + 1));
    } while (Take(','));
    return Take(']') ? absl::OkStatus() : Expected("',' or ']'");
  }

  absl::StatusOr<std::string> String() {
    if (position_ >= text_.size() || text_[position_] != '"') return Expected("a string");
    ++position_;
    std::string value;
    while (position_ < text_.size() && text_[position_] != '"') {
      const char c = text_[position_];
      if (static_cast<unsigned char>(c) < 0x20) return Expected("no control character");
      ++position_;
      if (c != '\\') {
        value.push_back(c);
        continue;
      }
      RZ_ASSIGN_OR_RETURN(const char escaped, Escape());
      value.push_back(escaped);
    }
    if (position_ >= text_.size()) return Expected("the end of a string");
    ++position_;
    return value;
  }

  // What stands behind a backslash.
  absl::StatusOr<char> Escape() {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (position_ >= text_.size()) return Expected("an escape");
    const char name = text_[position_];
    if (const size_t at = kNames.find(name); at != std::string_view::npos) {
      ++position_;
      return kMeanings[at];
    }
    const std::string_view digits = text_.substr(position_, 5);
    int code = 0;
    if (digits.size() < 5 || digits.substr(0, 3) != "u00") return Expected("an ASCII escape");
    for (const char digit : digits.substr(3)) {
      if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) return Expected("hex digits");
      code = code * 16 + (std::isdigit(static_cast<unsigned char>(digit)) != 0
                              ? digit - '0'
                              : std::tolower(digit) - 'a' + 10);
    }
    if (code >= 0x80) return Expected("an ASCII escape");
    position_ += digits.size();
    return static_cast<char>(code);
  }

  // A number, true, false or null. Numbers are checked for their characters only: whoever uses one
  // parses it.
  absl::Status Literal(const std::string& path) {
    const size_t begin = position_;
    while (position_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[position_])) != 0 ||
            text_[position_] == '-' || text_[position_] == '+' || text_[position_] == '.')) {
      ++position_;
    }
    const std::string_view word = text_.substr(begin, position_ - begin);
    const bool number =
        !word.empty() && (word[0] == '-' || std::isdigit(static_cast<unsigned char>(word[0])) != 0);
    if (!number && word != "true" && word != "false" && word != "null") {
      position_ = begin;
      return Expected("a value");
    }
    return Store(path, std::string(word));
  }

  std::string_view text_;
  size_t position_ = 0;
  FlatJson values_;
};

}  // namespace

absl::StatusOr<FlatJson> ParseFlatJson(std::string_view text) { return Reader(text).Read(); }

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned>(c));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

}  // namespace rz
