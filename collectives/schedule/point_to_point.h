// Send and receive between two ranks: one message of a lane of one block.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_POINT_TO_POINT_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_POINT_TO_POINT_H_

#include <cstdint>

#include "collectives/schedule/schedule.h"

namespace rz {

// input[0] goes to rank `peer`.
Schedule SendTo(int32_t peer);

// What rank `peer` sends arrives in output[0].
Schedule ReceiveFrom(int32_t peer);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_POINT_TO_POINT_H_
