#include "tools/train/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/crc32c.h"

namespace rz {
namespace {

constexpr int64_t kTrainTenths = 9;

}  // namespace

Text ToText(std::string_view bytes) {
  std::array<bool, 256> present = {};
  for (const char c : bytes) present[static_cast<uint8_t>(c)] = true;
  Text text;
  std::array<uint8_t, 256> symbol_of = {};
  for (size_t byte = 0; byte < present.size(); ++byte) {
    if (!present[byte]) continue;
    symbol_of[byte] = static_cast<uint8_t>(text.vocabulary.size());
    text.vocabulary.push_back(static_cast<uint8_t>(byte));
  }
  text.symbols.reserve(bytes.size());
  for (const char c : bytes) text.symbols.push_back(symbol_of[static_cast<uint8_t>(c)]);
  return text;
}

// H(next | before) = sum over runs of -p(run) log(count(run) / count(its beginning)).
double ConditionalEntropy(const Text& text, int order) {
  const size_t vocabulary = text.vocabulary.size();
  const auto length = static_cast<size_t>(order) + 1;
  if (text.symbols.size() < length) return 0;
  size_t runs = 1;
  for (size_t i = 0; i < length; ++i) runs *= vocabulary;
  std::vector<uint32_t> counts(runs);
  size_t run = 0;
  for (size_t i = 0; i < text.symbols.size(); ++i) {
    run = (run * vocabulary + text.symbols[i]) % runs;
    if (i + 1 >= length) ++counts[run];
  }
  double sum = 0;
  for (size_t begin = 0; begin < runs; begin += vocabulary) {
    double of_beginning = 0;
    for (size_t next = 0; next < vocabulary; ++next) of_beginning += counts[begin + next];
    for (size_t next = 0; next < vocabulary; ++next) {
      const double count = counts[begin + next];
      if (count > 0) sum -= count * std::log(count / of_beginning);
    }
  }
  return sum / static_cast<double>(text.symbols.size() - length + 1);
}

void TextWindows::Gather(absl::Span<const int64_t> indices, absl::Span<uint8_t> inputs,
                         absl::Span<uint8_t> labels) const {
  const auto context = static_cast<size_t>(context_);
  for (size_t i = 0; i < indices.size(); ++i) {
    const uint8_t* from = text_->symbols.data() + begin_ + indices[i] * context_;
    std::copy_n(from, context, inputs.data() + i * context);
    std::copy_n(from + 1, context, labels.data() + i * context);
  }
}

absl::StatusOr<Dataset> TextDataset(std::string name, std::string_view bytes, int64_t context) {
  auto text = std::make_shared<const Text>(ToText(bytes));
  const auto length = static_cast<int64_t>(bytes.size());
  const int64_t end_of_train = length / 10 * kTrainTenths;
  Dataset dataset;
  dataset.name = std::move(name);
  dataset.train = std::make_unique<TextWindows>(text, 0, end_of_train, context);
  dataset.test = std::make_unique<TextWindows>(text, end_of_train, length, context);
  if (dataset.test->count() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        dataset.name, ": expected a text of which a tenth has more than the ", context,
        " characters that the model sees at once, found ", length, " characters in all"));
  }
  dataset.agreement = absl::StrFormat("text crc32c %08X", Crc32c(0, bytes.data(), bytes.size()));
  dataset.text = std::move(text);
  return dataset;
}

}  // namespace rz
