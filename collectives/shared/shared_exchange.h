// SharedExchange: how ranks that share memory notice that they do not make the same calls. It is to
// them what the control channel is to others, without a message: each rank writes a line a call
// (shared_area.h), everybody reads everybody's, and two that differ are found by both.
//
// A line may carry up to kPayloadBytes of the call's data. Lines are a ring: a rank writes one only
// when all others have released the one before in its place; until then calls wait here. Threads:
// the communicator's owner alone.
#ifndef RINGZERO_COLLECTIVES_SHARED_SHARED_EXCHANGE_H_
#define RINGZERO_COLLECTIVES_SHARED_SHARED_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/call_descriptor.h"
#include "collectives/shared/shared_area.h"

namespace rz {

class SharedExchange {
 public:
  // Calls up to `last` have been compared already. The area outlives the exchange.
  SharedExchange(SharedArea* area, int64_t last);

  // This rank's next call; `hash` is that of the call and all before. Others see it from EndCall or
  // Tell on, and with it what Attach was given in between.
  void BeginCall(const CallDescriptor& call, uint64_t hash);
  void Attach(absl::Span<const std::byte> payload);
  // Attach, of a call of which others may see everything already; EndCall is still to come.
  void Tell(absl::Span<const std::byte> payload);
  void EndCall();

  // Looks at what others have called; true when there was news.
  bool Poll();

  // All ranks have made the same calls up to this number.
  int64_t agreed() const { return agreed_; }

  // Others can see all calls of this rank.
  bool published() const { return published_ == ended_; }

  // Nothing is to come or to be told of this rank's calls: all have made them, and know which lines
  // they may use again.
  bool settled() const;

  // As far as the others are concerned, call `number` may end: they have made it, or it moves
  // nothing and they have made the one before.
  bool MayEnd(int64_t number) const {
    return number <= agreed_ || (number == agreed_ + 1 && IsEmpty(number));
  }

  // What travelled with `rank`'s line of an agreed call that is not released.
  const std::byte* PayloadOf(int64_t number, int rank) const {
    return LineOf(rank, number).payload.data();
  }

  // Nobody here needs the lines of calls up to `number` any more.
  void Release(int64_t number);

  // OK, or FailedPrecondition: two ranks, and what each has called.
  const absl::Status& verdict() const { return verdict_; }

  // Compares also what others have called beyond this rank's last call, for a rank that has none
  // under way and wants to know why the others are gone.
  void LookAhead();

  // "rank 1 has made the same calls, rank 3 has not called operation 41".
  std::string DescribePeers() const;

  // A rank that has not made this rank's last call; -1: none.
  int FirstLate() const;

 private:
  // A call that has begun here.
  struct Own {
    CallDescriptor call;
    uint64_t hash = 0;
    size_t payload_bytes = 0;
    std::array<std::byte, SharedLine::kPayloadBytes> payload;
  };

  SharedLine& LineOf(int rank, int64_t number) const {
    return area_->Header(rank).lines[static_cast<size_t>(number % kSharedLines)];
  }
  Own& OwnOf(int64_t number) { return own_[static_cast<size_t>(number) & (own_.size() - 1)]; }
  const Own& OwnOf(int64_t number) const {
    return own_[static_cast<size_t>(number) & (own_.size() - 1)];
  }
  bool IsEmpty(int64_t number) const;
  void MakeRoom();
  bool PublishSome();
  void Publish(const Own& own);
  void OnOtherCall(int64_t number, int rank_a, int rank_b);

  SharedArea* const area_;
  std::vector<Own> own_;  // by number; a power of two
  int64_t last_;          // begun
  int64_t ended_;         // EndCall
  int64_t published_;     // seen by others
  int64_t room_;          // lines may be written up to this number
  int64_t agreed_;
  int64_t released_;
  int64_t told_released_;
  std::vector<int64_t> heard_;  // by rank: equal calls up to here
  absl::Status verdict_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SHARED_SHARED_EXCHANGE_H_
