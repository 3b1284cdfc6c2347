// Operations that a communicator makes: sums of multiples, and functions of the caller's.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "collectives/c_api/comm_handle.h"
#include "collectives/c_api/submit.h"
#include "runtime/base/status_macros.h"

namespace rz::c_api {
namespace {

constexpr uint32_t kMaxGeneration = 0x7fff;

template <typename T>
T Read(const void* scalar) {
  T value;
  std::memcpy(&value, scalar, sizeof value);
  return value;
}

// An integer's factor is used modulo 2^bits, whatever its sign.
PremulFactor ReadFactor(const void* scalar, DType dtype) {
  PremulFactor factor;
  switch (dtype) {
    case DType::kFloat64:
      factor.floating = Read<double>(scalar);
      break;
    case DType::kFloat32:
    case DType::kBFloat16:
    case DType::kFloat16:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      factor.floating = Read<float>(scalar);
      break;
    case DType::kInt32:
    case DType::kUint32:
      factor.integer = Read<uint32_t>(scalar);
      break;
    case DType::kInt64:
    case DType::kUint64:
      factor.integer = Read<int64_t>(scalar);
      break;
    case DType::kInt8:
    case DType::kUint8:
      factor.integer = Read<uint8_t>(scalar);
      break;
  }
  return factor;
}

// Over all communicators of the process, so that none takes another's operation for its own.
int32_t NewGeneration() {
  static std::atomic<uint32_t> last = 0;
  return static_cast<int32_t>(++last & kMaxGeneration);
}

// A place for an operation, which FindOp finds by *number.
absl::StatusOr<MadeOp*> NewOp(CommHandle& comm, rz_op_t* number) {
  for (size_t place = 0; place < kMaxMadeOps; ++place) {
    MadeOp& op = comm.made_ops[place];
    if (op.exists) continue;
    op.exists = true;
    op.generation = NewGeneration();
    op.function.reset();
    *number = op.generation << 16 | kMadeOpBit | static_cast<int32_t>(place);
    return &op;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(kMaxMadeOps, " operations are there; rz_op_destroy one first"));
}

// Nothing that is under way, or kept by an open group, may call the function.
absl::Status CheckUnused(CommHandle& comm, const ReduceFunction* function) {
  const auto& kept = comm.group.calls;
  if (std::any_of(kept.begin(), kept.end(),
                  [&](const Call& call) { return call.options.function == function; })) {
    return absl::FailedPreconditionError(
        "a call of the open group uses this function; rz_group_end comes first");
  }
  const auto under_way = std::count_if(comm.requests.begin(), comm.requests.end(),
                                       [](const auto& request) { return !Poll(*request); });
  if (under_way == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "requests under way, which may use this function: ", under_way, "; rz_wait for them first"));
}

}  // namespace
}  // namespace rz::c_api

using namespace rz::c_api;  // NOLINT: the functions below are its face

rz_result_t rz_op_create_premul_sum(rz_op_t* op, const void* scalar, rz_dtype_t dtype,
                                    rz_comm_t* comm) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(op, "op"));
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    RZ_RETURN_IF_ERROR(CheckNotNull(scalar, "scalar"));
    RZ_ASSIGN_OR_RETURN(const rz::DType type, ReadDType(dtype));
    RZ_ASSIGN_OR_RETURN(MadeOp* const made, NewOp(*use, op));
    made->dtype = type;
    made->factor = ReadFactor(scalar, type);
    return absl::OkStatus();
  });
}

rz_result_t rz_op_create(rz_op_t* op, rz_reduce_function_t function, void* user, uint32_t flags,
                         rz_comm_t* comm) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(op, "op"));
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    if (function == nullptr) return absl::InvalidArgumentError("function is NULL");
    if ((flags & ~uint32_t{RZ_OP_ANY_ORDER}) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("flags are ", flags, "; allowed are 0 and RZ_OP_ANY_ORDER (1)"));
    }
    RZ_ASSIGN_OR_RETURN(MadeOp* const made, NewOp(*use, op));
    made->function.emplace(function, user, flags == RZ_OP_ANY_ORDER, ++use->functions_made, &*use);
    return absl::OkStatus();
  });
}

rz_result_t rz_op_destroy(rz_op_t op, rz_comm_t* comm) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    RZ_ASSIGN_OR_RETURN(const size_t place, FindOp(*use, op));
    MadeOp& made = use->made_ops[place];
    if (made.function.has_value()) RZ_RETURN_IF_ERROR(CheckUnused(*use, &*made.function));
    made.exists = false;
    return absl::OkStatus();
  });
}
