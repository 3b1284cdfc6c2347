#include "optimizer/gathered_units.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace rz {

GatheredUnits::GatheredUnits(Communicator* communicator, const FlatLayout* layout,
                             const Partition* partition, const ZeroConfig* config,
                             const ModelState* state, StepTimeline* timeline)
    : communicator_(communicator),
      layout_(layout),
      partition_(partition),
      config_(config),
      state_(state),
      timeline_(timeline),
      sharded_(config->stage == ZeroStage::kThree),
      units_(layout->unit_count()) {
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    std::vector<size_t>& needs = units_[unit].needs;
    const ParamUnit& parameters = layout->unit(unit);
    for (size_t i = parameters.first; i < parameters.first + parameters.count; ++i) {
      const size_t other = layout->storage_unit(i);
      if (other == unit || std::find(needs.begin(), needs.end(), other) != needs.end()) continue;
      needs.push_back(other);
      units_[other].kept = true;
    }
    needs.push_back(unit);
  }
  KeepLast();
}

// A unit may lie in the buffer of the largest one. Beside what is kept there must be room for the
// unit in use and for one that is held meanwhile.
void GatheredUnits::KeepLast() {
  int64_t largest = 0;
  int64_t buffers = 2;
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    largest = std::max(largest, layout_->unit(unit).elements());
    if (units_[unit].kept) ++buffers;
  }
  int64_t between = 0;
  for (size_t unit = units_.size(); unit-- > 0;) {
    if (between > config_->max_reuse_distance) return;
    if (!units_[unit].kept) ++buffers;
    if (between > 0 && buffers > config_->max_live_parameters / std::max<int64_t>(largest, 1)) {
      return;
    }
    units_[unit].kept = true;
    between += 2 * layout_->unit(unit).elements();
  }
}

absl::Status GatheredUnits::AllocatePersistent() {
  if (!sharded_) return absl::OkStatus();
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    const int64_t elements = layout_->unit(unit).elements();
    if (elements > config_->param_persistence_threshold) continue;
    units_[unit].persistent = true;
    units_[unit].state = State::kWhole;
    units_[unit].buffer = persistent_.size();
    RZ_ASSIGN_OR_RETURN(CommunicatorBuffer buffer, Allocate(elements));
    persistent_.push_back(std::move(buffer));
  }
  pool_.reserve(units_.size());
  return absl::OkStatus();
}

absl::Status GatheredUnits::CheckUnit(size_t unit) const {
  if (unit < units_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no unit ", unit, "; the parameters are of ", units_.size()));
}

absl::Status GatheredUnits::Reserve(size_t unit) {
  RZ_RETURN_IF_ERROR(CheckUnit(unit));
  if (!sharded_ || units_[unit].used) return absl::OkStatus();
  const std::vector<size_t>& needs = units_[unit].needs;
  absl::Status status;
  size_t last = 0;
  for (; last < needs.size() && status.ok(); ++last) {
    Unit& needed = units_[needs[last]];
    if (needed.persistent || needed.users++ > 0) continue;
    const absl::StatusOr<size_t> buffer = TakeBuffer(needs[last], unit);
    status = buffer.status();
    if (status.ok()) {
      needed.buffer = *buffer;
      needed.state = State::kReserved;
      pool_[*buffer].taken = true;
    }
  }
  if (!status.ok()) {
    for (size_t i = 0; i < last; ++i) LetGo(needs[i]);
    return status;
  }
  units_[unit].used = true;
  return absl::OkStatus();
}

absl::Status GatheredUnits::Start(size_t unit) {
  for (const size_t needed : units_[unit].needs) {
    const State state = units_[needed].state;
    if (state == State::kReserved || state == State::kStale) RZ_RETURN_IF_ERROR(StartOne(needed));
  }
  return absl::OkStatus();
}

absl::StatusOr<CommunicatorBuffer> GatheredUnits::Allocate(int64_t elements) const {
  return communicator_->AllocateBuffer(static_cast<size_t>(elements) * SizeOf(config_->dtype),
                                       MemoryTag::kGathered, config_->ledger);
}

absl::Status GatheredUnits::StartOne(size_t unit) {
  const StepSection moving(timeline_, StepPart::kCommunication);
  const ParamUnit& parts = layout_->unit(unit);
  Unit& started = units_[unit];
  std::byte* to = BufferOf(started);
  started.state = State::kGathering;
  RZ_ASSIGN_OR_RETURN(started.operations[0], StartPart(parts.flat, to));
  to += static_cast<size_t>(parts.flat.count) * SizeOf(config_->dtype);
  RZ_ASSIGN_OR_RETURN(started.operations[1], StartPart(parts.frozen, to));
  timeline_->CollectiveBegan(TraceKind::kGather, PlaceOf(unit),
                             parts.elements() * static_cast<int64_t>(SizeOf(config_->dtype)));
  return absl::OkStatus();
}

void GatheredUnits::LetGo(size_t unit) {
  Unit& needed = units_[unit];
  if (needed.persistent || --needed.users > 0) return;
  if (needed.TakesPool()) pool_[needed.buffer].taken = false;
  needed.state = State::kReleased;
}

bool GatheredUnits::IsWhole(size_t unit) const {
  if (!sharded_) return true;
  const std::vector<size_t>& needs = units_[unit].needs;
  return std::all_of(needs.begin(), needs.end(), [this](size_t needed) { return IsHere(needed); });
}

absl::StatusOr<std::optional<Operation>> GatheredUnits::StartPart(Range flat, std::byte* to) {
  if (flat.count == 0) return std::optional<Operation>();
  RZ_ASSIGN_OR_RETURN(
      const Operation operation,
      communicator_->StartAllGather(
          state_->ParameterAt(flat.offset / partition_->world(), config_->dtype), to, flat.count,
          config_->dtype, {.tile_chunk = partition_->tile_chunk()}));
  return std::optional<Operation>(operation);
}

Operation* GatheredUnits::awaited(size_t unit) {
  for (const size_t needed : units_[unit].needs) {
    for (std::optional<Operation>& operation : units_[needed].operations) {
      if (operation) return &*operation;
    }
  }
  return nullptr;
}

// The one the unit had last, so that every step goes like the one before; or the smallest free
// buffer that is large enough; otherwise a new one, for which free ones that are
// too small make room where they must.
absl::StatusOr<size_t> GatheredUnits::TakeBuffer(size_t unit, size_t user) {
  const int64_t elements = layout_->unit(unit).elements();
  const size_t last = units_[unit].buffer;
  if (last < pool_.size() && !pool_[last].taken && pool_[last].elements >= elements) return last;
  size_t best = pool_.size();
  int64_t held = 0;
  int64_t live = 0;
  for (size_t i = 0; i < pool_.size(); ++i) {
    live += pool_[i].elements;
    if (pool_[i].taken) {
      held += pool_[i].elements;
    } else if (pool_[i].elements >= elements &&
               (best == pool_.size() || pool_[i].elements < pool_[best].elements)) {
      best = i;
    }
  }
  if (best < pool_.size()) return best;
  // One unit must be possible whatever the limit, with what it needs.
  for (const size_t needed : units_[user].needs) {
    if (units_[needed].TakesPool()) held -= pool_[units_[needed].buffer].elements;
  }
  if (held > 0 && held + elements > config_->max_live_parameters) return TooManyLive(unit);
  for (size_t i = 0; i < pool_.size(); ++i) {
    if (pool_[i].taken) continue;
    if (live + elements > config_->max_live_parameters) {
      live -= pool_[i].elements;
      pool_[i] = Pooled();
    }
    if (pool_[i].elements == 0) best = i;
  }
  if (best == pool_.size()) pool_.emplace_back();
  RZ_ASSIGN_OR_RETURN(pool_[best].buffer, Allocate(elements));
  pool_[best].elements = elements;
  return best;
}

absl::Status GatheredUnits::TooManyLive(size_t unit) const {
  std::string held;
  for (size_t other = 0; other < units_.size(); ++other) {
    if (units_[other].TakesPool()) absl::StrAppend(&held, " ", other);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("unit ", unit, " of ", layout_->unit(unit).elements(),
                   " elements cannot be gathered beside unit", held, ": max_live_parameters is ",
                   config_->max_live_parameters, "; release units, or raise it"));
}

absl::Status GatheredUnits::Poll() {
  if (!sharded_) return absl::OkStatus();
  RZ_RETURN_IF_ERROR(communicator_->status());
  for (size_t index = 0; index < units_.size(); ++index) {
    Unit& unit = units_[index];
    if (unit.state != State::kGathering) continue;
    const StepSection moving(timeline_, StepPart::kCommunication);
    bool whole = true;
    for (std::optional<Operation>& operation : unit.operations) {
      if (!operation) continue;
      whole = operation->Poll() && whole;
      if (!operation->Poll()) continue;
      RZ_RETURN_IF_ERROR(operation->status());
      operation.reset();
    }
    if (!whole) continue;
    timeline_->CollectiveEnded(TraceKind::kGather, PlaceOf(index));
    unit.state = State::kWhole;
  }
  return absl::OkStatus();
}

absl::Status GatheredUnits::Release(size_t unit, Pass pass) {
  RZ_RETURN_IF_ERROR(CheckUnit(unit));
  Unit& released = units_[unit];
  if (!released.used) return absl::OkStatus();
  if (!IsWhole(unit)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "unit ", unit, " is still being gathered; wait for it with Gather before its release"));
  }
  if (pass == Pass::kForward && released.kept) return absl::OkStatus();
  released.used = false;
  for (const size_t needed : released.needs) LetGo(needed);
  return absl::OkStatus();
}

absl::Status GatheredUnits::Invalidate() {
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    RZ_RETURN_IF_ERROR(Release(unit, Pass::kBackward));
  }
  return absl::OkStatus();
}

void GatheredUnits::SetPersistent(bool stale) {
  for (Unit& unit : units_) {
    if (unit.persistent) unit.state = stale ? State::kStale : State::kWhole;
  }
}

void GatheredUnits::Abandon() {
  for (Unit& unit : units_) {
    for (std::optional<Operation>& operation : unit.operations) {
      if (!operation) continue;
      communicator_->Abort(absl::CancelledError("the optimizer was destroyed during a gather"));
      while (!operation->Poll()) {
      }
    }
  }
}

absl::Status GatheredUnits::CheckParameter(size_t index) const {
  if (index >= layout_->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no parameter ", index, "; the model has ", layout_->size()));
  }
  const ParamSpec& spec = layout_->spec(index);
  if (IsHere(layout_->storage_unit(index))) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("parameter '", spec.name,
                                                    "' is not gathered; it is there from Gather(",
                                                    spec.unit, ") to its Release"));
}

std::byte* GatheredUnits::ParameterAt(size_t index) const {
  const int64_t at = layout_->range(index).offset;
  const size_t element_bytes = SizeOf(config_->dtype);
  if (!sharded_) {
    return state_->parameters.data() + static_cast<size_t>(at) * element_bytes;
  }
  const size_t unit = layout_->storage_unit(index);
  if (!IsHere(unit)) return nullptr;
  const Unit& whole = units_[unit];
  return BufferOf(whole) + static_cast<size_t>(PlaceInUnit(unit, at)) * element_bytes;
}

std::byte* GatheredUnits::BufferOf(const Unit& unit) const {
  return unit.persistent ? persistent_[unit.buffer].data() : pool_[unit.buffer].buffer.data();
}

int64_t GatheredUnits::PlaceInUnit(size_t unit, int64_t flat_index) const {
  const ParamUnit& parts = layout_->unit(unit);
  return flat_index < partition_->padded_elements()
             ? flat_index - parts.flat.offset
             : parts.flat.count + flat_index - parts.frozen.offset;
}

void* GatheredUnits::PersistentAt(int64_t flat_index) const {
  if (persistent_.empty()) return nullptr;
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    const ParamUnit& parts = layout_->unit(unit);
    const Range flat = flat_index < partition_->padded_elements() ? parts.flat : parts.frozen;
    if (flat_index < flat.offset || flat_index >= flat.end()) continue;
    if (!units_[unit].persistent) return nullptr;
    return persistent_[units_[unit].buffer].data() +
           static_cast<size_t>(PlaceInUnit(unit, flat_index)) * SizeOf(config_->dtype);
  }
  return nullptr;
}

int64_t GatheredUnits::ElementsGatheredAStep(int64_t micro_steps) const {
  if (!sharded_) return config_->stage == ZeroStage::kDdp ? 0 : partition_->padded_elements();
  int64_t elements = 0;
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    const ParamUnit& parts = layout_->unit(unit);
    if (units_[unit].state == State::kStale) elements += parts.elements();
    elements += units_[unit].persistent
                    ? parts.flat.count
                    : micro_steps * (units_[unit].kept ? 1 : 2) * parts.elements();
  }
  return elements;
}

}  // namespace rz
