// Calls that a program repeats, each collective and v variant once, for tests of what repeating
// them costs.
#ifndef RINGZERO_COLLECTIVES_TESTING_STEADY_CALLS_H_
#define RINGZERO_COLLECTIVES_TESTING_STEADY_CALLS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace rz::testing {

// The buffers of every call hold this many bytes.
inline constexpr size_t kSteadyBytes = 8192;

struct SteadyCall {
  std::string name;
  // Allocates nothing beside what the communicator does.
  std::function<absl::StatusOr<Operation>(Communicator& comm, const void* send, void* recv)> start;
};

std::vector<SteadyCall> SteadyCalls(int world);

}  // namespace rz::testing

#endif  // RINGZERO_COLLECTIVES_TESTING_STEADY_CALLS_H_
