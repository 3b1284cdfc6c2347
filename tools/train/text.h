// A text as symbols, and the windows of it that are samples for a model which says what comes next.
#ifndef RINGZERO_TOOLS_TRAIN_TEXT_H_
#define RINGZERO_TOOLS_TRAIN_TEXT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/train/dataset.h"

namespace rz {

// A symbol is a byte that the text has.
struct Text {
  std::vector<uint8_t> symbols;     // of the whole text, as places in the vocabulary
  std::vector<uint8_t> vocabulary;  // the bytes, ascending
};

Text ToText(std::string_view bytes);

// Nats a symbol has on average where the `order` symbols before it are known, by their frequencies
// in the text: 1 gives the entropy of bigrams, 2 that of trigrams. Counts of all
// vocabulary^(order + 1) runs of symbols are held meanwhile, 4 bytes each.
double ConditionalEntropy(const Text& text, int order);

// The symbols [begin, end) of a text, cut into windows of `context` side by side; the labels of a
// window are the symbols after each of its own. What is left over at the end is left out.
class TextWindows : public SampleSet {
 public:
  // 0 <= begin <= end <= the text's length, context >= 1.
  TextWindows(std::shared_ptr<const Text> text, int64_t begin, int64_t end, int64_t context)
      : text_(std::move(text)), begin_(begin), end_(end), context_(context) {}

  int64_t count() const override { return end_ > begin_ ? (end_ - begin_ - 1) / context_ : 0; }
  int64_t input_size() const override { return context_; }
  int64_t label_count() const override { return context_; }
  int64_t class_count() const override { return static_cast<int64_t>(text_->vocabulary.size()); }
  void Gather(absl::Span<const int64_t> indices, absl::Span<uint8_t> inputs,
              absl::Span<uint8_t> labels) const override;

 private:
  const std::shared_ptr<const Text> text_;
  const int64_t begin_;
  const int64_t end_;
  const int64_t context_;
};

// The first nine tenths of the bytes to train on, the rest to validate with.
//   InvalidArgument  a part has no whole window; the message has the lengths
absl::StatusOr<Dataset> TextDataset(std::string name, std::string_view bytes, int64_t context);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_TEXT_H_
