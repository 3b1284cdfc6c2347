// docs/configuration.md, written from the schema.
#ifndef RINGZERO_OPTIMIZER_CONFIG_REFERENCE_H_
#define RINGZERO_OPTIMIZER_CONFIG_REFERENCE_H_

#include <string>

namespace rz {

// The whole page.
std::string ConfigReference();

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_CONFIG_REFERENCE_H_
