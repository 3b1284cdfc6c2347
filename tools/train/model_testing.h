// WholeModel: a model with all its parameters and the gradients of its last backward pass, for
// tests. Checks the order in which units are used.
#ifndef RINGZERO_TOOLS_TRAIN_MODEL_TESTING_H_
#define RINGZERO_TOOLS_TRAIN_MODEL_TESTING_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "tools/train/model.h"

namespace rz::testing {

class WholeModel : private UnitStore {
 public:
  // Parameters with their first values.
  WholeModel(std::unique_ptr<Model> model, uint64_t seed) : model_(std::move(model)) {
    for (size_t i = 0; i < model_->parameters().size(); ++i) {
      const auto count = static_cast<size_t>(model_->parameters()[i].element_count);
      parameters_.emplace_back(count);
      gradients_.emplace_back(count, NAN);
      model_->Initialize(i, seed, parameter(i));
    }
  }

  const Model& model() const { return *model_; }
  size_t parameter_count() const { return parameters_.size(); }
  absl::Span<float> parameter(size_t index) { return absl::MakeSpan(parameters_[index]); }
  absl::Span<const float> gradient(size_t index) const { return gradients_[index]; }

  BatchResult Forward(const Batch& batch, Pass pass = Pass::kForward) {
    used_.clear();
    const absl::StatusOr<BatchResult> result = model_->Forward(batch, pass, this);
    EXPECT_OK(result.status());
    return result.value_or(BatchResult());
  }
  void Backward(float scale) {
    used_.clear();
    EXPECT_OK(model_->Backward(scale, this));
  }
  // Units as they were done with in the last pass.
  const std::vector<size_t>& used() const { return used_; }

 private:
  absl::Status Load(size_t unit, Pass, absl::Span<float> parameters) override {
    EXPECT_FALSE(loaded_);
    loaded_ = true;
    float* to = parameters.data();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (model_->parameters()[i].unit != unit) continue;
      to = std::copy(parameters_[i].begin(), parameters_[i].end(), to);
    }
    EXPECT_EQ(to, parameters.data() + parameters.size());
    return absl::OkStatus();
  }
  absl::Status Take(size_t unit, absl::Span<const float> gradients) override {
    EXPECT_TRUE(loaded_);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (model_->parameters()[i].unit != unit) continue;
      const absl::Span<const float> own = gradients.first(parameters_[i].size());
      gradients_[i].assign(own.begin(), own.end());
      gradients.remove_prefix(own.size());
    }
    EXPECT_TRUE(gradients.empty());
    return absl::OkStatus();
  }
  absl::Status Done(size_t unit, Pass) override {
    EXPECT_TRUE(loaded_);
    loaded_ = false;
    used_.push_back(unit);
    return absl::OkStatus();
  }

  std::unique_ptr<Model> model_;
  std::vector<std::vector<float>> parameters_;
  std::vector<std::vector<float>> gradients_;
  std::vector<size_t> used_;
  bool loaded_ = false;
};

}  // namespace rz::testing

#endif  // RINGZERO_TOOLS_TRAIN_MODEL_TESTING_H_
