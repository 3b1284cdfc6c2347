#include "collectives/communicator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/algorithm.h"
#include "collectives/call_check.h"
#include "collectives/executor.h"
#include "collectives/kernels/reduce_kernel.h"
#include "collectives/limits.h"
#include "collectives/plan.h"
#include "collectives/schedule_cache.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

absl::Status CheckOptions(const Transport* transport, const CommunicatorOptions& options) {
  if (transport == nullptr || options.clock == nullptr) {
    return absl::InvalidArgumentError("a communicator needs a transport and a clock");
  }
  if (options.slice_bytes < kMinSliceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice_bytes is ", options.slice_bytes, ", the least is ", kMinSliceBytes));
  }
  if (options.lanes_in_flight < 1 || options.lanes_in_flight > kMaxLanesInFlight) {
    return absl::InvalidArgumentError(absl::StrCat("lanes_in_flight is ", options.lanes_in_flight,
                                                   ", allowed are 1 to ", kMaxLanesInFlight));
  }
  if (options.id > kMaxCommunicatorId) {
    return absl::InvalidArgumentError(
        absl::StrCat("communicator id is ", options.id, ", the largest is ", kMaxCommunicatorId));
  }
  return absl::OkStatus();
}

}  // namespace

class Communicator::Impl {
 public:
  Impl(Transport* transport, CommunicatorOptions options, AlgorithmTable algorithms)
      : transport_(transport),
        options_(std::move(options)),
        algorithms_(std::move(algorithms)),
        schedules_(transport->rank(), transport->world_size()),
        executor_(std::make_unique<Executor>(transport, options_.id, options_.lanes_in_flight)) {}

  ~Impl();

  const Transport& transport() const { return *transport_; }
  const CommunicatorOptions& options() const { return options_; }
  const AlgorithmTable& algorithms() const { return algorithms_; }
  Executor& executor() { return *executor_; }

  absl::StatusOr<int64_t> Start(Call call, ReduceOp op);
  int Poll();
  absl::Status Wait(int64_t number, absl::Duration timeout);
  absl::Status status() const;

 private:
  absl::StatusOr<Plan> MakePlan(const Call& call, ReduceOp op);
  absl::Status DeadlineError(int64_t number, absl::Duration timeout) const;
  Deadline DrainDeadline();

  Transport* const transport_;
  const CommunicatorOptions options_;
  const AlgorithmTable algorithms_;
  ScheduleCache schedules_;
  std::unique_ptr<Executor> executor_;
  int64_t next_number_ = 0;
  std::optional<Deadline> drain_deadline_;  // of the steady clock, from the failure on
};

// Memory that the transport still holds must not be freed: it is given time to let go, and what it
// does not let go of stays allocated for good.
Communicator::Impl::~Impl() {
  if (executor_->idle()) return;
  executor_->Fail(absl::CancelledError(
      absl::StrCat("rank ", transport_->rank().value(),
                   ": the communicator was destroyed while operations were under way")));
  const Deadline deadline = DrainDeadline();
  while (!executor_->idle() && !deadline.HasPassed(*Clock::Steady())) {
    if (executor_->Poll() == 0 && !executor_->idle()) transport_->WaitForEvent(deadline);
  }
  if (executor_->idle()) return;
  Log(LogLevel::kError, "rank ", transport_->rank().value(),
      ": the transport did not end its operations after Abort; their memory is leaked");
  static_cast<void>(executor_.release());
}

Deadline Communicator::Impl::DrainDeadline() {
  if (!drain_deadline_.has_value()) {
    drain_deadline_ = Deadline::After(*Clock::Steady(), kAbortDrain);
  }
  return *drain_deadline_;
}

absl::Status Communicator::Impl::status() const {
  return executor_->failed() ? executor_->failure() : executor_->abort_cause();
}

absl::StatusOr<Plan> Communicator::Impl::MakePlan(const Call& call, ReduceOp op) {
  Plan plan;
  plan.collective = call.collective;
  plan.op = op;
  plan.count = call.count;
  plan.arithmetic.dtype = call.dtype;
  if (IsReduction(call.collective)) {
    RZ_ASSIGN_OR_RETURN(plan.arithmetic.kernel, GetReduceKernel(call.dtype, op));
    if (op == ReduceOp::kAvg) plan.arithmetic.divisor = call.world;
  }
  const int64_t size = static_cast<int64_t>(SizeOf(call.dtype));
  const int64_t slice = std::max<int64_t>(1, static_cast<int64_t>(options_.slice_bytes) / size);
  switch (call.collective) {
    case Collective::kBarrier:  // one lane, whose signals carry no element
      plan.lanes = LaneLayout(ChunkLayout(1, 1, 0), 1);
      break;
    case Collective::kBroadcast:
      plan.lanes = LaneLayout(ChunkLayout(call.count, 1, 0), slice);
      break;
    default:
      plan.lanes = LaneLayout(ChunkLayout(call.count, call.world, call.tile_chunk), slice);
  }
  plan.algorithm = algorithms_.Choose(call.collective, call.dtype, call.count * size).algorithm;
  const Format partials = PartialsOf(plan.algorithm, call.dtype, algorithms_.mode());
  plan.schedule = schedules_.Get(call.collective, plan.algorithm, partials, call.root);
  return plan;
}

absl::StatusOr<int64_t> Communicator::Impl::Start(Call call, ReduceOp op) {
  RZ_RETURN_IF_ERROR(status());
  call.rank = transport_->rank();
  call.world = transport_->world_size();
  RZ_RETURN_IF_ERROR(CheckCall(call));
  RZ_ASSIGN_OR_RETURN(const Plan plan, MakePlan(call, op));
  const int64_t number = next_number_++;
  executor_->Start(number, plan, call.send, call.recv);
  return number;
}

int Communicator::Impl::Poll() {
  const int moved = executor_->Poll();
  if (executor_->failed() && !executor_->idle() && DrainDeadline().HasPassed(*Clock::Steady())) {
    executor_->Abandon();
  }
  return moved;
}

absl::Status Communicator::Impl::DeadlineError(int64_t number, absl::Duration timeout) const {
  return absl::DeadlineExceededError(
      absl::StrCat("rank ", transport_->rank().value(), ", ", executor_->DescribeOperation(number),
                   ": not complete after ", absl::FormatDuration(timeout), "; ",
                   executor_->DescribeWait(number), ". Look there for the rank that is late"));
}

absl::Status Communicator::Impl::Wait(int64_t number, absl::Duration timeout) {
  const Deadline deadline = Deadline::After(*options_.clock, timeout);
  while (!executor_->IsDone(number)) {
    if (Poll() > 0 || executor_->IsDone(number)) continue;
    if (executor_->failed()) {
      transport_->WaitForEvent(DrainDeadline());
    } else if (deadline.HasPassed(*options_.clock)) {
      executor_->Fail(DeadlineError(number, timeout));
    } else {
      transport_->WaitForEvent(deadline);
    }
  }
  return executor_->ResultOf(number);
}

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Create(Transport* transport,
                                                                   CommunicatorOptions options) {
  RZ_RETURN_IF_ERROR(CheckOptions(transport, options));
  RZ_ASSIGN_OR_RETURN(
      AlgorithmTable algorithms,
      AlgorithmTable::Parse(options.algorithms, options.numeric_mode, options.slice_bytes));
  return std::unique_ptr<Communicator>(new Communicator(
      std::make_unique<Impl>(transport, std::move(options), std::move(algorithms))));
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::~Communicator() = default;

Rank Communicator::rank() const { return impl_->transport().rank(); }
int Communicator::world_size() const { return impl_->transport().world_size(); }

absl::StatusOr<Operation> Communicator::StartAllReduce(const void* send, void* recv, int64_t count,
                                                       DType dtype, ReduceOp op, CallOptions call) {
  RZ_ASSIGN_OR_RETURN(const int64_t number, impl_->Start({.collective = Collective::kAllReduce,
                                                          .send = send,
                                                          .recv = recv,
                                                          .count = count,
                                                          .tile_chunk = call.tile_chunk,
                                                          .dtype = dtype},
                                                         op));
  return Operation(impl_.get(), number);
}

absl::StatusOr<Operation> Communicator::StartReduceScatter(const void* send, void* recv,
                                                           int64_t count, DType dtype, ReduceOp op,
                                                           CallOptions call) {
  RZ_ASSIGN_OR_RETURN(const int64_t number, impl_->Start({.collective = Collective::kReduceScatter,
                                                          .send = send,
                                                          .recv = recv,
                                                          .count = count,
                                                          .tile_chunk = call.tile_chunk,
                                                          .dtype = dtype},
                                                         op));
  return Operation(impl_.get(), number);
}

absl::StatusOr<Operation> Communicator::StartAllGather(const void* send, void* recv, int64_t count,
                                                       DType dtype, CallOptions call) {
  RZ_ASSIGN_OR_RETURN(const int64_t number, impl_->Start({.collective = Collective::kAllGather,
                                                          .send = send,
                                                          .recv = recv,
                                                          .count = count,
                                                          .tile_chunk = call.tile_chunk,
                                                          .dtype = dtype},
                                                         ReduceOp::kSum));
  return Operation(impl_.get(), number);
}

absl::StatusOr<Operation> Communicator::StartBroadcast(void* buffer, int64_t count, DType dtype,
                                                       Rank root) {
  RZ_ASSIGN_OR_RETURN(const int64_t number, impl_->Start({.collective = Collective::kBroadcast,
                                                          .send = buffer,
                                                          .recv = buffer,
                                                          .count = count,
                                                          .dtype = dtype,
                                                          .root = root},
                                                         ReduceOp::kSum));
  return Operation(impl_.get(), number);
}

absl::StatusOr<Operation> Communicator::StartBarrier() {
  RZ_ASSIGN_OR_RETURN(const int64_t number, impl_->Start({}, ReduceOp::kSum));
  return Operation(impl_.get(), number);
}

absl::Status Communicator::AllReduce(const void* send, void* recv, int64_t count, DType dtype,
                                     ReduceOp op, CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartAllReduce(send, recv, count, dtype, op, call));
  return operation.Wait();
}

absl::Status Communicator::ReduceScatter(const void* send, void* recv, int64_t count, DType dtype,
                                         ReduceOp op, CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartReduceScatter(send, recv, count, dtype, op, call));
  return operation.Wait();
}

absl::Status Communicator::AllGather(const void* send, void* recv, int64_t count, DType dtype,
                                     CallOptions call) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartAllGather(send, recv, count, dtype, call));
  return operation.Wait();
}

absl::Status Communicator::Broadcast(void* buffer, int64_t count, DType dtype, Rank root) {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartBroadcast(buffer, count, dtype, root));
  return operation.Wait();
}

absl::Status Communicator::Barrier() {
  RZ_ASSIGN_OR_RETURN(Operation operation, StartBarrier());
  return operation.Wait();
}

void Communicator::Abort(absl::Status cause) { impl_->executor().RequestAbort(cause); }

absl::Status Communicator::status() const { return impl_->status(); }

const WireCounters& Communicator::wire_counters() const {
  return impl_->executor().wire_counters();
}

std::string Communicator::AlgorithmFor(std::string_view collective, DType dtype) const {
  const std::optional<Collective> parsed = ParseCollective(collective);
  if (!parsed.has_value()) return absl::StrCat("unknown collective ", std::string(collective));
  return impl_->algorithms().Describe(*parsed, dtype);
}

bool Operation::Poll() {
  if (!done()) communicator_->Poll();
  return done();
}

bool Operation::done() const { return communicator_->executor().IsDone(number_); }

absl::Status Operation::status() const {
  if (!done()) return absl::FailedPreconditionError("the operation is still under way");
  return communicator_->executor().ResultOf(number_);
}

absl::Status Operation::Wait(absl::Duration timeout) {
  return communicator_->Wait(number_, timeout);
}

absl::Status Operation::Wait() { return Wait(communicator_->options().operation_timeout); }

}  // namespace rz
