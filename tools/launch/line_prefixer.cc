#include "tools/launch/line_prefixer.h"

namespace rz {

void LinePrefixer::EmitLine(std::string* out) {
  out->append(prefix_).append(line_).push_back('\n');
  line_.clear();
  carriage_return_ = is_update_ = shown_ = false;
}

void LinePrefixer::Take(char c, std::string* out) {
  if (c == '\n') return EmitLine(out);
  if (c == '\r') {
    carriage_return_ = true;
    return;
  }
  if (carriage_return_) {
    line_.clear();
    carriage_return_ = false;
    is_update_ = true;
  }
  shown_ = false;
  line_.push_back(c);
  if (line_.size() == kMaxPrefixedLine) EmitLine(out);
}

std::string LinePrefixer::Feed(std::string_view bytes) {
  std::string out;
  for (char c : bytes) Take(c, &out);
  if (show_updates_ && (is_update_ || carriage_return_) && !line_.empty() && !shown_) {
    out.append(prefix_).append(line_).push_back('\r');
    shown_ = true;
  }
  return out;
}

std::string LinePrefixer::Finish() {
  std::string out;
  if (!line_.empty()) EmitLine(&out);
  return out;
}

}  // namespace rz
