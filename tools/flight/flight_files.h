// Reads the flight records of one communicator, a file a rank.
#ifndef RINGZERO_TOOLS_FLIGHT_FLIGHT_FILES_H_
#define RINGZERO_TOOLS_FLIGHT_FLIGHT_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/flight/flight_recorder.h"

namespace rz {

// A file of 2,048 operations has about 1 MB.
inline constexpr int64_t kMaxFlightFileBytes = int64_t{64} << 20;

// The records in the order of their ranks.
//   InvalidArgument  no file, one that is no flight record or too large, two of one rank, or files
//                    of several jobs, worlds or communicators; the message names the file
//   NotFound, ...    what the system says of a file
absl::StatusOr<std::vector<FlightRecord>> ReadFlightFiles(absl::Span<const std::string> paths);

}  // namespace rz

#endif  // RINGZERO_TOOLS_FLIGHT_FLIGHT_FILES_H_
