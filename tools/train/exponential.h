// exp as plain IEEE 754 arithmetic: mathematics libraries choose their code by processor, and
// weights that are to be compared bit by bit must not depend on it.
#ifndef RINGZERO_TOOLS_TRAIN_EXPONENTIAL_H_
#define RINGZERO_TOOLS_TRAIN_EXPONENTIAL_H_

namespace rz {

// e^x for x <= 0, within 1e-15 of it relatively; 0 below -700. NaN for NaN.
double Exponential(double x);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_EXPONENTIAL_H_
