// The ZeRO optimizer through the C interface: all stages train alike, and what is wrong is refused.
#include "optimizer/c_api/c_api.h"

#include <cmath>
#include <cstring>
#include <latch>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/c_api/thread_ranks.h"

namespace rz::c_api {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

#define OK(call) EXPECT_EQ(call, RZ_OK) << rz_last_error()

constexpr int64_t kShapes[][2] = {{7, 5}, {5, 1}, {5, 3}, {3, 1}};
const rz_parameter_t kParameters[] = {
    {"first.weight", kShapes[0], 2, 0},
    {"first.bias", kShapes[1], 1, 0},
    {"second.weight", kShapes[2], 2, 1},
    {"second.bias", kShapes[3], 1, 1},
};
constexpr size_t kCounts[] = {35, 5, 15, 3};

std::string Config(const std::string& stage, const std::string& more = "") {
  return absl::StrCat(
      R"({"train_batch_size": 6, "zero_optimization": {"stage": )", stage, more,
      R"(}, "optimizer": {"type": "AdamW", "params": {"lr": 0.1, "weight_decay": 0.01}}})");
}

void Fill(void* context, size_t index, float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    values[i] =
        *static_cast<float*>(context) * static_cast<float>(index + 1) + static_cast<float>(i) / 16;
  }
}

void RunOptimizers(int world, const std::string& config,
                   const std::function<void(int rank, rz_zero_t* zero)>& body,
                   int32_t gradient_views = 0) {
  RunRanks(world, [&](int rank, rz_job_t* job) {
    rz_comm_t* comm = nullptr;
    rz_zero_t* zero = nullptr;
    ASSERT_EQ(rz_comm_create(job, nullptr, &comm), RZ_OK) << rz_last_error();
    rz_zero_options_t options = RZ_ZERO_OPTIONS_INIT;
    options.config = config.c_str();
    options.gradient_views = gradient_views;
    ASSERT_EQ(rz_zero_create(comm, kParameters, 4, &options, &zero), RZ_OK) << rz_last_error();
    EXPECT_EQ(rz_comm_destroy(comm), RZ_ERROR_FAILED_PRECONDITION);
    body(rank, zero);
    OK(rz_zero_destroy(zero));
    OK(rz_comm_destroy(comm));
  });
}

// The gradient of rank r: something of its own for each element.
std::vector<float> Gradient(int rank, size_t index) {
  std::vector<float> gradient(kCounts[index]);
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>(static_cast<int>(i % 5) - 2 + rank) / 8;
  }
  return gradient;
}

// As a model does: each unit is gathered, used, and released.
std::vector<std::vector<float>> Weights(rz_zero_t* zero) {
  std::vector<std::vector<float>> weights;
  for (size_t i = 0; i < 4; ++i) {
    const size_t unit = i / 2;
    OK(rz_zero_gather(zero, unit, RZ_EVALUATION));
    const void* view = nullptr;
    size_t count = 0;
    OK(rz_zero_parameter(zero, i, &view, &count));
    EXPECT_EQ(count, kCounts[i]);
    weights.emplace_back(count);
    std::memcpy(weights.back().data(), view, count * sizeof(float));
    OK(rz_zero_release(zero, unit, RZ_EVALUATION));
  }
  return weights;
}

void Step(int rank, rz_zero_t* zero, rz_step_report_t* report) {
  for (size_t unit : {0, 1}) {
    OK(rz_zero_gather(zero, unit, RZ_FORWARD));
    OK(rz_zero_release(zero, unit, RZ_FORWARD));
  }
  for (size_t unit : {1, 0}) {
    OK(rz_zero_prefetch(zero, unit, RZ_BACKWARD));
    OK(rz_zero_gather(zero, unit, RZ_BACKWARD));
    for (size_t i : {unit * 2 + 1, unit * 2}) {
      const std::vector<float> gradient = Gradient(rank, i);
      OK(rz_zero_add_gradient(zero, i, gradient.data(), gradient.size(), RZ_FLOAT32));
    }
    OK(rz_zero_release(zero, unit, RZ_BACKWARD));
  }
  OK(rz_zero_step(zero, -1, report));
}

TEST(ZeroTest, AllStagesTrainToTheSameBits) {
  std::mutex mutex;
  std::map<std::string, std::vector<std::vector<float>>> by_stage;
  for (const char* stage : {"0", "1", "2", "3"}) {
    RunOptimizers(3, Config(stage), [&](int rank, rz_zero_t* zero) {
      float scale = 0.5f + static_cast<float>(rank);  // rank 0's alone counts
      OK(rz_zero_initialize(zero, rank == 0 ? Fill : nullptr, &scale));
      rz_step_report_t report = RZ_STEP_REPORT_INIT;
      for (int step = 1; step <= 3; ++step) {
        Step(rank, zero, &report);
        EXPECT_EQ(report.step, step);
        EXPECT_EQ(report.skipped, 0);
        EXPECT_GT(report.norm, 0);
        EXPECT_EQ(report.learning_rate, 0.1);
      }
      int64_t steps = 0;
      OK(rz_zero_steps_taken(zero, &steps));
      EXPECT_EQ(steps, 3);
      const auto weights = Weights(zero);
      const std::lock_guard lock(mutex);
      if (!by_stage.contains("0")) by_stage["0"] = weights;
      by_stage[stage] = weights;
      EXPECT_EQ(weights, by_stage["0"]) << "stage " << stage << " rank " << rank;
    });
  }
  EXPECT_EQ(by_stage.size(), 4u);
}

TEST(ZeroTest, GroupsOfRanksTrainToTheSameBitsInAllStages) {
  std::mutex mutex;
  std::vector<std::vector<float>> expected;
  for (const char* stage : {"1", "2", "3"}) {
    for (const int group : {4, 1, 2}) {
      const std::string config = absl::StrCat(
          R"({"train_batch_size": 12, "zero_optimization": {"stage": )", stage,
          R"(}, "ringzero": {"shard_group_size": )", group,
          R"(}, "optimizer": {"type": "AdamW", "params": {"lr": 0.1, "weight_decay": 0.01}}})");
      RunOptimizers(4, config, [&](int rank, rz_zero_t* zero) {
        float scale = 1;
        OK(rz_zero_initialize(zero, Fill, &scale));
        for (int step = 0; step < 3; ++step) Step(rank, zero, nullptr);
        const auto weights = Weights(zero);
        const std::lock_guard lock(mutex);
        if (expected.empty()) expected = weights;
        // The sums of these gradients are exact.
        EXPECT_EQ(weights, expected) << "stage " << stage << " groups of " << group;
      });
    }
  }
}

TEST(ZeroTest, MakingOneForGroupsOfRanksIsCollectiveAndEndsWithTheFirstCause) {
  const std::string config =
      R"({"train_batch_size": 4, "zero_optimization": {"stage": 3},
          "ringzero": {"shard_group_size": 2}})";
  std::latch have_communicators(4);
  RunRanks(4, [&](int rank, rz_job_t* job) {
    rz_comm_t* comm = nullptr;
    OK(rz_comm_create(job, nullptr, &comm));
    have_communicators.arrive_and_wait();
    rz_zero_options_t options = RZ_ZERO_OPTIONS_INIT;
    options.config = config.c_str();
    rz_zero_t* zero = nullptr;
    if (rank == 3) {
      OK(rz_comm_abort(comm, "no model here"));
    } else {
      EXPECT_NE(rz_zero_create(comm, kParameters, 4, &options, &zero), RZ_OK);
      EXPECT_THAT(rz_last_error(), AllOf(HasSubstr("rank 3"), HasSubstr("no model here")));
    }
    EXPECT_EQ(zero, nullptr);
    OK(rz_comm_destroy(comm));
  });
}

std::vector<std::vector<char>> StatesOf(rz_zero_t* zero) {
  std::vector<std::vector<char>> states;
  for (int32_t state : {RZ_STATE_MASTER, RZ_STATE_MOMENT1, RZ_STATE_MOMENT2, RZ_STATE_PARAMETERS}) {
    void* view = nullptr;
    size_t bytes = 0;
    OK(rz_zero_state(zero, state, &view, &bytes));
    states.emplace_back(static_cast<char*>(view), static_cast<char*>(view) + bytes);
  }
  return states;
}

void SetStates(rz_zero_t* zero, const std::vector<std::vector<char>>& states) {
  for (size_t state = 0; state < states.size(); ++state) {
    void* view = nullptr;
    size_t bytes = 0;
    OK(rz_zero_state(zero, static_cast<int32_t>(state), &view, &bytes));
    ASSERT_EQ(bytes, states[state].size());
    if (bytes > 0) std::memcpy(view, states[state].data(), bytes);
  }
}

TEST(ZeroTest, GoesOnFromStatesThatWereKept) {
  for (const char* stage : {"0", "1", "2", "3"}) {
    RunOptimizers(3, Config(stage), [&](int rank, rz_zero_t* zero) {
      float scale = 1;
      OK(rz_zero_initialize(zero, Fill, &scale));
      for (int step = 0; step < 2; ++step) Step(rank, zero, nullptr);
      const auto states = StatesOf(zero);
      const auto weights = Weights(zero);
      for (int step = 0; step < 2; ++step) Step(rank, zero, nullptr);
      const auto expected = Weights(zero);

      OK(rz_zero_initialize(zero, Fill, &scale));
      EXPECT_EQ(rz_zero_resume(zero, -1), RZ_ERROR_INVALID_ARGUMENT);
      SetStates(zero, states);
      for (size_t i = 0; i < weights.size() && std::string(stage) != "3"; ++i) {
        const void* view = nullptr;
        size_t count = 0;
        OK(rz_zero_parameter(zero, i, &view, &count));
        std::memcpy(const_cast<void*>(view), weights[i].data(), count * sizeof(float));
      }
      OK(rz_zero_resume(zero, 2));
      EXPECT_EQ(Weights(zero), weights) << "stage " << stage;
      rz_step_report_t report = RZ_STEP_REPORT_INIT;
      for (int step = 0; step < 2; ++step) Step(rank, zero, &report);
      EXPECT_EQ(report.step, 4);
      EXPECT_EQ(Weights(zero), expected) << "stage " << stage;
      void* view = nullptr;
      size_t bytes = 0;
      EXPECT_EQ(rz_zero_state(zero, 4, &view, &bytes), RZ_ERROR_INVALID_ARGUMENT);
    });
  }
}

TEST(ZeroTest, ParameterGroupsHaveRatesOfTheirOwn) {
  const std::string config =
      R"({"train_batch_size": 6, "zero_optimization": {"stage": 1}, "gradient_clipping": 0,
          "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
          "ringzero": {"parameter_groups": [{"match": "*.bias"}, {"match": "second.*"}]}})";
  RunOptimizers(2, config, [&](int rank, rz_zero_t* zero) {
    float scale = 1;
    OK(rz_zero_initialize(zero, Fill, &scale));
    const auto before = Weights(zero);
    for (size_t i = 0; i < 4; ++i) {
      const std::vector<float> gradient(kCounts[i], 1);
      OK(rz_zero_add_gradient(zero, i, gradient.data(), gradient.size(), RZ_FLOAT32));
    }
    const double rates[] = {0.5, 0, 2};
    EXPECT_EQ(rz_zero_step_groups(zero, rates, 2, nullptr), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_step_groups(zero, nullptr, 3, nullptr), RZ_ERROR_INVALID_ARGUMENT);
    OK(rz_zero_step_groups(zero, rates, 3, nullptr));
    const auto after = Weights(zero);
    EXPECT_EQ(after[0][0], before[0][0] - 0.5f);
    EXPECT_EQ(after[1], before[1]);
    EXPECT_EQ(after[2][1], before[2][1] - 2);
    EXPECT_EQ(after[3], before[3]);
  });
}

TEST(ZeroTest, GradientViewsGiveWhatAddedGradientsGive) {
  std::vector<std::vector<float>> added, viewed;
  RunOptimizers(1, Config("1"), [&](int rank, rz_zero_t* zero) {
    float scale = 1;
    OK(rz_zero_initialize(zero, Fill, &scale));
    Step(rank, zero, nullptr);
    void* view = nullptr;
    size_t count = 0;
    EXPECT_EQ(rz_zero_gradient(zero, 0, &view, &count), RZ_ERROR_FAILED_PRECONDITION);
    added = Weights(zero);
  });
  RunOptimizers(
      1, Config("1"),
      [&](int rank, rz_zero_t* zero) {
        float scale = 1;
        OK(rz_zero_initialize(zero, Fill, &scale));
        for (size_t i = 0; i < 4; ++i) {
          void* view = nullptr;
          size_t count = 0;
          OK(rz_zero_gradient(zero, i, &view, &count));
          ASSERT_EQ(count, kCounts[i]);
          std::memcpy(view, Gradient(rank, i).data(), count * sizeof(float));
        }
        OK(rz_zero_step(zero, 0.1, nullptr));
        viewed = Weights(zero);
      },
      1);
  EXPECT_EQ(viewed, added);
}

TEST(ZeroTest, ViewsOfGradientsHaveTheParametersType) {
  const std::string bf16 = R"("bf16": {"enabled": true})";
  struct Pair {
    std::string keys;
    bool refused;
  };
  for (const Pair& pair : {Pair{bf16 + R"(, "communication_data_type": "fp32")", true},
                           Pair{R"("communication_data_type": "bf16")", true},
                           Pair{bf16 + R"(, "communication_data_type": "bf16")", false}}) {
    RunRanks(1, [&](int, rz_job_t* job) {
      const std::string config = absl::StrCat(
          R"({"train_batch_size": 1, "zero_optimization": {"stage": 1}, )", pair.keys, "}");
      rz_comm_t* comm = nullptr;
      OK(rz_comm_create(job, nullptr, &comm));
      rz_zero_options_t options = RZ_ZERO_OPTIONS_INIT;
      options.config = config.c_str();
      options.gradient_views = 1;
      rz_zero_t* zero = nullptr;
      const rz_result_t made = rz_zero_create(comm, kParameters, 4, &options, &zero);
      EXPECT_EQ(made, pair.refused ? RZ_ERROR_INVALID_ARGUMENT : RZ_OK) << config;
      if (pair.refused) {
        EXPECT_THAT(rz_last_error(), AllOf(HasSubstr("float32"), HasSubstr("bfloat16")));
      } else {
        OK(rz_zero_destroy(zero));
      }
      OK(rz_comm_destroy(comm));
    });
  }
}

TEST(ZeroTest, MicroStepsAreAddedUp) {
  const std::string config =
      R"({"train_batch_size": 12, "gradient_accumulation_steps": 2,
          "zero_optimization": {"stage": 2}})";
  RunOptimizers(2, config, [&](int, rz_zero_t* zero) {
    float scale = 1;
    OK(rz_zero_initialize(zero, Fill, &scale));
    double factor = 0;
    OK(rz_zero_gradient_scale(zero, 12, &factor));
    EXPECT_EQ(factor, 2.0 / 12);
    EXPECT_EQ(rz_zero_gradient_scale(zero, 0, &factor), RZ_ERROR_INVALID_ARGUMENT);
    const std::vector<float> gradient(3, 1);
    OK(rz_zero_add_gradient(zero, 3, gradient.data(), 3, RZ_FLOAT32));
    EXPECT_EQ(rz_zero_add_gradient(zero, 3, gradient.data(), 3, RZ_FLOAT32),
              RZ_ERROR_FAILED_PRECONDITION);
    OK(rz_zero_end_micro_step(zero));
    EXPECT_EQ(rz_zero_end_micro_step(zero), RZ_ERROR_FAILED_PRECONDITION);
    OK(rz_zero_add_gradient(zero, 3, gradient.data(), 3, RZ_FLOAT32));
    rz_step_report_t report = RZ_STEP_REPORT_INIT;
    OK(rz_zero_step(zero, -1, &report));
    EXPECT_NEAR(report.norm, 2 * std::sqrt(3.0), 1e-6);
  });
}

TEST(ZeroTest, SixteenBitWeightsHaveAMasterAndTheBooksBalance) {
  const std::string config =
      R"({"train_batch_size": 2, "zero_optimization": {"stage": 1}, "bf16": {"enabled": true}})";
  // One optimizer in the process: the ledger is the process's.
  RunOptimizers(1, config, [&](int, rz_zero_t* zero) {
    float scale = 1;
    OK(rz_zero_initialize(zero, Fill, &scale));
    rz_dtype_t dtype = -1;
    OK(rz_zero_dtype(zero, &dtype));
    EXPECT_EQ(dtype, RZ_BFLOAT16);
    rz_memory_report_t memory = RZ_MEMORY_REPORT_INIT;
    OK(rz_zero_memory(zero, &memory));
    EXPECT_EQ(memory.total_by_formula, 16.0 * (35 + 5 + 15 + 3));
    EXPECT_EQ(static_cast<double>(memory.total), memory.total_by_formula + memory.total_padding);
    EXPECT_EQ(memory.total, memory.parameters + memory.gradients + memory.master + memory.moment1 +
                                memory.moment2);
    const uint16_t gradient[3] = {0x3f80, 0x3f80, 0x3f80};  // ones
    OK(rz_zero_add_gradient(zero, 3, gradient, 3, RZ_BFLOAT16));
    EXPECT_EQ(rz_zero_add_gradient(zero, 2, gradient, 15, RZ_FLOAT16), RZ_ERROR_INVALID_ARGUMENT);
    rz_step_report_t report = RZ_STEP_REPORT_INIT;
    OK(rz_zero_step(zero, -1, &report));
    EXPECT_NEAR(report.norm, std::sqrt(3.0), 1e-6);
  });
}

TEST(ZeroTest, AStepWithInfinitiesIsSkippedByAll) {
  RunOptimizers(2, Config("1"), [&](int rank, rz_zero_t* zero) {
    float scale = 1;
    OK(rz_zero_initialize(zero, Fill, &scale));
    const float gradient[3] = {1, rank == 1 ? INFINITY : 1, 1};
    OK(rz_zero_add_gradient(zero, 3, gradient, 3, RZ_FLOAT32));
    rz_step_report_t report = RZ_STEP_REPORT_INIT;
    OK(rz_zero_step(zero, -1, &report));
    EXPECT_EQ(report.skipped, 1);
    EXPECT_EQ(report.step, 0);
    EXPECT_EQ(report.non_finite_count, 1);
  });
}

TEST(ZeroTest, WhatIsWrongIsRefusedAndChangesNothing) {
  RunOptimizers(1, Config("3"), [&](int, rz_zero_t* zero) {
    const float gradient[40] = {};
    EXPECT_EQ(rz_zero_step(zero, -1, nullptr), RZ_ERROR_FAILED_PRECONDITION);
    EXPECT_EQ(rz_zero_initialize(zero, nullptr, nullptr), RZ_ERROR_INVALID_ARGUMENT);
    float scale = 1;
    OK(rz_zero_initialize(zero, Fill, &scale));
    const void* view = zero;
    size_t count = 1;
    EXPECT_EQ(rz_zero_parameter(zero, 0, &view, &count), RZ_ERROR_FAILED_PRECONDITION);
    EXPECT_THAT(rz_last_error(), HasSubstr("first.weight"));
    EXPECT_EQ(view, nullptr);
    EXPECT_EQ(count, 0u);
    EXPECT_EQ(rz_zero_parameter(zero, 4, &view, &count), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_add_gradient(zero, 4, gradient, 3, RZ_FLOAT32), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_add_gradient(zero, 3, gradient, 4, RZ_FLOAT32), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_add_gradient(zero, 3, nullptr, 3, RZ_FLOAT32), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_add_gradient(zero, 3, gradient, 3, RZ_INT32), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_gather(zero, 2, RZ_FORWARD), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_gather(zero, 0, 3), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_release(zero, 2, RZ_FORWARD), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_release(zero, 0, -1), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_prefetch(zero, 2, RZ_FORWARD), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_step(zero, NAN, nullptr), RZ_ERROR_INVALID_ARGUMENT);
    rz_step_report_t report = RZ_STEP_REPORT_INIT;
    report.size = 4;
    EXPECT_EQ(rz_zero_step(zero, -1, &report), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_memory(zero, nullptr), RZ_ERROR_INVALID_ARGUMENT);
    OK(rz_zero_step(zero, -1, nullptr));
  });
}

TEST(ZeroTest, ParametersAndConfigurationsThatCannotBeAreNamed) {
  RunRanks(1, [](int, rz_job_t* job) {
    rz_comm_t* comm = nullptr;
    OK(rz_comm_create(job, nullptr, &comm));
    const auto refused = [&](const rz_parameter_t& parameter, const char* config) {
      rz_zero_options_t options = RZ_ZERO_OPTIONS_INIT;
      options.config = config;
      rz_zero_t* zero = nullptr;
      EXPECT_EQ(rz_zero_create(comm, &parameter, 1, &options, &zero), RZ_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ(zero, nullptr);
      return std::string(rz_last_error());
    };
    const std::string good = Config("1");
    const char* const config = good.c_str();
    const int64_t negative[] = {-1};
    EXPECT_THAT(refused({nullptr, nullptr, 0, 0}, config), HasSubstr("name"));
    EXPECT_THAT(refused({"w", nullptr, 1, 0}, config), HasSubstr("shape"));
    EXPECT_THAT(refused({"w", negative, 1, 0}, config), HasSubstr("w"));
    EXPECT_THAT(refused({"w", negative, -1, 0}, config), HasSubstr("dimensions"));
    EXPECT_THAT(refused({"w", negative, RZ_MAX_DIMENSIONS + 1, 0}, config),
                HasSubstr("dimensions"));
    EXPECT_THAT(refused({"w", nullptr, 0, 1}, config), HasSubstr("w"));
    EXPECT_THAT(refused({"w", nullptr, 0, 0}, nullptr), HasSubstr("config"));
    EXPECT_THAT(refused({"w", nullptr, 0, 0}, "no JSON"), HasSubstr("JSON"));
    EXPECT_THAT(refused({"w", nullptr, 0, 0}, R"({"train_batch_sise": 1})"),
                AllOf(HasSubstr("train_batch_sise"), HasSubstr("train_batch_size")));
    rz_zero_options_t options = RZ_ZERO_OPTIONS_INIT;
    const std::string second = Config("2");
    options.config = second.c_str();
    options.gradient_views = 1;
    rz_zero_t* zero = nullptr;
    EXPECT_EQ(rz_zero_create(comm, kParameters, 4, &options, &zero), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_create(comm, nullptr, 1, &options, &zero), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_create(comm, kParameters, SIZE_MAX, &options, &zero),
              RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_zero_create(comm, kParameters, 4, nullptr, &zero), RZ_ERROR_INVALID_ARGUMENT);
    OK(rz_comm_destroy(comm));
  });
}

TEST(ZeroTest, RanksWithOtherPlansAreTold) {
  RunRanks(2, [](int rank, rz_job_t* job) {
    rz_comm_t* comm = nullptr;
    OK(rz_comm_create(job, nullptr, &comm));
    rz_zero_options_t options = RZ_ZERO_OPTIONS_INIT;
    const std::string config = Config(rank == 0 ? "1" : "2");
    options.config = config.c_str();
    rz_zero_t* zero = nullptr;
    OK(rz_zero_create(comm, kParameters, 4, &options, &zero));
    float scale = 1;
    EXPECT_EQ(rz_zero_initialize(zero, Fill, &scale), RZ_ERROR_FAILED_PRECONDITION)
        << rz_last_error();
    OK(rz_zero_destroy(zero));
    OK(rz_comm_destroy(comm));
  });
}

struct Callback {
  rz_zero_t* zero;
  rz_result_t result;
};
void CallBack(void* context, size_t, float*, size_t) {
  auto* const callback = static_cast<Callback*>(context);
  callback->result = rz_zero_step(callback->zero, -1, nullptr);
}

TEST(ZeroTest, ACallbackCannotCallBack) {
  RunOptimizers(1, Config("1"), [&](int, rz_zero_t* zero) {
    Callback callback = {zero, RZ_OK};
    OK(rz_zero_initialize(zero, CallBack, &callback));
    EXPECT_EQ(callback.result, RZ_ERROR_WRONG_THREAD);
  });
}

}  // namespace
}  // namespace rz::c_api
