#include "runtime/transport/conformance/shared_memory.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "runtime/transport/conformance/scenario.h"

namespace rz::conformance {
namespace {

constexpr size_t kSizes[] = {1, 4096, (size_t{2} << 20) + 5};

class Check {
 public:
  explicit Check(absl::Span<Transport* const> transports) : transports_(transports) {}

  std::vector<std::string> Run() {
    for (size_t size : kSizes) {
      for (Transport* owner : transports_) CheckRegion(*owner, size);
    }
    for (Transport* owner : transports_) CheckRefusals(*owner);
    return std::move(failures_);
  }

 private:
  void Fail(const Transport& owner, size_t size, const std::string& what) {
    failures_.push_back(
        absl::StrCat("region of ", size, " bytes of rank ", owner.rank().value(), ": ", what));
  }

  void CheckRegion(Transport& owner, size_t size) {
    auto region = owner.AllocateShared(size);
    if (!region.ok()) return Fail(owner, size, region.status().ToString());
    const absl::Span<std::byte> own = (*region)->bytes();
    if (own.size() < size || reinterpret_cast<uintptr_t>(own.data()) % 4096 != 0) {
      Fail(owner, size, "too small or not aligned");
    }
    if (std::any_of(own.begin(), own.end(), [](std::byte b) { return b != std::byte{0}; })) {
      Fail(owner, size, "not zero");
    }
    FillPattern(1, own.data(), size);
    std::vector<std::unique_ptr<SharedMemory>> views;
    for (Transport* peer : transports_) {
      if (peer == &owner) continue;
      auto view = peer->MapShared(owner.rank(), (*region)->key());
      if (!view.ok()) return Fail(owner, size, view.status().ToString());
      if ((*view)->bytes().size() != own.size()) Fail(owner, size, "another size at a peer");
      Expect(1, (*view)->bytes().data(), owner, size);
      views.push_back(*std::move(view));
    }
    // Everybody writes, everybody sees it.
    for (size_t i = 0; i < views.size(); ++i) {
      FillPattern(2 + i, views[i]->bytes().data(), size);
      Expect(2 + i, own.data(), owner, size);
      for (auto& view : views) Expect(2 + i, view->bytes().data(), owner, size);
    }
    region->reset();
    for (auto& view : views) Expect(1 + views.size(), view->bytes().data(), owner, size);
  }

  void Expect(uint64_t pattern, const std::byte* data, const Transport& owner, size_t size) {
    if (FindDifference(pattern, data, size) != size) Fail(owner, size, "holds something else");
  }

  void CheckRefusals(Transport& owner) {
    auto region = owner.AllocateShared(1);
    if (!region.ok()) return Fail(owner, 1, region.status().ToString());
    for (Transport* peer : transports_) {
      if (peer == &owner) continue;
      const Rank outside(static_cast<int32_t>(transports_.size()));
      for (const std::string& key : {std::string(), std::string("x"), std::string(200, 'x')}) {
        ExpectInvalid(peer->MapShared(owner.rank(), key).status(), owner);
      }
      ExpectInvalid(peer->MapShared(outside, (*region)->key()).status(), owner);
      ExpectInvalid(peer->MapShared(Rank(-1), (*region)->key()).status(), owner);
    }
  }

  void ExpectInvalid(const absl::Status& status, const Transport& owner) {
    if (!absl::IsInvalidArgument(status))
      Fail(owner, 1, absl::StrCat("not refused: ", status.ToString()));
  }

  const absl::Span<Transport* const> transports_;
  std::vector<std::string> failures_;
};

}  // namespace

std::vector<std::string> CheckSharedMemory(absl::Span<Transport* const> transports) {
  return Check(transports).Run();
}

}  // namespace rz::conformance
