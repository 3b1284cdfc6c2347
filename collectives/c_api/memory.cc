// Buffers, operations of premul_sum, metrics and flight records of the C interface.
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/c_api/comm_handle.h"
#include "collectives/c_api/submit.h"
#include "collectives/flight/flight_dump.h"
#include "runtime/base/status_macros.h"

namespace rz::c_api {
namespace {

constexpr int32_t kMaxGeneration = 0x7fff;

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

absl::StatusOr<rz_op_t> MakeOp(CommHandle& comm, DType dtype, PremulFactor factor) {
  for (size_t place = 0; place < kMaxPremulOps; ++place) {
    PremulOp& op = comm.premul_ops[place];
    if (op.exists) continue;
    op.exists = true;
    op.generation = op.generation == kMaxGeneration ? 0 : op.generation + 1;
    op.dtype = dtype;
    op.factor = factor;
    return op.generation << 16 | kPremulBit | static_cast<int32_t>(place);
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(kMaxPremulOps, " operations are there; rz_op_destroy one first"));
}

}  // namespace
}  // namespace rz::c_api

using namespace rz::c_api;  // NOLINT: the functions below are its face

size_t rz_size_of(rz_dtype_t dtype) {
  const absl::StatusOr<rz::DType> known = ReadDType(dtype);
  return known.ok() ? rz::SizeOf(*known) : 0;
}

rz_result_t rz_mem_alloc(void** ptr, size_t bytes, rz_comm_t* comm) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(ptr, "ptr"));
    *ptr = nullptr;
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    if (bytes == 0) return absl::OkStatus();
    RZ_ASSIGN_OR_RETURN(rz::CommunicatorBuffer buffer, use->communicator->AllocateBuffer(bytes));
    void* const data = buffer.data();
    use->buffers.emplace(data, std::move(buffer));
    *ptr = data;
    return absl::OkStatus();
  });
}

rz_result_t rz_mem_free(void* ptr, rz_comm_t* comm) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    if (ptr == nullptr || use->buffers.erase(ptr) == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "this is no buffer of rz_mem_alloc on this communicator, or was given back before");
  });
}

rz_result_t rz_op_create_premul_sum(rz_op_t* op, const void* scalar, rz_dtype_t dtype,
                                    rz_comm_t* comm) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(op, "op"));
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    RZ_RETURN_IF_ERROR(CheckNotNull(scalar, "scalar"));
    RZ_ASSIGN_OR_RETURN(const rz::DType type, ReadDType(dtype));
    RZ_ASSIGN_OR_RETURN(*op, MakeOp(*use, type, ReadFactor(scalar, type)));
    return absl::OkStatus();
  });
}

rz_result_t rz_op_destroy(rz_op_t op, rz_comm_t* comm) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    RZ_ASSIGN_OR_RETURN(const size_t place, FindOp(*use, op));
    use->premul_ops[place].exists = false;
    return absl::OkStatus();
  });
}

rz_result_t rz_comm_get_metrics(rz_comm_t* comm, rz_comm_metrics_t* metrics) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    RZ_RETURN_IF_ERROR(CheckReport(metrics, "metrics"));
    const rz::WireCounters& sent = use->communicator->wire_counters();
    WriteReport({.size = sizeof *metrics,
                 .all_reduce = sent.all_reduce,
                 .reduce_scatter = sent.reduce_scatter,
                 .all_gather = sent.all_gather,
                 .broadcast = sent.broadcast,
                 .reduce = sent.reduce,
                 .all_to_all = sent.all_to_all,
                 .gather = sent.gather,
                 .scatter = sent.scatter,
                 .messages = sent.messages,
                 .control = sent.control,
                 .between_hosts = sent.between_hosts},
                metrics);
    return absl::OkStatus();
  });
}

rz_result_t rz_comm_dump_flight_record(rz_comm_t* comm, const char* directory) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const auto found, CommTable::Get().Find(comm));
    RZ_RETURN_IF_ERROR(CheckNotNull(directory, "directory"));
    if (*directory == '\0') return absl::InvalidArgumentError("directory is empty");
    rz::FlightRecord record = found->communicator->FlightRecord();
    record.reason = "rz_comm_dump_flight_record";
    return rz::WriteFlightRecord(record, directory);
  });
}
