// 1. Each rank allocates its part of the shared memory, and everybody gathers everybody's key.
// 2. Each maps the others' parts, as far as it can, and everybody gathers everybody's reach.
// 3. Where all reach all, the calls that follow are made through that memory: all ranks have made
//    the same ones before. Where some do, they are on several hosts, and make parts of the
//    communicator: ids for those come with the reach, as in a split.
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/communicator_ids.h"
#include "collectives/communicator_impl.h"
#include "collectives/hierarchy/host_map.h"
#include "collectives/limits.h"
#include "collectives/shared/shared_area.h"
#include "runtime/base/cores.h"
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

// What a rank can do, likewise.
struct Ability {
  HostMap::Reach reach;  // of nobody where the rank has no memory to share
  int64_t fetches = 0;   // 1: it may copy out of the processes that it reaches
  Cores cores;
  uint64_t taken[CommunicatorIdSet::kWords] = {};
  uint64_t next_id = 0;
};
constexpr int64_t kAbilityWords = sizeof(Ability) / sizeof(int64_t);

}  // namespace

struct ShareOperation::State {
  explicit State(Communicator* of, Communicator::Impl* with)
      : communicator(of),
        impl(with),
        records(static_cast<size_t>(with->group().size())),
        abilities(records.size()) {}
  ~State() { EndChoosingIds(impl->transport()); }

  absl::Status Begin();
  absl::Status MapAndTell();
  // Nullopt: it is not known.
  std::optional<HostMap> Hosts() const;
  // The ranks of one host may copy out of each other.
  bool FetchesOn(const HostMap& hosts) const;
  bool CoresAreFewOn(absl::Span<const int> ranks) const;
  bool CoresAreFewSomewhere(const HostMap& hosts) const;
  absl::Status UseHierarchy(const HostMap& hosts);

  Communicator* const communicator;
  Communicator::Impl* const impl;
  std::unique_ptr<SharedArea> area;
  std::string obstacle;  // why this rank cannot; "": it can
  KeyRecord own;
  std::vector<KeyRecord> records;
  Ability own_ability;
  std::vector<Ability> abilities;
  std::optional<Operation> gathering;
  std::optional<Operation> telling;
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

absl::Status ShareOperation::State::MapAndTell() {
  RZ_RETURN_IF_ERROR(gathering->status());
  std::vector<std::string> keys;
  for (const KeyRecord& record : records) {
    keys.emplace_back(record.key.data(), std::min<size_t>(record.length, record.key.size()));
  }
  if (area != nullptr) {
    const absl::Status mapped = area->Map(keys);
    if (!mapped.ok()) obstacle = std::string(mapped.message());
  }
  if (area != nullptr) {
    std::vector<bool> reached;
    for (int r = 0; r < impl->group().size(); ++r) reached.push_back(area->reaches(r));
    own_ability.reach = HostMap::ReachOf(reached);
    own_ability.fetches = impl->options().shared_fetch && area->CanFetch() ? 1 : 0;
  }
  own_ability.cores = OwnCores();
  const CommunicatorIdsInUse ids = CommunicatorIdsOf(impl->transport());
  std::copy(ids.taken.words.begin(), ids.taken.words.end(), own_ability.taken);
  own_ability.next_id = ids.next;
  RZ_ASSIGN_OR_RETURN(
      telling, communicator->StartAllGather(&own_ability, abilities.data(),
                                            kAbilityWords * impl->group().size(), DType::kInt64));
  return absl::OkStatus();
}

std::optional<HostMap> ShareOperation::State::Hosts() const {
  std::vector<HostMap::Reach> reaches;
  for (const Ability& ability : abilities) {
    if (ability.reach.count == 0) return std::nullopt;
    reaches.push_back(ability.reach);
  }
  return HostMap::FromReaches(reaches);
}

bool ShareOperation::State::FetchesOn(const HostMap& hosts) const {
  const absl::Span<const int> ranks = hosts.RanksOf(hosts.HostOf(impl->group().rank().value()));
  return std::all_of(ranks.begin(), ranks.end(), [this](int rank) {
    return abilities[static_cast<size_t>(rank)].fetches != 0;
  });
}

bool ShareOperation::State::CoresAreFewOn(absl::Span<const int> ranks) const {
  std::vector<Cores> cores;
  for (int rank : ranks) cores.push_back(abilities[static_cast<size_t>(rank)].cores);
  return static_cast<int64_t>(ranks.size()) > CountCores(cores);
}

bool ShareOperation::State::CoresAreFewSomewhere(const HostMap& hosts) const {
  for (int host = 0; host < hosts.hosts(); ++host) {
    if (CoresAreFewOn(hosts.RanksOf(host))) return true;
  }
  return false;
}

absl::Status ShareOperation::State::UseHierarchy(const HostMap& hosts) {
  CommunicatorIdsInUse ids;
  for (const Ability& ability : abilities) {
    for (uint32_t word = 0; word < CommunicatorIdSet::kWords; ++word) {
      ids.taken.words[word] |= ability.taken[word];
    }
    ids.next = std::max(ids.next, static_cast<uint32_t>(ability.next_id));
  }
  // Hosts have no rank in common, nor have columns: one id serves all of them.
  const std::optional<uint32_t> local_id = FreeCommunicatorId(ids);
  if (local_id.has_value()) ids.taken.Add(*local_id);
  const std::optional<uint32_t> column_id = FreeCommunicatorId(ids);
  if (!column_id.has_value()) {
    Log(LogLevel::kWarning, "ranks of one host do not work together: of ", kMaxCommunicatorId + 1,
        " communicator ids no two are free on all ranks");
    impl->UseHosts(hosts, CoresAreFewSomewhere(hosts));
    return absl::OkStatus();
  }
  return impl->UseHierarchy(hosts, CoresAreFewSomewhere(hosts), std::move(area), *local_id,
                            *column_id);
}

ShareOperation::ShareOperation(std::unique_ptr<State> state) : state_(std::move(state)) {}
ShareOperation::ShareOperation(ShareOperation&&) noexcept = default;
ShareOperation& ShareOperation::operator=(ShareOperation&&) noexcept = default;

// What is under way writes into the state, which must stay until it is over.
ShareOperation::~ShareOperation() {
  if (state_ == nullptr) return;
  const ProgressThread::Section inside(state_->impl->progress());
  static_cast<void>(Wait());
  state_.reset();
}

bool ShareOperation::Poll() {
  State& state = *state_;
  const ProgressThread::Section inside(state.impl->progress());
  if (!state.failure.ok()) return true;
  if (!state.telling.has_value()) {
    if (!state.gathering->Poll()) return false;
    state.failure = state.MapAndTell();
    if (!state.failure.ok()) return true;
  }
  return state.telling->Poll();
}

absl::Status ShareOperation::Wait() {
  State& state = *state_;
  const ProgressThread::Section inside(state.impl->progress());
  if (!state.telling.has_value() && state.failure.ok()) {
    state.failure = state.gathering->Wait();
    if (state.failure.ok()) state.failure = state.MapAndTell();
  }
  RZ_RETURN_IF_ERROR(state.failure);
  return state.telling->Wait();
}

absl::StatusOr<bool> ShareOperation::Finish() {
  const ProgressThread::Section inside(state_->impl->progress());
  const std::unique_ptr<State> state = std::move(state_);
  state->impl->selector().set_finding_out(false);
  RZ_RETURN_IF_ERROR(state->failure);
  RZ_RETURN_IF_ERROR(state->telling->status());
  const std::optional<HostMap> hosts = state->Hosts();
  if (hosts.has_value()) {
    state->area->set_fetches(state->FetchesOn(*hosts));
    const int own_host = hosts->HostOf(state->impl->group().rank().value());
    if (state->CoresAreFewOn(hosts->RanksOf(own_host))) state->impl->LearnThatCoresAreFew();
  }
  if (hosts.has_value() && hosts->hosts() == 1) {
    state->impl->UseSharedMemory(std::move(state->area));
    return true;
  }
  if (!state->obstacle.empty()) {
    Log(LogLevel::kInfo, "not all ranks share memory: ", state->obstacle);
  }
  state->impl->selector().CrossNetwork();
  if (!hosts.has_value()) {
    Log(LogLevel::kInfo, "who reaches whose memory says of no hosts which ranks they have");
  } else if (hosts->is_hierarchy()) {
    RZ_RETURN_IF_ERROR(state->UseHierarchy(*hosts));
  } else {
    state->impl->UseHosts(*hosts, state->CoresAreFewSomewhere(*hosts));
  }
  return false;
}

void Communicator::Impl::LearnThatCoresAreFew() {
  cores_are_few_ = true;
  transport_->ExpectFewCores();
}

void Communicator::Impl::UseSharedMemory(std::unique_ptr<SharedArea> area) {
  shared_ = std::make_unique<SharedLink>(
      transport_, group_, options_.id, std::move(area), guard_->last(), options_.clock,
      [this](int64_t number, const absl::Status& result) { OnFinished(number, result); },
      cores_are_few_, options_.shared_spins);
  hosts_ = 1;
  ranks_of_each_host_ = group_.size();
  guard_->UseSharedMemory(&shared_->exchange());
  executor_->LeaveChannel();
  selector_.ShareMemory();
}

absl::StatusOr<ShareOperation> Communicator::StartShareMemory() {
  const ProgressThread::Section inside(impl_->progress());
  if (impl_->shares_memory()) {
    return absl::FailedPreconditionError(
        absl::StrCat(impl_->group().DescribeSelf(), ": the ranks share memory already"));
  }
  if (!impl_->quiet()) {
    return absl::FailedPreconditionError(
        absl::StrCat(impl_->group().DescribeSelf(),
                     ": memory is shared while no operation is under way; wait for them first"));
  }
  if (!BeginChoosingIds(impl_->transport())) {
    return absl::FailedPreconditionError(
        absl::StrCat(impl_->group().DescribeSelf(),
                     ", sharing of memory: another split or sharing "
                     "of this transport is under way; finish it first"));
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

absl::StatusOr<CommunicatorBuffer> Communicator::AllocateBuffer(size_t bytes, MemoryTag tag,
                                                                MemoryLedger* ledger) {
  const ProgressThread::Section inside(impl_->progress());
  CommunicatorBuffer buffer;
  if (SharedRegions* const regions = impl_->regions(); regions != nullptr && bytes > 0) {
    const absl::StatusOr<absl::Span<std::byte>> region = regions->Allocate(bytes);
    if (region.ok()) {
      buffer.bytes_ = *region;
      buffer.owner_ = impl_.get();
      buffer.entry_ = LedgerEntry(tag, bytes, ledger);
      return buffer;
    }
    static std::once_flag once;
    std::call_once(once, [&] {
      Log(LogLevel::kWarning, "buffers are private, and calls on them copy: ",
          absl::string_view(region.status().message()));
    });
  }
  RZ_ASSIGN_OR_RETURN(buffer.private_, Buffer::Allocate(bytes, tag, ledger));
  buffer.bytes_ = buffer.private_.bytes();
  return buffer;
}

CommunicatorBuffer::CommunicatorBuffer(CommunicatorBuffer&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})),
      owner_(std::exchange(other.owner_, nullptr)),
      entry_(std::move(other.entry_)),
      private_(std::move(other.private_)) {}

CommunicatorBuffer& CommunicatorBuffer::operator=(CommunicatorBuffer&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(owner_, other.owner_);
  std::swap(entry_, other.entry_);
  std::swap(private_, other.private_);
  return *this;
}

CommunicatorBuffer::~CommunicatorBuffer() {
  if (owner_ == nullptr) return;
  const ProgressThread::Section inside(owner_->progress());
  owner_->regions()->Free(bytes_.data());
}

}  // namespace rz
