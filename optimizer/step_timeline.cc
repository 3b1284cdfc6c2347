#include "optimizer/step_timeline.h"

namespace rz {
namespace {

constexpr std::string_view kNames[kStepPartCount] = {"forward", "backward", "exposed communication",
                                                     "optimizer", "other"};

}  // namespace

std::string_view NameOf(StepPart part) { return kNames[static_cast<size_t>(part)]; }

std::ostream& operator<<(std::ostream& out, StepPart part) { return out << NameOf(part); }

absl::Duration StepTimes::total() const {
  absl::Duration sum;
  for (const absl::Duration part : parts) sum += part;
  return sum;
}

StepTimes& StepTimes::operator+=(const StepTimes& other) {
  for (size_t i = 0; i < parts.size(); ++i) parts[i] += other.parts[i];
  hidden += other.hidden;
  return *this;
}

void StepTimeline::set_trace(StepTrace* trace) {
  trace_ = trace;
  step_ = 0;
  begun_.clear();
}

void StepTimeline::Begin() {
  if (running_) return;
  thread_ = std::this_thread::get_id();
  running_ = true;
  ++step_;
  moment_ = StepMoment();
  times_ = StepTimes();
  since_ = clock_->Now();
}

StepTimes StepTimeline::End() {
  Account();
  running_ = false;
  moment_ = StepMoment();
  return times_;
}

StepMoment StepTimeline::Enter(StepPart part, StepPlace place) {
  if (std::this_thread::get_id() != thread_) return StepMoment();
  const StepMoment before = moment_;
  if (!running_) return before;
  const bool moved = trace_ != nullptr && !(place == before.place);
  if (part != before.part || moved) Account();
  moment_ = {part, place};
  return before;
}

void StepTimeline::Account() {
  const absl::Duration now = clock_->Now();
  const absl::Duration passed = now - since_;
  times_[moment_.part] += passed;
  if (moment_.part != StepPart::kCommunication && under_way_ > 0) times_.hidden += passed;
  if (trace_ != nullptr && passed > absl::ZeroDuration()) Record(now);
  since_ = now;
}

void StepTimeline::Record(absl::Duration now) {
  trace_->Record({.begin_ns = absl::ToInt64Nanoseconds(since_),
                  .end_ns = absl::ToInt64Nanoseconds(now),
                  .step = step_,
                  .place = moment_.place,
                  .kind = static_cast<TraceKind>(moment_.part)});
}

void StepTimeline::CollectiveBegan(TraceKind kind, StepPlace place, int64_t bytes) {
  ++under_way_;
  if (trace_ == nullptr || !running_) return;
  begun_.push_back(
      {.begin_ns = NowNanoseconds(), .bytes = bytes, .step = step_, .place = place, .kind = kind});
}

void StepTimeline::CollectiveEnded(TraceKind kind, StepPlace place) {
  --under_way_;
  for (TraceEvent& event : begun_) {
    if (event.kind != kind || !(event.place == place)) continue;
    event.end_ns = NowNanoseconds();
    trace_->Record(event);
    event = begun_.back();
    begun_.pop_back();
    return;
  }
}

}  // namespace rz
