// "Unknown flag --wolrd: did you mean --world?"
#ifndef RINGZERO_RUNTIME_BASE_NEAREST_NAME_H_
#define RINGZERO_RUNTIME_BASE_NEAREST_NAME_H_

#include <string>
#include <string_view>
#include <vector>

namespace rz {

// The name that needs the fewest edits (insert, delete, replace, swap of neighbours) to become
// `wrong`; empty where none is near enough to help.
std::string NearestName(std::string_view wrong, const std::vector<std::string>& known);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_BASE_NEAREST_NAME_H_
