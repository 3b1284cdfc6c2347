#include "optimizer/memory_report.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace rz {
namespace {

// Of which there is a part that has a state: what is frozen is a parameter and no more.
int64_t Held(MemoryTag state, int64_t trained, int64_t frozen) {
  return state == MemoryTag::kParameters ? trained + frozen : trained;
}

// How many ranks share one copy of `state`.
int SharedBy(const ModelShape& shape, MemoryTag state) {
  switch (shape.stage) {
    case ZeroStage::kDdp:
      return 1;
    case ZeroStage::kNaive:
    case ZeroStage::kOne:
      return state == MemoryTag::kParameters || state == MemoryTag::kGradients ? 1 : shape.world;
    case ZeroStage::kTwo:
      return state == MemoryTag::kParameters ? 1 : shape.world;
    case ZeroStage::kThree:
      return shape.world;
  }
  return 1;
}

int64_t ElementBytes(const ModelShape& shape, MemoryTag state) {
  switch (state) {
    case MemoryTag::kParameters:
      return static_cast<int64_t>(SizeOf(shape.dtype));
    case MemoryTag::kGradients:
      return static_cast<int64_t>(SizeOf(shape.gradient_dtype.value_or(shape.dtype)));
    case MemoryTag::kMaster:
      return shape.dtype == DType::kFloat32 ? 0 : 4;
    case MemoryTag::kMoment1:
      return shape.optimizer_states >= 1 ? 4 : 0;
    case MemoryTag::kMoment2:
      return shape.optimizer_states >= 2 ? 4 : 0;
    default:
      return 4;
  }
}

ByteShare Sum(absl::Span<const ByteShare> shares) {
  ByteShare sum;
  for (const ByteShare& share : shares) sum.parts = std::max(sum.parts, share.parts);
  for (const ByteShare& share : shares) sum.total += share.total * (sum.parts / share.parts);
  return sum;
}

// The cells of one report: a row for each state, then the total.
using Cells = std::vector<std::array<std::string, 4>>;
constexpr std::array<const char*, 4> kColumns = {"formula", "measured", "padding", "difference"};

Cells CellsOf(const MemoryReport& report) {
  Cells cells;
  std::vector<ByteShare> padding, difference;
  for (size_t i = 0; i < kModelStates.size(); ++i) {
    padding.push_back(StatePadding(report.shape, kModelStates[i]));
    if (report.measured) difference.push_back(report.Difference(i));
    cells.push_back({StateFormula(report.shape, kModelStates[i]).ToString(),
                     report.measured ? absl::StrCat((*report.measured)[i]) : "-",
                     padding.back().ToString(),
                     report.measured ? difference.back().ToString() : "-"});
  }
  cells.push_back({ModelStateFormula(report.shape).ToString(),
                   report.measured ? absl::StrCat(report.measured_total()) : "-",
                   Sum(padding).ToString(), report.measured ? Sum(difference).ToString() : "-"});
  return cells;
}

std::string OtherLine(const MemoryReport& report) {
  std::vector<std::string> parts;
  for (const OtherMemory& other : report.other) {
    const std::string_view name = NameOf(other.tag);
    parts.push_back(absl::StrCat(std::string(name), " ", other.now, " (peak ", other.peak, ")"));
  }
  return absl::StrCat("beside the formula, ", StageLabel(report.shape.stage), ": ",
                      absl::StrJoin(parts, ", "), "\n");
}

void AppendRow(std::string* table, const std::string& name, absl::Span<const Cells> reports,
               size_t row, int width) {
  absl::StrAppendFormat(table, "%-10s", name);
  for (const Cells& cells : reports) {
    absl::StrAppend(table, " |");
    for (const std::string& cell : cells[row]) absl::StrAppendFormat(table, " %*s", width, cell);
  }
  absl::StrAppend(table, "\n");
}

// "4 ranks", "4 ranks in groups of 2".
std::string DescribeRanks(const ModelShape& shape) {
  const int ranks = shape.world * shape.groups;
  return absl::StrCat(ranks, ranks == 1 ? " rank" : " ranks",
                      shape.groups == 1 ? "" : absl::StrCat(" in groups of ", shape.world));
}

std::string Headings(absl::Span<const MemoryReport> reports, int column) {
  const ModelShape& shape = reports[0].shape;
  std::string headings = absl::StrCat(
      "model states, bytes a rank: ", shape.parameter_elements, " parameters",
      shape.frozen_elements == 0 ? "" : absl::StrCat(" and ", shape.frozen_elements, " frozen"),
      ", ", DescribeRanks(reports.back().shape), ", ", std::string(NameOf(shape.dtype)),
      shape.dtype == DType::kFloat32 ? " (the parameters are the master)" : " with float32 master",
      shape.gradient_dtype.value_or(shape.dtype) == shape.dtype
          ? ""
          : absl::StrCat(", ", std::string(NameOf(*shape.gradient_dtype)), " gradients"),
      "\n");
  absl::StrAppendFormat(&headings, "%-10s", "");
  for (const MemoryReport& report : reports) {
    absl::StrAppendFormat(&headings, " | %-*s", 4 * column + 3, StageLabel(report.shape.stage));
  }
  absl::StripTrailingAsciiWhitespace(&headings);
  absl::StrAppendFormat(&headings, "\n%-10s", "");
  for (size_t i = 0; i < reports.size(); ++i) {
    absl::StrAppend(&headings, " |");
    for (const char* name : kColumns) absl::StrAppendFormat(&headings, " %*s", column, name);
  }
  return absl::StrCat(headings, "\n");
}

}  // namespace

std::string StageLabel(ZeroStage stage) {
  const std::string name(NameOf(stage));
  return stage == ZeroStage::kDdp || stage == ZeroStage::kNaive ? name
                                                                : absl::StrCat("zero-", name);
}

std::string ByteShare::ToString() const {
  if (total % parts == 0) return absl::StrCat(total / parts);
  std::string text = absl::StrFormat("%.2f", bytes());
  if (text.back() == '0') text.pop_back();
  return text;
}

ByteShare StateFormula(const ModelShape& shape, MemoryTag state) {
  return {Held(state, shape.parameter_elements, shape.frozen_elements) * ElementBytes(shape, state),
          SharedBy(shape, state)};
}

ByteShare ModelStateFormula(const ModelShape& shape) {
  std::array<ByteShare, kModelStates.size()> shares;
  for (size_t i = 0; i < shares.size(); ++i) shares[i] = StateFormula(shape, kModelStates[i]);
  return Sum(shares);
}

ByteShare OptimizerStateFormula(const ModelShape& shape) {
  std::array<ByteShare, 3> shares;
  for (size_t i = 0; i < shares.size(); ++i) {
    shares[i] = StateFormula(shape, kModelStates[kModelStates.size() - shares.size() + i]);
  }
  return Sum(shares);
}

double SavedPercent(const ModelShape& shape) {
  ModelShape ddp = shape;
  ddp.stage = ZeroStage::kDdp;
  const double ddp_bytes = ModelStateFormula(ddp).bytes();
  return ddp_bytes == 0 ? 0 : 100 * (1 - ModelStateFormula(shape).bytes() / ddp_bytes);
}

ByteShare StatePadding(const ModelShape& shape, MemoryTag state) {
  return {Held(state, shape.padding_elements, shape.frozen_padding_elements) *
              ElementBytes(shape, state),
          SharedBy(shape, state)};
}

int64_t MemoryReport::measured_total() const {
  int64_t total = 0;
  for (const int64_t bytes : *measured) total += bytes;
  return total;
}

ByteShare MemoryReport::Difference(size_t index) const {
  const ByteShare formula = StateFormula(shape, kModelStates[index]);
  const ByteShare padding = StatePadding(shape, kModelStates[index]);
  return {(*measured)[index] * formula.parts - formula.total - padding.total, formula.parts};
}

bool MemoryReport::Balances() const {
  for (size_t i = 0; i < kModelStates.size(); ++i) {
    if (Difference(i).total != 0) return false;
  }
  return true;
}

MemoryReport MeasureMemory(const ModelShape& shape, const MemoryLedger& ledger) {
  MemoryReport report;
  report.shape = shape;
  report.measured.emplace();
  for (size_t i = 0; i < kModelStates.size(); ++i) {
    (*report.measured)[i] = static_cast<int64_t>(ledger.Current(kModelStates[i]));
  }
  for (size_t i = 0; i < kOtherMemory.size(); ++i) {
    report.other[i] = {kOtherMemory[i], static_cast<int64_t>(ledger.Current(kOtherMemory[i])),
                       static_cast<int64_t>(ledger.Peak(kOtherMemory[i]))};
  }
  return report;
}

std::string RenderMemoryTable(absl::Span<const MemoryReport> reports) {
  if (reports.empty()) return "";
  std::vector<Cells> cells;
  size_t width = std::string_view(kColumns.back()).size();
  for (const MemoryReport& report : reports) {
    cells.push_back(CellsOf(report));
    for (const auto& row : cells.back()) {
      for (const std::string& cell : row) width = std::max(width, cell.size());
    }
  }
  const int column = static_cast<int>(width);
  std::string table = Headings(reports, column);
  for (size_t i = 0; i < kModelStates.size(); ++i) {
    AppendRow(&table, std::string(NameOf(kModelStates[i])), cells, i, column);
  }
  AppendRow(&table, "total", cells, kModelStates.size(), column);
  for (const MemoryReport& report : reports) {
    absl::StrAppendFormat(&table, "%s: %.3f MB by the formula", StageLabel(report.shape.stage),
                          ModelStateFormula(report.shape).bytes() / 1e6);
    if (report.shape.stage != ZeroStage::kDdp) {
      absl::StrAppendFormat(&table, ", %.1f %% less than ddp", SavedPercent(report.shape));
    }
    absl::StrAppend(&table, "\n");
    if (report.measured) absl::StrAppend(&table, OtherLine(report));
  }
  return table;
}

}  // namespace rz
