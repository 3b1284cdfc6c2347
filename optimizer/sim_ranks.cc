#include "optimizer/sim_ranks.h"

#include <utility>

#include "collectives/kernels/convert.h"
#include "runtime/base/status_macros.h"

namespace rz::testing {

absl::StatusOr<std::unique_ptr<SimRanks>> SimRanks::Create(
    int world, const std::string& algorithms, const std::vector<ParamSpec>& specs,
    const ZeroConfig& config, const std::function<void(int rank, ZeroConfig*)>& change,
    uint64_t seed) {
  std::unique_ptr<SimRanks> ranks(new SimRanks(world, seed));
  for (int rank = 0; rank < world; ++rank) {
    CommunicatorOptions options;
    if (algorithms != kSharedMemory) options.algorithms = algorithms;
    options.clock = ranks->sim_.clock();
    RZ_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                        Communicator::Create(ranks->sim_.transport(Rank(rank)), options));
    ranks->communicators_.push_back(std::move(communicator));
  }
  if (algorithms == kSharedMemory) RZ_RETURN_IF_ERROR(ranks->ShareMemory());
  RZ_RETURN_IF_ERROR(ValidateConfig(config));
  RZ_ASSIGN_OR_RETURN(const int group_size, ShardGroupSize(config, ranks->communicator(0)));
  RZ_RETURN_IF_ERROR(ranks->Split(group_size));
  for (int rank = 0; rank < world; ++rank) {
    ranks->ledgers_.push_back(std::make_unique<MemoryLedger>());
    ZeroConfig own = config;
    own.ledger = ranks->ledgers_.back().get();
    own.clock = ranks->sim_.clock();
    if (change) change(rank, &own);
    RZ_ASSIGN_OR_RETURN(
        std::unique_ptr<ZeroOptimizer> optimizer,
        ZeroOptimizer::Create(*std::move(ranks->groups_[static_cast<size_t>(rank)]), specs, own));
    ranks->optimizers_.push_back(std::move(optimizer));
  }
  ranks->gradients_.resize(static_cast<size_t>(world));
  ranks->order_ = [](int, size_t parameters) {
    std::vector<size_t> backward(parameters);
    for (size_t i = 0; i < parameters; ++i) backward[i] = parameters - 1 - i;
    return backward;
  };
  return ranks;
}

absl::Status SimRanks::ShareMemory() {
  std::vector<ShareOperation> operations;
  std::vector<std::function<bool()>> polls;
  for (const auto& communicator : communicators_) {
    RZ_ASSIGN_OR_RETURN(ShareOperation operation, communicator->StartShareMemory());
    operations.push_back(std::move(operation));
  }
  for (ShareOperation& operation : operations) {
    polls.push_back([&operation] { return operation.Poll(); });
  }
  RZ_RETURN_IF_ERROR(sim_.Run(polls));
  for (ShareOperation& operation : operations) {
    RZ_ASSIGN_OR_RETURN(const bool shared, operation.Finish());
    if (!shared) return absl::InternalError("the simulated ranks do not share memory");
  }
  return absl::OkStatus();
}

absl::Status SimRanks::Split(int size) {
  if (size == static_cast<int>(communicators_.size())) {
    for (const auto& communicator : communicators_)
      groups_.emplace_back(ShardGroups(communicator.get()));
    return absl::OkStatus();
  }
  const auto group = [size](int rank) { return ShardGroups::GroupOf(Rank(rank), size); };
  const auto place = [size](int rank) { return ShardGroups::PlaceOf(Rank(rank), size); };
  RZ_ASSIGN_OR_RETURN(auto shards, SplitAll(group));
  RZ_ASSIGN_OR_RETURN(auto replicas, SplitAll(place));
  for (size_t rank = 0; rank < communicators_.size(); ++rank) {
    groups_.emplace_back(ShardGroups(communicators_[rank].get(), std::move(shards[rank]),
                                     std::move(replicas[rank])));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> SimRanks::SplitAll(
    const std::function<int64_t(int rank)>& colour) {
  std::vector<SplitOperation> splits;
  for (size_t rank = 0; rank < communicators_.size(); ++rank) {
    RZ_ASSIGN_OR_RETURN(SplitOperation split,
                        communicators_[rank]->StartSplit(colour(static_cast<int>(rank)), 0));
    splits.push_back(std::move(split));
  }
  std::vector<std::function<bool()>> polls;
  for (SplitOperation& split : splits) polls.push_back([&split] { return split.Poll(); });
  RZ_RETURN_IF_ERROR(sim_.Run(polls));
  std::vector<std::unique_ptr<Communicator>> parts;
  for (SplitOperation& split : splits) {
    RZ_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> part, split.Finish());
    parts.push_back(std::move(part));
  }
  return parts;
}

absl::Status SimRanks::PollAll() {
  std::vector<std::function<bool()>> polls;
  for (const auto& optimizer : optimizers_) {
    polls.push_back([optimizer = optimizer.get()] { return optimizer->Poll(); });
  }
  return sim_.Run(polls);
}

absl::Status SimRanks::Await(absl::Span<Operation> operations) {
  std::vector<std::function<bool()>> polls;
  for (Operation& operation : operations) {
    polls.push_back([&operation] { return operation.Poll(); });
  }
  absl::Status result = sim_.Run(polls);
  for (const Operation& operation : operations) result.Update(operation.status());
  return result;
}

std::vector<absl::Status> SimRanks::Initialize(const ZeroOptimizer::Initializer& initializer) {
  std::vector<absl::Status> results;
  for (const auto& optimizer : optimizers_) {
    results.push_back(optimizer->StartInitialize(initializer));
  }
  const absl::Status run = PollAll();
  for (size_t rank = 0; rank < results.size(); ++rank) {
    results[rank].Update(run);
    results[rank].Update(optimizers_[rank]->InitializeResult());
  }
  return results;
}

void SimRanks::Run(std::vector<Script> scripts, std::vector<absl::Status>* results) {
  std::vector<std::function<bool()>> polls;
  for (size_t rank = 0; rank < optimizers_.size(); ++rank) {
    polls.push_back([this, rank, script = std::move(scripts[rank]), result = &(*results)[rank],
                     next = size_t{0}]() mutable {
      ZeroOptimizer& optimizer = *optimizers_[rank];
      while (true) {
        const bool idle = optimizer.Poll();
        result->Update(communicators_[rank]->status());
        if (idle && !result->ok()) return true;
        if (!idle || (next > 0 && !script[next - 1].is_done(optimizer))) return false;
        if (next == script.size()) return true;
        result->Update(script[next++].start(optimizer));
      }
    });
  }
  const absl::Status run = sim_.Run(polls);
  for (absl::Status& result : *results) result.Update(run);
}

namespace {

bool Idle(const ZeroOptimizer&) { return true; }

SimRanks::Action GatherOf(size_t unit, Pass pass) {
  return {[=](ZeroOptimizer& optimizer) { return optimizer.StartGather(unit, pass); },
          [=](const ZeroOptimizer& optimizer) { return optimizer.IsGathered(unit); }};
}

SimRanks::Action PrefetchOf(size_t unit, Pass pass) {
  return {[=](ZeroOptimizer& optimizer) {
            optimizer.Prefetch(unit, pass);
            return absl::OkStatus();
          },
          Idle};
}

SimRanks::Action ReleaseOf(size_t unit, Pass pass) {
  return {[=](ZeroOptimizer& optimizer) { return optimizer.Release(unit, pass); }, Idle};
}

}  // namespace

std::vector<absl::Status> SimRanks::Go(std::vector<Script> scripts) {
  std::vector<absl::Status> results(optimizers_.size());
  Run(std::move(scripts), &results);
  return results;
}

std::vector<absl::Status> SimRanks::Gather(size_t unit, Pass pass) {
  return Go(std::vector<Script>(optimizers_.size(), {GatherOf(unit, pass)}));
}

std::vector<absl::Status> SimRanks::Release(size_t unit, Pass pass) {
  return Go(std::vector<Script>(optimizers_.size(), {ReleaseOf(unit, pass)}));
}

void SimRanks::AppendGradients(int rank, size_t first, size_t count, Script* script) {
  for (const size_t place : order_(rank, count)) {
    const auto set = gradients_[static_cast<size_t>(rank)].find(first + place);
    if (set == gradients_[static_cast<size_t>(rank)].end()) continue;
    script->push_back({[set](ZeroOptimizer& optimizer) {
                         return optimizer.StartAddGradient(set->first, set->second);
                       },
                       Idle});
  }
}

SimRanks::Script SimRanks::MicroStep(int rank) {
  const ZeroConfig& config = optimizers_[0]->config();
  const FlatLayout& layout = optimizers_[0]->layout();
  Script script;
  if (config.stage != ZeroStage::kThree) {
    // They may still be on their way from the step before.
    for (size_t unit = 0; GathersBehindForward(config) && unit < layout.unit_count(); ++unit) {
      script.push_back(GatherOf(unit, Pass::kForward));
    }
    if (AnnouncesGradients(config)) AppendGradients(rank, 0, layout.size(), &script);
    return script;
  }
  for (size_t unit = 0; unit < layout.unit_count(); ++unit) {
    script.push_back(GatherOf(unit, Pass::kForward));
    script.push_back(PrefetchOf(unit, Pass::kForward));
    script.push_back(ReleaseOf(unit, Pass::kForward));
  }
  for (size_t unit = layout.unit_count(); unit-- > 0;) {
    script.push_back(GatherOf(unit, Pass::kBackward));
    script.push_back(PrefetchOf(unit, Pass::kBackward));
    AppendGradients(rank, layout.unit(unit).first, layout.unit(unit).count, &script);
    script.push_back(ReleaseOf(unit, Pass::kBackward));
  }
  return script;
}

void SimRanks::RunMicroStep(const std::function<absl::Status(size_t rank)>& then,
                            std::vector<absl::Status>* results) {
  std::vector<Script> scripts;
  for (int rank = 0; rank < world(); ++rank) {
    scripts.push_back(MicroStep(rank));
    scripts.back().push_back(
        {[&then, rank](ZeroOptimizer&) { return then(static_cast<size_t>(rank)); }, Idle});
  }
  Run(std::move(scripts), results);
  for (auto& gradients : gradients_) gradients.clear();
}

std::vector<absl::Status> SimRanks::EndMicroStep() {
  std::vector<absl::Status> results(optimizers_.size());
  RunMicroStep([this](size_t rank) { return optimizers_[rank]->StartEndMicroStep(); }, &results);
  for (size_t rank = 0; rank < results.size(); ++rank) {
    results[rank].Update(optimizers_[rank]->GradientResult());
  }
  return results;
}

std::vector<absl::StatusOr<StepReport>> SimRanks::Step(const std::vector<double>& learning_rates) {
  return StepWith([&](size_t rank) {
    StepOptions options;
    if (!learning_rates.empty()) {
      options.learning_rate = learning_rates[learning_rates.size() == 1 ? 0 : rank];
    }
    return options;
  });
}

std::vector<absl::StatusOr<StepReport>> SimRanks::StepWith(const Options& options) {
  std::vector<absl::Status> started(optimizers_.size());
  RunMicroStep([&](size_t rank) { return optimizers_[rank]->StartStep(options(rank)); }, &started);
  std::vector<absl::StatusOr<StepReport>> results;
  for (size_t rank = 0; rank < optimizers_.size(); ++rank) {
    results.push_back(started[rank].ok() ? optimizers_[rank]->StepResult() : started[rank]);
  }
  return results;
}

void SimRanks::SetGradient(int rank, size_t index, size_t i, float value) {
  ZeroOptimizer& optimizer = *optimizers_[static_cast<size_t>(rank)];
  if (AnnouncesGradients(optimizer.config())) {
    std::vector<float>& gradient = gradients_[static_cast<size_t>(rank)][index];
    gradient.resize(static_cast<size_t>(optimizer.layout().range(index).count));
    gradient[i] = value;
    return;
  }
  switch (GradientDType(optimizer.config())) {
    case DType::kBFloat16:
      optimizer.Grads<uint16_t>(index)[i] = FloatToBFloat16(value);
      break;
    case DType::kFloat16:
      optimizer.Grads<uint16_t>(index)[i] = FloatToFloat16(value);
      break;
    default:
      optimizer.Grads<float>(index)[i] = value;
  }
}

const ZeroOptimizer& SimRanks::Owner(int rank, ShardPlace place) const {
  const int size = optimizers_[0]->partition().world();
  return *optimizers_[static_cast<size_t>(rank / size * size + place.rank.value())];
}

const std::byte* SimRanks::OwnedElement(int rank, size_t index, size_t i) const {
  const ZeroOptimizer& any = *optimizers_[0];
  const ShardPlace place =
      any.partition().Locate(any.layout().range(index).offset + static_cast<int64_t>(i));
  return Owner(rank, place).parameter_shard().data() +
         static_cast<size_t>(place.offset) * SizeOf(any.config().dtype);
}

void SimRanks::AwaitParameters() {
  for (size_t unit = 0; unit < optimizers_[0]->layout().unit_count(); ++unit) {
    if (!GathersBehindForward(optimizers_[0]->config())) return;
    for (const absl::Status& status : Gather(unit, Pass::kEvaluation)) {
      if (!status.ok()) return;
    }
  }
}

float SimRanks::Parameter(int rank, size_t index, size_t i) {
  AwaitParameters();
  ZeroOptimizer& optimizer = *optimizers_[static_cast<size_t>(rank)];
  const DType dtype = optimizer.config().dtype;
  const void* element = nullptr;
  if (optimizer.config().stage == ZeroStage::kThree) {
    element = OwnedElement(rank, index, i);
  } else if (dtype == DType::kFloat32) {
    element = &optimizer.Params<float>(index)[i];
  } else {
    element = &optimizer.Params<uint16_t>(index)[i];
  }
  float value = 0;
  ConvertToFloat(dtype, &value, element, 1);
  return value;
}

std::string SimRanks::FlatBits(
    int rank, const std::function<absl::Span<const float>(const ZeroOptimizer&)>& state) const {
  const Partition& partition = optimizers_[0]->partition();
  const bool sharded = optimizers_[0]->config().stage != ZeroStage::kDdp;
  std::vector<float> flat(static_cast<size_t>(partition.padded_elements()));
  for (int64_t at = 0; at < partition.padded_elements(); ++at) {
    const ShardPlace place = partition.Locate(at);
    flat[static_cast<size_t>(at)] =
        state(Owner(rank, place))[static_cast<size_t>(sharded ? place.offset : at)];
  }
  return std::string(reinterpret_cast<const char*>(flat.data()), flat.size() * sizeof(float));
}

std::string SimRanks::StateBits(int rank) {
  AwaitParameters();
  const ZeroOptimizer& optimizer = *optimizers_[static_cast<size_t>(rank)];
  std::string bits;
  const size_t element_bytes = SizeOf(optimizer.config().dtype);
  for (size_t p = 0; p < optimizer.layout().size(); ++p) {
    const auto count = static_cast<size_t>(optimizer.layout().range(p).count);
    if (count == 0) continue;
    if (optimizer.config().stage == ZeroStage::kThree) {
      for (size_t i = 0; i < count; ++i) {
        bits.append(reinterpret_cast<const char*>(OwnedElement(rank, p, i)), element_bytes);
      }
    } else {
      const void* values = optimizer.config().dtype == DType::kFloat32
                               ? static_cast<const void*>(optimizer.Params<float>(p).data())
                               : optimizer.Params<uint16_t>(p).data();
      bits.append(static_cast<const char*>(values), count * element_bytes);
    }
  }
  if (optimizer.config().dtype != DType::kFloat32) bits += FlatBits(rank, &ZeroOptimizer::master);
  for (size_t i = 0; i < StateCount(optimizer.config().optimizer); ++i) {
    bits += FlatBits(rank, [i](const ZeroOptimizer& owner) { return owner.optimizer_state(i); });
  }
  return bits;
}

}  // namespace rz::testing
