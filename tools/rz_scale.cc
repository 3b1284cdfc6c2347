// rz_scale: what collectives take on thousands of ranks, by stepping the real schedules through
// simulated time over links with latency and bandwidth. One process, one core, no payload.
#include <cmath>
#include <iostream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/base/status_macros.h"
#include "tools/bench/plot.h"
#include "tools/bench/result_files.h"
#include "tools/exit_code.h"
#include "tools/flag_set.h"
#include "tools/scale/scale_config.h"
#include "tools/scale/scale_report.h"
#include "tools/scale/scale_sweep.h"

namespace rz {
namespace {

constexpr absl::Duration kBetweenReports = absl::Seconds(5);

int Fail(const absl::Status& status) {
  std::cerr << "rz_scale: " << status.message() << "\n";
  return kExitFailure;
}

absl::Status WriteFiles(const ScaleConfig& config, const std::vector<ScaleRow>& rows) {
  const auto write = [](const std::string& path, const std::string& text) {
    if (path.empty()) return absl::OkStatus();
    RZ_RETURN_IF_ERROR(WriteFile(path, text));
    std::cout << "# Written: " << path << "\n";
    return absl::OkStatus();
  };
  const auto free = [](const std::string& path) { return path.empty() ? path : FreePath(path); };
  RZ_RETURN_IF_ERROR(write(free(config.json_path), ScaleJson(config, rows)));
  RZ_RETURN_IF_ERROR(write(free(config.csv_path), ScaleCsv(rows)));
  const PlotPage page = ScalePage(config, rows);
  const bool figure = absl::EndsWith(config.plot_path, ".svg");
  return write(config.plot_path, figure ? RenderFigure(page) : RenderPlot(page));
}

int Main(int argc, char** argv) {
  FlagSet flags("rz_scale", "simulates collectives on thousands of ranks over given links");
  ScaleFlags scale_flags;
  scale_flags.Declare(&flags);
  flags.Description(
      "Steps the schedules that real ranks run through simulated time, in one process. An\n"
      "OPERATION is a collective such as broadcast or all_to_all; without one: reduce_scatter,\n"
      "all_gather, all_reduce.");
  flags.Example("rz_scale reduce_scatter --ranks 64,512,4096 --sizes 64K,16M,1G");
  flags.Example("rz_scale --alpha 5us --bandwidth 25G --algorithm ring,halving --plot scale.html");
  flags.Example(
      "rz_scale all_reduce --ranks-per-host 8 --host-bandwidth 50G --local-alpha 1us "
      "--local-bandwidth 300G");
  flags.Example(
      "rz_scale reduce_scatter --hosts-per-rack 32 --rack-bandwidth 200G --csv racks.csv");
  flags.ParseOrExit(argc, argv);
  const absl::StatusOr<ScaleConfig> config = scale_flags.Read(flags);
  if (!config.ok()) flags.UsageError(std::string(config.status().message()));
  for (const std::string& path : {config->json_path, config->csv_path, config->plot_path}) {
    if (path.empty()) continue;
    if (const absl::Status status = CheckCreatable(path); !status.ok()) return Fail(status);
  }
  absl::Time last_report = absl::Now();
  const ScaleListener listener = {
      .on_row = [](const ScaleRow& row) { std::cout << ScaleTableRow(row) << std::flush; },
      .on_skipped = [](const std::string& line) { std::cout << "# " << line << "\n"; },
      .on_progress =
          [&](const std::string& call, int64_t done, int64_t all) {
            if (absl::Now() - last_report < kBetweenReports) return;
            last_report = absl::Now();
            std::cerr << "rz_scale: " << call << ": "
                      << absl::StrFormat("%.0f %% of %d messages\n", 100.0 * done / all, all);
          }};
  std::cout << ScaleTableHead(*config);
  const absl::StatusOr<std::vector<ScaleRow>> rows = RunSweep(*config, listener);
  if (!rows.ok()) return Fail(rows.status());
  if (const absl::Status written = WriteFiles(*config, *rows); !written.ok()) return Fail(written);
  flags.ExitWith(kExitOk);
}

}  // namespace
}  // namespace rz

int main(int argc, char** argv) { return rz::Main(argc, argv); }
