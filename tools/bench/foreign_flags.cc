#include "tools/bench/foreign_flags.h"

#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

struct ForeignFlag {
  const char* name;
  const char* alias;
  int64_t harmless;  // the value that asks for nothing, and the default
  bool any;          // every value asks for nothing here
  const char* why;
};

constexpr ForeignFlag kForeignFlags[] = {
    {"nthreads", "t", 1, false, "a rank is a process of one thread: -np says how many"},
    {"ngpus", "g", 1, false, "a rank works on host memory: -np says how many there are"},
    {"parallel_init", "p", 0, true, "ranks start in parallel always"},
    {"blocking", "z", 0, true, "calls block always"},
    {"stream_null", "y", 0, true, "there are no streams"},
    {"cudagraph", "G", 0, false, "there are no GPU graphs"},
    {"cta_policy", "x", 0, false, "there are no GPU kernels"},
    {"device_implementation", "D", 0, false, "there are no GPU kernels"},
    {"device_cta_count", "V", 16, true, "there are no GPU kernels"},
};

}  // namespace

ForeignFlags::ForeignFlags() {
  for (const ForeignFlag& flag : kForeignFlags) values_.push_back(flag.harmless);
}

void ForeignFlags::Declare(FlagSet* flags) {
  for (size_t i = 0; i < std::size(kForeignFlags); ++i) {
    const ForeignFlag& flag = kForeignFlags[i];
    flags->Int(flag.name, &values_[i],
               {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()},
               absl::StrCat("taken for nccl-tests' sake", flag.any ? "" : ", no other value", ": ",
                            flag.why),
               {flag.alias});
  }
}

absl::Status ForeignFlags::Check() const {
  for (size_t i = 0; i < std::size(kForeignFlags); ++i) {
    const ForeignFlag& flag = kForeignFlags[i];
    if (flag.any || values_[i] == flag.harmless) continue;
    return absl::InvalidArgumentError(absl::StrCat("-", flag.alias, " ", values_[i],
                                                   " means nothing here (", flag.why,
                                                   "); leave it out or give ", flag.harmless));
  }
  return absl::OkStatus();
}

}  // namespace rz
