// SharedEngine: carries out calls over shared memory, one after the other, without ever blocking.
//
// Nothing is under way anywhere while nobody polls: a step is loads and stores of the rank that
// takes it. Calls small enough travel in their lines and end with the exchange; others go through
// the slots in steps. A rank that stops polling stops the others, at the step where they need it.
// Threads: the communicator's owner alone.
#ifndef RINGZERO_COLLECTIVES_SHARED_SHARED_ENGINE_H_
#define RINGZERO_COLLECTIVES_SHARED_SHARED_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/flight/flight_recorder.h"
#include "collectives/plan.h"
#include "collectives/running_calls.h"
#include "collectives/shard_kernel.h"
#include "collectives/shared/shared_area.h"
#include "collectives/shared/shared_exchange.h"
#include "collectives/shared/shared_regions.h"
#include "collectives/shared/shared_work.h"
#include "runtime/memory/memory.h"

namespace rz {

class SharedEngine {
 public:
  using FinishedCallback = std::function<void(int64_t number, const absl::Status& result)>;

  // Area, exchange and regions outlive the engine.
  SharedEngine(SharedArea* area, SharedExchange* exchange, SharedRegions* regions,
               FinishedCallback on_finished);

  // Starts the call that the exchange has begun and not ended; the plan's algorithm is kShared.
  // Buffers and the kernel, null where there is none, stay until the call is done; the plan's
  // offsets need not.
  void Start(int64_t number, const Plan& plan, const void* input, void* output,
             ShardKernel* kernel = nullptr);

  // Takes the steps that can be taken now, a few at most; returns how many.
  int Poll();

  bool idle() const { return running_.empty(); }
  // Number of the oldest call that is not done; not idle.
  int64_t oldest() const { return running_.oldest().number; }
  // As RunningCalls, for these.
  bool AreDone(int64_t first, int64_t last) const { return running_.AreDone(first, last); }
  int64_t FirstRunning(int64_t first, int64_t last) const {
    return running_.FirstRunning(first, last);
  }

  // Ends everything with `cause`.
  void Fail(const absl::Status& cause);
  bool HasFailed(int64_t first, int64_t last) const { return running_.HasFailed(first, last); }

  // OK, or which rank's memory cannot be reached although a call needs it, or whose function
  // failed.
  const absl::Status& trouble() const { return trouble_; }

  // The rank without which the oldest call cannot go on, as things are now; -1: none.
  int WaitsFor() const;

  FlightPosition PositionOf(int64_t number) const;
  // "step 3 of 12 waits for rank 2".
  std::string DescribeWait(int64_t number) const;
  // "operation 7 (all_reduce of 1000 float32 sum by shared)".
  std::string DescribeOperation(int64_t number) const;

 private:
  struct Running : RunningCall {
    SharedWork work;
    bool in_line = false;
    bool sums_by_owner = false;
    bool decided = false;  // which way it goes
    SharedWork::Way way = SharedWork::Way::kSlots;
    SharedPlace input;
    SharedPlace output;
    int64_t base = 0;   // steps of all calls before
    int64_t steps = 0;  // each done up to:
    int64_t offered = 0;
    int64_t summed = 0;
    int64_t taken = 0;
  };

  // What is read of others, as far as it was seen last.
  enum class Stage : uint8_t { kOffered, kSummed, kTaken };

  bool FinishInLine(Running& call);
  int Advance(Running& call);
  // Where the call's buffers are in reach of others, all learn it from its lines.
  void NamePlaces(Running& call, size_t largest_input, const void* input, void* output);
  // With all lines here: which way the call goes.
  void Decide(Running& call);
  // Of the other ranks' buffers; returns a rank whose buffer cannot be mapped, or
  // SharedWork::kNone.
  int FindPlaces(const Running& call);
  // Scratch for the pieces of a call's shard on their way through its kernel.
  void ReserveForKernel(const Plan& plan);
  bool FindPlace(int rank, const SharedPlace& place, const std::byte*& address, int64_t& process);
  // `failure`: as SharedWork returns it.
  void SetTrouble(const Running& call, int failure);
  int AdvanceInPlace(Running& call);
  bool StepInPlace(Running& call);
  bool SumOrTakeInPlace(Running& call, const SharedWork::Inputs& inputs);
  bool Stepped(Running& call, int failure);
  bool OfferOne(Running& call);
  bool SumOne(Running& call);
  bool TakeOne(Running& call);
  void Publish(SharedCounter& counter, int64_t value);

  // Everybody whose part it is has reached `step` in `stage`.
  bool HaveReached(Stage stage, const Running& call, int64_t step);
  int FirstBehind(Stage stage, const Running& call, int64_t step) const;
  static const SharedCounter& CounterOf(const SharedHeader& header, Stage stage);

  SharedArea* const area_;
  SharedExchange* const exchange_;
  SharedRegions* const regions_;
  const FinishedCallback on_finished_;
  RunningCalls<Running> running_;
  int64_t steps_ = 0;  // of all calls started
  std::vector<const std::byte*> inputs_;
  std::vector<const std::byte*> results_;
  std::vector<std::byte*> outputs_;
  std::vector<int64_t> processes_;         // of inputs_ that are fetched; otherwise 0
  std::vector<int64_t> output_processes_;  // of outputs_
  Buffer kernel_scratch_;                  // of the oldest call, as large as the largest piece yet
  absl::Status trouble_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SHARED_SHARED_ENGINE_H_
