#include "tools/bench/result_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "tools/bench/json.h"

namespace rz {
namespace {

constexpr char kFormat[] = "ringzero benchmark";
constexpr int64_t kVersion = 1;

// NaN and infinity are no JSON numbers.
std::string Number(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.9g", value) : "null";
}

std::string Strings(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  quoted.reserve(texts.size());
  for (const std::string& text : texts) quoted.push_back(QuoteJson(text));
  return absl::StrCat("[", absl::StrJoin(quoted, ", "), "]");
}

std::string RedopOf(const ResultRow& row) {
  return row.op.has_value() ? std::string(NameOf(*row.op)) : "none";
}

std::string HalfJson(const HalfResult& half) {
  const SampleStatistics& samples = half.samples_us;
  return absl::StrCat("{\"time\": ", Number(half.time_us), ", \"cpu_time\": ", Number(half.cpu_us),
                      ", \"alg_bw\": ", Number(half.algbw), ", \"bus_bw\": ", Number(half.busbw),
                      ", \"nwrong\": ", half.wrong < 0 ? "null" : absl::StrCat(half.wrong),
                      ", \"iterations\": ", half.iterations, ", \"min_us\": ", Number(samples.min),
                      ", \"p50_us\": ", Number(samples.p50), ", \"p90_us\": ", Number(samples.p90),
                      ", \"p99_us\": ", Number(samples.p99), ", \"max_us\": ", Number(samples.max),
                      ", \"avg_us\": ", Number(samples.mean),
                      ", \"cv_pct\": ", Number(samples.variation_percent), "}");
}

std::string RowJson(const ResultRow& row) {
  std::string json = absl::StrCat(
      "    {\"operation\": ", QuoteJson(NameOf(row.operation)), ", \"size\": ", row.size_bytes,
      ", \"count\": ", row.count, ", \"type\": ", QuoteJson(NameOf(row.dtype)),
      ", \"redop\": ", QuoteJson(RedopOf(row)), ", \"root\": ", row.root);
  if (row.out_of_place) absl::StrAppend(&json, ", \"out_of_place\": ", HalfJson(*row.out_of_place));
  if (row.in_place) absl::StrAppend(&json, ", \"in_place\": ", HalfJson(*row.in_place));
  if (row.limit_us) absl::StrAppend(&json, ", \"limit\": ", Number(*row.limit_us));
  return absl::StrCat(json, ", \"timestamp\": ", QuoteJson(row.timestamp), "}");
}

std::string HalfCsv(const ResultRow& row, const char* placement, const HalfResult& half) {
  const SampleStatistics& samples = half.samples_us;
  return absl::StrCat(
      std::string(NameOf(row.operation)), ",", row.size_bytes, ",", row.count, ",",
      std::string(NameOf(row.dtype)), ",", RedopOf(row), ",", row.root, ",", placement, ",",
      absl::StrFormat("%.9g,%.9g,%.9g,%.9g,", half.time_us, half.cpu_us, half.algbw, half.busbw),
      half.wrong < 0 ? "" : absl::StrCat(half.wrong), ",", half.iterations, ",",
      absl::StrFormat("%.9g,%.9g,%.9g,%.9g,%.9g,", samples.min, samples.p50, samples.p90,
                      samples.p99, samples.max),
      row.limit_us ? absl::StrFormat("%.9g", *row.limit_us) : "", ",", row.timestamp, "\n");
}

// The placement's times under `path`; none where it is not there.
std::optional<HalfResult> ReadHalf(const JsonScalars& json, const std::string& path) {
  const auto number = [&](const char* name) {
    const auto found = json.find(absl::StrCat(path, ".", name));
    double value = 0;
    return found != json.end() && absl::SimpleAtod(found->second, &value) ? value : 0;
  };
  if (json.count(absl::StrCat(path, ".time")) == 0) return std::nullopt;
  HalfResult half;
  half.time_us = number("time");
  half.algbw = number("alg_bw");
  half.busbw = number("bus_bw");
  half.wrong = static_cast<int64_t>(number("nwrong"));
  return half;
}

enum class PathKind { kNothing, kRegular, kOther };

PathKind KindOf(const std::string& path) {
  struct stat about;
  if (stat(path.c_str(), &about) != 0) return PathKind::kNothing;
  return S_ISREG(about.st_mode) ? PathKind::kRegular : PathKind::kOther;
}

absl::Status CannotWrite(const std::string& path) {
  return absl::UnknownError(absl::StrCat(path, ": cannot be written: ", std::strerror(errno)));
}

}  // namespace

std::string ToJson(const RunDescription& run, const std::vector<ResultRow>& rows) {
  std::vector<std::string> lines;
  lines.reserve(rows.size());
  for (const ResultRow& row : rows) lines.push_back(RowJson(row));
  const ResultSummary summary = SummarizeRows(rows);
  return absl::StrCat(
      "{\n  \"format\": ", QuoteJson(kFormat), ",\n  \"version\": ", kVersion,
      ",\n  \"start_time\": ", QuoteJson(run.start_time),
      ",\n  \"end_time\": ", QuoteJson(run.end_time), ",\n  \"args\": ", Strings(run.arguments),
      ",\n  \"ranks\": ", run.world, ",\n  \"devices\": ", Strings(run.ranks),
      ",\n  \"transport\": ", QuoteJson(run.transport),
      ",\n  \"numeric\": ", QuoteJson(run.numeric),
      ",\n  \"algorithm\": ", QuoteJson(run.algorithm), ",\n  \"results\": [\n",
      absl::StrJoin(lines, ",\n"), "\n  ],\n  \"out_of_bounds\": {\"count\": ", summary.wrong,
      ", \"okay\": ", summary.wrong == 0 ? "true" : "false",
      "},\n  \"average_bus_bandwidth\": {\"bandwidth\": ", Number(summary.average_busbw), "}",
      run.bytes_between_hosts.has_value()
          ? absl::StrCat(",\n  \"bytes_between_hosts\": ", *run.bytes_between_hosts)
          : "",
      "\n}\n");
}

std::string ToCsv(const std::vector<ResultRow>& rows) {
  std::string csv =
      "operation,size_bytes,count,type,redop,root,placement,time_us,cpu_time_us,algbw_gbs,"
      "busbw_gbs,wrong,iterations,min_us,p50_us,p90_us,p99_us,max_us,limit_us,timestamp\n";
  for (const ResultRow& row : rows) {
    if (row.out_of_place) absl::StrAppend(&csv, HalfCsv(row, "out_of_place", *row.out_of_place));
    if (row.in_place) absl::StrAppend(&csv, HalfCsv(row, "in_place", *row.in_place));
  }
  return csv;
}

absl::StatusOr<std::vector<ResultRow>> ParseResults(const std::string& text) {
  RZ_ASSIGN_OR_RETURN(const JsonScalars json, ReadJson(text));
  const auto field = [&](const std::string& path) {
    const auto found = json.find(path);
    return found == json.end() ? std::string() : found->second;
  };
  int64_t version = 0;
  if (field("format") != kFormat || !absl::SimpleAtoi(field("version"), &version) ||
      version > kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("expected \"", kFormat, "\" version ", kVersion,
                                                   ", found \"", field("format"), "\" version ",
                                                   field("version")));
  }
  std::vector<ResultRow> rows;
  for (int i = 0; json.count(absl::StrCat("results.", i, ".operation")) > 0; ++i) {
    const std::string path = absl::StrCat("results.", i, ".");
    ResultRow row;
    RZ_ASSIGN_OR_RETURN(const std::vector<BenchOperation> operation,
                        ParseOperations({field(path + "operation")}));
    row.operation = operation[0];
    row.dtype = ParseDType(field(path + "type")).value_or(DType::kFloat32);
    row.op = ParseReduceOp(field(path + "redop"));
    if (!absl::SimpleAtoi(field(path + "size"), &row.size_bytes) ||
        !absl::SimpleAtoi(field(path + "count"), &row.count) ||
        !absl::SimpleAtoi(field(path + "root"), &row.root)) {
      return absl::InvalidArgumentError(absl::StrCat(path, " has no size, count or root"));
    }
    row.out_of_place = ReadHalf(json, path + "out_of_place");
    row.in_place = ReadHalf(json, path + "in_place");
    double limit = 0;
    if (absl::SimpleAtod(field(path + "limit"), &limit)) row.limit_us = limit;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string FreePath(const std::string& path) {
  std::string free = path;
  for (int i = 1; KindOf(free) == PathKind::kRegular; ++i) free = absl::StrCat(path, ".", i);
  return free;
}

absl::Status CheckCreatable(const std::string& path) {
  const PathKind kind = KindOf(path);
  // Opening a pipe would wait for its reader.
  if (kind == PathKind::kOther) {
    return access(path.c_str(), W_OK) == 0 ? absl::OkStatus() : CannotWrite(path);
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return CannotWrite(path);
  close(fd);
  if (kind == PathKind::kNothing) unlink(path.c_str());
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  FILE* const file = std::fopen(path.c_str(), "w");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr && std::fclose(file) != 0) written = false;
  return written ? absl::OkStatus() : CannotWrite(path);
}

}  // namespace rz
