// What rz_scale is asked for: calls and links.
#ifndef RINGZERO_TOOLS_SCALE_SCALE_CONFIG_H_
#define RINGZERO_TOOLS_SCALE_SCALE_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/algorithm.h"
#include "collectives/collective.h"
#include "collectives/limits.h"
#include "runtime/base/dtype.h"
#include "runtime/transport/sim/sim_links.h"
#include "tools/flag_set.h"

namespace rz {

struct ScaleConfig {
  std::vector<Collective> collectives;
  std::vector<int> ranks;
  std::vector<int64_t> sizes;
  std::vector<Algorithm> algorithms;  // empty: all that a collective has
  DType dtype = DType::kFloat32;
  NumericMode mode = NumericMode::kFast;
  int64_t slice_bytes = kDefaultSliceBytes;
  int64_t lanes_in_flight = kDefaultLanesInFlight;
  LinkOptions links;
  double reduce_bandwidth = 0;
  std::string plot_path, csv_path, json_path;

  // The algorithms to take for a collective, those that it has. For all_gather "halving" is bruck,
  // by which the second half of halving's all_reduce goes.
  std::vector<Algorithm> AlgorithmsOf(Collective collective) const;
};

class ScaleFlags {
 public:
  void Declare(FlagSet* flags);

  // InvalidArgument: a value that cannot be; the message says which and what there is.
  absl::StatusOr<ScaleConfig> Read(const FlagSet& flags) const;

 private:
  absl::Status ReadLinks(const FlagSet& flags, ScaleConfig* config) const;

  std::string ranks_ = "64,512,4096";
  std::string sizes_ = "64K,16M,1G";
  std::string algorithms_ = "ring,pairwise,halving";
  std::string dtype_ = "float32";
  std::string numeric_ = "fast";
  int64_t ranks_per_host_ = 1, hosts_per_rack_ = 0;
  int64_t bandwidth_ = 25'000'000'000;
  int64_t local_bandwidth_ = 0, host_bandwidth_ = 0, rack_bandwidth_ = 0, reduce_bandwidth_ = 0;
  absl::Duration local_latency_;
  ScaleConfig values_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_SCALE_SCALE_CONFIG_H_
