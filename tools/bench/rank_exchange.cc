#include "tools/bench/rank_exchange.h"

#include <algorithm>
#include <array>

#include "runtime/base/status_macros.h"

namespace rz {

absl::StatusOr<std::vector<double>> RankExchange::Gather(double value) {
  std::vector<double> all(world_size());
  RZ_RETURN_IF_ERROR(communicator_.AllGather(&value, all.data(), world_size(), DType::kFloat64));
  return all;
}

absl::StatusOr<std::vector<std::string>> RankExchange::GatherText(std::string_view text) {
  using Line = std::array<char, 256>;
  Line mine{};
  std::copy_n(text.begin(), std::min(text.size(), mine.size() - 1), mine.begin());
  std::vector<Line> lines(world_size());
  RZ_RETURN_IF_ERROR(communicator_.AllGather(
      mine.data(), lines.data(), static_cast<int64_t>(mine.size()) * world_size(), DType::kUint8));
  std::vector<std::string> all;
  all.reserve(lines.size());
  for (const Line& line : lines) all.emplace_back(line.data());
  return all;
}

absl::StatusOr<int64_t> RankExchange::Sum(int64_t value) {
  RZ_RETURN_IF_ERROR(communicator_.AllReduce(&value, &value, 1, DType::kInt64, ReduceOp::kSum));
  return value;
}

absl::Status RankExchange::TakeLargest(absl::Span<double> values) {
  return communicator_.AllReduce(values.data(), values.data(), static_cast<int64_t>(values.size()),
                                 DType::kFloat64, ReduceOp::kMax);
}

}  // namespace rz
