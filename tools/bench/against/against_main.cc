#include "tools/bench/against/against_main.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "tools/bench/against/against_run.h"
#include "tools/bench/against/child.h"
#include "tools/bench/against/comparison.h"
#include "tools/bench/host.h"
#include "tools/bench/plot.h"
#include "tools/bench/result_files.h"

namespace rz {
namespace {

void PrintLine(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

// The flags that say how ringzero is run.
std::vector<std::string> OwnFlags(const BenchConfig& config, Registration registration) {
  std::vector<std::string> flags = {
      "--numeric",
      std::string(NameOf(config.numeric_mode)),
      "--link",
      config.share_memory || config.transport == "tcp" ? "auto" : "messages",
      "--transport",
      config.transport,
      "-R",
      absl::StrCat(static_cast<int>(registration)),
      "-c",
      absl::StrCat(config.checks),
      "--bind",
      config.binding == Binding::kAuto   ? "auto"
      : config.binding == Binding::kCore ? "core"
                                         : "none"};
  if (!config.algorithms.empty()) flags.insert(flags.end(), {"--algo", config.algorithms});
  return flags;
}

OwnSetting OwnWith(const BenchConfig& config, const std::string& self, bool bound,
                   const std::string& name, Registration registration) {
  OwnSetting own;
  own.name = name;
  own.description =
      absl::StrCat(registration == Registration::kPlain ? "private buffers" : "registered buffers",
                   ", ", std::string(NameOf(config.numeric_mode)), ", transport ", config.transport,
                   config.share_memory ? "" : ", messages alone",
                   config.algorithms.empty() ? "" : absl::StrCat(", ", config.algorithms),
                   bound ? ", bound" : "");
  own.command = {self};
  for (std::string& flag : OwnFlags(config, registration)) own.command.push_back(std::move(flag));
  return own;
}

AgainstPlan PlanOf(const BenchConfig& config, const std::string& self) {
  AgainstPlan plan;
  plan.operations = config.operations;
  plan.sizes = config.sizes;
  plan.peers = config.against;
  plan.out_of_the_box = config.against_default;
  plan.rounds = config.rounds;
  plan.budget = config.plan.budget;
  plan.fresh = config.plan.sampling == Sampling::kFresh;
  plan.limit = config.columns.limit;
  plan.place.folder = config.peer_folder;
  plan.place.ranks = config.ranks == 0 ? 2 : static_cast<int>(config.ranks);
  plan.place.processors = static_cast<int>(AllowedProcessors().size());
  plan.place.root_user = geteuid() == 0;
  const bool bound = config.binding != Binding::kNone && plan.place.ranks <= plan.place.processors;
  plan.own = {OwnWith(config, self, bound, "ringzero", config.registration)};
  if (config.registered_beside) {
    plan.own.push_back(OwnWith(config, self, bound, "registered", Registration::kRegistered));
  }
  return plan;
}

std::vector<std::string> Head(const AgainstPlan& plan) {
  std::ifstream file("/proc/cpuinfo");
  const std::string cpuinfo((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
  return {absl::StrCat("# rz_bench version ", std::string(kToolsVersion),
                       " (ringzero) against others, ",
                       absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::Now(), absl::LocalTimeZone())),
          absl::StrCat("# ", plan.place.ranks, " ranks on ", HostName(), ": ",
                       plan.place.processors, " x ", ProcessorName(cpuinfo)),
          absl::StrCat("# in turn over ", plan.rounds, " rounds, medians; each point ",
                       plan.fresh ? "calls on rewritten inputs, each after a barrier"
                                  : "batches of 200 us, each after a barrier",
                       ", the slowest rank's median over ", absl::FormatDuration(plan.budget)),
          "#"};
}

PlotStyle StyleOf(const Contender& contender, size_t index) {
  if (index == 0) return PlotStyle::kOwn;
  if (contender.kind == ContenderKind::kOwn) return PlotStyle::kOwnBeside;
  if (contender.name == kLimitName) return PlotStyle::kLimit;
  return contender.kind == ContenderKind::kRival ? PlotStyle::kPeer : PlotStyle::kPeerDefault;
}

// A chart for each operation and placement.
PlotPage PageOf(const Comparison& comparison, const AgainstPlan& plan,
                const std::vector<std::string>& head) {
  PlotPage page;
  page.title = absl::StrCat("ringzero against others: ", plan.place.ranks, " ranks");
  for (const std::string& line : head) {
    if (line.size() > 2) page.notes.push_back(line.substr(2));
  }
  for (const Contender& contender : comparison.contenders()) {
    page.notes.push_back(absl::StrCat(contender.name,
                                      contender.settings.size() > 1 ? ", the fastest of: " : ": ",
                                      absl::StrJoin(contender.settings, "; ")));
  }
  const std::vector<Contender>& contenders = comparison.contenders();
  std::optional<ComparedPoint> last;
  for (const ComparedPoint& point : comparison.Points()) {
    if (!last || last->operation != point.operation || last->in_place != point.in_place) {
      page.charts.push_back({absl::StrCat(std::string(NameOf(point.operation)),
                                          point.in_place ? ", in place" : ", out of place"),
                             BusFactor(point.operation, plan.place.ranks),
                             {}});
      for (size_t i = 0; i < contenders.size(); ++i) {
        const Contender& contender = contenders[i];
        page.charts.back().series.push_back({contender.name, StyleOf(contender, i), {}});
      }
    }
    last = point;
    for (size_t i = 0; i < contenders.size(); ++i) {
      const std::optional<ComparedTime> time = comparison.At(i, point);
      const bool drawn = contenders[i].name != kLimitName || point.size >= kLimitDrawnFrom;
      if (time && drawn) page.charts.back().series[i].points.push_back({point.size, time->time_us});
    }
  }
  for (PlotChart& chart : page.charts) {
    std::erase_if(chart.series, [](const PlotSeries& series) { return series.points.empty(); });
  }
  return page;
}

}  // namespace

absl::Status CompareWithPeers(const BenchConfig& config, const std::string& self) {
  const AgainstPlan plan = PlanOf(config, self);
  for (const std::string& line : Head(plan)) PrintLine(line);
  AgainstRun run(plan, RunChild, PrintLine);
  RZ_RETURN_IF_ERROR(run.Run());
  const auto write = [](const std::string& path, const std::string& text) {
    RZ_RETURN_IF_ERROR(WriteFile(path, text));
    PrintLine(absl::StrCat("# Written: ", path));
    return absl::OkStatus();
  };
  if (!config.json_path.empty()) {
    RZ_RETURN_IF_ERROR(write(FreePath(config.json_path),
                             ComparisonJson(run.comparison(), config.arguments, plan.place.ranks,
                                            static_cast<int>(plan.rounds))));
  }
  if (!config.csv_path.empty()) {
    RZ_RETURN_IF_ERROR(write(FreePath(config.csv_path), ComparisonCsv(run.comparison())));
  }
  if (config.plot_path.empty()) return absl::OkStatus();
  return write(config.plot_path, RenderPlot(PageOf(run.comparison(), plan, Head(plan))));
}

}  // namespace rz
