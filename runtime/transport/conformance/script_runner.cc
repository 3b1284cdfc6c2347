#include "runtime/transport/conformance/script_runner.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"

namespace rz::conformance {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr size_t kAlignment = 64;
constexpr size_t kMostFailures = 20;
constexpr std::byte kGuard{0xa5};
constexpr std::byte kUnreceived{0xcc};
constexpr std::byte kScribble{0xee};

const char* NameOf(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::kSend:
      return "send";
    case Action::Kind::kSyncSend:
      return "synchronous send";
    case Action::Kind::kReceive:
      return "receive";
    case Action::Kind::kRefusedSend:
      return "refused send";
    case Action::Kind::kRefusedReceive:
      return "refused receive";
    case Action::Kind::kWaitAll:
      return "wait for all";
    case Action::Kind::kWaitReceives:
      return "wait for receives";
    case Action::Kind::kPoll:
      return "poll";
    case Action::Kind::kRest:
      return "rest";
    case Action::Kind::kAbort:
      return "abort";
    case Action::Kind::kAbortFromThread:
      return "abort from a thread";
    case Action::Kind::kWaitUntilWoken:
      return "wait until woken";
    case Action::Kind::kWaitUntilDeadline:
      return "wait until deadline";
    case Action::Kind::kDie:
      return "die";
  }
  return "unknown";
}

bool IsReceive(Action::Kind kind) {
  return kind == Action::Kind::kReceive || kind == Action::Kind::kRefusedReceive;
}

}  // namespace

ScriptRunner::ScriptRunner(Transport* transport, Script script, std::function<void()> die)
    : transport_(transport), script_(std::move(script)), die_(std::move(die)) {
  // Tokens index into it, and sinks run while it is in use.
  posted_.reserve(script_.actions().size());
}

ScriptRunner::~ScriptRunner() {
  for (std::thread& thread : threads_) thread.join();
}

bool ScriptRunner::Poll() {
  if (dead_) return true;
  in_progress_ = true;
  transport_->Progress();
  in_progress_ = false;
  while (position_ < script_.actions().size()) {
    if (!Step(script_.actions()[position_])) return false;
    ++position_;
    if (dead_) return true;
  }
  return true;
}

bool ScriptRunner::Step(const Action& action) {
  switch (action.kind) {
    case Action::Kind::kSend:
    case Action::Kind::kSyncSend:
    case Action::Kind::kReceive:
      Post(action, /*must_be_refused=*/false);
      return true;
    case Action::Kind::kRefusedSend:
    case Action::Kind::kRefusedReceive:
      Post(action, /*must_be_refused=*/true);
      return true;
    case Action::Kind::kWaitAll:
      return outstanding_ == 0;
    case Action::Kind::kWaitReceives:
      return outstanding_receives_ == 0;
    case Action::Kind::kPoll:
      if (polls_left_ < 0) polls_left_ = action.count;
      return polls_left_-- == 0;
    case Action::Kind::kRest:
      absl::SleepFor(action.duration);
      return true;
    case Action::Kind::kAbort:
      transport_->Abort(absl::AbortedError(action.text));
      return true;
    case Action::Kind::kAbortFromThread:
      threads_.emplace_back(
          [this, &action] { transport_->Abort(absl::AbortedError(action.text)); });
      return true;
    case Action::Kind::kWaitUntilWoken: {
      std::atomic<bool> called{false};
      std::thread waker([this, &called] {
        called = true;
        transport_->Wake();
      });
      while (!called) transport_->WaitForEvent(Deadline::InfiniteFuture());
      waker.join();
      return true;
    }
    case Action::Kind::kWaitUntilDeadline: {
      const Deadline deadline = Deadline::After(*Clock::Steady(), action.duration);
      while (!deadline.HasPassed(*Clock::Steady())) transport_->WaitForEvent(deadline);
      return true;
    }
    case Action::Kind::kDie:
      dead_ = true;
      die_();
      return true;
  }
  return true;
}

void ScriptRunner::Post(const Action& action, bool must_be_refused) {
  const uint64_t token = posted_.size();
  Posted& posted = posted_.emplace_back();
  posted.action = &action;
  const size_t room = 2 * kGuardBytes + kAlignment + action.misalignment + action.size;
  posted.memory = std::make_unique<std::byte[]>(room);
  const auto start = reinterpret_cast<uintptr_t>(posted.memory.get()) + kGuardBytes;
  posted.payload = reinterpret_cast<std::byte*>((start + kAlignment - 1) / kAlignment * kAlignment +
                                                action.misalignment);
  std::memset(posted.payload - kGuardBytes, static_cast<int>(kGuard),
              action.size + 2 * kGuardBytes);
  ++outstanding_;
  outstanding_receives_ += IsReceive(action.kind);
  absl::Status status;
  if (IsReceive(action.kind)) {
    std::memset(posted.payload, static_cast<int>(kUnreceived), action.size);
    status = transport_->PostRecv(action.peer, action.tag,
                                  absl::MakeSpan(posted.payload, action.size), this, token);
  } else {
    FillPattern(action.pattern, posted.payload, action.size);
    const absl::Span<const std::byte> data = absl::MakeConstSpan(posted.payload, action.size);
    status = action.kind == Action::Kind::kSyncSend
                 ? transport_->PostSyncSend(action.peer, action.tag, data, this, token)
                 : transport_->PostSend(action.peer, action.tag, data, this, token);
  }
  if (status.ok() && !must_be_refused) return;
  if (status.ok()) Fail(action, "was accepted");
  if (posted.completions > 0) Fail(action, "was refused and completed");
  ++posted.completions;
  --outstanding_;
  outstanding_receives_ -= IsReceive(posted.action->kind);
  Check(posted, status, 0);
}

void ScriptRunner::OnComplete(uint64_t token, const absl::Status& status, size_t bytes) {
  if (token >= posted_.size()) {
    failures_.push_back(absl::StrCat("completion of token ", token, ", which was never posted"));
    return;
  }
  Posted& posted = posted_[token];
  if (!in_progress_) Fail(*posted.action, "completed outside Progress");
  if (++posted.completions > 1) {
    Fail(*posted.action, absl::StrCat("completed again: ", status.ToString()));
    return;
  }
  --outstanding_;
  outstanding_receives_ -= IsReceive(posted.action->kind);
  Check(posted, status, bytes);
}

void ScriptRunner::Check(Posted& posted, const absl::Status& status, size_t bytes) {
  const Action& action = *posted.action;
  const bool allowed =
      std::any_of(action.outcomes.begin(), action.outcomes.end(), [&](const Outcome& outcome) {
        return outcome.code == status.code() && absl::StrContains(status.message(), outcome.text);
      });
  if (!allowed) Fail(action, absl::StrCat("ended with ", status.ToString()));
  if (!status.ok() && bytes != 0) Fail(action, absl::StrCat("failed and moved ", bytes, " bytes"));
  CheckGuards(posted);
  if (IsReceive(action.kind)) {
    if (status.ok()) CheckPayload(posted, bytes);
  } else {
    if (status.ok() && bytes != action.size) Fail(action, absl::StrCat("sent ", bytes, " bytes"));
    std::memset(posted.payload, static_cast<int>(kScribble), action.size);
  }
}

void ScriptRunner::CheckPayload(const Posted& posted, size_t bytes) {
  const Action& action = *posted.action;
  if (bytes != action.message_size) {
    Fail(action, absl::StrCat("got ", bytes, " bytes, expected ", action.message_size));
    return;
  }
  const size_t at = FindDifference(action.pattern, posted.payload, bytes);
  if (at < bytes) {
    Fail(action,
         absl::StrCat("has byte ", std::to_integer<int>(posted.payload[at]), " at ", at,
                      ", expected ", std::to_integer<int>(PatternByte(action.pattern, at))));
  }
}

void ScriptRunner::CheckGuards(const Posted& posted) {
  for (size_t i = 0; i < kGuardBytes; ++i) {
    if (posted.payload[posted.action->size + i] != kGuard ||
        posted.payload[-1 - static_cast<ptrdiff_t>(i)] != kGuard) {
      Fail(*posted.action, "changed memory around its buffer");
      return;
    }
  }
}

void ScriptRunner::Fail(const Action& action, const std::string& what) {
  if (failures_.size() >= kMostFailures) return;
  failures_.push_back(
      absl::StrCat("rank ", transport_->rank().value(), ": ", Describe(action), " ", what));
}

std::string ScriptRunner::Describe(const Action& action) const {
  return absl::StrCat("action ", &action - script_.actions().data(), " (", NameOf(action.kind),
                      ", peer ", action.peer.value(), ", tag ", action.tag, ", ", action.size,
                      " bytes)");
}

bool ScriptRunner::WaitsForCompletions() const {
  if (position_ >= script_.actions().size()) return false;
  const Action::Kind kind = script_.actions()[position_].kind;
  return kind == Action::Kind::kWaitAll || kind == Action::Kind::kWaitReceives;
}

std::string ScriptRunner::Position() const {
  std::string text = absl::StrCat("rank ", transport_->rank().value(), " is at ");
  if (position_ >= script_.actions().size()) return text + "the end of its script";
  absl::StrAppend(&text, Describe(script_.actions()[position_]), " with ", outstanding_,
                  " operations outstanding:");
  int listed = 0;
  for (const Posted& posted : posted_) {
    if (posted.completions > 0 || ++listed > 5) continue;
    absl::StrAppend(&text, " ", Describe(*posted.action), ";");
  }
  return text;
}

}  // namespace rz::conformance
