#include "optimizer/wire_plan.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "optimizer/step_control.h"

namespace rz {
namespace {

int64_t BytesOnWire(const Carriage& route) {
  return route.wire.has_value() ? static_cast<int64_t>(SizeOf(*route.wire)) : 0;
}

}  // namespace

absl::StatusOr<WirePlan> PlanWire(ZeroStage stage, int world, int64_t padded_elements, DType dtype,
                                  const WireRoutes& routes) {
  const int64_t others = world - 1;
  const bool ddp = stage == ZeroStage::kDdp;
  for (const Carriage* route : {&routes.reduce, &routes.gather}) {
    if (others == 0 || route->least_bytes || (ddp && route == &routes.gather)) continue;
    return absl::UnimplementedError(
        absl::StrCat("no closed formula for the bytes of the algorithm '", route->text, "'"));
  }
  const int64_t chunk = padded_elements / world;
  // What is reduced is spread in the working dtype.
  const int64_t gather_size =
      ddp ? (routes.reduce.wire.has_value() ? SizeOf(dtype) : 0) : BytesOnWire(routes.gather);
  const int64_t reduce_size = BytesOnWire(routes.reduce);
  WirePlan plan;
  plan.reduce_bytes = others * chunk * reduce_size;
  plan.gather_bytes = others * chunk * gather_size;
  plan.control_bytes =
      routes.control.wire.has_value() ? others * static_cast<int64_t>(sizeof(StepVote)) : 0;
  plan.explanation = absl::StrFormat(
      "%d other ranks * %d elements * (%d bytes reducing gradients + %d bytes gathering %s) = %d",
      others, chunk, reduce_size, gather_size, ddp ? "gradients" : "parameters",
      plan.payload_bytes());
  return plan;
}

}  // namespace rz
