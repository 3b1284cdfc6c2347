// FlatLayout: where each parameter lives in the one flat space that buckets and shards are cut
// from.
//
// Parameters stand in backward order, the last declared first, so that the gradients which backward
// finishes first fill the first bucket. Each starts at a multiple of kAlignmentElements; what lies
// between is padding: zero in every buffer, at every step. A parameter is a view into the flat
// buffer; nothing is copied to flatten or unflatten.
//
//   declared: w[70] b[3] v[40]    flat: |v 40 .. |b 3 .. |w 70|
//                                       0        64      96    166
//
// Parameters that a model uses together (a layer's) form a unit; each unit is a run of the flat
// space of its own, so that it can be gathered alone. Behind all units' trained parameters come
// those that are frozen, by unit in the same order: what is reduced, updated and has states is a
// prefix of the flat space, and a unit with both kinds is two runs.
#ifndef RINGZERO_OPTIMIZER_LAYOUT_FLAT_LAYOUT_H_
#define RINGZERO_OPTIMIZER_LAYOUT_FLAT_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/chunk_layout.h"
#include "optimizer/layout/limits.h"

namespace rz {

// A parameter as its model declares it. No dimensions: a scalar. A dimension of 0: no elements.
// Units count from 0 in the order of declaration, without gaps. The group is one of the
// optimizer's (ZeroConfig::groups). What is frozen keeps its first values: it has neither gradient
// nor states. A parameter that is tied to an earlier one, of the same shape, group and kind, is
// that one under another name: it has no place of its own.
struct ParamSpec {
  std::string name;
  std::vector<int64_t> shape;
  int unit = 0;
  size_t group = 0;
  bool frozen = false;
  std::string tied_to = {};  // a name; empty: to none
};

// Parameters [first, first + count) in the order of declaration, and where the trained and the
// frozen ones lie with the padding between and after them.
struct ParamUnit {
  size_t first = 0;
  size_t count = 0;
  Range flat;
  Range frozen;

  int64_t elements() const { return flat.count + frozen.count; }
};

class FlatLayout {
 public:
  // InvalidArgument, naming the parameter: an empty, overlong or repeated name, a negative
  // dimension, a unit out of order, a tie to what is not there or is another kind of thing, more
  // parameters or elements than limits.h allows. No parameters at all are allowed. Each unit ends
  // at a multiple of unit_alignment, itself one of kAlignmentElements.
  static absl::StatusOr<FlatLayout> Create(std::vector<ParamSpec> specs,
                                           int64_t unit_alignment = kAlignmentElements);

  // InvalidArgument, naming the parameter: one is of a group that is not among so many.
  absl::Status CheckGroups(size_t groups) const;

  // Parameters in the order of declaration.
  size_t size() const { return specs_.size(); }
  const ParamSpec& spec(size_t index) const { return specs_[index]; }

  // The parameter whose place this one's is: itself, or the first it is tied to.
  size_t owner(size_t index) const { return owners_[index]; }
  bool IsTied(size_t index) const { return owners_[index] != index; }

  // How many parameters have the place of `owner`, itself among them.
  int uses(size_t owner) const { return uses_[owner]; }

  // The unit that the parameter is gathered with.
  size_t storage_unit(size_t index) const {
    return static_cast<size_t>(specs_[owners_[index]].unit);
  }

  // Where parameter `index` lies in the flat space.
  Range range(size_t index) const { return ranges_[index]; }

  size_t unit_count() const { return units_.size(); }
  const ParamUnit& unit(size_t index) const { return units_[index]; }

  // What the names of the unit's parameters have in common up to their last dot ("layer1" of
  // layer1.weight and layer1.bias), the name of an only one, or "unit 3".
  std::string unit_name(size_t index) const;

  // Trained elements of each unit with their padding, in flat order: the last unit first; and the
  // frozen ones, which follow.
  std::vector<int64_t> segments() const;
  std::vector<int64_t> frozen_segments() const;

  // Elements of all trained parameters, without padding: the P of the formulas; and of the frozen.
  int64_t parameter_elements() const { return parameter_elements_; }
  int64_t frozen_elements() const { return frozen_elements_; }

  // End of the flat space, padding between parameters included.
  int64_t flat_elements() const { return flat_elements_; }

  // Elements of the largest parameter.
  int64_t largest_parameter() const { return largest_parameter_; }

  // The parameter that holds the flat element, or none where it is padding.
  std::optional<size_t> Find(int64_t flat_index) const;

 private:
  FlatLayout() = default;

  // Finds what each is tied to.
  absl::Status Tie();

  // Gives the trained, or the frozen, parameters their places.
  absl::Status Place(bool frozen, int64_t unit_alignment);

  std::vector<ParamSpec> specs_;
  std::vector<Range> ranges_;
  std::vector<ParamUnit> units_;
  std::vector<size_t> owners_;
  std::vector<int> uses_;
  std::vector<size_t> in_flat_order_;  // of those that have a place
  int64_t parameter_elements_ = 0;
  int64_t frozen_elements_ = 0;
  int64_t flat_elements_ = 0;
  int64_t largest_parameter_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_LAYOUT_FLAT_LAYOUT_H_
