// Buffers, metrics and flight records of the C interface.
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/c_api/comm_handle.h"
#include "collectives/c_api/submit.h"
#include "collectives/flight/flight_dump.h"
#include "runtime/base/status_macros.h"

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
