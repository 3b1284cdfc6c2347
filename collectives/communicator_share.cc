// 1. Each rank allocates its part of the shared memory, and everybody gathers everybody's key.
// 2. Each maps the others' parts; whether all could, all learn by a reduction.
// 3. The calls that follow are made through that memory: all ranks have made the same ones before.
#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/communicator_impl.h"
#include "collectives/shared/shared_area.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

// As it travels.
struct KeyRecord {
  uint64_t length = 0;  // 0: there is none
  std::array<char, kMaxSharedKeyBytes> key = {};
};
constexpr int64_t kRecordWords = sizeof(KeyRecord) / sizeof(int64_t);

}  // namespace

struct ShareOperation::State {
  explicit State(Communicator* of, Communicator::Impl* with)
      : communicator(of), impl(with), records(static_cast<size_t>(with->group().size())) {}

  absl::Status Begin();
  absl::Status MapAndVote();

  Communicator* const communicator;
  Communicator::Impl* const impl;
  std::unique_ptr<SharedArea> area;
  std::string obstacle;  // why this rank cannot; "": it can
  KeyRecord own;
  std::vector<KeyRecord> records;
  // 1: this rank reaches the others' memory; 2: and may copy out of their processes. Then what all
  // can.
  int32_t able = 0;
  std::optional<Operation> gathering;
  std::optional<Operation> voting;
  absl::Status failure;
};

absl::Status ShareOperation::State::Begin() {
  impl->selector().set_finding_out(true);
  auto allocated =
      SharedArea::Allocate(impl->transport(), impl->group(), impl->options().shared_slot_bytes);
  if (allocated.ok()) {
    area = *std::move(allocated);
    own.length = area->key().size();
    std::memcpy(own.key.data(), area->key().data(), area->key().size());
  } else {
    obstacle = std::string(allocated.status().message());
  }
  RZ_ASSIGN_OR_RETURN(
      gathering, communicator->StartAllGather(&own, records.data(),
                                              kRecordWords * impl->group().size(), DType::kInt64));
  return absl::OkStatus();
}

absl::Status ShareOperation::State::MapAndVote() {
  RZ_RETURN_IF_ERROR(gathering->status());
  std::vector<std::string> keys;
  for (const KeyRecord& record : records) {
    keys.emplace_back(record.key.data(), std::min<size_t>(record.length, record.key.size()));
  }
  if (area != nullptr) {
    const absl::Status mapped = area->Map(keys);
    if (!mapped.ok()) obstacle = std::string(mapped.message());
  }
  able = !obstacle.empty() ? 0 : impl->options().shared_fetch && area->CanFetch() ? 2 : 1;
  RZ_ASSIGN_OR_RETURN(voting,
                      communicator->StartAllReduce(&able, &able, 1, DType::kInt32, ReduceOp::kMin));
  return absl::OkStatus();
}

ShareOperation::ShareOperation(std::unique_ptr<State> state) : state_(std::move(state)) {}
ShareOperation::ShareOperation(ShareOperation&&) noexcept = default;
ShareOperation& ShareOperation::operator=(ShareOperation&&) noexcept = default;

// What is under way writes into the state, which must stay until it is over.
ShareOperation::~ShareOperation() {
  if (state_ != nullptr) static_cast<void>(Wait());
}

bool ShareOperation::Poll() {
  State& state = *state_;
  if (!state.failure.ok()) return true;
  if (!state.voting.has_value()) {
    if (!state.gathering->Poll()) return false;
    state.failure = state.MapAndVote();
    if (!state.failure.ok()) return true;
  }
  return state.voting->Poll();
}

absl::Status ShareOperation::Wait() {
  State& state = *state_;
  if (!state.voting.has_value() && state.failure.ok()) {
    state.failure = state.gathering->Wait();
    if (state.failure.ok()) state.failure = state.MapAndVote();
  }
  RZ_RETURN_IF_ERROR(state.failure);
  return state.voting->Wait();
}

absl::StatusOr<bool> ShareOperation::Finish() {
  const std::unique_ptr<State> state = std::move(state_);
  state->impl->selector().set_finding_out(false);
  RZ_RETURN_IF_ERROR(state->failure);
  RZ_RETURN_IF_ERROR(state->voting->status());
  if (state->able == 0) {
    if (!state->obstacle.empty()) {
      Log(LogLevel::kInfo, "the ranks share no memory: ", state->obstacle);
    }
    state->impl->selector().CrossNetwork();
    return false;
  }
  state->area->set_fetches(state->able >= 2);
  state->impl->UseSharedMemory(std::move(state->area));
  return true;
}

void Communicator::Impl::UseSharedMemory(std::unique_ptr<SharedArea> area) {
  shared_ = std::make_unique<SharedLink>(
      transport_, group_, options_.id, std::move(area), guard_->last(), options_.clock,
      [this](int64_t number, const absl::Status& result) { OnFinished(number, result); });
  guard_->UseSharedMemory(&shared_->exchange());
  executor_->LeaveChannel();
  selector_.ShareMemory();
}

absl::StatusOr<ShareOperation> Communicator::StartShareMemory() {
  if (impl_->shares_memory()) {
    return absl::FailedPreconditionError(
        absl::StrCat(impl_->group().DescribeSelf(), ": the ranks share memory already"));
  }
  if (!impl_->quiet()) {
    return absl::FailedPreconditionError(
        absl::StrCat(impl_->group().DescribeSelf(),
                     ": memory is shared while no operation is under way; wait for them first"));
  }
  auto state = std::make_unique<ShareOperation::State>(this, impl_.get());
  RZ_RETURN_IF_ERROR(state->Begin());
  return ShareOperation(std::move(state));
}

absl::Status Communicator::ShareMemory() {
  RZ_ASSIGN_OR_RETURN(ShareOperation share, StartShareMemory());
  RZ_RETURN_IF_ERROR(share.Wait());
  return share.Finish().status();
}

absl::StatusOr<CommunicatorBuffer> Communicator::AllocateBuffer(size_t bytes) {
  CommunicatorBuffer buffer;
  if (SharedRegions* const regions = impl_->regions(); regions != nullptr && bytes > 0) {
    const absl::StatusOr<absl::Span<std::byte>> region = regions->Allocate(bytes);
    if (region.ok()) {
      buffer.bytes_ = *region;
      buffer.owner_ = impl_.get();
      return buffer;
    }
    static std::once_flag once;
    std::call_once(once, [&] {
      Log(LogLevel::kWarning, "buffers are private, and calls on them copy: ",
          absl::string_view(region.status().message()));
    });
  }
  RZ_ASSIGN_OR_RETURN(buffer.private_, Buffer::Allocate(bytes, MemoryTag::kOther));
  buffer.bytes_ = buffer.private_.bytes();
  return buffer;
}

CommunicatorBuffer::CommunicatorBuffer(CommunicatorBuffer&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})),
      owner_(std::exchange(other.owner_, nullptr)),
      private_(std::move(other.private_)) {}

CommunicatorBuffer& CommunicatorBuffer::operator=(CommunicatorBuffer&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(owner_, other.owner_);
  std::swap(private_, other.private_);
  return *this;
}

CommunicatorBuffer::~CommunicatorBuffer() {
  if (owner_ != nullptr) owner_->regions()->Free(bytes_.data());
}

}  // namespace rz
