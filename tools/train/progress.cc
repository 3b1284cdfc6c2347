#include "tools/train/progress.h"

#include <algorithm>

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

void Progress::Line(const std::string& text) {
  if (out_ == nullptr) return;
  std::fprintf(out_, "%s\n", text.c_str());
  std::fflush(out_);
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
  std::fprintf(out_, "\r%s", text.c_str());
  std::fflush(out_);
}

void Progress::EndBar(const std::string& label, int64_t done, int64_t total,
                      const std::string& detail) {
  if (out_ == nullptr) return;
  std::string text = BarText(label, done, total, detail);
  text.resize(std::max(text.size(), drawn_width_), ' ');
  drawn_width_ = 0;
  std::fprintf(out_, "%s%s\n", redraw_ ? "\r" : "", text.c_str());
  std::fflush(out_);
}

}  // namespace rz
