// Labelled images for the training program: Fashion-MNIST from the distribution's package, or
// synthetic data from a seed.
#ifndef RINGZERO_TOOLS_TRAIN_DATASET_H_
#define RINGZERO_TOOLS_TRAIN_DATASET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rz {

inline constexpr char kFashionMnistDir[] = "/usr/share/datasets/fashion-mnist";

// Samples of `features` bytes each, and a label below `classes` for each sample.
struct LabelledImages {
  int64_t features = 0;
  int64_t classes = 0;
  std::vector<uint8_t> images;  // [count, features]
  std::vector<uint8_t> labels;  // [count]

  int64_t count() const { return static_cast<int64_t>(labels.size()); }

  // pixels[i, :] = images[indices[i], :] / 255, as float32; pixels has indices.size() * features.
  void Gather(absl::Span<const int64_t> indices, absl::Span<float> pixels,
              absl::Span<uint8_t> batch_labels) const;
};

struct Dataset {
  std::string name;
  LabelledImages train;
  LabelledImages test;
};

// Debian's dataset-fashion-mnist: {train,t10k}-{images-idx3,labels-idx1}-ubyte.gz of `directory`.
// Any number of images of one size is accepted, with 10 classes.
//   NotFound   a file is missing; the message names it and the package
//   DataLoss   a file is damaged, its images and labels differ in number, a label is above 9, or
//              training and test images differ in size
absl::StatusOr<Dataset> LoadFashionMnist(const std::string& directory);

// Noisy copies of one random pattern a class: the same for the same arguments everywhere.
// features >= 1, 1 <= classes <= 256.
Dataset SyntheticDataset(uint64_t seed, int64_t features, int64_t classes, int64_t train_count,
                         int64_t test_count);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_DATASET_H_
