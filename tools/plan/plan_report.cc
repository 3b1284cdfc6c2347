#include "tools/plan/plan_report.h"

#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "tools/bench/json.h"
#include "tools/plan/amount.h"
#include "tools/plan/plan_advice.h"

namespace rz {
namespace {

constexpr char kFormat[] = "ringzero plan";
constexpr int kVersion = 1;
constexpr int kNameWidth = 26;
constexpr int kColumnWidth = 11;

std::string Milliseconds(const std::optional<absl::Duration>& time) {
  return time ? Digits(absl::ToDoubleMilliseconds(*time)) : "-";
}

using Cell = std::function<std::string(const StagePlan&)>;

void AppendRow(const std::string& name, const std::vector<StagePlan>& plans, const Cell& cell,
               std::string* table) {
  absl::StrAppendFormat(table, "%-*s", kNameWidth, name);
  for (const StagePlan& plan : plans)
    absl::StrAppendFormat(table, " %*s", kColumnWidth, cell(plan));
  absl::StrAppend(table, "\n");
}

void AppendMemory(const PlanConfig& config, const std::vector<StagePlan>& plans,
                  std::string* table) {
  const Unit unit = UnitOf(config, plans);
  const auto row = [&](const std::string& name, const Cell& cell) {
    AppendRow(name, plans, cell, table);
  };
  const auto state_row = [&](const std::string& name, MemoryTag state) {
    row(name, [&](const StagePlan& plan) { return unit.Of(StateFormula(plan.shape, state)); });
  };
  state_row("parameters", MemoryTag::kParameters);
  state_row("gradients", MemoryTag::kGradients);
  row("optimizer states",
      [&](const StagePlan& plan) { return unit.Of(OptimizerStateFormula(plan.shape)); });
  if (config.each_state) {
    state_row("  master", MemoryTag::kMaster);
    state_row("  moment 1", MemoryTag::kMoment1);
    state_row("  moment 2", MemoryTag::kMoment2);
  }
  row(absl::StrCat("model states, ", unit.name),
      [&](const StagePlan& plan) { return unit.Of(plan.memory()); });
  row("less than ddp", [](const StagePlan& plan) {
    return plan.shape.stage == ZeroStage::kDdp
               ? "-"
               : absl::StrFormat("%.1f %%", SavedPercent(plan.shape));
  });
  if (!config.memory) return;
  const int64_t budget = *config.budget();
  row(absl::StrCat("fits into ", InBestUnit(budget)),
      [&](const StagePlan& plan) { return Fits(plan, budget) ? "yes" : "no"; });
  row("largest model that fits",
      [&](const StagePlan& plan) { return InBestCount(LargestModel(plan.shape, budget)); });
}

void AppendWire(const PlanConfig& config, const std::vector<StagePlan>& plans, std::string* table) {
  const Unit unit = UnitOf(config, plans);
  AppendRow(
      absl::StrCat("sent a step, ", unit.name), plans,
      [&](const StagePlan& plan) {
        return unit.Of({plan.wire.payload_bytes(), 1});
      },
      table);
  if (config.model.group_size > 0) {
    AppendRow(
        "  to other groups", plans,
        [&](const StagePlan& plan) {
          return unit.Of({plan.wire.between_bytes, 1});
        },
        table);
  }
  AppendRow(
      "of what ddp sends", plans,
      [&](const StagePlan& plan) {
        const std::optional<double> ratio = WireRatio(plans, plan);
        return ratio ? Digits(*ratio) : "-";
      },
      table);
}

void AppendTimes(const PlanConfig& config, const std::vector<StagePlan>& plans,
                 std::string* table) {
  const auto row = [&](const char* name, auto member) {
    AppendRow(
        name, plans,
        [&](const StagePlan& plan) {
          return Milliseconds(std::invoke(member, PredictStep(plan, config.machine)));
        },
        table);
  };
  if (config.machine.flops) row("computing, ms", &StepTime::compute);
  if (config.machine.bandwidth) row("communicating, ms", &StepTime::communication);
  if (!config.machine.flops || !config.machine.bandwidth) return;
  row("step, not overlapped, ms", &StepTime::apart);
  row("step, overlapped, ms", &StepTime::overlapped);
}

std::string Heading(const PlanConfig& config, const std::vector<StagePlan>& plans) {
  const PlannedModel& model = config.model;
  std::string heading = absl::StrCat(
      model.parameters, " parameters, ", model.world, model.world == 1 ? " rank" : " ranks",
      model.group_size == 0 ? "" : absl::StrCat(" in groups of ", model.group_size), ", ",
      std::string(NameOf(model.dtype)),
      model.dtype == DType::kFloat32 ? " (the parameters are the master)" : " with float32 master",
      ", ", std::string(NameOf(config.optimizer)), "; a rank holds, in ",
      UnitOf(config, plans).name, ":\n");
  AppendRow(
      "", plans, [](const StagePlan& plan) { return StageLabel(plan.shape.stage); }, &heading);
  return heading;
}

std::string WireText(const Carriage& route) {
  return route.wire ? std::string(NameOf(*route.wire)) : "nothing";
}

std::string Assumptions(const PlanConfig& config) {
  const PlannedMachine& machine = config.machine;
  const PlannedRoutes& routes = config.routes;
  std::string text = absl::StrCat(
      "wire: gradients are reduced as ", WireText(routes.reduce_scatter),
      " (all_reduce: ", WireText(routes.all_reduce), "), parameters gathered as ",
      WireText(routes.all_gather), "; zero-3 gathers them for forward and for backward\n");
  if (machine.flops) {
    absl::StrAppend(&text, "computing: 6 operations a parameter and token, ", machine.tokens,
                    " tokens a rank a step, ", Digits(*machine.flops / 1e12), "e12 a second\n");
  }
  if (machine.bandwidth) {
    absl::StrAppend(&text, "communicating: ", InBestUnit(*machine.bandwidth),
                    "/s out of a rank, no latency\n");
  }
  absl::StrAppend(&text,
                  "left out: activations, buffers of buckets, units that zero-3 has gathered, "
                  "padding",
                  machine.flops || machine.bandwidth ? ", the optimizer's time\n" : "\n");
  return text;
}

// The plan's values by column, for programs; "" where not known.
using Column = std::pair<const char*, std::string>;

std::vector<Column> Columns(const PlanConfig& config, const std::vector<StagePlan>& plans,
                            const StagePlan& plan) {
  std::vector<Column> columns;
  const char* const states[] = {"parameter_bytes", "gradient_bytes", "master_bytes",
                                "moment1_bytes", "moment2_bytes"};
  for (size_t i = 0; i < kModelStates.size(); ++i) {
    columns.emplace_back(states[i], StateFormula(plan.shape, kModelStates[i]).ToString());
  }
  const auto seconds = [](const std::optional<absl::Duration>& time) {
    return time ? absl::StrFormat("%.9g", absl::ToDoubleSeconds(*time)) : "";
  };
  const MemoryBudget budget = config.budget();
  const std::optional<double> ratio = WireRatio(plans, plan);
  const StepTime time = PredictStep(plan, config.machine);
  columns.emplace_back("state_bytes", plan.memory().ToString());
  columns.emplace_back("saved_pct", absl::StrFormat("%.3f", SavedPercent(plan.shape)));
  columns.emplace_back("fits", !budget ? "" : Fits(plan, budget) ? "true" : "false");
  columns.emplace_back("largest_model",
                       budget ? absl::StrCat(LargestModel(plan.shape, *budget)) : "");
  columns.emplace_back("sent_bytes", absl::StrCat(plan.wire.payload_bytes()));
  columns.emplace_back("sent_of_ddp", ratio ? absl::StrFormat("%.6g", *ratio) : "");
  columns.emplace_back("compute_s", seconds(time.compute));
  columns.emplace_back("communication_s", seconds(time.communication));
  columns.emplace_back("step_apart_s", seconds(time.apart()));
  columns.emplace_back("step_overlapped_s", seconds(time.overlapped()));
  if (config.model.group_size > 0) {
    columns.emplace_back("between_groups_bytes", absl::StrCat(plan.wire.between_bytes));
  }
  return columns;
}

}  // namespace

absl::StatusOr<std::vector<StagePlan>> PlanAllStages(const PlanConfig& config) {
  std::vector<StagePlan> plans;
  for (const ZeroStage stage : kPlannedStages) {
    RZ_ASSIGN_OR_RETURN(StagePlan plan, PlanStage(config.model, stage, config.routes));
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::string PlanTable(const PlanConfig& config, const std::vector<StagePlan>& plans) {
  std::string table = Heading(config, plans);
  AppendMemory(config, plans, &table);
  AppendWire(config, plans, &table);
  AppendTimes(config, plans, &table);
  return absl::StrCat(table, Assumptions(config));
}

std::string PlanCsv(const PlanConfig& config, const std::vector<StagePlan>& plans) {
  std::string csv;
  for (const StagePlan& plan : plans) {
    std::vector<std::string> names = {"stage"}, values = {std::string(NameOf(plan.shape.stage))};
    for (Column& column : Columns(config, plans, plan)) {
      names.emplace_back(column.first);
      values.push_back(std::move(column.second));
    }
    if (csv.empty()) csv = absl::StrCat(absl::StrJoin(names, ","), "\n");
    absl::StrAppend(&csv, absl::StrJoin(values, ","), "\n");
  }
  return csv;
}

std::string PlanJson(const PlanConfig& config, const std::vector<StagePlan>& plans) {
  std::vector<std::string> stages;
  for (const StagePlan& plan : plans) {
    std::string stage = absl::StrCat("    {\"stage\": ", QuoteJson(NameOf(plan.shape.stage)));
    for (const auto& [name, value] : Columns(config, plans, plan)) {
      absl::StrAppend(&stage, ", ", QuoteJson(name), ": ", value.empty() ? "null" : value);
    }
    stages.push_back(absl::StrCat(stage, "}"));
  }
  const std::optional<ZeroStage> recommended = Recommend(plans, config.budget());
  return absl::StrCat(
      "{\n  \"format\": ", QuoteJson(kFormat), ",\n  \"version\": ", kVersion,
      ",\n  \"parameters\": ", config.model.parameters, ",\n  \"ranks\": ", config.model.world,
      ",\n  \"shard_group\": ",
      config.model.group_size == 0 ? config.model.world : config.model.group_size,
      ",\n  \"type\": ", QuoteJson(NameOf(config.model.dtype)),
      ",\n  \"optimizer\": ", QuoteJson(NameOf(config.optimizer)),
      ",\n  \"recommended\": ", recommended ? QuoteJson(NameOf(*recommended)) : "null",
      ",\n  \"advice\": ", QuoteJson(PlanAdvice(config, plans)), ",\n  \"stages\": [\n",
      absl::StrJoin(stages, ",\n"), "\n  ]\n}\n");
}

}  // namespace rz
