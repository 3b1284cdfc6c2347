#include "optimizer/layout/flat_layout.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "optimizer/layout/limits.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Product of the dimensions, at most kMaxFlatElements.
absl::StatusOr<int64_t> ElementCount(const ParamSpec& spec) {
  int64_t count = 1;
  for (const int64_t dimension : spec.shape) {
    if (dimension < 0) {
      return absl::InvalidArgumentError(absl::StrCat("parameter '", spec.name, "' has shape [",
                                                     absl::StrJoin(spec.shape, ", "),
                                                     "]: a dimension is negative"));
    }
    if (__builtin_mul_overflow(count, dimension, &count)) count = kMaxFlatElements + 1;
    if (count > kMaxFlatElements) {
      // A later dimension of 0 would make it empty all the same.
      if (std::find(spec.shape.begin(), spec.shape.end(), 0) != spec.shape.end()) return 0;
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", spec.name, "' of shape [", absl::StrJoin(spec.shape, ", "),
                       "] has more than the ", kMaxFlatElements, " elements allowed"));
    }
  }
  return count;
}

absl::Status CheckNames(const std::vector<ParamSpec>& specs) {
  if (specs.size() > kMaxParameters) {
    return absl::InvalidArgumentError(absl::StrCat("the model declares ", specs.size(),
                                                   " parameters; at most ", kMaxParameters,
                                                   " are allowed"));
  }
  absl::flat_hash_set<std::string> seen;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string& name = specs[i].name;
    if (name.empty() || name.size() > kMaxParameterNameBytes) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", i, " has a name of ",
                                                     name.size(), " bytes; 1 to ",
                                                     kMaxParameterNameBytes, " are allowed"));
    }
    if (!seen.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter ", i, " repeats the name '", name, "'; names must be unique"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUnits(const std::vector<ParamSpec>& specs) {
  int last = -1;
  for (const ParamSpec& spec : specs) {
    const bool begins = last < 0;
    if (spec.unit != last + 1 && (begins || spec.unit != last)) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", spec.name, "' is of unit ", spec.unit,
                       begins ? ", the first" : absl::StrCat(" behind unit ", last),
                       "; units count from 0 in the order of declaration, without gaps"));
    }
    last = spec.unit;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FlatLayout> FlatLayout::Create(std::vector<ParamSpec> specs,
                                              int64_t unit_alignment) {
  RZ_RETURN_IF_ERROR(CheckNames(specs));
  RZ_RETURN_IF_ERROR(CheckUnits(specs));
  FlatLayout layout;
  layout.ranges_.resize(specs.size());
  layout.units_.resize(specs.empty() ? 0 : static_cast<size_t>(specs.back().unit) + 1);
  for (size_t i = specs.size(); i-- > 0;) {
    RZ_ASSIGN_OR_RETURN(const int64_t count, ElementCount(specs[i]));
    ParamUnit& unit = layout.units_[static_cast<size_t>(specs[i].unit)];
    if (unit.count == 0) unit.flat.offset = layout.flat_elements_;
    unit.first = i;
    ++unit.count;
    layout.ranges_[i] = Range{layout.flat_elements_, count};
    layout.parameter_elements_ += count;
    layout.largest_parameter_ = std::max(layout.largest_parameter_, count);
    layout.flat_elements_ += RoundUp(count, kAlignmentElements);
    if (i == 0 || specs[i - 1].unit != specs[i].unit) {
      layout.flat_elements_ = RoundUp(layout.flat_elements_, unit_alignment);
      unit.flat.count = layout.flat_elements_ - unit.flat.offset;
    }
    if (layout.flat_elements_ > kMaxFlatElements) {
      return absl::InvalidArgumentError(absl::StrCat("the model passes the ", kMaxFlatElements,
                                                     " elements allowed at parameter '",
                                                     specs[i].name, "'"));
    }
  }
  layout.specs_ = std::move(specs);
  return layout;
}

std::string FlatLayout::unit_name(size_t index) const {
  const ParamUnit& unit = units_[index];
  std::string common = specs_[unit.first].name;
  if (unit.count == 1) return common;
  for (size_t i = unit.first + 1; i < unit.first + unit.count; ++i) {
    const std::string& name = specs_[i].name;
    const auto differs = std::mismatch(common.begin(), common.end(), name.begin(), name.end());
    common.erase(differs.first, common.end());
  }
  const size_t dot = common.rfind('.');
  if (dot == std::string::npos || dot == 0) return absl::StrCat("unit ", index);
  return common.substr(0, dot);
}

std::vector<int64_t> FlatLayout::segments() const {
  std::vector<int64_t> segments;
  for (size_t unit = units_.size(); unit-- > 0;) segments.push_back(units_[unit].flat.count);
  return segments;
}

std::optional<size_t> FlatLayout::Find(int64_t flat_index) const {
  // The flat order is the reverse of the declaration's: the first range, from the last declared one
  // backwards, that ends behind the element is the only one that may hold it.
  const auto candidate =
      std::partition_point(ranges_.rbegin(), ranges_.rend(),
                           [&](const Range& range) { return range.end() <= flat_index; });
  if (candidate == ranges_.rend() || flat_index < candidate->offset) return std::nullopt;
  return static_cast<size_t>(ranges_.rend() - candidate) - 1;
}

}  // namespace rz
