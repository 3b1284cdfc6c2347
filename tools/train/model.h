// Model: what the trainer knows of what it trains. Parameters in units that are used one after the
// other, first values, a forward and a backward pass.
//
// A model holds no parameters and no gradients but those of the unit it is at: before a unit it
// asks a UnitStore for the unit's parameters, and in backward it hands over the unit's gradients as
// soon as it has them. Activations stay. The bits of every result depend on the parameters, the
// samples and their order, and on nothing else: not on SIMD level, machine or mathematics library.
#ifndef RINGZERO_TOOLS_TRAIN_MODEL_H_
#define RINGZERO_TOOLS_TRAIN_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "optimizer/gathered_units.h"
#include "tools/train/model_parameter.h"

namespace rz {

// What a forward pass says of its samples.
struct BatchResult {
  double loss_sum = 0;  // of -log p(label) over all labels, natural logarithm
  int64_t correct = 0;  // labels that have the largest score (the first of equals)
};

// Samples as a SampleSet gathers them.
struct Batch {
  absl::Span<const uint8_t> inputs;  // [samples, input size]
  absl::Span<const uint8_t> labels;  // [samples, labels of a sample]
};

// Where a model's units have their parameters from, and bring their gradients to. Parameters and
// gradients of a unit are its tensors one after the other in declaration order, without gaps.
class UnitStore {
 public:
  virtual ~UnitStore() = default;

  // Fills in the unit's parameters, to be used in `pass`.
  virtual absl::Status Load(size_t unit, Pass pass, absl::Span<float> parameters) = 0;

  // Takes the unit's gradients, before its Done(kBackward).
  virtual absl::Status Take(size_t unit, absl::Span<const float> gradients) = 0;

  // The unit has been used in `pass`.
  virtual absl::Status Done(size_t unit, Pass pass) = 0;
};

// One owner thread. Passes fail as their store does, and allocate nothing.
class Model {
 public:
  virtual ~Model() = default;

  // "784-256-128-100-10".
  virtual std::string ToString() const = 0;

  // In declaration order, unit after unit; every unit has at least one.
  virtual const std::vector<ModelParameter>& parameters() const = 0;

  // First values of a parameter. A function of the model, the index and the seed alone.
  virtual void Initialize(size_t index, uint64_t seed, absl::Span<float> values) const = 0;

  // Samples a pass may have at most.
  virtual int64_t max_batch() const = 0;

  // The samples stay where they are until Backward. `pass` is forward or evaluation. Uses the units
  // from the first to the last.
  virtual absl::StatusOr<BatchResult> Forward(const Batch& batch, Pass pass, UnitStore* store) = 0;

  // Gradients of scale * (sum of the losses of the last Forward), from the last unit to the first.
  // Zeros after an empty batch.
  virtual absl::Status Backward(float scale, UnitStore* store) = 0;

  // Of the last Forward, [labels, classes]: the larger, the likelier.
  virtual absl::Span<const float> scores() const = 0;

  size_t unit_count() const { return parameters().back().unit + 1; }
  // What is tied counts once.
  int64_t ParameterCount() const {
    int64_t count = 0;
    for (const ModelParameter& parameter : parameters()) {
      if (parameter.tied_to.empty()) count += parameter.element_count;
    }
    return count;
  }
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_MODEL_H_
