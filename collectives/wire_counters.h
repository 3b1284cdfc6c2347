// Bytes this rank has handed to its transport, by collective. Payload is what the closed formulas
// speak of ((N-1) * chunk * bytes of the wire's element for a ring); control messages (barriers,
// descriptors) are counted apart.
#ifndef RINGZERO_COLLECTIVES_WIRE_COUNTERS_H_
#define RINGZERO_COLLECTIVES_WIRE_COUNTERS_H_

#include <cstdint>

namespace rz {

struct WireCounters {
  int64_t all_reduce = 0;
  int64_t reduce_scatter = 0;
  int64_t all_gather = 0;
  int64_t broadcast = 0;
  int64_t control = 0;

  int64_t payload() const { return all_reduce + reduce_scatter + all_gather + broadcast; }
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_WIRE_COUNTERS_H_
