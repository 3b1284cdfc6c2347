#include "tools/train/images.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "tools/train/idx_file.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

constexpr int64_t kFashionClasses = 10;

// Streams of a synthetic data set's seed.
constexpr uint64_t kPatternStream = 1;
constexpr uint64_t kTrainStream = 2;
constexpr uint64_t kTestStream = 3;

absl::StatusOr<IdxArray> ReadPart(const std::string& path, size_t dimensions) {
  absl::StatusOr<IdxArray> array = ReadIdxGzipFile(path, dimensions);
  if (absl::IsNotFound(array.status())) {
    return absl::NotFoundError(
        absl::StrCat(array.status().message(),
                     ": run apt-get install dataset-fashion-mnist, or name its folder with "
                     "--data-dir"));
  }
  return array;
}

absl::StatusOr<LabelledImages> ReadImages(const std::string& directory, const std::string& part) {
  const std::string image_path = absl::StrCat(directory, "/", part, "-images-idx3-ubyte.gz");
  const std::string label_path = absl::StrCat(directory, "/", part, "-labels-idx1-ubyte.gz");
  RZ_ASSIGN_OR_RETURN(IdxArray images, ReadPart(image_path, 3));
  RZ_ASSIGN_OR_RETURN(IdxArray labels, ReadPart(label_path, 1));
  if (images.lengths[0] != labels.lengths[0]) {
    return absl::DataLossError(absl::StrCat(label_path, ": expected ", images.lengths[0],
                                            " labels, one an image of ", image_path, ", found ",
                                            labels.lengths[0]));
  }
  for (size_t i = 0; i < labels.elements.size(); ++i) {
    if (labels.elements[i] >= kFashionClasses) {
      return absl::DataLossError(absl::StrCat(label_path, ": expected labels 0 to ",
                                              kFashionClasses - 1, ", found ", labels.elements[i],
                                              " at position ", i));
    }
  }
  LabelledImages result;
  result.features = images.lengths[1] * images.lengths[2];
  result.classes = kFashionClasses;
  result.images = std::move(images.elements);
  result.labels = std::move(labels.elements);
  return result;
}

LabelledImages NoisyCopies(const std::vector<uint8_t>& patterns, int64_t features, int64_t classes,
                           int64_t count, RandomStream random) {
  LabelledImages result;
  result.features = features;
  result.classes = classes;
  result.images.resize(static_cast<size_t>(count * features));
  result.labels.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t at = static_cast<uint64_t>(i * (features + 1));
    const uint64_t label = random.Below(at, static_cast<uint64_t>(classes));
    result.labels[static_cast<size_t>(i)] = static_cast<uint8_t>(label);
    for (int64_t f = 0; f < features; ++f) {
      const int pattern =
          patterns[label * static_cast<uint64_t>(features) + static_cast<uint64_t>(f)];
      const int noise =
          static_cast<int>(random.Below(at + 1 + static_cast<uint64_t>(f), 256)) - 128;
      result.images[static_cast<size_t>(i * features + f)] =
          static_cast<uint8_t>(std::clamp(pattern + noise, 0, 255));
    }
  }
  return result;
}

}  // namespace

void LabelledImages::Gather(absl::Span<const int64_t> indices, absl::Span<uint8_t> pixels,
                            absl::Span<uint8_t> batch_labels) const {
  const size_t width = static_cast<size_t>(features);
  for (size_t i = 0; i < indices.size(); ++i) {
    const uint8_t* from = images.data() + static_cast<size_t>(indices[i]) * width;
    std::copy_n(from, width, pixels.data() + i * width);
    batch_labels[i] = labels[static_cast<size_t>(indices[i])];
  }
}

absl::StatusOr<ImageDataset> LoadFashionMnist(const std::string& directory) {
  ImageDataset dataset;
  RZ_ASSIGN_OR_RETURN(dataset.train, ReadImages(directory, "train"));
  RZ_ASSIGN_OR_RETURN(dataset.test, ReadImages(directory, "t10k"));
  if (dataset.train.features != dataset.test.features) {
    return absl::DataLossError(
        absl::StrCat(directory, ": expected test images of ", dataset.train.features,
                     " pixels like the training images, found ", dataset.test.features));
  }
  return dataset;
}

ImageDataset SyntheticImages(uint64_t seed, int64_t features, int64_t classes, int64_t train_count,
                             int64_t test_count) {
  const RandomStream pattern_random(seed, kPatternStream);
  std::vector<uint8_t> patterns(static_cast<size_t>(features * classes));
  for (size_t i = 0; i < patterns.size(); ++i) {
    patterns[i] = static_cast<uint8_t>(pattern_random.Below(i, 256));
  }
  ImageDataset dataset;
  dataset.train =
      NoisyCopies(patterns, features, classes, train_count, RandomStream(seed, kTrainStream));
  dataset.test =
      NoisyCopies(patterns, features, classes, test_count, RandomStream(seed, kTestStream));
  return dataset;
}

Dataset ToDataset(std::string name, ImageDataset images) {
  Dataset dataset;
  dataset.name = std::move(name);
  dataset.train = std::make_unique<LabelledImages>(std::move(images.train));
  dataset.test = std::make_unique<LabelledImages>(std::move(images.test));
  return dataset;
}

}  // namespace rz
