#include "collectives/schedule/symbolic_value.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

absl::Status CheckIsInput(const char* operand, const SymbolicValue& value, bool is_input) {
  if (value.multiplied != is_input) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      operand, is_input ? " is taken for an input and is {" : " is not taken for an input and is {",
      ToString(value), "}"));
}

absl::StatusOr<SymbolicValue> Reduce(const LocalStep& step, const SymbolicValue& a,
                                     const SymbolicValue& b, Format format) {
  if (a.block != b.block || a.finished || b.finished || b.format != Format::kWire) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot add {", ToString(b), "} to {", ToString(a), "}"));
  }
  RZ_RETURN_IF_ERROR(CheckIsInput("a", a, step.a_is_input));
  RZ_RETURN_IF_ERROR(CheckIsInput("b", b, step.b_is_input));
  SymbolicValue sum = a;
  sum.format = format;
  sum.addends.insert(sum.addends.end(), b.addends.begin(), b.addends.end());
  sum.roundings = std::max(a.roundings, b.roundings) + (format == Format::kWire ? 1 : 0);
  sum.multiplied = true;
  sum.finished = step.kind == LocalKind::kReduceFinish;
  return sum;
}

}  // namespace

std::string ToString(const SymbolicValue& value) {
  return absl::StrCat("block ", value.block,
                      value.format == Format::kWire ? " (wire): ranks " : " (accumulator): ranks ",
                      absl::StrJoin(value.addends, ", "), "; ", value.roundings,
                      value.roundings == 1 ? " rounding" : " roundings",
                      value.multiplied ? "; multiplied" : "", value.finished ? "; finished" : "");
}

absl::StatusOr<SymbolicValue> Apply(const LocalStep& step, const SymbolicValue& a,
                                    const SymbolicValue& b, Format format) {
  SymbolicValue result = a;
  switch (step.kind) {
    case LocalKind::kCopy:
      return result;
    case LocalKind::kWiden:
      if (a.format != Format::kWire) return absl::FailedPreconditionError("a is wide already");
      RZ_RETURN_IF_ERROR(CheckIsInput("a", a, true));
      result.format = Format::kAccumulator;
      result.multiplied = true;
      return result;
    case LocalKind::kFinish:
      if (a.format != Format::kWire) return absl::FailedPreconditionError("a is not wire");
      RZ_RETURN_IF_ERROR(CheckIsInput("a", a, true));
      result.multiplied = true;
      result.finished = true;
      return result;
    case LocalKind::kReduce:
    case LocalKind::kReduceFinish:
      return Reduce(step, a, b, format);
  }
  return absl::FailedPreconditionError("there is no such step");
}

}  // namespace rz
