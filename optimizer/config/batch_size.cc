#include "optimizer/config/batch_size.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// train / (other * ranks), where that is whole.
absl::StatusOr<int64_t> Quotient(int64_t train, const char* name, int64_t other, int ranks) {
  if (other <= kMost / ranks && train % (other * ranks) == 0) return train / (other * ranks);
  return absl::InvalidArgumentError(absl::StrCat(
      "train_batch_size ", train, " is no multiple of ", name, " ", other, " * ", ranks,
      ranks == 1 ? " rank" : " ranks", "; change one of them or leave one out"));
}

absl::Status CheckSizes(std::optional<int64_t> train, std::optional<int64_t> micro,
                        std::optional<int64_t> accumulation) {
  for (const auto& [name, size] :
       {std::pair{"train_batch_size", train}, std::pair{"train_micro_batch_size_per_gpu", micro},
        std::pair{"gradient_accumulation_steps", accumulation}}) {
    if (size.value_or(1) < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is ", *size, "; it must be at least 1"));
    }
  }
  return absl::OkStatus();
}

// Rounded up; both positive.
int64_t Share(int64_t whole, int64_t parts) { return (whole - 1) / parts + 1; }

}  // namespace

absl::StatusOr<BatchSizes> SolveBatchSizes(std::optional<int64_t> train,
                                           std::optional<int64_t> micro,
                                           std::optional<int64_t> accumulation, int ranks) {
  RZ_RETURN_IF_ERROR(CheckSizes(train, micro, accumulation));
  if (!train && !micro) {
    return absl::InvalidArgumentError(
        "neither train_batch_size nor train_micro_batch_size_per_gpu is given; give one");
  }
  BatchSizes sizes;
  if (!micro) {
    sizes.accumulation = accumulation.value_or(1);
    absl::StatusOr<int64_t> quotient =
        Quotient(*train, "gradient_accumulation_steps", sizes.accumulation, ranks);
    if (!quotient.ok()) return quotient.status();
    sizes.micro = *quotient;
  } else if (train && !accumulation) {
    absl::StatusOr<int64_t> quotient =
        Quotient(*train, "train_micro_batch_size_per_gpu", *micro, ranks);
    if (!quotient.ok()) return quotient.status();
    sizes.micro = *micro;
    sizes.accumulation = *quotient;
  } else {
    sizes.micro = *micro;
    sizes.accumulation = accumulation.value_or(1);
  }
  if (sizes.micro > kMost / sizes.accumulation / ranks) {
    return absl::InvalidArgumentError("the batch sizes multiply to more than 64 bits hold");
  }
  sizes.train = sizes.micro * sizes.accumulation * ranks;
  if (train.value_or(sizes.train) != sizes.train) {
    return absl::InvalidArgumentError(absl::StrCat(
        "train_batch_size is ", *train, ", but train_micro_batch_size_per_gpu ", sizes.micro,
        " * gradient_accumulation_steps ", sizes.accumulation, " * ", ranks,
        ranks == 1 ? " rank" : " ranks", " is ", sizes.train, "; leave one of them out"));
  }
  return sizes;
}

absl::StatusOr<BatchSizes> ShareBatch(int64_t train, std::optional<int64_t> micro,
                                      std::optional<int64_t> accumulation, int ranks) {
  RZ_RETURN_IF_ERROR(CheckSizes(train, micro, accumulation));
  const int64_t of_rank = Share(train, ranks);
  BatchSizes sizes{.train = train};
  sizes.accumulation = accumulation.value_or(micro ? Share(of_rank, *micro) : 1);
  sizes.micro = Share(of_rank, sizes.accumulation);
  return sizes;
}

}  // namespace rz
