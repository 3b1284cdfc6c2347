#include "optimizer/wire_plan.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "optimizer/step_control.h"

namespace rz {

WirePlan PlanWire(ZeroStage stage, int world, int64_t padded_elements, DType dtype,
                  DType reduce_wire) {
  const int64_t chunk = padded_elements / world;
  const int64_t others = world - 1;
  WirePlan plan;
  plan.reduce_bytes = others * chunk * static_cast<int64_t>(SizeOf(reduce_wire));
  plan.gather_bytes = others * chunk * static_cast<int64_t>(SizeOf(dtype));
  plan.control_bytes = others * static_cast<int64_t>(sizeof(StepVote));
  plan.explanation = absl::StrFormat(
      "%d other ranks * %d elements * (%d bytes reducing gradients + %d bytes gathering %s) = %d",
      others, chunk, SizeOf(reduce_wire), SizeOf(dtype),
      stage == ZeroStage::kDdp ? "gradients" : "parameters", plan.payload_bytes());
  return plan;
}

absl::StatusOr<DType> ReduceWireType(std::string_view algorithm, DType dtype) {
  if (algorithm.starts_with("pairwise")) return dtype;
  // "ring (float32 partial sums; ...)", and halving, which sends as many blocks
  const size_t begin = algorithm.find('(') + 1;
  const size_t end = algorithm.find(" partial sums");
  const bool least_blocks = algorithm.starts_with("ring") || algorithm.starts_with("halving");
  if (least_blocks && begin < end && end != std::string_view::npos) {
    const std::optional<DType> wire = ParseDType(algorithm.substr(begin, end - begin));
    if (wire) return *wire;
  }
  return absl::UnimplementedError(absl::StrCat("no closed formula for the bytes of the algorithm '",
                                               std::string(algorithm), "'"));
}

}  // namespace rz
