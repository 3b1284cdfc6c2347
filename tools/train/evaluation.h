// How well a model does on data that it was not trained on.
#ifndef RINGZERO_TOOLS_TRAIN_EVALUATION_H_
#define RINGZERO_TOOLS_TRAIN_EVALUATION_H_

namespace rz {

// Means over all labels of the test set.
struct Evaluation {
  double loss = 0;      // -log p(label), natural logarithm
  double accuracy = 0;  // share of the labels that had the largest score
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_EVALUATION_H_
