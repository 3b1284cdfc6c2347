// 1. Everybody gathers everybody's vote: colour, key, and which communicator ids are free on its
//    transport.
// 2. Each rank makes the list of its colour's members, ordered by (key, rank).
// 3. They take the first id, from the highest `next` of a member on, that is free on all members'
//    transports: all see the same votes, so all take the same. Colours have no member in common and
//    may have the same id.
// No id is claimed on the transport between vote and choice, since there is one split at a time.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/communicator_ids.h"
#include "collectives/communicator_impl.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

struct Vote {
  int64_t colour = 0;
  int64_t key = 0;
  uint64_t taken[CommunicatorIdSet::kWords] = {};
  uint64_t next_id = 0;
};
constexpr int64_t kVoteWords = sizeof(Vote) / sizeof(int64_t);

Vote MakeVote(const Transport* transport, int64_t colour, int64_t key) {
  const CommunicatorIdsInUse ids = CommunicatorIdsOf(transport);
  Vote vote;
  vote.colour = colour;
  vote.key = key;
  std::copy(ids.taken.words.begin(), ids.taken.words.end(), vote.taken);
  vote.next_id = ids.next;
  return vote;
}

}  // namespace

struct SplitOperation::State {
  State(Communicator::Impl* parent_impl, int64_t colour, int64_t key)
      : parent(parent_impl),
        own(MakeVote(parent->transport(), colour, key)),
        votes(static_cast<size_t>(parent->group().size())) {}
  ~State() { EndChoosingIds(parent->transport()); }

  std::vector<int> Members() const;
  absl::StatusOr<uint32_t> ChooseId(const std::vector<int>& members) const;

  Communicator::Impl* const parent;
  const Vote own;
  std::vector<Vote> votes;
  std::optional<Operation> gathering;
};

std::vector<int> SplitOperation::State::Members() const {
  std::vector<int> members;
  for (size_t r = 0; r < votes.size(); ++r) {
    if (votes[r].colour == own.colour) members.push_back(static_cast<int>(r));
  }
  std::stable_sort(members.begin(), members.end(),
                   [this](int a, int b) { return votes[a].key < votes[b].key; });
  return members;
}

absl::StatusOr<uint32_t> SplitOperation::State::ChooseId(const std::vector<int>& members) const {
  CommunicatorIdsInUse ids;
  for (int member : members) {
    for (uint32_t word = 0; word < CommunicatorIdSet::kWords; ++word) {
      ids.taken.words[word] |= votes[member].taken[word];
    }
    ids.next = std::max(ids.next, static_cast<uint32_t>(votes[member].next_id));
  }
  if (const std::optional<uint32_t> id = FreeCommunicatorId(ids); id.has_value()) return *id;
  return absl::ResourceExhaustedError(
      absl::StrCat(parent->group().DescribeSelf(), ", split with colour ", own.colour, ": all ",
                   kMaxCommunicatorId + 1, " communicator ids are taken on the transports of its ",
                   members.size(), " members; destroy communicators that are no longer used"));
}

SplitOperation::SplitOperation(std::unique_ptr<State> state) : state_(std::move(state)) {}
SplitOperation::SplitOperation(SplitOperation&&) noexcept = default;
SplitOperation& SplitOperation::operator=(SplitOperation&&) noexcept = default;

// The gathering writes into the state, which must stay until it is over.
SplitOperation::~SplitOperation() {
  if (state_ == nullptr || state_->gathering->done()) return;
  static_cast<void>(state_->gathering->Wait());
}

bool SplitOperation::Poll() { return state_->gathering->Poll(); }
absl::Status SplitOperation::Wait() { return state_->gathering->Wait(); }

absl::StatusOr<std::unique_ptr<Communicator>> SplitOperation::Finish() {
  const std::unique_ptr<State> state = std::move(state_);
  RZ_RETURN_IF_ERROR(state->gathering->status());
  if (state->own.colour < 0) return nullptr;
  const std::vector<int> members = state->Members();
  CommunicatorOptions options = state->parent->options();
  RZ_ASSIGN_OR_RETURN(options.id, state->ChooseId(members));

  const Group& from = state->parent->group();
  std::vector<Rank> ranks;
  Rank self(0);
  for (int member : members) {
    if (Rank(member) == from.rank()) self = Rank(static_cast<int32_t>(ranks.size()));
    ranks.push_back(from.ToTransport(Rank(member)));
  }
  RZ_ASSIGN_OR_RETURN(
      auto impl, Communicator::Impl::Create(state->parent->transport(),
                                            Group(self, std::move(ranks)), std::move(options)));
  // The others of this host take turns with its members on the same cores.
  if (state->parent->cores_are_few()) impl->LearnThatCoresAreFew();
  return std::unique_ptr<Communicator>(new Communicator(std::move(impl)));
}

absl::StatusOr<SplitOperation> Communicator::StartSplit(int64_t colour, int64_t key) {
  if (!BeginChoosingIds(impl_->transport())) {
    return absl::FailedPreconditionError(absl::StrCat(
        impl_->group().DescribeSelf(),
        ", split: another split or sharing of this transport is under way; finish it first"));
  }
  auto state = std::make_unique<SplitOperation::State>(impl_.get(), colour, key);
  RZ_ASSIGN_OR_RETURN(state->gathering,
                      StartAllGather(&state->own, state->votes.data(),
                                     kVoteWords * impl_->group().size(), DType::kInt64));
  return SplitOperation(std::move(state));
}

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Split(int64_t colour, int64_t key) {
  RZ_ASSIGN_OR_RETURN(SplitOperation split, StartSplit(colour, key));
  RZ_RETURN_IF_ERROR(split.Wait());
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> part, split.Finish());
  // Part of ranks of which some share memory shares it too.
  if (part != nullptr && hosts() > 0) RZ_RETURN_IF_ERROR(part->ShareMemory());
  return part;
}

}  // namespace rz
