// Bytes of model states a rank holds: what the closed formula says, what was measured, and the
// padding that explains the difference to the byte.
//
// With P parameters on N ranks, e bytes an element of the working dtype and g of the gradients'
// (design: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models", 2019, section 3):
//
//              parameters  gradients  master*  m      v
//   ddp        eP          gP         4P       4P     4P
//   1, naive   eP          gP         4P/N     4P/N   4P/N
//   2          eP          gP/N       4P/N     4P/N   4P/N
//   3          eP/N        gP/N       4P/N     4P/N   4P/N
//
//   * none where the working dtype is float32: the working parameters are the master.
//
// F frozen elements add eF, in stage 3 eF/N, to the parameters and nothing else.
//
// Where groups of ranks have copies of the states (ZeroConfig::shard_group_size), N is the ranks of
// a group.
//
// m and v are the optimizer's first and second state; one that has fewer holds 0 bytes there.
#ifndef RINGZERO_OPTIMIZER_MEMORY_REPORT_H_
#define RINGZERO_OPTIMIZER_MEMORY_REPORT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "optimizer/zero_config.h"
#include "runtime/base/dtype.h"
#include "runtime/memory/memory.h"

namespace rz {

// An exact number of bytes that may be a fraction: `total` bytes shared evenly by `parts` ranks.
struct ByteShare {
  int64_t total = 0;
  int64_t parts = 1;

  double bytes() const { return static_cast<double>(total) / static_cast<double>(parts); }

  // "743298", or "594638.4" where the share is no integer (two digits at most).
  std::string ToString() const;

  friend bool operator==(const ByteShare&, const ByteShare&) = default;
};

// What tables call a stage: "ddp", "naive", "zero-1", "zero-2", "zero-3".
std::string StageLabel(ZeroStage stage);

// The states, in the order of the table.
inline constexpr std::array<MemoryTag, 5> kModelStates = {MemoryTag::kParameters,
                                                          MemoryTag::kGradients, MemoryTag::kMaster,
                                                          MemoryTag::kMoment1, MemoryTag::kMoment2};

struct ModelShape {
  int64_t parameter_elements = 0;  // P
  int64_t padding_elements = 0;    // of the flat space, see FlatLayout and Partition
  int world = 1;                   // N, of each of `groups`
  int groups = 1;
  ZeroStage stage = ZeroStage::kDdp;
  DType dtype = DType::kBFloat16;
  std::optional<DType> gradient_dtype = std::nullopt;  // where it is another
  int optimizer_states = 2;
  int64_t frozen_elements = 0;  // F, and their padding
  int64_t frozen_padding_elements = 0;
};

// The formula for one state; `state` is one of kModelStates.
ByteShare StateFormula(const ModelShape& shape, MemoryTag state);

// Its sum over all states, and over those that are the optimizer's: master, m and v.
ByteShare ModelStateFormula(const ModelShape& shape);
ByteShare OptimizerStateFormula(const ModelShape& shape);

// What the stage saves of ddp's model states, in percent, by the formula.
double SavedPercent(const ModelShape& shape);

// Bytes that padding adds to one state.
ByteShare StatePadding(const ModelShape& shape, MemoryTag state);

// Everything else a rank holds, by what it is for: the formula leaves it out.
inline constexpr std::array<MemoryTag, 6> kOtherMemory = {
    MemoryTag::kBucket,  MemoryTag::kAccumulator, MemoryTag::kGathered,
    MemoryTag::kScratch, MemoryTag::kActivation,  MemoryTag::kOther};

// What a rank holds beside the model states.
struct OtherMemory {
  MemoryTag tag = MemoryTag::kOther;
  int64_t now = 0;
  int64_t peak = 0;
};

struct MemoryReport {
  ModelShape shape;

  // Of kModelStates; nothing where this shape was not run.
  std::optional<std::array<int64_t, kModelStates.size()>> measured;

  std::array<OtherMemory, kOtherMemory.size()> other;  // in the order of kOtherMemory

  int64_t measured_total() const;

  // measured - formula - padding of state `index`; 0 where the books balance. Requires measured.
  ByteShare Difference(size_t index) const;
  bool Balances() const;
};

MemoryReport MeasureMemory(const ModelShape& shape, const MemoryLedger& ledger);

// A table for people: one line a state, and for each report its formula, measured, padding and
// difference; totals with what they save against ddp; and what the formula leaves out.
std::string RenderMemoryTable(absl::Span<const MemoryReport> reports);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_MEMORY_REPORT_H_
