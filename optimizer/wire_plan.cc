#include "optimizer/wire_plan.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "optimizer/step_control.h"

namespace rz {
namespace {

int64_t BytesOnWire(const Carriage& route) {
  return route.wire.has_value() ? static_cast<int64_t>(SizeOf(*route.wire)) : 0;
}

// One half: bytes a rank sends, and the words for it.
int64_t Half(int64_t elements, int world, int64_t size, const char* doing,
             std::vector<std::string>* terms) {
  const int64_t chunk = elements / world;
  terms->push_back(absl::StrCat(chunk, " elements * ", size, " bytes ", doing));
  return (world - 1) * chunk * size;
}

// What each rank sends to those who hold the same shard.
void AddReplicas(const WireShape& shape, const Carriage& route, WirePlan* plan) {
  const int64_t spread =
      route.wire.has_value() ? static_cast<int64_t>(SizeOf(shape.gradient_dtype)) : 0;
  std::vector<std::string> terms;
  const int64_t shard = shape.reduced_elements / shape.world;
  plan->between_bytes = Half(shard, shape.groups, BytesOnWire(route), "reducing shards", &terms) +
                        Half(shard, shape.groups, spread, "spreading their sums", &terms);
  absl::StrAppend(&plan->explanation, " + ", shape.groups - 1, " other groups * (",
                  absl::StrJoin(terms, " + "), ")");
}

}  // namespace

absl::StatusOr<WirePlan> PlanWire(const WireShape& shape, const WireRoutes& routes) {
  for (const Carriage* route : {&routes.reduce, &routes.gather, &routes.replicas}) {
    const bool used =
        route == &routes.replicas
            ? shape.groups > 1
            : shape.world > 1 && (route == &routes.reduce || shape.stage != ZeroStage::kDdp);
    if (route->least_bytes || !used) continue;
    return absl::UnimplementedError(
        absl::StrCat("no closed formula for the bytes of the algorithm '", route->text, "'"));
  }
  WirePlan plan;
  std::vector<std::string> terms;
  plan.reduce_bytes = Half(shape.reduced_elements, shape.world, BytesOnWire(routes.reduce),
                           "reducing gradients", &terms);
  if (shape.stage == ZeroStage::kDdp || shape.stage == ZeroStage::kNaive) {
    // What is reduced is spread in the gradients' dtype.
    const int64_t size =
        routes.reduce.wire.has_value() ? static_cast<int64_t>(SizeOf(shape.gradient_dtype)) : 0;
    plan.spread_bytes =
        Half(shape.reduced_elements, shape.world, size, "spreading their sums", &terms);
  }
  if (shape.stage != ZeroStage::kDdp) {
    plan.gather_bytes = Half(shape.gathered_elements, shape.world, BytesOnWire(routes.gather),
                             "gathering parameters", &terms);
  }
  const int ranks = shape.world * shape.groups;
  plan.control_bytes =
      routes.control.wire.has_value() ? (ranks - 1) * int64_t{sizeof(StepVote)} : 0;
  plan.explanation =
      absl::StrCat(shape.world - 1, " other ranks * (", absl::StrJoin(terms, " + "), ")");
  if (shape.groups > 1) AddReplicas(shape, routes.replicas, &plan);
  absl::StrAppend(&plan.explanation, " = ", plan.payload_bytes());
  return plan;
}

}  // namespace rz
