#include "optimizer/gradient_reducer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/kernels/convert.h"
#include "optimizer/float_sum.h"
#include "optimizer/kernels/gradient_stats.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace rz {

GradientReducer::GradientReducer(const ShardGroups* ranks, const FlatLayout* layout,
                                 const Partition* partition, const ZeroConfig* config,
                                 const ModelState* state, StagePolicy* policy,
                                 StepTimeline* timeline)
    : ranks_(ranks),
      layout_(layout),
      partition_(partition),
      config_(config),
      state_(state),
      policy_(policy),
      timeline_(timeline),
      buffers_(ranks->shard(), layout, partition, config, state),
      replicas_(ranks->replica(), config, state, timeline),
      tied_sum_of_(layout->size()),
      parameters_of_(static_cast<size_t>(partition->bucket_count())),
      unit_of_(parameters_of_.size()),
      announced_(layout->size()),
      accumulated_(layout->size()),
      closed_(layout->unit_count()),
      operations_(parameters_of_.size()) {
  for (size_t i = 0; i < layout->size(); ++i) {
    const Range range = layout->range(i);
    uses_left_.push_back(layout->uses(i));
    if (layout->spec(i).frozen) continue;
    if (layout->IsTied(i)) tied_.push_back(i);
    if (range.count == 0 || layout->IsTied(i)) continue;
    for (int64_t bucket = partition->BucketOf(range.offset);
         bucket <= partition->BucketOf(range.end() - 1); ++bucket) {
      ++parameters_of_[static_cast<size_t>(bucket)];
    }
  }
  // Some buckets have no parameter, but padding of a unit.
  for (size_t unit = 0; unit < layout->unit_count(); ++unit) {
    const Range flat = layout->unit(unit).flat;
    if (flat.count == 0) continue;
    const int64_t first = partition->BucketOf(flat.offset);
    const int64_t last = partition->BucketOf(flat.end() - 1);
    std::fill(unit_of_.begin() + first, unit_of_.begin() + last + 1, unit);
  }
  missing_ = parameters_of_;
}

absl::Status GradientReducer::Allocate() {
  if (AnnouncesGradients(*config_) && !AccumulatesLocally(*config_) && !tied_.empty()) {
    int64_t elements = 0;
    for (size_t i = 0; i < layout_->size(); ++i) {
      if (layout_->uses(i) < 2 || layout_->spec(i).frozen) continue;
      tied_sum_of_[i] = elements;
      elements += layout_->range(i).count;
    }
    RZ_ASSIGN_OR_RETURN(tied_sums_, Buffer::Allocate(static_cast<size_t>(elements) * sizeof(float),
                                                     MemoryTag::kAccumulator, config_->ledger));
  }
  std::vector<int64_t> shards;
  for (const int64_t segment : layout_->segments()) shards.push_back(segment / partition_->world());
  RZ_RETURN_IF_ERROR(replicas_.Allocate(shards));
  return buffers_.Allocate();
}

void GradientReducer::Reset() {
  closing_ = false;
  EndMicroStep(true);
}

bool GradientReducer::IsReduced() const {
  return !AccumulatesLocally(*config_) || (closing_ && last_) ||
         micro_step_ + 1 == config_->gradient_accumulation_steps;
}

absl::Status GradientReducer::StartAdd(size_t index, const void* values, DType dtype) {
  if (index >= layout_->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no parameter ", index, "; the model has ", layout_->size()));
  }
  const ParamSpec& spec = layout_->spec(index);
  if (!AnnouncesGradients(*config_)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the gradient of '", spec.name,
                     "' is announced, but this optimizer reads its views of gradients; set "
                     "announce_gradients, or write to Grads"));
  }
  if (spec.frozen) {
    return absl::FailedPreconditionError(
        absl::StrCat("the gradient of '", spec.name,
                     "' is announced, but that parameter is frozen; leave it out"));
  }
  if (closed_[layout_->storage_unit(index)] != 0 && closed_[static_cast<size_t>(spec.unit)] == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the gradient of '", spec.name, "' comes after unit ", layout_->storage_unit(index),
        " was released from backward, with '", layout_->spec(layout_->owner(index)).name,
        "' that it is tied to; announce it before"));
  }
  if (announced_[index] != 0) {
    const bool closed = closed_[static_cast<size_t>(spec.unit)] != 0;
    return absl::FailedPreconditionError(
        absl::StrCat("the gradient of '", spec.name, "' comes ",
                     closed ? absl::StrCat("after unit ", spec.unit, " was released from backward")
                            : std::string("twice"),
                     " in micro-step ", micro_step_ + 1, "; each is announced once before that"));
  }
  begun_ = true;
  grows_ = false;
  add_ = Add{.index = index, .values = values, .dtype = dtype};
  return absl::OkStatus();
}

absl::Status GradientReducer::CloseUnit(size_t unit) {
  if (!AnnouncesGradients(*config_) || closed_[unit] != 0) return absl::OkStatus();
  begun_ = true;
  // Waiting here for other ranks could be for ever: they may be waiting for what comes next.
  grows_ = true;
  const ParamUnit& parameters = layout_->unit(unit);
  for (size_t i = parameters.first + parameters.count; i-- > parameters.first;) {
    Close(i);
  }
  for (const size_t i : tied_) {
    if (layout_->storage_unit(i) == unit) Close(i);
  }
  closed_[unit] = 1;
  while (StartNext()) {
  }
  return result_;
}

void GradientReducer::Close(size_t index) {
  if (announced_[index] != 0 || layout_->spec(index).frozen) return;
  add_ = Add{.index = index};
  while (add_ && AdvanceAdd()) {
  }
}

float* GradientReducer::SumAt(size_t owner, int64_t flat_index) const {
  if (AccumulatesLocally(*config_)) return state_->AccumulatorAt(flat_index);
  return tied_sums_.as<float>().data() + tied_sum_of_[owner] + flat_index -
         layout_->range(owner).offset;
}

void GradientReducer::CloseAll(bool last) {
  // Of a short window, what was announced last is in the accumulator.
  const bool flush = last && !IsReduced();
  closing_ = true;
  last_ = last;
  grows_ = false;
  expected_ = IsReduced() ? partition_->bucket_count() : 0;
  close_next_ = IsReduced() ? layout_->size() : 0;
  if (flush) {
    std::fill(announced_.begin(), announced_.end(), uint8_t{0});
    for (size_t i = 0; i < uses_left_.size(); ++i) uses_left_[i] = layout_->uses(i);
  }
  if (AnnouncesGradients(*config_)) return;
  // The views are what they are.
  close_next_ = 0;
  std::fill(missing_.begin(), missing_.end(), 0);
}

bool GradientReducer::Advance() {
  if (!result_.ok()) return false;
  return CompleteNext() || SettleNext() || StartNext() || AdvanceAdd() || AdvanceClosing();
}

bool GradientReducer::CompleteNext() {
  if (completed_ == started_) return false;
  const StepSection moving(timeline_, StepPart::kCommunication);
  std::optional<Operation>& operation = operations_[static_cast<size_t>(completed_)];
  if (operation && !operation->Poll()) return false;
  if (operation && !operation->status().ok()) return Fail(operation->status());
  const Bucket bucket = partition_->bucket(completed_);
  if (operation) timeline_->CollectiveEnded(TraceKind::kReduce, PlaceOf(bucket));
  operation.reset();
  buffers_.Close(bucket);
  ++completed_;
  return true;
}

bool GradientReducer::SettleNext() {
  if (settled_ == completed_) return false;
  const absl::StatusOr<int64_t> reduced =
      replicas_.Advance(partition_->bucket(completed_ - 1).shard.end());
  if (!reduced.ok()) return Fail(reduced.status());
  const Bucket bucket = partition_->bucket(settled_);
  if (*reduced < bucket.shard.end()) return false;
  if (AccumulatesShards(*config_)) {
    const StepSection computing(timeline_, StepPart::kOptimizer, PlaceOf(bucket));
    policy_->Accumulate(bucket, micro_step_ == 0);
  }
  ++settled_;
  return true;
}

bool GradientReducer::StartNext() {
  if (started_ == partition_->bucket_count() || missing_[static_cast<size_t>(started_)] > 0) {
    return false;
  }
  const Bucket bucket = partition_->bucket(started_);
  if (!MayStart(bucket)) return false;
  const StepSection moving(timeline_, StepPart::kCommunication);
  const absl::StatusOr<std::byte*> gradients = buffers_.ToReduce(bucket);
  if (!gradients.ok()) return Fail(gradients.status());
  absl::StatusOr<std::optional<Operation>> operation = policy_->StartReduce(bucket, *gradients);
  if (!operation.ok()) return Fail(operation.status());
  if (operation->has_value()) {
    const auto element_bytes = static_cast<int64_t>(SizeOf(GradientDType(*config_)));
    timeline_->CollectiveBegan(TraceKind::kReduce, PlaceOf(bucket),
                               bucket.flat.count * element_bytes);
  }
  operations_[static_cast<size_t>(started_++)] = *std::move(operation);
  return true;
}

bool GradientReducer::MayStart(const Bucket& bucket) const {
  const bool room = started_ - completed_ < config_->buckets_in_flight;
  if (closing_) return room && IsReduced();
  if (config_->stage == ZeroStage::kThree) {
    return closed_[unit_of_[static_cast<size_t>(bucket.index)]] != 0;
  }
  return room && (config_->overlap_communication || buffers_.pooled());
}

bool GradientReducer::AdvanceAdd() {
  if (!add_) return false;
  const size_t owner = layout_->owner(add_->index);
  const Range range = layout_->range(owner);
  if (IsMissing()) TellMissing();
  if (!IsReduced() || IsOneOfMore()) {
    if (add_->values != nullptr && range.count > 0) {
      AddAsFloat(add_->dtype, SumAt(owner, range.offset), add_->values,
                 static_cast<size_t>(range.count), accumulated_[owner] == 0);
      accumulated_[owner] = 1;
    }
    add_->done = range.count;
  }
  const int64_t before = add_->done;
  while (add_->done < range.count) {
    const int64_t at = range.offset + add_->done;
    const Bucket bucket = partition_->bucket(partition_->BucketOf(at));
    const Range slice = {at, std::min(range.end(), bucket.flat.end()) - at};
    if (!AddToBucket(bucket, slice)) return !result_.ok() || add_->done > before;
    add_->done += slice.count;
    --missing_[static_cast<size_t>(bucket.index)];
    // Its buffer may be wanted by what follows.
    if (!closing_ && StartNext() && !result_.ok()) return true;
  }
  announced_[add_->index] = 1;
  --uses_left_[owner];
  add_.reset();
  return true;
}

bool GradientReducer::IsMissing() const {
  return IsReduced() && !IsOneOfMore() && add_->values == nullptr &&
         accumulated_[layout_->owner(add_->index)] == 0 && layout_->range(add_->index).count > 0;
}

void GradientReducer::TellMissing() {
  if (told_missing_) return;
  told_missing_ = true;
  Log(LogLevel::kWarning,
      absl::StrCat("rank ", ranks_->all()->rank().value(), ": no gradient of '",
                   layout_->spec(layout_->owner(add_->index)).name,
                   "' was announced; it counts as zeros, as any does that is missing from here on "
                   "(said once)"));
}

bool GradientReducer::AddToBucket(const Bucket& bucket, Range slice) {
  const size_t owner = layout_->owner(add_->index);
  const bool zeros = add_->values == nullptr && accumulated_[owner] == 0;
  // Buffers are opened as zeros.
  if (zeros && buffers_.pooled()) return true;
  std::byte* memory = buffers_.Open(bucket);
  if (memory == nullptr) {
    const bool can_wait = completed_ < started_ && !grows_;
    if (can_wait || !GrowPool()) return false;
    memory = buffers_.Open(bucket);
  }
  const DType dtype = GradientDType(*config_);
  const size_t element_bytes = SizeOf(dtype);
  std::byte* to = memory + static_cast<size_t>(slice.offset - bucket.flat.offset) * element_bytes;
  if (zeros) {
    std::memset(to, 0, static_cast<size_t>(slice.count) * element_bytes);
    return true;
  }
  Write(slice, to);
  if (CountNonFinite(dtype, to, static_cast<size_t>(slice.count)) > 0) {
    first_non_finite_ = std::min(first_non_finite_, static_cast<int64_t>(owner));
  }
  return true;
}

void GradientReducer::Write(Range slice, std::byte* to) {
  const auto count = static_cast<size_t>(slice.count);
  const DType dtype = GradientDType(*config_);
  const std::byte* values = static_cast<const std::byte*>(add_->values);
  if (values != nullptr) values += static_cast<size_t>(add_->done) * SizeOf(add_->dtype);
  if (const size_t owner = layout_->owner(add_->index); accumulated_[owner] != 0) {
    float* sum = SumAt(owner, slice.offset);
    if (values != nullptr) AddAsFloat(add_->dtype, sum, values, count, false);
    ConvertFromFloat(dtype, to, sum, count);
  } else if (add_->dtype == dtype) {
    std::memcpy(to, values, count * SizeOf(dtype));
  } else if (dtype == DType::kFloat32) {
    ConvertToFloat(add_->dtype, reinterpret_cast<float*>(to), values, count);
  } else {
    ConvertFromFloat(dtype, to, reinterpret_cast<const float*>(values), count);
  }
}

bool GradientReducer::GrowPool() {
  if (absl::Status status = buffers_.Grow(); !status.ok()) {
    Fail(std::move(status));
    return false;
  }
  Log(LogLevel::kWarning,
      absl::StrCat("rank ", ranks_->all()->rank().value(),
                   ": one more bucket buffer than planned: gradients are announced far from the "
                   "order of backward, '",
                   layout_->spec(add_->index).name, "' while bucket ", started_,
                   " is not complete"));
  return true;
}

bool GradientReducer::AdvanceClosing() {
  if (!closing_ || add_ || close_next_ == 0) return false;
  // In flat order: the last declared first.
  const size_t index = --close_next_;
  if (announced_[index] == 0 && !layout_->spec(index).frozen) add_ = Add{.index = index};
  return true;
}

void GradientReducer::EndMicroStep(bool last) {
  missing_ = parameters_of_;
  std::fill(announced_.begin(), announced_.end(), uint8_t{0});
  std::fill(closed_.begin(), closed_.end(), uint8_t{0});
  closing_ = false;
  started_ = completed_ = settled_ = taken_ = expected_ = 0;
  replicas_.Reset();
  ++micro_step_;
  for (size_t i = 0; i < uses_left_.size(); ++i) uses_left_[i] = layout_->uses(i);
  // Sums of tied gradients are of a micro-step, the accumulator's of a step.
  if (last || !AccumulatesLocally(*config_)) {
    std::fill(accumulated_.begin(), accumulated_.end(), uint8_t{0});
  }
  if (!last) return;
  micro_step_ = 0;
  begun_ = false;
  first_non_finite_ = kNoParameter;
}

std::optional<Bucket> GradientReducer::TakeReduced() {
  if (taken_ == settled_) return std::nullopt;
  if (AccumulatesShards(*config_) && !(last_ && done())) return std::nullopt;
  return partition_->bucket(taken_++);
}

Operation* GradientReducer::awaited() {
  if (completed_ == started_) return replicas_.awaited();
  std::optional<Operation>& operation = operations_[static_cast<size_t>(completed_)];
  return operation ? &*operation : nullptr;
}

bool GradientReducer::Fail(absl::Status status) {
  ranks_->Abort(status);
  add_.reset();
  result_ = std::move(status);
  return true;
}

void GradientReducer::Drain() {
  for (std::optional<Operation>& operation : operations_) {
    while (operation && !operation->Poll()) {
    }
  }
  replicas_.Drain();
}

}  // namespace rz
