// ReduceFunction: a reduction that the caller has written, for what ReduceOp does not name.
//
// Every result is stored as the call's dtype, 16- and 8-bit floats too. In deterministic mode an
// element that rank r owns (see Communicator) is (x[r+1] op x[r+2]) op ... op x[r], round to r,
// whatever carries the call: so an operation that is not associative, or not commutative, gives the
// same bits each time. Fast mode takes any order, and wants both.
#ifndef RINGZERO_COLLECTIVES_REDUCE_FUNCTION_H_
#define RINGZERO_COLLECTIVES_REDUCE_FUNCTION_H_

#include <cstdint>

#include "runtime/base/dtype.h"

namespace rz {

class ReduceFunction {
 public:
  virtual ~ReduceFunction() = default;

  // result[i] = a[i] op b[i], i < count. `result` may be the same memory as a or b, never overlap
  // them otherwise; all are aligned as the call's buffers are. Called for any piece of a call, by
  // the thread that moves it, and not to call the communicator. False: it failed, and so does the
  // communicator, with Aborted.
  virtual bool Combine(void* result, const void* a, const void* b, int64_t count, DType dtype) = 0;

  // By which ranks compare their calls: those of one number are the same function.
  virtual uint32_t number() const = 0;

  // No order of combination changes a bit, as of xor: then every algorithm may carry it, in
  // deterministic mode too. Alike on all ranks.
  virtual bool any_order() const = 0;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_REDUCE_FUNCTION_H_
