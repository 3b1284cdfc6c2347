// The parts of a communicator whose ranks are on several hosts: communicators themselves, which
// know nothing of the whole.
#include <utility>
#include <vector>

#include "collectives/communicator_impl.h"
#include "runtime/base/status_macros.h"
#include "runtime/memory/memory.h"

namespace rz {

class Communicator::Impl::PartOfHosts final : public Part {
 public:
  explicit PartOfHosts(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
  ~PartOfHosts() override { GiveBackScratch(); }

  absl::StatusOr<int64_t> Start(const Call& call) override {
    RZ_ASSIGN_OR_RETURN(const Operation operation, impl_->Start(call));
    return operation.last_;
  }
  bool IsDone(int64_t number) const override {
    return impl_->IsDone(Operation(impl_.get(), Operation::Kind::kCollectives, number, number));
  }
  int Poll() override { return impl_->Poll(); }
  absl::Status trouble() const override { return impl_->Symptom(); }
  void Fail(const absl::Status& cause) override {
    impl_->Fail(cause);
    if (impl_->shared_ != nullptr) impl_->shared_->engine().Fail(cause);
  }
  bool idle() const override { return impl_->quiet(); }

  std::string DescribeWait(int64_t number) const override {
    const std::string neighbours = impl_->guard_->DescribeNeighbours();
    return absl::StrCat(impl_->DescribeOperation(number), ": ", impl_->DescribeWait(number),
                        neighbours.empty() ? "" : "; ", neighbours);
  }
  int WaitsFor(int64_t number) const override {
    return impl_->CarrierOf(number) == Carrier::kSharedMemory
               ? impl_->shared_->engine().PositionOf(number).peer
               : impl_->executor_->PositionOf(number).peer;
  }

  absl::StatusOr<absl::Span<std::byte>> Scratch(size_t bytes) override {
    GiveBackScratch();
    if (SharedRegions* const regions = impl_->regions(); regions != nullptr) {
      const absl::StatusOr<absl::Span<std::byte>> region = regions->Allocate(bytes);
      if (region.ok()) {
        shared_scratch_ = *region;
        return shared_scratch_;
      }
    }
    // Calls on it copy more, and no bit changes.
    RZ_ASSIGN_OR_RETURN(private_scratch_, Buffer::Allocate(bytes, MemoryTag::kScratch));
    return private_scratch_.bytes();
  }

 private:
  void GiveBackScratch() {
    if (!shared_scratch_.empty()) impl_->regions()->Free(shared_scratch_.data());
    shared_scratch_ = {};
    private_scratch_ = {};
  }

  const std::unique_ptr<Impl> impl_;
  absl::Span<std::byte> shared_scratch_;
  Buffer private_scratch_;
};

SharedRegions* Communicator::Impl::regions() {
  if (shared_ != nullptr) return &shared_->regions();
  return local_ == nullptr ? nullptr : local_->regions();
}

void Communicator::Impl::UseHosts(const HostMap& hosts, bool cores_are_few) {
  hosts_ = hosts.hosts();
  ranks_of_each_host_ = hosts.ranks_of_each();
  selector_.UseHosts({hosts.hosts(), hosts.columns(), hosts.largest_host(), cores_are_few});
  const int host = hosts.HostOf(group_.rank().value());
  std::vector<bool> elsewhere;
  for (int r = 0; r < group_.size(); ++r) elsewhere.push_back(hosts.HostOf(r) != host);
  executor_->set_elsewhere(elsewhere);
  messages_->set_elsewhere(std::move(elsewhere));
}

absl::StatusOr<std::unique_ptr<Communicator::Impl>> Communicator::Impl::MakePart(
    absl::Span<const int> members, uint32_t id, LinkKind link) const {
  std::vector<Rank> ranks;
  Rank self(0);
  for (int member : members) {
    if (Rank(member) == group_.rank()) self = Rank(static_cast<int32_t>(ranks.size()));
    ranks.push_back(group_.ToTransport(Rank(member)));
  }
  CommunicatorOptions options = options_;
  options.id = id;
  options.link = link;
  options.algorithms.clear();
  return Create(transport_, Group(self, std::move(ranks)), std::move(options), Role::kPart);
}

absl::Status Communicator::Impl::UseHierarchy(const HostMap& hosts, bool cores_are_few,
                                              std::unique_ptr<SharedArea> area, uint32_t local_id,
                                              uint32_t column_id) {
  const int self = group_.rank().value();
  const absl::Span<const int> neighbours = hosts.RanksOf(hosts.HostOf(self));
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<Impl> local,
                      MakePart(neighbours, local_id, LinkKind::kSharedMemory));
  area->Narrow(local->group(), neighbours);
  if (cores_are_few_) local->LearnThatCoresAreFew();
  local->UseSharedMemory(std::move(area));
  std::unique_ptr<Impl> column;
  if (const int index = hosts.IndexOf(self); index < hosts.columns()) {
    const std::vector<int> members = hosts.Column(index);
    RZ_ASSIGN_OR_RETURN(column, MakePart(members, column_id, LinkKind::kNetwork));
    std::vector<int> apart;
    for (int h = 0; h < hosts.hosts(); ++h) apart.push_back(h);
    column->UseHosts(HostMap(apart), cores_are_few);
  }
  local_ = local.get();
  column_ = column.get();
  hierarchy_ = std::make_unique<Hierarchy>(
      hosts, self, std::make_unique<PartOfHosts>(std::move(local)),
      column == nullptr ? nullptr : std::make_unique<PartOfHosts>(std::move(column)),
      [this](int64_t number, const absl::Status& result) { OnFinished(number, result); });
  UseHosts(hosts, cores_are_few);
  return absl::OkStatus();
}

}  // namespace rz
