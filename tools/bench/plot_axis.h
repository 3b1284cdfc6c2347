// A logarithmic axis of a plot: its range, where its lines and labels stand. Pure.
#ifndef RINGZERO_TOOLS_BENCH_PLOT_AXIS_H_
#define RINGZERO_TOOLS_BENCH_PLOT_AXIS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace rz {

struct Tick {
  double value = 0;
  std::string label;  // "": a line without one
};

class LogAxis {
 public:
  // Spans `values`, those that are positive, with some room; from 1 to 10 where there are none.
  explicit LogAxis(absl::Span<const double> values);
  LogAxis(double low, double high) : low_(low), high_(high) {}

  double low() const { return low_; }
  double high() const { return high_; }

  // The same axis in another unit: every value times `factor`.
  LogAxis Scaled(double factor) const { return {low_ * factor, high_ * factor}; }

  // 0 at low, 1 at high.
  double Position(double value) const;

  // 1, 2 and 5 of each decade, as many labelled as there is room for.
  std::vector<Tick> DecimalTicks() const;
  // Powers of two as sizes ("8 B", "64 KiB"), ten or fewer.
  std::vector<Tick> SizeTicks() const;

 private:
  double low_;
  double high_;
};

// "512 B", "64 KiB", "1.5 MiB".
std::string SizeLabel(double bytes);
// "0.05", "1", "20k", "3M".
std::string NumberLabel(double value);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_PLOT_AXIS_H_
