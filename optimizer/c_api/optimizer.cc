// The ZeRO optimizer of the C interface.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/c_api/comm_handle.h"
#include "collectives/c_api/submit.h"
#include "optimizer/c_api/c_api.h"
#include "optimizer/c_api/optimizer_use.h"
#include "optimizer/config/training_config.h"
#include "optimizer/group_rules.h"
#include "optimizer/layout/limits.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_macros.h"

namespace rz::c_api {
namespace {

absl::StatusOr<ParamSpec> ReadParameter(const rz_parameter_t& given, size_t index) {
  const std::string where = absl::StrCat("parameters[", index, "].");
  RZ_RETURN_IF_ERROR(CheckNotNull(given.name, (where + "name").c_str()));
  if (given.dimensions < 0 || given.dimensions > RZ_MAX_DIMENSIONS) {
    return absl::InvalidArgumentError(absl::StrCat(where, "dimensions is ", given.dimensions,
                                                   "; it may be 0 to ", RZ_MAX_DIMENSIONS));
  }
  ParamSpec spec;
  spec.name = given.name;
  if (given.dimensions > 0) {
    RZ_RETURN_IF_ERROR(CheckNotNull(given.shape, (where + "shape").c_str()));
    spec.shape.assign(given.shape, given.shape + given.dimensions);
  }
  spec.unit = given.unit;
  return spec;
}

absl::StatusOr<std::vector<ParamSpec>> ReadParameters(const rz_parameter_t* parameters,
                                                      size_t count) {
  if (count > 0) RZ_RETURN_IF_ERROR(CheckNotNull(parameters, "parameters"));
  if (count > kMaxParameters) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " parameters are more than the most, ", kMaxParameters));
  }
  std::vector<ParamSpec> specs;
  for (size_t i = 0; i < count; ++i) {
    RZ_ASSIGN_OR_RETURN(ParamSpec spec, ReadParameter(parameters[i], i));
    specs.push_back(std::move(spec));
  }
  return specs;
}

// Views of gradients are of rz_zero_dtype.
absl::Status CheckViews(const rz_zero_options_t& options, const ZeroConfig& config) {
  if (options.gradient_views == 0) return absl::OkStatus();
  if (AnnouncesGradients(config)) {
    return absl::InvalidArgumentError(
        "gradient_views: stages 2 and 3, and micro-steps, have no views of gradients; add them "
        "with rz_zero_add_gradient");
  }
  if (GradientDType(config) == config.dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "gradient_views: parameters are of ", std::string(NameOf(config.dtype)), " and gradients of ",
      std::string(NameOf(GradientDType(config))),
      " (communication_data_type), and views have the parameters' "
      "type; leave communication_data_type out, or add gradients with rz_zero_add_gradient"));
}

absl::StatusOr<TrainingConfig> ReadConfig(const rz_zero_options_t* given, int world) {
  RZ_RETURN_IF_ERROR(CheckNotNull(given, "options"));
  RZ_ASSIGN_OR_RETURN(const rz_zero_options_t options,
                      ReadOptions(given, rz_zero_options_t(RZ_ZERO_OPTIONS_INIT)));
  RZ_RETURN_IF_ERROR(CheckNotNull(options.config, "options.config"));
  RZ_ASSIGN_OR_RETURN(TrainingConfig config, ParseConfig(options.config, world));
  config.zero.announce_gradients = options.gradient_views == 0;
  RZ_RETURN_IF_ERROR(CheckViews(options, config.zero));
  return config;
}

absl::Status Create(rz_comm_t* comm, const rz_parameter_t* parameters, size_t count,
                    const rz_zero_options_t* options, rz_zero_t** zero) {
  RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
  RZ_ASSIGN_OR_RETURN(std::vector<ParamSpec> specs, ReadParameters(parameters, count));
  RZ_ASSIGN_OR_RETURN(const TrainingConfig config,
                      ReadConfig(options, use->communicator->world_size()));
  RZ_RETURN_IF_ERROR(AssignGroups(config.group_rules, &specs));
  auto made = std::make_unique<OptimizerHandle>();
  made->comm = &*use;
  absl::StatusOr<std::unique_ptr<ZeroOptimizer>> optimizer =
      ZeroOptimizer::Create(use->communicator.get(), std::move(specs), config.zero);
  RZ_RETURN_IF_ERROR(Outcome(*use, optimizer.status()));
  made->optimizer = *std::move(optimizer);
  RZ_ASSIGN_OR_RETURN(void* const handle, OptimizerTable::Get().Insert(made.get()));
  static_cast<void>(made.release());  // the table's
  ++use->optimizers;
  *zero = static_cast<rz_zero_t*>(handle);
  return absl::OkStatus();
}

absl::Status Destroy(rz_zero_t* zero) {
  RZ_ASSIGN_OR_RETURN(OptimizerUse use, OptimizerUse::Enter(zero));
  CommHandle& comm = use.comm();
  const std::unique_ptr<OptimizerHandle> ended(OptimizerTable::Get().Close(use.TakePin()));
  if (ended == nullptr) return BadHandle(zero, HandleKind::kOptimizer);
  --comm.optimizers;
  return absl::OkStatus();
}

absl::StatusOr<Pass> ReadPass(int32_t pass) {
  switch (pass) {
    case RZ_FORWARD:
      return Pass::kForward;
    case RZ_BACKWARD:
      return Pass::kBackward;
    case RZ_EVALUATION:
      return Pass::kEvaluation;
    default:
      return absl::InvalidArgumentError(absl::StrCat("there is no pass ", pass));
  }
}

absl::Status CheckUnit(const ZeroOptimizer& optimizer, size_t unit) {
  const size_t units = optimizer.layout().unit_count();
  if (unit < units) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("there is no unit ", unit, " of ", units));
}

absl::Status CheckParameter(const ZeroOptimizer& optimizer, size_t index) {
  const size_t parameters = optimizer.layout().size();
  if (index < parameters) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no parameter ", index, " of ", parameters));
}

size_t CountOf(const ZeroOptimizer& optimizer, size_t index) {
  return static_cast<size_t>(optimizer.layout().range(index).count);
}

void FillReport(const StepReport& step, rz_step_report_t* report) {
  WriteReport({.size = sizeof *report,
               .step = step.step,
               .skipped = step.skipped ? 1 : 0,
               .non_finite_count = step.non_finite_count,
               .norm = step.norm,
               .clipped_norm = step.clipped_norm,
               .learning_rate = step.learning_rate,
               .loss_scale = step.loss_scale,
               .step_seconds = absl::ToDoubleSeconds(step.times.total()),
               .optimizer_seconds = absl::ToDoubleSeconds(step.times[StepPart::kOptimizer]),
               .exposed_seconds = absl::ToDoubleSeconds(step.times[StepPart::kCommunication]),
               .hidden_seconds = absl::ToDoubleSeconds(step.times.hidden),
               .payload_bytes = step.payload_bytes,
               .control_bytes = step.control_bytes},
              report);
}

absl::Status Step(ZeroOptimizer& optimizer, const StepOptions& options, rz_step_report_t* report) {
  if (report != nullptr) RZ_RETURN_IF_ERROR(CheckReport(report, "report"));
  RZ_ASSIGN_OR_RETURN(const StepReport step, optimizer.Step(options));
  if (report != nullptr) FillReport(step, report);
  return absl::OkStatus();
}

void FillReport(const MemoryReport& memory, rz_memory_report_t* report) {
  rz_memory_report_t filled = RZ_MEMORY_REPORT_INIT;
  const auto& measured = *memory.measured;
  filled.parameters = measured[0];
  filled.gradients = measured[1];
  filled.master = measured[2];
  filled.moment1 = measured[3];
  filled.moment2 = measured[4];
  filled.total = memory.measured_total();
  filled.total_by_formula = ModelStateFormula(memory.shape).bytes();
  for (MemoryTag state : kModelStates) {
    filled.total_padding += StatePadding(memory.shape, state).bytes();
  }
  for (const OtherMemory& other : memory.other) {
    filled.other += other.now;
    filled.other_peak += other.peak;
  }
  WriteReport(filled, report);
}

}  // namespace
}  // namespace rz::c_api

using namespace rz::c_api;  // NOLINT: the functions below are its face
using rz::Pass;
using rz::ZeroOptimizer;

rz_result_t rz_zero_create(rz_comm_t* comm, const rz_parameter_t* parameters, size_t count,
                           const rz_zero_options_t* options, rz_zero_t** zero) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(zero, "zero"));
    *zero = nullptr;
    return Create(comm, parameters, count, options, zero);
  });
}

rz_result_t rz_zero_destroy(rz_zero_t* zero) {
  return Guarded(__func__, [&] { return Destroy(zero); });
}

rz_result_t rz_zero_initialize(rz_zero_t* zero, rz_zero_initializer_t initializer, void* context) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const OptimizerUse use, OptimizerUse::Enter(zero));
    if (initializer == nullptr && use.comm().communicator->rank() == rz::Rank(0)) {
      return absl::InvalidArgumentError("initializer is NULL on rank 0");
    }
    return Outcome(use.comm(), use->Initialize([&](size_t index, absl::Span<float> values) {
      initializer(context, index, values.data(), values.size());
    }));
  });
}

rz_result_t rz_zero_dtype(rz_zero_t* zero, rz_dtype_t* dtype) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(dtype, "dtype"));
    *dtype = static_cast<rz_dtype_t>(optimizer.config().dtype);
    return absl::OkStatus();
  });
}

rz_result_t rz_zero_parameter(rz_zero_t* zero, size_t index, const void** view, size_t* count) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(view, "view"));
    RZ_RETURN_IF_ERROR(CheckNotNull(count, "count"));
    *view = nullptr;
    *count = 0;
    RZ_RETURN_IF_ERROR(CheckParameter(optimizer, index));
    RZ_ASSIGN_OR_RETURN(const absl::Span<uint16_t> found,
                        optimizer.GatheredParams<uint16_t>(index));
    *view = found.data();
    *count = CountOf(optimizer, index);
    return absl::OkStatus();
  });
}

rz_result_t rz_zero_gradient(rz_zero_t* zero, size_t index, void** view, size_t* count) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(view, "view"));
    RZ_RETURN_IF_ERROR(CheckNotNull(count, "count"));
    *view = nullptr;
    *count = 0;
    RZ_RETURN_IF_ERROR(CheckParameter(optimizer, index));
    if (AnnouncesGradients(optimizer.config())) {
      return absl::FailedPreconditionError(
          "gradients are added with rz_zero_add_gradient; views are there with gradient_views");
    }
    if (optimizer.layout().spec(index).frozen) {
      return absl::FailedPreconditionError(absl::StrCat(
          "parameter '", optimizer.layout().spec(index).name, "' is frozen: it has no gradient"));
    }
    *view = optimizer.Grads<uint16_t>(index).data();
    *count = CountOf(optimizer, index);
    return absl::OkStatus();
  });
}

rz_result_t rz_zero_add_gradient(rz_zero_t* zero, size_t index, const void* values, size_t count,
                                 rz_dtype_t dtype) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckParameter(optimizer, index));
    if (count > 0) RZ_RETURN_IF_ERROR(CheckNotNull(values, "values"));
    if (dtype == RZ_FLOAT32) {
      return optimizer.AddGradient(index, {static_cast<const float*>(values), count});
    }
    if (dtype != static_cast<rz_dtype_t>(optimizer.config().dtype)) {
      return absl::InvalidArgumentError(
          absl::StrCat("dtype is ", dtype, "; gradients are added in RZ_FLOAT32 or in ",
                       static_cast<rz_dtype_t>(optimizer.config().dtype), " (rz_zero_dtype)"));
    }
    return optimizer.AddGradient(index, {static_cast<const uint16_t*>(values), count});
  });
}

rz_result_t rz_zero_end_micro_step(rz_zero_t* zero) {
  return Run(__func__, zero, [](ZeroOptimizer& optimizer) { return optimizer.EndMicroStep(); });
}

rz_result_t rz_zero_gather(rz_zero_t* zero, size_t unit, int32_t pass) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const Pass read, ReadPass(pass));
    RZ_RETURN_IF_ERROR(CheckUnit(optimizer, unit));
    return optimizer.Gather(unit, read);
  });
}

rz_result_t rz_zero_prefetch(rz_zero_t* zero, size_t unit, int32_t pass) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const Pass read, ReadPass(pass));
    RZ_RETURN_IF_ERROR(CheckUnit(optimizer, unit));
    return optimizer.StartGather(unit, read);
  });
}

rz_result_t rz_zero_release(rz_zero_t* zero, size_t unit, int32_t pass) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const Pass read, ReadPass(pass));
    RZ_RETURN_IF_ERROR(CheckUnit(optimizer, unit));
    return optimizer.Release(unit, read);
  });
}

rz_result_t rz_zero_step(rz_zero_t* zero, double learning_rate, rz_step_report_t* report) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) {
    rz::StepOptions options;
    if (!(learning_rate < 0)) options.learning_rate = learning_rate;
    return Step(optimizer, options, report);
  });
}

rz_result_t rz_zero_step_groups(rz_zero_t* zero, const double* learning_rates, size_t count,
                                rz_step_report_t* report) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(learning_rates, "learning_rates"));
    if (count == 0) return absl::InvalidArgumentError("count is 0; there is at least one group");
    rz::StepOptions options;
    options.group_learning_rates = absl::MakeConstSpan(learning_rates, count);
    return Step(optimizer, options, report);
  });
}

rz_result_t rz_zero_steps_taken(rz_zero_t* zero, int64_t* steps) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(steps, "steps"));
    *steps = optimizer.steps_taken();
    return absl::OkStatus();
  });
}

rz_result_t rz_zero_learning_rate(rz_zero_t* zero, double* learning_rate) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(learning_rate, "learning_rate"));
    *learning_rate = optimizer.learning_rate();
    return absl::OkStatus();
  });
}

rz_result_t rz_zero_gradient_scale(rz_zero_t* zero, int64_t samples, double* scale) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const OptimizerUse use, OptimizerUse::Enter(zero));
    RZ_RETURN_IF_ERROR(CheckNotNull(scale, "scale"));
    if (samples < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("samples is ", samples, "; all ranks together have at least 1"));
    }
    *scale = rz::GradientScale(use.comm().communicator->world_size(), samples) * use->loss_scale();
    return absl::OkStatus();
  });
}

rz_result_t rz_zero_memory(rz_zero_t* zero, rz_memory_report_t* report) {
  return Run(__func__, zero, [&](ZeroOptimizer& optimizer) -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckReport(report, "report"));
    FillReport(optimizer.Memory(), report);
    return absl::OkStatus();
  });
}
