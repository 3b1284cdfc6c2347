// What a person sees of a run: lines, and on a terminal one that is redrawn.
#ifndef RINGZERO_TOOLS_TRAIN_PROGRESS_H_
#define RINGZERO_TOOLS_TRAIN_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/base/clock.h"

namespace rz {

// One owner thread. A write that fails is remembered, and nothing is written after it.
class Progress {
 public:
  // Writes to `out`; nothing where it is null (all ranks but one). With `redraw` a bar is drawn
  // again and again on one line of a terminal; without, it is one line at its end.
  Progress(std::FILE* out, bool redraw, const Clock* clock);

  // A line of its own, written at once.
  void Line(const std::string& text);

  // Draws "LABEL [=====>    ] 42/235 DETAIL", at most ten times a second.
  void Bar(const std::string& label, int64_t done, int64_t total, const std::string& detail);

  // Draws it a last time and ends its line.
  void EndBar(const std::string& label, int64_t done, int64_t total, const std::string& detail);

  //   Unknown  something could not be written; the message has the system's reason
  absl::Status status() const { return status_; }

 private:
  // Writes and flushes, so that a full disk shows at once.
  void Write(const std::string& text);

  std::FILE* out_;
  bool redraw_;
  const Clock* clock_;
  absl::Duration last_drawn_ = -absl::InfiniteDuration();
  size_t drawn_width_ = 0;
  absl::Status status_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_PROGRESS_H_
