// Labelled images for the training program: Fashion-MNIST from the distribution's package, or
// synthetic data from a seed.
#ifndef RINGZERO_TOOLS_TRAIN_IMAGES_H_
#define RINGZERO_TOOLS_TRAIN_IMAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/train/dataset.h"

namespace rz {

inline constexpr char kFashionMnistDir[] = "/usr/share/datasets/fashion-mnist";

// Samples of `features` bytes each, and a label below `classes` for each sample.
struct LabelledImages : public SampleSet {
  int64_t features = 0;
  int64_t classes = 0;
  std::vector<uint8_t> images;  // [count, features]
  std::vector<uint8_t> labels;  // [count]

  int64_t count() const override { return static_cast<int64_t>(labels.size()); }
  int64_t input_size() const override { return features; }
  int64_t label_count() const override { return 1; }
  int64_t class_count() const override { return classes; }
  void Gather(absl::Span<const int64_t> indices, absl::Span<uint8_t> pixels,
              absl::Span<uint8_t> batch_labels) const override;
};

struct ImageDataset {
  LabelledImages train;
  LabelledImages test;
};

// Debian's dataset-fashion-mnist: {train,t10k}-{images-idx3,labels-idx1}-ubyte.gz of `directory`.
// Any number of images of one size is accepted, with 10 classes.
//   NotFound   a file is missing; the message names it and the package
//   DataLoss   a file is damaged, its images and labels differ in number, a label is above 9, or
//              training and test images differ in size
absl::StatusOr<ImageDataset> LoadFashionMnist(const std::string& directory);

// Noisy copies of one random pattern a class: the same for the same arguments everywhere.
// features >= 1, 1 <= classes <= 256.
ImageDataset SyntheticImages(uint64_t seed, int64_t features, int64_t classes, int64_t train_count,
                             int64_t test_count);

// The data set that has them.
Dataset ToDataset(std::string name, ImageDataset images);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_IMAGES_H_
