// The lines rz_bench prints: those of nccl-tests, column for column, so that scripts that read them
// go on to work. Pure: results in, text out.
#ifndef RINGZERO_TOOLS_BENCH_TABLE_H_
#define RINGZERO_TOOLS_BENCH_TABLE_H_

#include <string>
#include <string_view>

#include "runtime/base/dtype.h"
#include "tools/bench/results.h"

namespace rz {

// Which columns there are beside the usual ones.
struct TableColumns {
  bool cpu_time = false;       // "cputime" stands in place of "time"
  bool per_iteration = false;  // -I: i_min, i_max, i_p99, i_cv% behind each half
  bool percentiles = false;    // min, p50, p90, p99, max behind each half
  bool limit = false;          // behind both halves
  bool timestamps = false;     // at the end
};

// At most `width` characters where the number allows it: two decimals, then one, none, then an
// exponent.
std::string FormatNumber(double value, size_t width);

// As nccl-tests spells them, so that they fit: "float", "f8e4m3", "mulsum".
std::string_view TableName(DType dtype);
std::string_view TableName(ReduceOp op);

// The three lines above the numbers, without a newline at the end.
std::string TableHeader(const TableColumns& columns);
std::string TableRow(const ResultRow& row, const TableColumns& columns);

// "# Out of bounds values", "# Avg bus bandwidth" and that by size.
std::string TableFooter(const ResultSummary& summary);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_TABLE_H_
