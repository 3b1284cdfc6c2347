#include "collectives/shared/shared_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

constexpr size_t kInitialOwn = 8;

// Others are told of released lines in bundles: they have as many more to go on with.
constexpr int64_t kReleaseBundle = kSharedLines / 4;

}  // namespace

SharedExchange::SharedExchange(SharedArea* area, int64_t last)
    : area_(area),
      own_(kInitialOwn),
      last_(last),
      ended_(last),
      published_(last),
      room_(last + kSharedLines),
      agreed_(last),
      released_(last),
      told_released_(last),
      heard_(static_cast<size_t>(area->world()), last) {}

void SharedExchange::MakeRoom() {
  if (static_cast<size_t>(last_ + 1 - agreed_) < own_.size()) return;
  std::vector<Own> larger(own_.size() * 2);
  for (int64_t n = agreed_; n <= last_; ++n) {
    larger[static_cast<size_t>(n) & (larger.size() - 1)] = OwnOf(n);
  }
  own_ = std::move(larger);
}

void SharedExchange::BeginCall(const CallDescriptor& call, uint64_t hash) {
  MakeRoom();
  last_ = call.number;
  Own& own = OwnOf(last_);
  own.call = call;
  own.hash = hash;
  own.payload_bytes = 0;
}

void SharedExchange::Attach(absl::Span<const std::byte> payload) {
  Own& own = OwnOf(last_);
  own.payload_bytes = payload.size();
  if (!payload.empty()) std::memcpy(own.payload.data(), payload.data(), payload.size());
}

void SharedExchange::Tell(absl::Span<const std::byte> payload) {
  Attach(payload);
  ended_ = last_;
  PublishSome();
}

void SharedExchange::EndCall() {
  ended_ = last_;
  PublishSome();
  Poll();
}

bool SharedExchange::PublishSome() {
  bool published = false;
  while (published_ < ended_) {
    if (published_ + 1 > room_) {
      int64_t released = INT64_MAX;
      for (int r = 0; r < area_->world(); ++r) {
        if (r == area_->rank()) continue;
        released =
            std::min(released, area_->Header(r).released.value.load(std::memory_order_acquire));
      }
      if (area_->world() > 1) room_ = std::max(room_, released + kSharedLines);
      if (area_->world() == 1) room_ = ended_ + kSharedLines;
      if (published_ + 1 > room_) break;
    }
    Publish(OwnOf(published_ + 1));
    ++published_;
    published = true;
  }
  if (published) area_->Notify();
  return published;
}

void SharedExchange::Publish(const Own& own) {
  const int64_t number = published_ + 1;
  SharedLine& line = LineOf(area_->rank(), number);
  area_->header().calls[static_cast<size_t>(number % kSharedLines)] = own.call;
  line.hash = own.hash;
  std::memcpy(line.payload.data(), own.payload.data(), own.payload_bytes);
  line.number.store(number, std::memory_order_release);
}

bool SharedExchange::Poll() {
  bool news = published_ < ended_ && PublishSome();
  if (agreed_ == published_ || !verdict_.ok()) return news;
  int64_t agreed = published_;
  for (int r = 0; r < area_->world(); ++r) {
    if (r == area_->rank()) continue;
    int64_t& heard = heard_[static_cast<size_t>(r)];
    while (heard < published_) {
      const SharedLine& line = LineOf(r, heard + 1);
      if (line.number.load(std::memory_order_acquire) != heard + 1) break;
      if (line.hash != OwnOf(heard + 1).hash) [[unlikely]] {
        OnOtherCall(heard + 1, area_->rank(), r);
        return true;
      }
      ++heard;
    }
    agreed = std::min(agreed, heard);
  }
  news |= agreed > agreed_;
  agreed_ = agreed;
  return news;
}

void SharedExchange::Release(int64_t number) {
  released_ = std::min(number, agreed_);
  if (released_ - told_released_ < kReleaseBundle) return;
  told_released_ = released_;
  area_->header().released.value.store(released_, std::memory_order_release);
  area_->Notify();
}

bool SharedExchange::settled() const {
  return agreed_ == last_ && agreed_ - told_released_ < kReleaseBundle;
}

void SharedExchange::OnOtherCall(int64_t number, int rank_a, int rank_b) {
  if (rank_a > rank_b) std::swap(rank_a, rank_b);
  const auto call_of = [&](int rank) {
    const CallDescriptor& call =
        area_->Header(rank).calls[static_cast<size_t>(number % kSharedLines)];
    return DecodeCall(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&call), sizeof call));
  };
  const absl::StatusOr<CallDescriptor> a = call_of(rank_a);
  const absl::StatusOr<CallDescriptor> b = call_of(rank_b);
  if (!a.ok() || !b.ok() || SameCall(*a, *b)) {
    verdict_ = absl::FailedPreconditionError(absl::StrCat(
        "operation ", number, ": ranks ", rank_a, " and ", rank_b, " have made different calls, ",
        "and what their shared memory says of them cannot be read: ",
        a.ok() ? b.ok() ? "they look alike" : std::string(b.status().message())
               : std::string(a.status().message())));
    return;
  }
  verdict_ = absl::FailedPreconditionError(DescribeMismatch(Rank(rank_a), *a, Rank(rank_b), *b));
}

void SharedExchange::LookAhead() {
  if (!verdict_.ok()) return;
  const int64_t next = agreed_ + 1;
  int first = -1;
  for (int r = 0; r < area_->world(); ++r) {
    const SharedLine& line = LineOf(r, next);
    if (line.number.load(std::memory_order_acquire) != next) continue;
    if (first < 0) {
      first = r;
    } else if (line.hash != LineOf(first, next).hash) {
      OnOtherCall(next, first, r);
      return;
    }
  }
}

bool SharedExchange::IsEmpty(int64_t number) const {
  const CallDescriptor& call = OwnOf(number).call;
  return call.count == 0 && call.counts_hash == 0 && call.dtype != CallDescriptor::kNotApplicable;
}

int SharedExchange::FirstLate() const {
  for (int r = 0; r < area_->world(); ++r) {
    if (r != area_->rank() && heard_[static_cast<size_t>(r)] < last_) return r;
  }
  return -1;
}

std::string SharedExchange::DescribePeers() const {
  std::string text;
  for (int r = 0; r < area_->world(); ++r) {
    if (r == area_->rank()) continue;
    const int64_t heard = heard_[static_cast<size_t>(r)];
    absl::StrAppend(&text, text.empty() ? "" : ", ", "rank ", r,
                    heard >= last_ ? " has made the same calls"
                                   : absl::StrCat(" has not called operation ", heard + 1));
  }
  return text;
}

}  // namespace rz
