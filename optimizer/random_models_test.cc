// Random models trained in random ways: sizes, units, groups, frozen and tied parameters, dtypes,
// micro-steps, buckets, orders, gradients missing on a rank and gradients that are not finite. For
// each draw all stages have the same bits, and those of one process with the whole batch.
//
// Gradients are small multiples of 1/8 that differ between ranks and have a mean that is one, too:
// every sum and mean is exact in every dtype, and so "the same within rounding" is "the same".
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "optimizer/kernels/optimizer_config.h"
#include "optimizer/sim_ranks.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::SimRanks;

constexpr ZeroStage kStages[] = {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne,
                                 ZeroStage::kTwo, ZeroStage::kThree};
constexpr int kSteps = 3;
constexpr int kDraws = 300;
constexpr int kGroupedDraws = 100;
constexpr size_t kNone = std::numeric_limits<size_t>::max();

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int64_t Below(int64_t count) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(count));
  }
  bool OneIn(int64_t count) { return Below(count) == 0; }
  template <typename T>
  T Of(std::initializer_list<T> values) {
    return values.begin()[Below(static_cast<int64_t>(values.size()))];
  }

 private:
  std::mt19937_64 random_;
};

// What all stages of a draw have in common.
struct Job {
  int world;
  std::vector<ParamSpec> specs;
  ZeroConfig config;
  int missing_rank;    // has no gradient for
  size_t missing;      // this one; kNone: has all
  int bad_step;        // in which
  int bad_rank;        // this rank's gradient
  size_t bad = kNone;  // of this parameter is not a number
};

std::vector<ParamSpec> DrawSpecs(Draw& draw, int64_t world) {
  std::vector<ParamSpec> specs;
  const bool all_frozen = draw.OneIn(15);
  for (int64_t count = 1 + draw.Below(8); count > 0; --count) {
    const int64_t size = draw.Of<int64_t>({0, 1, world - 1, world, world + 1, 97, 499, 64});
    ParamSpec spec = {absl::StrCat("p", specs.size()), {size}};
    if (!specs.empty()) spec.unit = specs.back().unit + static_cast<int>(draw.Below(2));
    // Of the four groups the second is all frozen, the last is empty.
    spec.group = static_cast<size_t>(draw.Below(3));
    spec.frozen = all_frozen || spec.group == 1 || draw.OneIn(6);
    if (!specs.empty() && draw.OneIn(4)) {
      const ParamSpec& other =
          specs[static_cast<size_t>(draw.Below(static_cast<int64_t>(specs.size())))];
      // Sums of two are as exact as those of one; of more they need not be.
      const bool taken = std::any_of(specs.begin(), specs.end(),
                                     [&](const ParamSpec& one) { return !one.tied_to.empty(); });
      if (!taken) {
        spec.shape = other.shape;
        spec.group = other.group;
        spec.frozen = other.frozen;
        spec.tied_to = other.name;
      }
    }
    specs.push_back(spec);
  }
  return specs;
}

void DrawDTypes(Draw& draw, ZeroConfig* config) {
  config->dtype = draw.Of({DType::kFloat32, DType::kBFloat16, DType::kFloat16});
  const DType other = config->dtype == DType::kFloat32
                          ? draw.Of({DType::kBFloat16, DType::kFloat16})
                          : DType::kFloat32;
  if (draw.OneIn(3)) config->communication_dtype = other;
  if (draw.OneIn(3)) config->accumulation_dtype = DType::kFloat32;
  config->gradient_accumulation_steps = draw.Of<int64_t>({1, 1, 3});
  config->accumulation = draw.Of({AccumulationPolicy::kLocal, AccumulationPolicy::kShard});
}

Job DrawJob(Draw& draw) {
  Job job;
  job.world = draw.Of({1, 2, 3, 4, 5, 8});
  job.specs = DrawSpecs(draw, job.world);
  ZeroConfig& config = job.config;
  DrawDTypes(draw, &config);
  config.optimizer =
      DefaultsOf(draw.Of({OptimizerKind::kAdamW, OptimizerKind::kAdam, OptimizerKind::kSgd,
                          OptimizerKind::kLion, OptimizerKind::kAdagrad}));
  config.optimizer.weight_decay = 0.1;
  config.optimizer.learning_rate = 0.02;
  if (config.optimizer.kind == OptimizerKind::kSgd) {
    config.optimizer.momentum = draw.Of({0.0, 0.9});
  }
  config.groups = {{}, {.lr_scale = 5}, {.lr_scale = 0.5, .weight_decay = 0}, {.learning_rate = 9}};
  config.gradient_clipping = draw.Of({0.0, 1.0});
  config.tile_chunk = draw.Of<int64_t>({32, 64, 32768});
  const auto any = [&] {
    return static_cast<size_t>(draw.Below(static_cast<int64_t>(job.specs.size())));
  };
  job.missing_rank = static_cast<int>(draw.Below(job.world));
  job.missing = job.world > 1 && draw.OneIn(2) ? any() : kNone;
  job.bad_step = 1 + static_cast<int>(draw.Below(kSteps));
  job.bad_rank = static_cast<int>(draw.Below(job.world));
  const size_t bad = any();
  const bool has_gradient = !job.specs[bad].frozen && job.specs[bad].shape[0] > 0 &&
                            (bad != job.missing || job.bad_rank != job.missing_rank);
  if (has_gradient && draw.OneIn(3)) job.bad = bad;
  return job;
}

// What may differ between stages.
ZeroConfig DrawVariant(Draw& draw, const Job& job, ZeroStage stage) {
  ZeroConfig config = job.config;
  config.stage = stage;
  config.reduce_bucket_size = draw.Of<int64_t>({1, 97, 499, 500'000'000});
  config.announce_gradients = draw.OneIn(2);
  config.overlap_communication = draw.OneIn(2);
  config.buckets_in_flight = draw.Of({1, 2, 4});
  config.max_reuse_distance = draw.Of<int64_t>({0, 400, 500'000'000});
  config.param_persistence_threshold = draw.Of<int64_t>({0, 0, 300});
  config.fuse_step = draw.OneIn(2);
  config.gather_behind_forward = draw.OneIn(2);
  return config;
}

// In eighths. The mean of Share over ranks.
int64_t Mean(int step, int64_t micro_step, size_t parameter, size_t i) {
  return (step * 7 + micro_step * 5 + static_cast<int64_t>(parameter * 3 + i * 11)) % 17 - 8;
}

int64_t Share(const Job& job, int rank, int step, int64_t micro_step, size_t parameter, size_t i) {
  const auto own = [&](int of) {
    return Mean(step, micro_step, parameter, i) + job.world - 1 - 2 * of;
  };
  // The next rank has what the one without a gradient would have had.
  const bool neighbour = parameter == job.missing && rank == (job.missing_rank + 1) % job.world;
  return own(rank) + (neighbour ? own(job.missing_rank) : 0);
}

bool Has(const Job& job, int rank, size_t parameter) {
  return !job.specs[parameter].frozen && (parameter != job.missing || rank != job.missing_rank);
}

size_t OwnerOf(const Job& job, size_t parameter) {
  for (size_t i = 0; i < parameter; ++i) {
    if (job.specs[i].name == job.specs[parameter].tied_to) return i;
  }
  return parameter;
}

// Gradients of a micro-step on all ranks. In views the model adds up what is tied.
void SetGradients(const Job& job, SimRanks& ranks, int step, int64_t micro_step) {
  const bool announced = AnnouncesGradients(ranks.optimizer(0).config());
  for (int rank = 0; rank < ranks.world(); ++rank) {
    if (!announced) ranks.optimizer(rank).ZeroGradients();
    for (size_t p = 0; p < job.specs.size(); ++p) {
      if (!Has(job, rank, p)) continue;
      for (size_t i = 0; i < static_cast<size_t>(job.specs[p].shape[0]); ++i) {
        int64_t eighths = Share(job, rank, step, micro_step, p, i);
        for (size_t q = 0; !announced && q < job.specs.size(); ++q) {
          if (q == p || OwnerOf(job, q) != OwnerOf(job, p) || !Has(job, rank, q)) continue;
          eighths += Share(job, rank, step, micro_step, q, i);
        }
        ranks.SetGradient(rank, p, i, 0.125f * static_cast<float>(eighths));
      }
    }
  }
}

// Sets one element of the bad rank's gradient to what is not a number.
void Spoil(const Job& job, SimRanks& ranks) {
  ranks.SetGradient(job.bad_rank, job.bad, 0, std::numeric_limits<float>::quiet_NaN());
}

void Initialize(const Job& job, SimRanks& ranks) {
  const auto initializer = [&](size_t index, absl::Span<float> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.25f * static_cast<float>((index * 5 + i * 3) % 19) - 2;
    }
  };
  for (const absl::Status& status : ranks.Initialize(initializer)) ASSERT_OK(status);
}

// All working values, and each step's norm.
struct Trained {
  std::vector<float> values;
  std::vector<double> norms;
};

void TakeValues(const Job& job, SimRanks& ranks, Trained* trained) {
  for (size_t p = 0; p < job.specs.size(); ++p) {
    for (size_t i = 0; i < static_cast<size_t>(job.specs[p].shape[0]); ++i) {
      trained->values.push_back(ranks.Parameter(ranks.world() - 1, p, i));
    }
  }
}

// One process with the mean gradients of all micro-steps: the step that is bad is left out.
void TrainReference(const Job& job, Trained* trained) {
  ZeroConfig config = job.config;
  config.stage = ZeroStage::kDdp;
  config.gradient_accumulation_steps = 1;
  config.communication_dtype = DType::kFloat32;
  config.accumulation_dtype = std::nullopt;
  config.announce_gradients = true;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SimRanks> ranks,
                       SimRanks::Create(1, "", job.specs, config));
  ASSERT_NO_FATAL_FAILURE(Initialize(job, *ranks));
  for (int step = 1; step <= kSteps; ++step) {
    if (job.bad != kNone && step == job.bad_step) continue;
    for (size_t p = 0; p < job.specs.size(); ++p) {
      if (job.specs[p].frozen) continue;
      for (size_t i = 0; i < static_cast<size_t>(job.specs[p].shape[0]); ++i) {
        int64_t eighths = 0;
        for (int64_t m = 1; m <= job.config.gradient_accumulation_steps; ++m) {
          eighths += Mean(step, m, p, i);
        }
        ranks->SetGradient(0, p, i, 0.125f * static_cast<float>(eighths));
      }
    }
    const auto reports = ranks->Step();
    ASSERT_OK(reports[0].status());
    trained->norms.push_back(reports[0]->norm);
  }
  TakeValues(job, *ranks, trained);
}

void CheckBooks(const ZeroOptimizer& optimizer, const StepReport& report) {
  ASSERT_OK_AND_ASSIGN(const WirePlan plan, optimizer.ExpectedWire());
  EXPECT_EQ(report.payload_bytes, plan.payload_bytes()) << plan.explanation;
  EXPECT_EQ(report.control_bytes, plan.control_bytes);
  const MemoryReport memory = optimizer.Memory();
  EXPECT_TRUE(memory.Balances()) << RenderMemoryTable({&memory, 1});
}

void CheckSkipped(const Job& job, const ZeroOptimizer& optimizer, const StepReport& report) {
  EXPECT_TRUE(report.skipped);
  const std::string& name = job.specs[OwnerOf(job, job.bad)].name;
  EXPECT_EQ(report.first_non_finite_parameter, name);
  if (AnnouncesGradients(optimizer.config())) {
    EXPECT_EQ(report.non_finite_cause,
              absl::StrCat("rank ", job.bad_rank, "'s gradient of ", name, " is not finite"));
  }
}

void TrainStage(const Job& job, const ZeroConfig& config, uint64_t seed, Trained* trained,
                std::string* bits) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SimRanks> ranks,
                       SimRanks::Create(job.world, seed % 2 == 1 ? SimRanks::kSharedMemory : "",
                                        job.specs, config, nullptr, seed));
  ASSERT_NO_FATAL_FAILURE(Initialize(job, *ranks));
  ranks->set_order([seed](int rank, size_t parameters) {
    std::vector<size_t> order(parameters);
    std::iota(order.begin(), order.end(), size_t{0});
    std::mt19937_64 random(seed + static_cast<uint64_t>(rank));
    std::shuffle(order.begin(), order.end(), random);
    return order;
  });
  for (int step = 1; step <= kSteps; ++step) {
    const bool spoilt = job.bad != kNone && step == job.bad_step;
    for (int64_t m = 1; m < config.gradient_accumulation_steps; ++m) {
      SetGradients(job, *ranks, step, m);
      for (const absl::Status& status : ranks->EndMicroStep()) ASSERT_OK(status);
    }
    SetGradients(job, *ranks, step, config.gradient_accumulation_steps);
    if (spoilt) Spoil(job, *ranks);
    const auto reports = ranks->Step();
    for (int rank = 0; rank < job.world; ++rank) {
      const auto& report = reports[static_cast<size_t>(rank)];
      ASSERT_OK(report.status());
      const ZeroOptimizer& optimizer = ranks->optimizer(rank);
      if (spoilt) {
        ASSERT_NO_FATAL_FAILURE(CheckSkipped(job, optimizer, *report));
      } else {
        EXPECT_FALSE(report->skipped);
        ASSERT_NO_FATAL_FAILURE(CheckBooks(optimizer, *report));
      }
    }
    if (!spoilt) trained->norms.push_back(reports[0]->norm);
  }
  TakeValues(job, *ranks, trained);
  *bits = ranks->StateBits(0);
  for (int rank = 1; rank < job.world; ++rank) EXPECT_TRUE(ranks->StateBits(rank) == *bits);
}

std::string Describe(const Job& job, const ZeroConfig& config) {
  std::string text =
      absl::StrCat("world ", job.world, ", stage ", std::string(NameOf(config.stage)), ", ",
                   Fingerprint(config), ", missing ", job.missing, " bad ", job.bad, "\n");
  for (const ParamSpec& spec : job.specs) {
    absl::StrAppend(&text, spec.name, " [", spec.shape[0], "] unit ", spec.unit, " group ",
                    spec.group, spec.frozen ? " frozen " : " ", spec.tied_to, "\n");
  }
  return text;
}

TEST(RandomModelsTest, EveryStageHasTheBitsOfTheOthersAndTheWeightsOfOneProcess) {
  for (uint64_t seed = 1; seed <= kDraws; ++seed) {
    Draw draw(seed);
    const Job job = DrawJob(draw);
    Trained expected;
    ASSERT_NO_FATAL_FAILURE(TrainReference(job, &expected));
    std::string expected_bits;
    for (const ZeroStage stage : kStages) {
      const ZeroConfig config = DrawVariant(draw, job, stage);
      SCOPED_TRACE(absl::StrCat("draw ", seed, ": ", Describe(job, config)));
      Trained trained;
      std::string bits;
      ASSERT_NO_FATAL_FAILURE(TrainStage(job, config, seed, &trained, &bits));
      if (stage == ZeroStage::kDdp) expected_bits = bits;
      ASSERT_TRUE(bits == expected_bits) << "the states differ from ddp's";
      ASSERT_EQ(trained.norms, expected.norms);
      ASSERT_EQ(trained.values, expected.values);
    }
  }
}

// What may not be for a job of more ranks than were drawn.
Job WithRanks(Job job, int world) {
  job.world = world;
  job.missing_rank %= world;
  job.bad_rank %= world;
  if (job.bad == job.missing) job.bad = kNone;
  return job;
}

// Groups round in an order of their own, so ddp's bits are no measure.
TEST(RandomModelsTest, GroupsOfRanksHaveTheSameBitsInEveryStage) {
  for (uint64_t seed = 1; seed <= kGroupedDraws; ++seed) {
    Draw draw(seed + 10'000);
    const Job drawn = DrawJob(draw);
    const Job job = WithRanks(drawn, draw.Of({2, 4, 6, 8, 9}));
    std::vector<int64_t> sizes;
    for (int64_t size = 1; size < job.world; ++size) {
      if (job.world % size == 0) sizes.push_back(size);
    }
    const auto drawn_size = static_cast<size_t>(draw.Below(static_cast<int64_t>(sizes.size())));
    std::string expected_bits;
    for (const ZeroStage stage : {ZeroStage::kOne, ZeroStage::kTwo, ZeroStage::kThree}) {
      ZeroConfig config = DrawVariant(draw, job, stage);
      config.shard_group_size = sizes[drawn_size];
      SCOPED_TRACE(absl::StrCat("draw ", seed, ": ", Describe(job, config)));
      Trained trained;
      std::string bits;
      ASSERT_NO_FATAL_FAILURE(TrainStage(job, config, seed, &trained, &bits));
      if (stage == ZeroStage::kOne) expected_bits = bits;
      ASSERT_TRUE(bits == expected_bits) << "the states differ from stage 1's";
    }
  }
}

}  // namespace
}  // namespace rz
