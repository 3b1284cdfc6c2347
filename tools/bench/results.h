// What a run of rz_bench found, as tables, files and plots show it.
#ifndef RINGZERO_TOOLS_BENCH_RESULTS_H_
#define RINGZERO_TOOLS_BENCH_RESULTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "tools/bench/operation.h"
#include "tools/bench/statistics.h"

namespace rz {

// One placement (separate buffers, or in place) of one line.
struct HalfResult {
  double time_us = 0;
  double cpu_us = 0;   // 0 unless asked for
  double algbw = 0;    // GB/s, 1 GB = 1e9 bytes
  double busbw = 0;    // likewise
  int64_t wrong = -1;  // elements, over all ranks; -1: not checked
  int64_t iterations = 0;
  SampleStatistics samples_us = {};
};

struct ResultRow {
  BenchOperation operation = BenchOperation::kAllReduce;
  int64_t size_bytes = 0;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  std::optional<ReduceOp> op;  // of reductions
  int root = -1;               // where there is one
  std::optional<HalfResult> out_of_place;
  std::optional<HalfResult> in_place;
  std::optional<double> limit_us;  // what moving the bytes costs at least, where measured
  std::string timestamp;           // of its end
};

// Sets algbw and busbw from the time.
void SetBandwidths(BenchOperation operation, int world, int64_t size_bytes, HalfResult& half);

// Of some rows, both halves.
struct ResultSummary {
  int64_t wrong = 0;
  double average_busbw = 0;  // over all measured halves; 0 where there are none
  // The same by size: up to 32 KiB, up to 1 MiB, above; none where nothing was measured.
  std::optional<double> small, middle, large;
};
ResultSummary SummarizeRows(const std::vector<ResultRow>& rows);

// The run's own description.
struct RunDescription {
  std::vector<std::string> arguments;
  int world = 1;
  std::vector<std::string> ranks;  // a line a rank: pid, host, device
  std::string transport;
  std::string numeric;    // "deterministic"
  std::string algorithm;  // RZ_ALGO or --algo; empty: chosen
  std::string start_time;
  std::string end_time;
  // Payload that all ranks have sent to ranks of other hosts; none: there is one host, or it is not
  // known how many.
  std::optional<int64_t> bytes_between_hosts;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_RESULTS_H_
