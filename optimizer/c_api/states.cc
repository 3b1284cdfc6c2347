// What the C interface shows of an optimizer's states, to save and to load them.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "optimizer/c_api/optimizer_use.h"

namespace rz::c_api {
namespace {

struct StateView {
  void* data = nullptr;
  size_t bytes = 0;
};

template <typename T>
StateView ViewOf(absl::Span<T> state) {
  return {state.data(), state.size() * sizeof(T)};
}

absl::StatusOr<StateView> FindState(ZeroOptimizer& optimizer, int32_t state) {
  switch (state) {
    case RZ_STATE_MASTER:
      return ViewOf(optimizer.mutable_master());
    case RZ_STATE_MOMENT1:
    case RZ_STATE_MOMENT2:
      return ViewOf(
          optimizer.mutable_optimizer_state(static_cast<size_t>(state - RZ_STATE_MOMENT1)));
    case RZ_STATE_PARAMETERS:
      return ViewOf(optimizer.mutable_parameter_shard());
    default:
      return absl::InvalidArgumentError(absl::StrCat("there is no state ", state));
  }
}

}  // namespace
}  // namespace rz::c_api

using namespace rz::c_api;  // NOLINT: the functions below are its face
using rz::ZeroOptimizer;

rz_result_t rz_zero_state(rz_zero_t* zero, int32_t state, void** view, size_t* bytes) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(view, "view"));
    RZ_RETURN_IF_ERROR(CheckNotNull(bytes, "bytes"));
    *view = nullptr;
    *bytes = 0;
    RZ_ASSIGN_OR_RETURN(const StateView found, FindState(optimizer, state));
    if (found.bytes > 0) *view = found.data;
    *bytes = found.bytes;
    return absl::OkStatus();
  });
}

rz_result_t rz_zero_resume(rz_zero_t* zero, int64_t steps) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) { return optimizer.Resume(steps); });
}
