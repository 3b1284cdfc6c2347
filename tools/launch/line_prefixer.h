// Puts `[rank] ` before every line of one output of one rank. Pure: bytes in, bytes out.
#ifndef RINGZERO_TOOLS_LAUNCH_LINE_PREFIXER_H_
#define RINGZERO_TOOLS_LAUNCH_LINE_PREFIXER_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace rz {

// A longer line is cut into pieces of this size, each a line of its own.
inline constexpr size_t kMaxPrefixedLine = 64 << 10;

// What it returns is whole lines, so that outputs of several ranks can be written one after another
// without mixing. A carriage return starts a line over, as progress bars do: only its last state
// goes out, with the newline. With `show_updates` the states between go out as well, at most one a
// call, each ending in a carriage return instead of a newline.
class LinePrefixer {
 public:
  LinePrefixer(std::string prefix, bool show_updates)
      : prefix_(std::move(prefix)), show_updates_(show_updates) {}

  std::string Feed(std::string_view bytes);

  // The last line, where it had no newline; it gets one.
  std::string Finish();

 private:
  void Take(char c, std::string* out);
  void EmitLine(std::string* out);

  const std::string prefix_;
  const bool show_updates_;
  std::string line_;
  bool carriage_return_ = false;  // the last byte was one: the next decides what it means
  bool is_update_ = false;        // the line has been started over
  bool shown_ = false;            // line_ went out as an update already
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_LAUNCH_LINE_PREFIXER_H_
