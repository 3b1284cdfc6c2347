#include "tools/train/sampling.h"

#include <algorithm>
#include <vector>

#include "runtime/base/status_macros.h"
#include "tools/train/exponential.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

// A stream of the seed, away from those of parameters, data and their order.
constexpr uint64_t kSamplingStream = 6;

size_t FirstSymbol(const Text& text) {
  const auto at = std::find(text.vocabulary.begin(), text.vocabulary.end(), '\n');
  return at == text.vocabulary.end() ? 0 : static_cast<size_t>(at - text.vocabulary.begin());
}

}  // namespace

size_t DrawSymbol(absl::Span<const float> scores, double temperature, float uniform) {
  const auto best =
      static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  if (temperature == 0) return best;
  const auto weight = [&](size_t i) {
    return Exponential((double{scores[i]} - double{scores[best]}) / temperature);
  };
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) sum += weight(i);
  double left = double{uniform} * sum;
  for (size_t i = 0; i + 1 < scores.size(); ++i) {
    left -= weight(i);
    if (left < 0) return i;
  }
  return scores.size() - 1;
}

absl::StatusOr<std::string> SampleText(const Text& text, const SamplingOptions& options,
                                       Trainer* trainer) {
  const auto context = static_cast<size_t>(trainer->dataset().train->input_size());
  const size_t vocabulary = text.vocabulary.size();
  const bool draws = trainer->rank() == Rank(0);
  const RandomStream random(options.seed, kSamplingStream);
  // The last symbols, from the front; what follows them changes nothing before it.
  std::vector<uint8_t> window(context);
  const std::vector<uint8_t> labels(context);
  window[0] = static_cast<uint8_t>(FirstSymbol(text));
  size_t known = 1;
  std::string sample;
  for (int64_t i = 0; i < options.length; ++i) {
    RZ_ASSIGN_OR_RETURN(const absl::Span<const float> scores,
                        trainer->Predict(draws ? Batch{window, labels} : Batch{}));
    if (!draws) continue;
    const size_t symbol = DrawSymbol(scores.subspan((known - 1) * vocabulary, vocabulary),
                                     options.temperature, random.Uniform(static_cast<uint64_t>(i)));
    sample.push_back(static_cast<char>(text.vocabulary[symbol]));
    if (known == context) {
      std::copy(window.begin() + 1, window.end(), window.begin());
      --known;
    }
    window[known++] = static_cast<uint8_t>(symbol);
  }
  return sample;
}

}  // namespace rz
