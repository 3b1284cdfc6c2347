// Comparison: times of several contenders, measured in turn over some rounds, beside each other.
// Pure: times in, tables out.
#ifndef RINGZERO_TOOLS_BENCH_AGAINST_COMPARISON_H_
#define RINGZERO_TOOLS_BENCH_AGAINST_COMPARISON_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/operation.h"

namespace rz {

// What is compared: one operation at one size, with separate buffers or in place.
struct ComparedPoint {
  BenchOperation operation = BenchOperation::kAllReduce;
  bool in_place = false;
  int64_t size = 0;

  friend auto operator<=>(const ComparedPoint&, const ComparedPoint&) = default;
};

enum class ContenderKind : uint8_t {
  kOwn,        // ringzero, in one way or another; the first of all contenders is one
  kRival,      // counts when the fastest is looked for
  kReference,  // does not: the limit, settings nobody should use
};

struct Contender {
  std::string name;
  ContenderKind kind = ContenderKind::kRival;
  std::vector<std::string> settings;  // the ways it was run; the fastest one counts
};

// A contender's figure at a point.
struct ComparedTime {
  double time_us = 0;  // median over the rounds, of the setting whose median is least
  size_t setting = 0;
  double ratio = 0;  // its time over the first contender's: the median of the rounds' ratios
};

class Comparison {
 public:
  // The first contender is the one that others are compared with.
  explicit Comparison(std::vector<Contender> contenders) : contenders_(std::move(contenders)) {}

  const std::vector<Contender>& contenders() const { return contenders_; }

  // The number of a setting of `contender`, which gets it where it has it not yet.
  size_t Setting(size_t contender, const std::string& description);

  void Add(size_t contender, size_t setting, int round, const ComparedPoint& point, double time_us);

  // None where it was not measured, or the first contender was not.
  std::optional<ComparedTime> At(size_t contender, const ComparedPoint& point) const;

  // The fastest rival's.
  std::optional<ComparedTime> Best(const ComparedPoint& point, size_t* contender) const;

  // Points at which anything was measured, in order.
  std::vector<ComparedPoint> Points() const;

 private:
  using Rounds = std::map<int, double>;
  struct Key {
    ComparedPoint point;
    size_t contender;
    size_t setting;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  const Rounds* Find(const Key& key) const;

  std::vector<Contender> contenders_;
  std::map<Key, Rounds> times_;
};

// The middle value; of an even number the mean of the two in the middle. 0 of none.
double Median(std::vector<double> values);

// A table of one operation and placement, "" where nothing of it was measured: for each size the
// first contender's time, and of each other one its time, its ratio, and the letter of the setting
// that was fastest. The last lines have, for each of ours,
// the geometric mean and the least of the best rival's time over its.
std::string ComparisonTable(const Comparison& comparison, BenchOperation operation, bool in_place);

// What the letters stand for: a comment line for each setting of each contender.
std::vector<std::string> SettingLines(const Comparison& comparison);

std::string ComparisonCsv(const Comparison& comparison);
std::string ComparisonJson(const Comparison& comparison, const std::vector<std::string>& arguments,
                           int ranks, int rounds);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_AGAINST_COMPARISON_H_
