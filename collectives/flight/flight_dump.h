// Flight records as files: the JSON of proto/flight_record.proto, and back.
#ifndef RINGZERO_COLLECTIVES_FLIGHT_FLIGHT_DUMP_H_
#define RINGZERO_COLLECTIVES_FLIGHT_FLIGHT_DUMP_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/flight/flight_recorder.h"

namespace rz {

std::string FlightRecordToJson(const FlightRecord& record);

// Reads what FlightRecordToJson wrote; the text may come from anywhere.
//   InvalidArgument  not such JSON, of a newer format (the message has both versions), or with
//                    numbers that cannot be
absl::StatusOr<FlightRecord> ParseFlightRecord(std::string_view json);

// "flight-<job>-<rank in the job>.json", for a communicator other than 0
// "flight-<job>-<rank>-<id>.json". What a file name should not have becomes '_'.
std::string FlightFileName(const FlightRecord& record);

// Writes the record to its file in `directory`, which is made where it is missing, in place of an
// older one. Readers never see half a file.
//   what the system says  with path and reason
absl::Status WriteFlightRecord(const FlightRecord& record, const std::string& directory);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_FLIGHT_FLIGHT_DUMP_H_
