// What the programs that are ranks read of the environment, for their --help.
#ifndef RINGZERO_TOOLS_RANK_ENVIRONMENT_H_
#define RINGZERO_TOOLS_RANK_ENVIRONMENT_H_

#include "tools/flag_set.h"

namespace rz {

void DescribeRankEnvironment(FlagSet* flags);

// RZ_LOG, which every program reads that speaks to others.
void DescribeLogEnvironment(FlagSet* flags);

}  // namespace rz

#endif  // RINGZERO_TOOLS_RANK_ENVIRONMENT_H_
