// What the memory formulas take of a model as it is laid out and cut.
#ifndef RINGZERO_OPTIMIZER_MODEL_SHAPE_H_
#define RINGZERO_OPTIMIZER_MODEL_SHAPE_H_

#include "optimizer/layout/flat_layout.h"
#include "optimizer/layout/partition.h"
#include "optimizer/memory_report.h"
#include "optimizer/zero_config.h"

namespace rz {

ModelShape ShapeOf(const FlatLayout& layout, const Partition& partition, const ZeroConfig& config,
                   int groups);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_MODEL_SHAPE_H_
