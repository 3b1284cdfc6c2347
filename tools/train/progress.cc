#include "tools/train/progress.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rz {
namespace {

constexpr absl::Duration kBetweenDrawings = absl::Milliseconds(100);
constexpr size_t kBarWidth = 24;

std::string BarText(const std::string& label, int64_t done, int64_t total,
                    const std::string& detail) {
  const size_t filled =
      total == 0 ? kBarWidth : static_cast<size_t>(done * static_cast<int64_t>(kBarWidth) / total);
  std::string bar(filled, '=');
  if (filled < kBarWidth) bar.push_back('>');
  bar.resize(kBarWidth, ' ');
  return absl::StrFormat("%s [%s] %d/%d %s", label, bar, done, total, detail);
}

}  // namespace

Progress::Progress(std::FILE* out, bool redraw, const Clock* clock)
    : out_(out), redraw_(redraw), clock_(clock) {}

void Progress::Line(const std::string& text) { Write(text + "\n"); }

void Progress::Write(const std::string& text) {
  if (out_ == nullptr || !status_.ok()) return;
  if (std::fwrite(text.data(), 1, text.size(), out_) == text.size() && std::fflush(out_) == 0)
    return;
  status_ =
      absl::UnknownError(absl::StrCat("cannot write to standard output: ", std::strerror(errno)));
}

void Progress::Bar(const std::string& label, int64_t done, int64_t total,
                   const std::string& detail) {
  if (out_ == nullptr || !redraw_ || clock_->Now() - last_drawn_ < kBetweenDrawings) return;
  last_drawn_ = clock_->Now();
  std::string text = BarText(label, done, total, detail);
  const size_t width = text.size();
  // Spaces over what a longer drawing before left.
  text.resize(std::max(width, drawn_width_), ' ');
  drawn_width_ = width;
  Write("\r" + text);
}

void Progress::EndBar(const std::string& label, int64_t done, int64_t total,
                      const std::string& detail) {
  if (out_ == nullptr) return;
  std::string text = BarText(label, done, total, detail);
  text.resize(std::max(text.size(), drawn_width_), ' ');
  drawn_width_ = 0;
  Write(absl::StrCat(redraw_ ? "\r" : "", text, "\n"));
}

}  // namespace rz
