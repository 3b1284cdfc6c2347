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

void StepTimeline::Begin() {
  if (running_) return;
  running_ = true;
  part_ = StepPart::kOther;
  times_ = StepTimes();
  since_ = clock_->Now();
}

StepTimes StepTimeline::End() {
  Account();
  running_ = false;
  part_ = StepPart::kOther;
  return times_;
}

StepPart StepTimeline::Enter(StepPart part) {
  const StepPart before = part_;
  if (!running_ || part == before) return before;
  Account();
  part_ = part;
  return before;
}

void StepTimeline::Account() {
  const absl::Duration now = clock_->Now();
  const absl::Duration passed = now - since_;
  times_[part_] += passed;
  if (part_ != StepPart::kCommunication && under_way_ > 0) times_.hidden += passed;
  since_ = now;
}

}  // namespace rz
