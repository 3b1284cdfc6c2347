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
    options.algorithms = algorithms;
    options.clock = ranks->sim_.clock();
    RZ_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                        Communicator::Create(ranks->sim_.transport(Rank(rank)), options));
    ranks->communicators_.push_back(std::move(communicator));
    ranks->ledgers_.push_back(std::make_unique<MemoryLedger>());
    ZeroConfig own = config;
    own.ledger = ranks->ledgers_.back().get();
    if (change) change(rank, &own);
    RZ_ASSIGN_OR_RETURN(std::unique_ptr<ZeroOptimizer> optimizer,
                        ZeroOptimizer::Create(ranks->communicators_.back().get(), specs, own));
    ranks->optimizers_.push_back(std::move(optimizer));
  }
  return ranks;
}

absl::Status SimRanks::PollAll() {
  std::vector<std::function<bool()>> polls;
  for (const auto& optimizer : optimizers_) {
    polls.push_back([optimizer = optimizer.get()] { return optimizer->Poll(); });
  }
  return sim_.Run(polls);
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

std::vector<absl::StatusOr<StepReport>> SimRanks::Step(const std::vector<double>& learning_rates) {
  std::vector<absl::Status> started;
  for (size_t rank = 0; rank < optimizers_.size(); ++rank) {
    StepOptions options;
    if (!learning_rates.empty()) {
      options.learning_rate = learning_rates[learning_rates.size() == 1 ? 0 : rank];
    }
    started.push_back(optimizers_[rank]->StartStep(options));
  }
  const absl::Status run = PollAll();
  std::vector<absl::StatusOr<StepReport>> results;
  for (size_t rank = 0; rank < optimizers_.size(); ++rank) {
    started[rank].Update(run);
    results.push_back(started[rank].ok() ? optimizers_[rank]->StepResult() : started[rank]);
  }
  return results;
}

void SimRanks::SetGradient(int rank, size_t index, size_t i, float value) {
  ZeroOptimizer& optimizer = *optimizers_[static_cast<size_t>(rank)];
  switch (optimizer.config().dtype) {
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

float SimRanks::Parameter(int rank, size_t index, size_t i) {
  ZeroOptimizer& optimizer = *optimizers_[static_cast<size_t>(rank)];
  switch (optimizer.config().dtype) {
    case DType::kBFloat16:
      return BFloat16ToFloat(optimizer.Params<uint16_t>(index)[i]);
    case DType::kFloat16:
      return Float16ToFloat(optimizer.Params<uint16_t>(index)[i]);
    default:
      return optimizer.Params<float>(index)[i];
  }
}

std::string SimRanks::FlatBits(
    const std::function<absl::Span<const float>(const ZeroOptimizer&)>& state) const {
  const Partition& partition = optimizers_[0]->partition();
  const bool sharded = optimizers_[0]->config().stage != ZeroStage::kDdp;
  std::vector<float> flat(static_cast<size_t>(partition.padded_elements()));
  for (int64_t at = 0; at < partition.padded_elements(); ++at) {
    const ShardPlace place = partition.Locate(at);
    const ZeroOptimizer& owner = *optimizers_[static_cast<size_t>(place.rank.value())];
    flat[static_cast<size_t>(at)] = state(owner)[static_cast<size_t>(sharded ? place.offset : at)];
  }
  return std::string(reinterpret_cast<const char*>(flat.data()), flat.size() * sizeof(float));
}

std::string SimRanks::StateBits(int rank) {
  const ZeroOptimizer& optimizer = *optimizers_[static_cast<size_t>(rank)];
  std::string bits;
  for (size_t i = 0; i < optimizer.layout().size(); ++i) {
    if (optimizer.config().dtype == DType::kFloat32) {
      const absl::Span<float> values = optimizer.Params<float>(i);
      bits.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    } else {
      const absl::Span<uint16_t> values = optimizer.Params<uint16_t>(i);
      bits.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(uint16_t));
    }
  }
  if (optimizer.config().dtype != DType::kFloat32) bits += FlatBits(&ZeroOptimizer::master);
  for (size_t i = 0; i < StateCount(optimizer.config().optimizer); ++i) {
    bits += FlatBits([i](const ZeroOptimizer& owner) { return owner.optimizer_state(i); });
  }
  return bits;
}

}  // namespace rz::testing
