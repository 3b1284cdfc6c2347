// CommHandle: a communicator as the C interface has it, with what belongs to it: requests, buffers,
// operations it has made, and the group that is open.
#ifndef RINGZERO_COLLECTIVES_C_API_COMM_HANDLE_H_
#define RINGZERO_COLLECTIVES_C_API_COMM_HANDLE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/c_api/c_api.h"
#include "collectives/communicator.h"
#include "collectives/reduce_function.h"
#include "runtime/c_api/handle_table.h"
#include "runtime/c_api/job_session.h"

namespace rz::c_api {

struct CommHandle;

// What a request waits for. Made by a communicator and used again and again.
struct Request {
  CommHandle* comm = nullptr;
  std::vector<Operation> operations;
  const void* handle = nullptr;
  size_t place = 0;  // in comm->requests
};
using RequestTable = HandleTable<Request, HandleKind::kRequest>;

// A message of a group.
struct Message {
  bool is_send = false;
  void* buffer = nullptr;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  Rank peer = Rank(0);
};

// The calls between rz_group_start and rz_group_end. `counts` are those of v variants, one after
// another; the calls' own spans are set when all are there.
struct OpenGroup {
  bool is_open = false;
  std::vector<Call> calls;
  std::vector<Message> messages;
  std::vector<int64_t> counts;
};

// A function of the caller's. One that fails aborts the communicator, as rz_comm_abort does.
class UserFunction final : public ReduceFunction {
 public:
  // The n-th function of `comm` has the number n.
  UserFunction(rz_reduce_function_t function, void* user, bool any_order, uint32_t number,
               CommHandle* comm)
      : function_(function), user_(user), any_order_(any_order), number_(number), comm_(comm) {}

  bool Combine(void* result, const void* a, const void* b, int64_t count, DType dtype) override;
  uint32_t number() const override { return number_; }
  bool any_order() const override { return any_order_; }

 private:
  const rz_reduce_function_t function_;
  void* const user_;
  const bool any_order_;
  const uint32_t number_;
  CommHandle* const comm_;
};

// An operation that a communicator has made: a sum of multiples, or a function.
struct MadeOp {
  bool exists = false;
  int32_t generation = 0;  // told apart from others that have or had such a place
  DType dtype = DType::kFloat32;
  PremulFactor factor;
  std::optional<UserFunction> function;
};
inline constexpr size_t kMaxMadeOps = 64;

// How a communicator was made, for another one like it.
struct CommSettings {
  CommunicatorOptions options;
  bool shares_memory = true;  // where its ranks can
};

struct CommHandle {
  CommHandle(std::shared_ptr<JobSession> job_session, std::unique_ptr<Communicator> made,
             CommSettings made_with);
  ~CommHandle();

  const std::shared_ptr<JobSession> session;
  const CommSettings settings;
  // Outlive what the communicator has under way.
  std::array<MadeOp, kMaxMadeOps> made_ops;
  uint32_t functions_made = 0;
  const std::unique_ptr<Communicator> communicator;

  // Requests that callers hold, and those to be used again.
  std::vector<std::unique_ptr<Request>> requests;
  std::vector<std::unique_ptr<Request>> spare_requests;

  OpenGroup group;
  std::unordered_map<void*, CommunicatorBuffer> buffers;
  std::atomic<int> optimizers{0};

  // Counts of the call that is being made: what comes and what goes.
  std::vector<int64_t> counts;
  std::vector<int64_t> send_counts;
};
using CommTable = HandleTable<CommHandle, HandleKind::kCommunicator>;

// A communicator within a call of this thread.
class CommUse {
 public:
  // As CommTable::Find and JobSession::Enter.
  static absl::StatusOr<CommUse> Enter(const void* handle);

  CommHandle* operator->() const { return &*pin_; }
  CommHandle& operator*() const { return *pin_; }

  // Gives up the use, for CommTable::Close; the session outlives it.
  CommTable::Pin TakePin() { return std::move(pin_); }

 private:
  CommUse(CommTable::Pin pin, JobSession::Use use) : pin_(std::move(pin)), use_(std::move(use)) {}
  CommTable::Pin pin_;
  JobSession::Use use_;  // ends first
};

// The status of what was done on `comm`: where it has failed, the job's first cause.
absl::Status Outcome(const CommHandle& comm, const absl::Status& status);

// Fails `comm` with `cause`, and the job with it. Any thread.
void Abort(CommHandle& comm, const absl::Status& cause);

}  // namespace rz::c_api

#endif  // RINGZERO_COLLECTIVES_C_API_COMM_HANDLE_H_
