// LossScaler: the factor losses are multiplied by so that small 16-bit gradients do not vanish.
//
// Dynamic, as DeepSpeed's (deepspeed/runtime/fp16/loss_scaler.py): an overflow first uses up the
// hysteresis, then halves the scale, down to the minimum; an overflow there is an error. After
// `window` steps without one the scale doubles and the hysteresis is full again. A static scale
// never changes.
//
// Threads: one owner. All ranks see the same overflows, so their scalers are alike.
#ifndef RINGZERO_OPTIMIZER_LOSS_SCALER_H_
#define RINGZERO_OPTIMIZER_LOSS_SCALER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace rz {

struct LossScaleConfig {
  bool dynamic = false;

  // For good, or where dynamic scaling starts.
  double scale = 1;

  // Dynamic: steps without overflow until the scale doubles; overflows until it halves; whether one
  // good step fills the hysteresis again; the smallest scale.
  int64_t window = 1000;
  int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  double minimum = 1;
};

// Starts at 2^16.
LossScaleConfig DynamicLossScale();

//   InvalidArgument  names the field, its value and what it may be
absl::Status ValidateLossScale(const LossScaleConfig& config);

// Everything in it, floating-point numbers as bits.
std::string Fingerprint(const LossScaleConfig& config);

class LossScaler {
 public:
  // What a checkpoint keeps of it.
  struct State {
    double scale = 1;
    int64_t iteration = 0;
    int64_t last_overflow = -1;
    int64_t hysteresis = 1;

    friend bool operator==(const State&, const State&) = default;
  };

  // `config` has been validated.
  explicit LossScaler(const LossScaleConfig& config);

  double scale() const { return state_.scale; }
  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

  // After each attempted step.
  //   OutOfRange  an overflow at the dynamic minimum: no scale keeps this model's gradients finite.
  //               The scaler is unchanged
  absl::Status Update(bool overflow);

 private:
  absl::Status Overflowed();
  void Succeeded();

  LossScaleConfig config_;
  State state_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_LOSS_SCALER_H_
