// Of the oldest call, each slice takes its stages in turn:
//
//   In s      no more than kSlicesUnderWay slices are begun and not over
//   Across s  In s is over here: then it is on all ranks of the host, as far as this rank needs it
//   Out s     Across s is over here, and In s + kSlicesUnderWay - 1 has begun, if there is one
//   Finish s  Out s is over
//
// The next call begins when the last slice is over.
#include "collectives/hierarchy/hierarchy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

size_t Slot(int64_t slice) { return static_cast<size_t>(slice % Hierarchy::kSlicesUnderWay); }

// Scratch grows rarely.
size_t RoundedUp(size_t bytes) {
  size_t rounded = 4096;
  while (rounded < bytes) rounded *= 2;
  return rounded;
}

}  // namespace

Hierarchy::Hierarchy(HostMap hosts, int rank, std::unique_ptr<Part> local,
                     std::unique_ptr<Part> column, FinishedCallback on_finished)
    : hosts_(std::move(hosts)),
      rank_(rank),
      local_(std::move(local)),
      column_(std::move(column)),
      on_finished_(std::move(on_finished)) {}

void Hierarchy::Start(int64_t number, const Plan& plan, NumericMode mode, const void* input,
                      void* output) {
  Running& call = running_.Add(number, plan, &hosts_, rank_, local_->carries_payload());
  call.work.Reset(&call.plan, mode, static_cast<const std::byte*>(input),
                  static_cast<std::byte*>(output));
  call.slice_scratch = call.work.ScratchBytes();
  call.in = call.across = call.out = call.done = 0;
}

int Hierarchy::Poll() {
  int moved = local_->Poll();
  if (column_ != nullptr) moved += column_->Poll();
  if (has_failed_) {
    if (parts_idle()) running_.Clear();
    return moved;
  }
  while (!running_.empty() && trouble().ok()) {
    Running& call = running_.oldest();
    while (Advance(call)) ++moved;
    if (call.done < call.work.slices() || !trouble_.ok()) break;
    running_.PopOldest();
    on_finished_(call.number, absl::OkStatus());
    ++moved;
  }
  return moved;
}

bool Hierarchy::Advance(Running& call) {
  if (!trouble_.ok()) return false;
  return BeginIn(call) || BeginAcross(call) || BeginOut(call) || FinishOne(call);
}

bool Hierarchy::BeginIn(Running& call) {
  if (call.in == call.work.slices() || call.in == call.out + kSlicesUnderWay ||
      call.in == call.done + kSlicesUnderWay || !HaveScratch(call)) {
    return false;
  }
  call.in_calls[Slot(call.in)] =
      Begin(local_.get(), call.work.In(call.in, ScratchOf(call, call.in)));
  ++call.in;
  return true;
}

bool Hierarchy::BeginAcross(Running& call) {
  if (call.across == call.in || !IsOver(local_.get(), call.in_calls[Slot(call.across)])) {
    return false;
  }
  call.across_calls[Slot(call.across)] =
      Begin(column_.get(), call.work.Across(call.across, ScratchOf(call, call.across)));
  ++call.across;
  return true;
}

bool Hierarchy::BeginOut(Running& call) {
  // Slices whose first stage goes before this one's last.
  const int64_t ahead = std::min(call.work.slices(), call.out + kSlicesUnderWay);
  if (call.out == call.across || call.in < ahead ||
      !IsOver(column_.get(), call.across_calls[Slot(call.out)])) {
    return false;
  }
  call.out_calls[Slot(call.out)] =
      Begin(local_.get(), call.work.Out(call.out, ScratchOf(call, call.out)));
  ++call.out;
  return true;
}

bool Hierarchy::FinishOne(Running& call) {
  if (call.done == call.out || !IsOver(local_.get(), call.out_calls[Slot(call.done)])) return false;
  call.work.Finish(call.done, ScratchOf(call, call.done));
  ++call.done;
  return true;
}

int64_t Hierarchy::Begin(Part* part, const std::optional<Call>& call) {
  if (!call.has_value()) return kNoCall;
  const absl::StatusOr<int64_t> number = part->Start(*call);
  if (number.ok()) return *number;
  trouble_.Update(number.status());
  return kNoCall;
}

bool Hierarchy::IsOver(const Part* part, int64_t call) const {
  return call == kNoCall || part->IsDone(call);
}

std::byte* Hierarchy::ScratchOf(const Running& call, int64_t slice) const {
  return scratch_.data() + Slot(slice) * call.slice_scratch;
}

bool Hierarchy::HaveScratch(Running& call) {
  const size_t needed = call.slice_scratch * kSlicesUnderWay;
  if (needed <= scratch_.size()) return true;
  // Nothing of earlier calls is under way, so nobody needs what is given back.
  const absl::StatusOr<absl::Span<std::byte>> scratch = local_->Scratch(RoundedUp(needed));
  trouble_.Update(scratch.status());
  if (!scratch.ok()) return false;
  scratch_ = *scratch;
  return true;
}

void Hierarchy::Fail(const absl::Status& cause) {
  if (has_failed_) return;
  has_failed_ = true;
  local_->Fail(cause);
  if (column_ != nullptr) column_->Fail(cause);
  running_.Fail([&](int64_t number) { on_finished_(number, cause); });
  if (parts_idle()) running_.Clear();
}

absl::Status Hierarchy::trouble() const {
  if (!trouble_.ok()) return trouble_;
  const auto in = [](const char* where, const absl::Status& trouble) {
    return absl::Status(trouble.code(), absl::StrCat(where, absl::string_view(trouble.message())));
  };
  if (const absl::Status trouble = local_->trouble(); !trouble.ok()) {
    return in("within the host, ", trouble);
  }
  if (column_ == nullptr) return absl::OkStatus();
  const absl::Status trouble = column_->trouble();
  return trouble.ok() ? trouble : in("between hosts, ", trouble);
}

Hierarchy::Waiting Hierarchy::WaitingOf(const Running& call) const {
  const size_t slot = Slot(call.done);
  const auto waits = [](const Part* part, int64_t number) {
    return number != kNoCall && !part->IsDone(number);
  };
  if (call.out > call.done) {
    if (!waits(local_.get(), call.out_calls[slot])) return {};
    return {local_.get(), call.out_calls[slot], false};
  }
  if (call.across > call.done && waits(column_.get(), call.across_calls[slot])) {
    return {column_.get(), call.across_calls[slot], true};
  }
  if (call.in > call.done && waits(local_.get(), call.in_calls[slot])) {
    return {local_.get(), call.in_calls[slot], false};
  }
  return {};
}

int Hierarchy::RankOf(const Waiting& waiting, int rank) const {
  if (rank < 0) return rank;
  if (!waiting.between_hosts) {
    return hosts_.RanksOf(hosts_.HostOf(rank_))[static_cast<size_t>(rank)];
  }
  return hosts_.RanksOf(rank)[static_cast<size_t>(hosts_.IndexOf(rank_))];
}

FlightPosition Hierarchy::PositionOf(int64_t number) const {
  const Running* const call = running_.Find(number);
  if (call == nullptr) return {};
  FlightPosition position = {static_cast<int32_t>(std::min<int64_t>(call->done, INT32_MAX)), 0, -1};
  if (!running_.IsOldest(*call)) return position;
  if (call->across > call->done) position.round = 1;
  if (call->out > call->done) position.round = 2;
  const Waiting waiting = WaitingOf(*call);
  if (waiting.part != nullptr) {
    position.peer = RankOf(waiting, waiting.part->WaitsFor(waiting.call));
  }
  return position;
}

std::string Hierarchy::DescribeWait(int64_t number) const {
  const Running* const call = running_.Find(number);
  if (call == nullptr) return "its data is here";
  if (!running_.IsOldest(*call)) {
    return "it waits for earlier operations";
  }
  std::string text = absl::StrCat("slice ", call->done, " of ", call->work.slices());
  const Waiting waiting = WaitingOf(*call);
  if (waiting.part == nullptr) return absl::StrCat(text, " can go on");
  absl::StrAppend(&text, waiting.between_hosts ? ", between hosts: " : ", within the host: ");
  absl::StrAppend(&text, waiting.part->DescribeWait(waiting.call));
  return text;
}

std::string Hierarchy::DescribeOperation(int64_t number) const {
  const Running* const call = running_.Find(number);
  return call == nullptr ? absl::StrCat("operation ", number)
                         : absl::StrCat("operation ", number, " (", call->plan.Describe(), ")");
}

}  // namespace rz
