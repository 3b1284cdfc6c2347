// What rz_scale prints and writes. Pure.
#ifndef RINGZERO_TOOLS_SCALE_SCALE_REPORT_H_
#define RINGZERO_TOOLS_SCALE_SCALE_REPORT_H_

#include <string>
#include <vector>

#include "tools/bench/plot.h"
#include "tools/scale/scale_config.h"
#include "tools/scale/scale_sweep.h"

namespace rz {

// "latency 5us, 25 GB/s a rank, 8 ranks a host, ..."; nothing of files.
std::string DescribeLinks(const ScaleConfig& config);

// Lines that begin with '#', the last of them the names of the columns.
std::string ScaleTableHead(const ScaleConfig& config);
std::string ScaleTableRow(const ScaleRow& row);

// Headed by names; no formula: an empty field.
std::string ScaleCsv(const std::vector<ScaleRow>& rows);

// Version 1 of "ringzero scale".
std::string ScaleJson(const ScaleConfig& config, const std::vector<ScaleRow>& rows);

// A chart for each number of ranks, a curve for each collective and algorithm.
PlotPage ScalePage(const ScaleConfig& config, const std::vector<ScaleRow>& rows);

}  // namespace rz

#endif  // RINGZERO_TOOLS_SCALE_SCALE_REPORT_H_
