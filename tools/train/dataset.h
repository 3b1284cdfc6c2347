// What is trained on, as bytes: samples, each with an input and with labels. Images and text
// (images.h, text.h) are two kinds of it.
#ifndef RINGZERO_TOOLS_TRAIN_DATASET_H_
#define RINGZERO_TOOLS_TRAIN_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"

namespace rz {

// One part of a data set. Immutable once it is built; any thread.
class SampleSet {
 public:
  virtual ~SampleSet() = default;

  virtual int64_t count() const = 0;
  virtual int64_t input_size() const = 0;   // bytes of a sample's input
  virtual int64_t label_count() const = 0;  // labels of a sample, one byte each
  virtual int64_t class_count() const = 0;  // every label is below it

  // Copies the samples at `indices`: inputs [indices.size(), input_size()] and labels
  // [indices.size(), label_count()].
  virtual void Gather(absl::Span<const int64_t> indices, absl::Span<uint8_t> inputs,
                      absl::Span<uint8_t> labels) const = 0;
};

struct Text;

struct Dataset {
  std::string name;
  std::unique_ptr<const SampleSet> train;
  std::unique_ptr<const SampleSet> test;

  // Of samples that are windows of a text (text.h); else null.
  std::shared_ptr<const Text> text;

  // What all ranks must have alike, beside what the configuration says; may be empty.
  std::string agreement;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_DATASET_H_
