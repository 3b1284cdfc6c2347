// A parameter tensor of a model, and the unit it is used with.
#ifndef RINGZERO_TOOLS_TRAIN_MODEL_PARAMETER_H_
#define RINGZERO_TOOLS_TRAIN_MODEL_PARAMETER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rz {

struct ModelParameter {
  std::string name;            // "layer1.weight"
  std::vector<int64_t> shape;  // row-major
  int64_t element_count = 0;
  size_t unit = 0;           // the optimizer's: parameters that a model uses together
  std::string tied_to = {};  // an earlier one of that shape, which this is another name of; or none
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_MODEL_PARAMETER_H_
