// GradientReducer: takes the gradients of a step as they become ready and reduces them bucket by
// bucket, as a state machine that never waits.
//
// Gradients of parameters that are tied are added up in float32, whatever the order, and enter the
// buckets with the last of them.
//
// A gradient is announced once a micro-step, in any order (naturally backward's). It is rounded to
// the dtype of communication into the memory of its buckets, or added to the local float32
// accumulator where this is not the last micro-step. A bucket is complete when all its parameters
// are announced or closed: what was not announced is then zero. Buckets are started in their order,
// whatever the order of announcement, so that all ranks start the same:
//
//   views              complete at the step; at most buckets_in_flight under way
//   ddp, naive, 1, 2   as soon as complete (with overlap_communication, or in stage 2)
//   3                  when their unit is closed, which all ranks do at the same place among their
//                      other collectives: gathers of parameters go between
//
// Where all buffers of stages 2 and 3 are taken, an announcement waits for the reduction that has
// been under way longest. Where none is under way (gradients came so far out of order that all
// buffers belong to buckets that wait for an earlier one), the pool grows by a buffer for good, and
// the log says so.
//
// Where there are groups of ranks (shard_groups.h), a bucket that has been reduced within the group
// gives its buffer back at once, and is dealt with when it has been reduced over the groups as
// well. That goes on beside, and is waited for once nothing is under way within the group.
//
// Threads: the optimizer's. Allocates nothing in a step, but for a pool that grows.
#ifndef RINGZERO_OPTIMIZER_GRADIENT_REDUCER_H_
#define RINGZERO_OPTIMIZER_GRADIENT_REDUCER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "optimizer/bucket_buffers.h"
#include "optimizer/layout/flat_layout.h"
#include "optimizer/layout/partition.h"
#include "optimizer/model_state.h"
#include "optimizer/replica_reducer.h"
#include "optimizer/shard_groups.h"
#include "optimizer/stage_policy.h"
#include "optimizer/step_timeline.h"
#include "optimizer/step_trace.h"
#include "optimizer/zero_config.h"
#include "runtime/memory/memory.h"

namespace rz {

class GradientReducer {
 public:
  static constexpr int64_t kNoParameter = std::numeric_limits<int64_t>::max();

  // All arguments outlive it.
  GradientReducer(const ShardGroups* ranks, const FlatLayout* layout, const Partition* partition,
                  const ZeroConfig* config, const ModelState* state, StagePolicy* policy,
                  StepTimeline* timeline);

  //   ResourceExhausted  no memory for bucket buffers and sums of tied gradients
  absl::Status Allocate();

  // Forgets everything announced. Requires that nothing is under way.
  void Reset();

  // Begins to take gradient `index`: float32 or the working dtype, the parameter's elements, which
  // stay until adding() is false.
  //   InvalidArgument     there is no such parameter; the message has their number
  //   FailedPrecondition  it is frozen; it was announced in this micro-step, or its unit has been
  //                       closed; this optimizer reads views
  absl::Status StartAdd(size_t index, const void* values, DType dtype);
  bool adding() const { return add_.has_value(); }

  // What was not announced of a unit's gradients is zero in this micro-step, and so is what is tied
  // to its parameters.
  absl::Status CloseUnit(size_t unit);

  // The micro-step is over: everything is closed. With `last`, so is the step, and whatever was
  // accumulated is reduced.
  void CloseAll(bool last);

  // One move; false where only waiting is left. After a failure result() says what.
  bool Advance();
  const absl::Status& result() const { return result_; }

  // All buckets of a closed micro-step have been dealt with.
  bool done() const { return closing_ && !add_ && close_next_ == 0 && settled_ == expected_; }

  // After done(): on to the next micro-step, or with `last` to the next step.
  void EndMicroStep(bool last);

  // Since the last call: the next bucket, in order, whose reduction has been dealt with; none where
  // there is no new one. In the accumulating policies only those of the step's last micro-step.
  std::optional<Bucket> TakeReduced();

  // The operation that is waited for; null where there is none.
  Operation* awaited();

  // Of this step's announced gradients, the first parameter in the order of declaration with an
  // element that is not finite; kNoParameter where there is none.
  int64_t first_non_finite() const { return first_non_finite_; }

  // Anything was announced since the last step.
  bool has_begun() const { return begun_; }
  int64_t micro_step() const { return micro_step_; }

  // A bucket's place in the model.
  StepPlace PlaceOf(const Bucket& bucket) const {
    return {static_cast<int32_t>(unit_of_[static_cast<size_t>(bucket.index)]),
            static_cast<int32_t>(bucket.index)};
  }

  // Ends operations under way; requires a failed communicator.
  void Drain();

 private:
  // A gradient on its way into its buckets; null values: zeros.
  struct Add {
    size_t index = 0;
    const void* values = nullptr;
    DType dtype = DType::kFloat32;
    int64_t done = 0;  // elements
  };

  // This micro-step's gradients go to buckets and not to the local accumulator.
  bool IsReduced() const;

  // Closes a gradient that was not announced, as far as that goes without waiting.
  void Close(size_t index);

  // This one's part of the gradient is added to others: it is not the last of those that are tied.
  bool IsOneOfMore() const { return uses_left_[layout_->owner(add_->index)] > 1; }
  float* SumAt(size_t owner, int64_t flat_index) const;

  // Each makes one move; false where there is none to make.
  bool StartNext();
  bool CompleteNext();
  bool SettleNext();
  bool AdvanceAdd();
  bool AdvanceClosing();

  // The gradient under way was not announced on this rank, and is told of once.
  bool IsMissing() const;
  void TellMissing();

  // Takes a run of flat elements of the gradient under way; false: no buffer is free.
  bool AddToBucket(const Bucket& bucket, Range slice);
  void Write(Range slice, std::byte* to);
  bool GrowPool();

  bool MayStart(const Bucket& bucket) const;

  // Fails the communicator: the other ranks cannot finish a step that this one has left. True.
  bool Fail(absl::Status status);

  const ShardGroups* ranks_;
  const FlatLayout* layout_;
  const Partition* partition_;
  const ZeroConfig* config_;
  const ModelState* state_;
  StagePolicy* policy_;
  StepTimeline* timeline_;
  BucketBuffers buffers_;
  ReplicaReducer replicas_;
  std::vector<size_t> tied_;            // trained parameters that are tied to others
  Buffer tied_sums_;                    // float32, of their owners where there is no accumulator
  std::vector<int64_t> tied_sum_of_;    // by owner: where in it
  std::vector<int32_t> parameters_of_;  // by bucket: how many have elements in it
  std::vector<size_t> unit_of_;         // by bucket

  absl::Status result_;
  std::vector<int32_t> missing_;      // by bucket: those neither announced nor closed
  std::vector<uint8_t> announced_;    // by parameter, in this micro-step
  std::vector<int> uses_left_;        // by owner: those of its uses that are not announced
  std::vector<uint8_t> accumulated_;  // by owner: its sum holds some of this step or micro-step
  std::vector<uint8_t> closed_;       // by unit, in this micro-step
  std::optional<Add> add_;
  size_t close_next_ = 0;  // parameters from here on, in the order of declaration, are closed
  bool closing_ = false;
  bool last_ = false;   // of the closing micro-step
  bool grows_ = false;  // a buffer must not be waited for
  bool begun_ = false;
  bool told_missing_ = false;
  int64_t micro_step_ = 0;
  int64_t first_non_finite_ = kNoParameter;

  // By bucket, of this micro-step: those below started_ have been started, below completed_
  // reduced within the group, below settled_ over all groups and dealt with, below taken_ told. A
  // micro-step that is not reduced expects none.
  std::vector<std::optional<Operation>> operations_;
  int64_t started_ = 0;
  int64_t completed_ = 0;
  int64_t settled_ = 0;
  int64_t taken_ = 0;
  int64_t expected_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_GRADIENT_REDUCER_H_
