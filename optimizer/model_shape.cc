#include "optimizer/model_shape.h"

#include "optimizer/kernels/optimizer_config.h"

namespace rz {

ModelShape ShapeOf(const FlatLayout& layout, const Partition& partition, const ZeroConfig& config,
                   int groups) {
  return {.parameter_elements = layout.parameter_elements(),
          .padding_elements = partition.padded_elements() - layout.parameter_elements(),
          .world = partition.world(),
          .groups = groups,
          .stage = config.stage,
          .dtype = config.dtype,
          .gradient_dtype = GradientDType(config),
          .optimizer_states = static_cast<int>(StateCount(config.optimizer)),
          .frozen_elements = layout.frozen_elements(),
          .frozen_padding_elements =
              partition.held_elements() - partition.padded_elements() - layout.frozen_elements()};
}

}  // namespace rz
