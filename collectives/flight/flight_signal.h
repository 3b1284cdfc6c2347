// FlightSignal: flight records on SIGUSR2, whatever the process's threads are doing.
//
// The signal handler only writes to an eventfd; a thread of its own, started by the first of these
// objects for the life of the process, writes the files. A handler that somebody installed before
// is called as well.
#ifndef RINGZERO_COLLECTIVES_FLIGHT_FLIGHT_SIGNAL_H_
#define RINGZERO_COLLECTIVES_FLIGHT_FLIGHT_SIGNAL_H_

#include <functional>
#include <string>

#include "collectives/flight/flight_recorder.h"

namespace rz {

class FlightSignal {
 public:
  // From here to the destructor, writes `record()` to `directory` at each SIGUSR2. `record` is
  // called on that thread.
  FlightSignal(std::string directory, std::function<FlightRecord()> record);

  // Waits for a file that is being written.
  ~FlightSignal();

  FlightSignal(const FlightSignal&) = delete;
  FlightSignal& operator=(const FlightSignal&) = delete;

  // Writes the file now; called on the thread. A failure goes to the log.
  void Write() const;

 private:
  const std::string directory_;
  const std::function<FlightRecord()> record_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_FLIGHT_FLIGHT_SIGNAL_H_
