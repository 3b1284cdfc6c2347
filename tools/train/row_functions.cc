#include "tools/train/row_functions.h"

namespace rz {

const RowFunctions& RowFunctionsOf(SimdLevel level) {
  switch (level) {
    case SimdLevel::kAvx512:
      return simd_avx512::kRowFunctions;
    case SimdLevel::kAvx2:
      return simd_avx2::kRowFunctions;
    case SimdLevel::kPortable:
      break;
  }
  return simd_portable::kRowFunctions;
}

}  // namespace rz
