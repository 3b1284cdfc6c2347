// Bytes this rank has handed to its transport, by collective. Payload is what the closed formulas
// speak of ((N-1) * chunk * bytes of the wire's element for a ring); control messages (barriers,
// descriptors, headers of point-to-point messages) are counted apart. What leaves this rank's host
// is counted beside, once the ranks know who shares memory with whom.
#ifndef RINGZERO_COLLECTIVES_WIRE_COUNTERS_H_
#define RINGZERO_COLLECTIVES_WIRE_COUNTERS_H_

#include <cstdint>

#include "collectives/collective.h"

namespace rz {

struct WireCounters {
  int64_t all_reduce = 0;
  int64_t reduce_scatter = 0;
  int64_t all_gather = 0;
  int64_t broadcast = 0;
  int64_t reduce = 0;
  int64_t all_to_all = 0;
  int64_t gather = 0;
  int64_t scatter = 0;
  int64_t messages = 0;  // point to point
  int64_t control = 0;

  // Of the payload, what went to ranks of other hosts. 0 until hosts are known.
  int64_t between_hosts = 0;

  int64_t payload() const {
    return all_reduce + reduce_scatter + all_gather + broadcast + reduce + all_to_all + gather +
           scatter + messages;
  }

  int64_t& Of(Collective collective);

  WireCounters& operator+=(const WireCounters& other);
};

inline WireCounters& WireCounters::operator+=(const WireCounters& other) {
  all_reduce += other.all_reduce;
  reduce_scatter += other.reduce_scatter;
  all_gather += other.all_gather;
  broadcast += other.broadcast;
  reduce += other.reduce;
  all_to_all += other.all_to_all;
  gather += other.gather;
  scatter += other.scatter;
  messages += other.messages;
  control += other.control;
  between_hosts += other.between_hosts;
  return *this;
}

inline int64_t& WireCounters::Of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return all_reduce;
    case Collective::kReduceScatter:
      return reduce_scatter;
    case Collective::kAllGather:
      return all_gather;
    case Collective::kBroadcast:
      return broadcast;
    case Collective::kReduce:
      return reduce;
    case Collective::kAllToAll:
      return all_to_all;
    case Collective::kGather:
      return gather;
    case Collective::kScatter:
      return scatter;
    case Collective::kBarrier:
      return control;
  }
  return control;
}

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_WIRE_COUNTERS_H_
