// rz_flight: where did the ranks part? Reads the flight records that the ranks of a job wrote.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "tools/exit_code.h"
#include "tools/flag_set.h"
#include "tools/flight/flight_files.h"
#include "tools/flight/flight_report.h"

namespace rz {
namespace {

int Main(int argc, char** argv) {
  int64_t last = 4;
  FlagSet flags("rz_flight", "merges the flight records of ranks and says where they part");
  flags.Int("last", &last, {0, INT32_MAX}, "operations of each rank in the table; 0: no table");
  flags.Positional("FILES");
  flags.Description(
      "Ranks write what they have called, and where each call stands, to RZ_FLIGHT_DIR when\n"
      "they fail and on SIGUSR2. Prints the first call that not all ranks made, or made alike,\n"
      "and who waits for whom.");
  flags.Example("RZ_FLIGHT_DIR=/tmp/flight rz_run -n 4 -- rz_train --steps 100   (before)");
  flags.Example(
      "pkill -USR2 rz_train   (while it stands still; ranks that fail write by themselves)");
  flags.Example("rz_flight /tmp/flight/flight-*.json");
  flags.ParseOrExit(argc, argv);
  if (flags.positional().empty()) flags.UsageError("no FILES to read");
  const absl::StatusOr<std::vector<FlightRecord>> records = ReadFlightFiles(flags.positional());
  if (!records.ok()) {
    std::cerr << "rz_flight: " << records.status().message() << "\n";
    return kExitFailure;
  }
  std::cout << DescribeRecords(*records) << "\n" << DescribeDivergence(*records) << "\n";
  if (last > 0) std::cout << "\n" << OperationTable(*records, static_cast<int>(last));
  flags.ExitWith(kExitOk);
}

}  // namespace
}  // namespace rz

int main(int argc, char** argv) { return rz::Main(argc, argv); }
