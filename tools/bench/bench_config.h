// What rz_bench is told, read from the command line and checked as far as it can be without the
// other ranks.
#ifndef RINGZERO_TOOLS_BENCH_BENCH_CONFIG_H_
#define RINGZERO_TOOLS_BENCH_BENCH_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/dtype.h"
#include "tools/bench/against/peer.h"
#include "tools/bench/bench_buffer.h"
#include "tools/bench/call_shape.h"
#include "tools/bench/measurement.h"
#include "tools/bench/operation.h"
#include "tools/bench/size_sweep.h"
#include "tools/bench/table.h"
#include "tools/flag_set.h"

namespace rz {

// Whether the thread that makes the calls keeps to one processor.
enum class Binding : uint8_t {
  kAuto,  // where the host has a processor for each of its ranks
  kCore,
  kNone,
};

// A reduction's dtype and op, or a copy's dtype.
struct ElementKind {
  DType dtype = DType::kFloat32;
  std::optional<ReduceOp> op;
};

struct BenchConfig {
  std::vector<std::string> arguments;  // the command line, for files
  std::vector<BenchOperation> operations;
  SizeSweep sweep;
  std::vector<int64_t> sizes;  // what the sweep or --sizes says; not empty
  std::vector<DType> dtypes;
  std::vector<ReduceOp> ops;
  int root = 0;
  bool all_roots = false;
  int64_t ranks = 0;  // -np; 0: not given
  MeasurementPlan plan;
  int64_t aggregate = 1;
  int64_t cycles = 1;  // 0: for ever
  int64_t checks = 1;
  int64_t unalign = 0;
  Registration registration = Registration::kPlain;
  bool registered_beside = true;  // -R was not given: --against shows both
  CountPattern counts = CountPattern::kHalf;
  Binding binding = Binding::kAuto;
  NumericMode numeric_mode = NumericMode::kDeterministic;
  std::string algorithms;
  std::string transport = "auto";
  bool share_memory = true;  // where all ranks can
  int64_t spins = -1;        // of a rank that waits; below 0: chosen
  absl::Duration timeout = absl::Seconds(300);
  TableColumns columns;
  bool report_memory = false;
  bool explain = false;
  double cliffs = 0;  // times its neighbours' trend from which on a size is named; 0: none is

  // Other libraries to compare with; empty: none.
  std::vector<PeerLibrary> against;
  bool against_default = false;
  int64_t rounds = 3;
  std::string peer_folder;

  std::string csv_path;
  std::string json_path;
  std::string plot_path;

  // Which (dtype, op) pairs `operation` is run with.
  std::vector<ElementKind> KindsOf(BenchOperation operation) const;
  // "avg of int8, ...": pairs that have no meaning; "" where there are none.
  std::string SkippedKinds() const;

  // Of what all ranks must be told alike; never 0.
  uint64_t AgreementHash() const;
};

// The flags as the command line has them; Declare them, Parse, then Read.
class BenchFlags {
 public:
  // `flags` keeps pointers into this object.
  void Declare(FlagSet* flags);

  // `environment_algorithms` is RZ_ALGO or empty; --algo beats it.
  //   InvalidArgument  flags that do not go together, a flag of nccl-tests that means nothing here,
  //                    no reduction of that op and dtype, an unknown algorithm; the message names
  //                    the flag
  absl::StatusOr<BenchConfig> Read(const FlagSet& flags,
                                   const std::string& environment_algorithms) const;

 private:
  void DeclareShape(FlagSet* flags);
  void DeclareMethod(FlagSet* flags);
  void DeclareOutput(FlagSet* flags);
  void DeclareComparison(FlagSet* flags);
  absl::Status ReadSampling(BenchConfig* config) const;
  absl::Status ReadKinds(BenchConfig* config) const;
  absl::Status ReadRoot(BenchConfig* config) const;
  absl::Status ReadComparison(BenchConfig* config) const;

  BenchConfig values_;
  std::string sizes_, against_;
  std::string op_ = "sum", dtype_ = "float", root_ = "0";
  std::string numeric_mode_ = "deterministic", counts_ = "half", binding_ = "auto";
  int64_t average_ = 1, registration_ = 0, cpu_time_ = 0, timestamps_ = 0, per_iteration_ = 0,
          memory_ = 0;
  std::string link_ = "auto";
  bool fresh_ = false, batches_ = false;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_BENCH_CONFIG_H_
