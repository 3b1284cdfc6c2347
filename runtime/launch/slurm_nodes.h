// Slurm's lists of nodes, such as "login,node[03-05,9]-ib".
#ifndef RINGZERO_RUNTIME_LAUNCH_SLURM_NODES_H_
#define RINGZERO_RUNTIME_LAUNCH_SLURM_NODES_H_

#include <string>

#include "absl/status/statusor.h"

namespace rz {

// The first node that `list` names: "node[03-05,9]-ib" begins with "node03-ib".
//   InvalidArgument  an empty list, or brackets that do not fit
absl::StatusOr<std::string> FirstSlurmNode(const std::string& list);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_LAUNCH_SLURM_NODES_H_
