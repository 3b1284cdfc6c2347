// The schedules of all ranks of a large world, in little memory.
//
// A ring's schedule of 4,096 ranks takes 700 KB a rank; but rank r's is rank 0's with r added to
// every rank and block. So rank 0's is kept, each rank's own is built, compared with that, and kept
// only where it differs.
#ifndef RINGZERO_COLLECTIVES_SIMULATION_SHARED_SCHEDULES_H_
#define RINGZERO_COLLECTIVES_SIMULATION_SHARED_SCHEDULES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "collectives/algorithm.h"
#include "collectives/collective.h"
#include "collectives/schedule/schedule.h"

namespace rz {

class SharedSchedules {
 public:
  // Builds those of (collective, algorithm, partials) for every rank; the root, if any, is rank 0.
  SharedSchedules(Collective collective, Algorithm algorithm, Format partials, int32_t world);

  int32_t world() const { return static_cast<int32_t>(choices_.size()); }

  // Distinct schedules, and which one rank r runs.
  size_t size() const { return schedules_.size(); }
  const Schedule& schedule(size_t index) const { return schedules_[index]; }
  size_t IndexOf(int32_t rank) const { return choices_[rank].index; }

  // What rank `rank` does where its schedule says `transfer` or `step`.
  Transfer Of(int32_t rank, Transfer transfer) const {
    return Shifted(transfer, choices_[rank].shift);
  }
  LocalStep Of(int32_t rank, LocalStep step) const { return Shifted(step, choices_[rank].shift); }

  // Messages that all ranks together send a lane, those without elements included.
  int64_t MessagesOfLane() const;

 private:
  // A rank's schedule.
  struct Choice {
    size_t index = 0;
    int32_t shift = 0;  // added to ranks and blocks
  };

  int32_t Shifted(int32_t number, int32_t shift) const;
  BlockRef Shifted(BlockRef ref, int32_t shift) const;
  Transfer Shifted(Transfer transfer, int32_t shift) const;
  LocalStep Shifted(LocalStep step, int32_t shift) const;
  // `own` is rank 0's with `shift` added.
  bool IsShifted(const Schedule& own, int32_t shift) const;

  const bool one_block_;
  std::deque<Schedule> schedules_;
  std::vector<Choice> choices_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SIMULATION_SHARED_SCHEDULES_H_
