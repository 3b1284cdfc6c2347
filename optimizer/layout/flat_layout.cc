#include "optimizer/layout/flat_layout.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
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

absl::Status CheckTie(const ParamSpec& tied, const ParamSpec& owner) {
  const auto describe = [](const ParamSpec& spec) {
    return absl::StrCat("shape [", absl::StrJoin(spec.shape, ", "), "], group ", spec.group,
                        spec.frozen ? ", frozen" : ", trained");
  };
  if (tied.shape == owner.shape && tied.group == owner.group && tied.frozen == owner.frozen) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "parameter '", tied.name, "' (", describe(tied), ") is tied to '", owner.name, "' (",
      describe(owner), "); they are one parameter, and must be declared alike"));
}

}  // namespace

absl::StatusOr<FlatLayout> FlatLayout::Create(std::vector<ParamSpec> specs,
                                              int64_t unit_alignment) {
  RZ_RETURN_IF_ERROR(CheckNames(specs));
  RZ_RETURN_IF_ERROR(CheckUnits(specs));
  FlatLayout layout;
  layout.ranges_.resize(specs.size());
  layout.units_.resize(specs.empty() ? 0 : static_cast<size_t>(specs.back().unit) + 1);
  layout.specs_ = std::move(specs);
  RZ_RETURN_IF_ERROR(layout.Tie());
  for (const bool frozen : {false, true}) {
    RZ_RETURN_IF_ERROR(layout.Place(frozen, unit_alignment));
  }
  for (size_t i = 0; i < layout.size(); ++i) layout.ranges_[i] = layout.ranges_[layout.owner(i)];
  return layout;
}

absl::Status FlatLayout::CheckGroups(size_t groups) const {
  for (const ParamSpec& spec : specs_) {
    if (spec.group < groups) continue;
    return absl::InvalidArgumentError(absl::StrCat("parameter '", spec.name, "' is of group ",
                                                   spec.group, "; there are ", groups,
                                                   ", counted from 0"));
  }
  return absl::OkStatus();
}

absl::Status FlatLayout::Tie() {
  owners_.resize(specs_.size());
  uses_.resize(specs_.size());
  absl::flat_hash_map<std::string, size_t> earlier;
  for (size_t i = 0; i < specs_.size(); ++i) {
    const ParamSpec& spec = specs_[i];
    owners_[i] = i;
    if (!spec.tied_to.empty()) {
      const auto other = earlier.find(spec.tied_to);
      if (other == earlier.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("parameter '", spec.name, "' is tied to '", spec.tied_to,
                         "'; there is no parameter of that name before it"));
      }
      owners_[i] = owners_[other->second];
      RZ_RETURN_IF_ERROR(CheckTie(spec, specs_[owners_[i]]));
    }
    ++uses_[owners_[i]];
    earlier.emplace(spec.name, i);
  }
  return absl::OkStatus();
}

absl::Status FlatLayout::Place(bool frozen, int64_t unit_alignment) {
  for (size_t i = specs_.size(); i-- > 0;) {
    const ParamSpec& spec = specs_[i];
    ParamUnit& unit = units_[static_cast<size_t>(spec.unit)];
    Range& flat = frozen ? unit.frozen : unit.flat;
    const bool is_last = i + 1 == specs_.size() || specs_[i + 1].unit != spec.unit;
    const bool is_first = i == 0 || specs_[i - 1].unit != spec.unit;
    if (is_last) flat.offset = flat_elements_;
    if (!frozen) {
      unit.first = i;
      ++unit.count;
    }
    if (spec.frozen == frozen && !IsTied(i)) {
      RZ_ASSIGN_OR_RETURN(const int64_t count, ElementCount(spec));
      ranges_[i] = Range{flat_elements_, count};
      in_flat_order_.push_back(i);
      (frozen ? frozen_elements_ : parameter_elements_) += count;
      largest_parameter_ = std::max(largest_parameter_, count);
      flat_elements_ += RoundUp(count, kAlignmentElements);
    }
    if (is_first) {
      flat_elements_ = RoundUp(flat_elements_, unit_alignment);
      flat.count = flat_elements_ - flat.offset;
    }
    if (flat_elements_ > kMaxFlatElements) {
      return absl::InvalidArgumentError(absl::StrCat("the model passes the ", kMaxFlatElements,
                                                     " elements allowed at parameter '", spec.name,
                                                     "'"));
    }
  }
  return absl::OkStatus();
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

std::vector<int64_t> FlatLayout::frozen_segments() const {
  std::vector<int64_t> segments;
  for (size_t unit = units_.size(); unit-- > 0;) segments.push_back(units_[unit].frozen.count);
  return segments;
}

std::optional<size_t> FlatLayout::Find(int64_t flat_index) const {
  // The first in the flat order that ends behind the element is the only one that may hold it.
  const auto candidate =
      std::partition_point(in_flat_order_.begin(), in_flat_order_.end(),
                           [&](size_t index) { return ranges_[index].end() <= flat_index; });
  if (candidate == in_flat_order_.end() || flat_index < ranges_[*candidate].offset) {
    return std::nullopt;
  }
  return *candidate;
}

}  // namespace rz
