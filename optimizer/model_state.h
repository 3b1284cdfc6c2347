// The buffers of one rank's model states, counted by purpose.
#ifndef RINGZERO_OPTIMIZER_MODEL_STATE_H_
#define RINGZERO_OPTIMIZER_MODEL_STATE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "optimizer/kernels/optimizer_kernel.h"
#include "optimizer/layout/partition.h"
#include "optimizer/zero_config.h"
#include "runtime/memory/memory.h"

namespace rz {

// Whether a step is one of fused_states_policy.h: the same on all ranks.
bool FusesStep(const ZeroConfig& config, const Communicator& communicator);

// What collectives read or write lies in the communicator's memory, which ranks of one host share.
struct ModelState {
  // Working dtype, [held_elements]; in stage 3 [held_shard_elements], this rank's.
  CommunicatorBuffer parameters;

  // GradientDType(config), [padded_elements]; empty in stages 2 and 3.
  CommunicatorBuffer gradients;

  // float32, [owned elements]: the whole padded space, or a shard of it. `master` is empty where
  // the working parameters are the master.
  Buffer master;

  // The optimizer's float32 states, [owned elements] each; those it does not have are empty.
  std::array<Buffer, kMaxOptimizerStates> optimizer;

  // GradientDType(config), [shard_elements] in stages 1, 2 and 3: this rank's reduced gradient. It
  // is the gradient of stages 2 and 3; stage 1 holds it beside its gradients, but where the step is
  // fused, which leaves it empty.
  Buffer shard;

  // Working dtype, [shard_elements] in stages naive, 1 and 2: this rank's updated parameters, as
  // they are gathered. Empty in 1 and 2 where `shard` has the same dtype and takes them, and where
  // the step is fused: it stores them where they belong.
  Buffer updated;

  // float32, empty where nothing is accumulated: AccumulatesLocally, [padded_elements] of this
  // rank's own gradients; AccumulatesShards, [owned elements] of reduced ones.
  Buffer accumulator;

  // All zero.
  //   ResourceExhausted  no memory; the message says for what
  static absl::StatusOr<ModelState> Allocate(Communicator* communicator, const Partition& partition,
                                             const ZeroConfig& config);

  // Rounds fp32 values to the working dtype into `parameters`, from element `at` on.
  void SetParameters(int64_t at, const float* values, int64_t count, DType dtype) const;

  bool has_master() const { return master.size() > 0; }

  // Addresses of flat elements; in stage 3 of elements of the shard.
  void* ParameterAt(int64_t index, DType dtype) const {
    return At(parameters.data(), index, SizeOf(dtype));
  }
  void* GradientAt(int64_t flat_index, DType dtype) const {
    return At(gradients.data(), flat_index, SizeOf(dtype));
  }

  // Address of an element of `shard`.
  void* ShardAt(int64_t offset, DType dtype) const {
    return At(shard.data(), offset, SizeOf(dtype));
  }

  // Address of an element of this rank's updated parameters.
  void* UpdatedAt(int64_t offset, DType dtype) const {
    return At((updated.size() > 0 ? updated : shard).data(), offset, SizeOf(dtype));
  }

  // Addresses of owned elements.
  float* MasterAt(int64_t offset) const { return FloatAt(master, offset); }
  float* AccumulatorAt(int64_t offset) const { return FloatAt(accumulator, offset); }
  StateAddresses OptimizerAt(int64_t offset) const {
    StateAddresses addresses = {};
    for (size_t i = 0; i < addresses.size(); ++i) {
      if (optimizer[i].size() > 0) addresses[i] = FloatAt(optimizer[i], offset);
    }
    return addresses;
  }

 private:
  static std::byte* At(std::byte* data, int64_t index, size_t element_bytes) {
    return data + static_cast<size_t>(index) * element_bytes;
  }
  static float* FloatAt(const Buffer& buffer, int64_t index) {
    return reinterpret_cast<float*>(At(buffer.data(), index, sizeof(float)));
  }
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_MODEL_STATE_H_
