#include "optimizer/step_report.h"

#include "absl/strings/str_cat.h"

namespace rz {

std::string DescribeNonFinite(const StepReport& report) {
  return absl::StrCat(report.non_finite_count,
                      report.non_finite_count == 1 ? " element of the mean gradient is"
                                                   : " elements of the mean gradient are",
                      " not finite, the first in ", report.first_non_finite_parameter,
                      report.non_finite_cause.empty() ? "" : "; ", report.non_finite_cause);
}

}  // namespace rz
