#include "collectives/schedule/symbolic_value.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rz {

std::string ToString(const SymbolicValue& value) {
  return absl::StrCat("block ", value.block,
                      value.format == Format::kWire ? " (wire): ranks " : " (accumulator): ranks ",
                      absl::StrJoin(value.addends, ", "), "; ", value.roundings,
                      value.roundings == 1 ? " rounding" : " roundings",
                      value.finished ? "; finished" : "");
}

absl::StatusOr<SymbolicValue> Reduce(const SymbolicValue& a, const SymbolicValue& b, Format format,
                                     bool finish) {
  if (a.block != b.block || a.finished || b.finished || b.format != Format::kWire) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot add {", ToString(b), "} to {", ToString(a), "}"));
  }
  SymbolicValue sum = a;
  sum.format = format;
  sum.addends.insert(sum.addends.end(), b.addends.begin(), b.addends.end());
  sum.roundings = a.roundings + b.roundings + (format == Format::kWire ? 1 : 0);
  sum.finished = finish;
  return sum;
}

}  // namespace rz
