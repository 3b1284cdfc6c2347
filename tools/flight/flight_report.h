// What the flight records of several ranks say together.
#ifndef RINGZERO_TOOLS_FLIGHT_FLIGHT_REPORT_H_
#define RINGZERO_TOOLS_FLIGHT_FLIGHT_REPORT_H_

#include <string>

#include "absl/types/span.h"
#include "collectives/flight/flight_recorder.h"

namespace rz {

// The first point where the ranks part, in a sentence or a few. Tried in this order, the lowest
// operation number first, and other calls before missing ones of the same number:
//   other calls    "operation 41: rank 1 called all_reduce of 1000 float32 sum, rank 2 called ..."
//   missing calls  "rank 3 has not called all_gather #41; it is in reduce_scatter #40, step 2,
//                  waiting for rank 2"; where ranks wrote their records while they were moving, it
//                  says that the record is older than the call (their clocks being equal)
//   unfinished     "all ranks have called all_gather #41; rank 2 is in it, step 2, waiting for ..."
//   none           "no divergence: ..."
// Records are in the order of their ranks, and at least one.
std::string DescribeDivergence(absl::Span<const FlightRecord> records);

// Whose records these are, which are missing, and why each was taken.
std::string DescribeRecords(absl::Span<const FlightRecord> records);

// The last `last` operations of each rank, a line each under a heading.
std::string OperationTable(absl::Span<const FlightRecord> records, int last);

}  // namespace rz

#endif  // RINGZERO_TOOLS_FLIGHT_FLIGHT_REPORT_H_
