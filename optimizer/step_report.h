// What a step says of itself.
#ifndef RINGZERO_OPTIMIZER_STEP_REPORT_H_
#define RINGZERO_OPTIMIZER_STEP_REPORT_H_

#include <cstdint>
#include <string>

#include "optimizer/step_timeline.h"

namespace rz {

struct StepReport {
  // Steps taken so far, this one included; a skipped step does not count.
  int64_t step = 0;

  // True where some gradient was not finite: no rank changed anything.
  bool skipped = false;

  // Non-finite elements of the reduced gradient, over all ranks, and the parameter of the first in
  // the flat order (empty where there is none).
  int64_t non_finite_count = 0;
  std::string first_non_finite_parameter;

  // Of a skipped step whose gradients were announced: the first rank that brought such an element,
  // and the first parameter it did so for, in words.
  std::string non_finite_cause;

  // L2 norm of the mean gradient over all samples, without the loss scale: before clipping and
  // after. Not finite where the step was skipped; NaN where gradients are not inspected.
  double norm = 0;
  double clipped_norm = 0;

  // What the step was taken with.
  double learning_rate = 0;
  double loss_scale = 1;

  // Where this rank's wall time went, from the step's first call (of a gather, a gradient or the
  // step itself), or from StepTimeline::Begin where that came before.
  StepTimes times;

  // Payload this rank sent in this step: of gradients and parameters, and of the control message.
  int64_t payload_bytes = 0;
  int64_t control_bytes = 0;

  // Of the payload, what went to other groups of ranks (ZeroConfig::shard_group_size).
  int64_t between_groups_bytes = 0;
};

// Of a skipped step, which gradients are not finite and who brought them: "3 elements of the mean
// gradient are not finite, the first in layer4.bias; rank 2's gradient of layer4.bias is not
// finite".
std::string DescribeNonFinite(const StepReport& report);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_STEP_REPORT_H_
