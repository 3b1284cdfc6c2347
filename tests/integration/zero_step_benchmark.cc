// A ZeRO-1 step, from gradients that are ready to parameters that are updated on all ranks, in
// bfloat16 with AdamW and clipping, between processes of one host that are bound to cores: fused in
// one pass and in two, unfused, and ddp. The ways take turns, step by step, in one run. Printed are
// medians of the slowest rank's time, ratios to the unfused step, and how much of its roofline each
// fused one reaches: the bytes that it must move, at the rates that loops of the same traffic reach
// on all ranks at once in the same run.
//
//   zero_step_benchmark [RANKS] [MILLIONS OF PARAMETERS] [STEPS]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectives/communicator.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "tests/integration/process_job.h"

namespace rz {
namespace {

struct Way {
  const char* name;
  ZeroStage stage;
  bool fused;
  bool inspected;
};
constexpr Way kWays[] = {
    {"1, unfused", ZeroStage::kOne, false, true},
    {"1, fused, two passes", ZeroStage::kOne, true, true},
    {"1, fused, one pass", ZeroStage::kOne, true, false},
    {"ddp", ZeroStage::kDdp, false, true},
};
constexpr size_t kWayCount = std::size(kWays);

constexpr size_t kFloats = size_t{32} << 20;  // of a loop's array, far beyond the caches
constexpr int kLoops = 7;

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Bench {
 public:
  Bench(Communicator* comm, int64_t parameters, int steps)
      : comm_(*comm), parameters_(parameters), steps_(steps) {}

  absl::StatusOr<std::string> Run() {
    for (const Way& way : kWays) RZ_RETURN_IF_ERROR(Prepare(way));
    std::vector<double> times[kWayCount];
    constexpr int kWarm = 3;
    for (int step = 0; step < steps_ + kWarm; ++step) {
      for (size_t way = 0; way < kWayCount; ++way) {
        RZ_ASSIGN_OR_RETURN(const double took,
                            Slowest([&] { return optimizers_[way]->Step({}).status(); }));
        if (step >= kWarm) times[way].push_back(took);
      }
    }
    RZ_ASSIGN_OR_RETURN(const Rates rates, MeasureRates());
    std::string text = absl::StrFormat(
        "# %d ranks, %d parameters, bfloat16; GB/s a rank: read %.1f, update %.1f, store %.1f\n"
        "%-22s %10s %8s %9s\n",
        comm_.world_size(), parameters_, rates.read, rates.update, rates.store, "stage", "ms",
        "ratio", "roofline");
    const double unfused = MedianOf(times[0]);
    for (size_t way = 0; way < kWayCount; ++way) {
      const double took = MedianOf(times[way]);
      absl::StrAppendFormat(&text, "%-22s %10.2f %8.2f", kWays[way].name, took / 1e6,
                            unfused / took);
      if (kWays[way].fused) {
        absl::StrAppendFormat(&text, " %9.2f", Roofline(kWays[way], rates) / took);
      }
      text += "\n";
    }
    return text;
  }

 private:
  // GB/s, that is bytes a nanosecond, of one rank while all run the loop.
  struct Rates {
    double read = 0;
    double update = 0;  // read and written
    double store = 0;
  };

  absl::Status Prepare(const Way& way) {
    ZeroConfig config;
    config.stage = way.stage;
    config.fuse_step = way.fused;
    config.inspect_gradients = way.inspected;
    config.gradient_clipping = way.inspected ? 1.0 : 0.0;
    RZ_ASSIGN_OR_RETURN(std::unique_ptr<ZeroOptimizer> optimizer,
                        ZeroOptimizer::Create(&comm_, {{"weights", {parameters_}}}, config));
    RZ_RETURN_IF_ERROR(optimizer->Initialize([](size_t, absl::Span<float> values) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) / 97;
    }));
    // Small numbers of both signs: bits of 2^-7 and thereabouts.
    const absl::Span<uint16_t> gradients = optimizer->Grads<uint16_t>(0);
    for (size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] = static_cast<uint16_t>(0x3c00 + i % 61 + (i % 2 << 15));
    }
    optimizers_.push_back(std::move(optimizer));
    return absl::OkStatus();
  }

  // Nanoseconds on the slowest rank.
  absl::StatusOr<double> Slowest(const std::function<absl::Status()>& work) {
    RZ_RETURN_IF_ERROR(comm_.Barrier());
    const absl::Duration begin = Clock::Steady()->Now();
    RZ_RETURN_IF_ERROR(work());
    double took = absl::ToDoubleNanoseconds(Clock::Steady()->Now() - begin);
    RZ_RETURN_IF_ERROR(comm_.AllReduce(&took, &took, 1, DType::kFloat64, ReduceOp::kMax));
    return took;
  }

  absl::StatusOr<double> RateOf(double bytes, const std::function<void()>& loop) {
    std::vector<double> times;
    for (int i = 0; i < kLoops; ++i) {
      RZ_ASSIGN_OR_RETURN(const double took, Slowest([&] {
                            loop();
                            return absl::OkStatus();
                          }));
      times.push_back(took);
    }
    return bytes / MedianOf(times);
  }

  absl::StatusOr<Rates> MeasureRates() {
    RZ_ASSIGN_OR_RETURN(const Buffer buffer,
                        Buffer::Allocate(kFloats * sizeof(float), MemoryTag::kOther));
    constexpr size_t kWide = 16;
    typedef float Wide __attribute__((vector_size(kWide * sizeof(float))));
    auto* const data = reinterpret_cast<Wide*>(buffer.data());
    constexpr size_t kVectors = kFloats / kWide;
    constexpr double kBytes = kFloats * sizeof(float);
    for (size_t i = 0; i < kVectors; ++i) data[i] = Wide{} + 1.0f;
    Rates rates;
    RZ_ASSIGN_OR_RETURN(rates.read, RateOf(kBytes, [&] {
                          Wide sums[4] = {};
                          for (size_t i = 0; i < kVectors; i += 4) {
                            for (size_t j = 0; j < 4; ++j) sums[j] += data[i + j];
                          }
                          const Wide sum = sums[0] + sums[1] + sums[2] + sums[3];
                          asm volatile("" : : "r"(&sum) : "memory");
                        }));
    RZ_ASSIGN_OR_RETURN(rates.update, RateOf(2 * kBytes, [&] {
                          for (size_t i = 0; i < kVectors; ++i) data[i] = data[i] * 0.5f + 0.5f;
                          asm volatile("" : : : "memory");
                        }));
    RZ_ASSIGN_OR_RETURN(rates.store, RateOf(kBytes, [&] {
                          const Wide value = Wide{} + 2.0f;
                          for (size_t i = 0; i < kVectors; ++i) {
#ifdef __x86_64__
                            __builtin_ia32_movntps(reinterpret_cast<float*>(data + i),
                                                   *reinterpret_cast<const Four*>(&value));
                            __builtin_ia32_movntps(reinterpret_cast<float*>(data + i) + 4,
                                                   *reinterpret_cast<const Four*>(&value));
                            __builtin_ia32_movntps(reinterpret_cast<float*>(data + i) + 8,
                                                   *reinterpret_cast<const Four*>(&value));
                            __builtin_ia32_movntps(reinterpret_cast<float*>(data + i) + 12,
                                                   *reinterpret_cast<const Four*>(&value));
#else
                            data[i] = value;
#endif
                          }
                          asm volatile("" : : : "memory");
                        }));
    return rates;
  }
  typedef float Four __attribute__((vector_size(16), may_alias));

  // Nanoseconds. Of each element of a rank's shard: every rank's gradient is read, once a pass; the
  // master and two moments are updated; every rank's parameter is stored.
  double Roofline(const Way& way, const Rates& rates) const {
    const double ranks = comm_.world_size();
    const double shard = static_cast<double>(parameters_) / ranks;
    const double reads = 2 * ranks * (way.inspected ? 2 : 1);
    return shard * (reads / rates.read + 24 / rates.update + 2 * ranks / rates.store);
  }

  Communicator& comm_;
  const int64_t parameters_;
  const int steps_;
  std::vector<std::unique_ptr<ZeroOptimizer>> optimizers_;
};

absl::StatusOr<std::string> Measure(Transport* transport, int64_t parameters, int steps) {
  testing::BindToCore(transport->rank().value());
  RZ_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> comm,
                      Communicator::Create(transport, {}));
  RZ_RETURN_IF_ERROR(comm->ShareMemory());
  return Bench(comm.get(), parameters, steps).Run();
}

}  // namespace
}  // namespace rz

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const int64_t parameters = (argc > 2 ? std::atoll(argv[2]) : 25) << 20;
  const int steps = argc > 3 ? std::atoi(argv[3]) : 15;
  const std::vector<std::string> texts =
      rz::testing::RunInProcesses(ranks, {}, [&](rz::Transport* transport) -> std::string {
        const auto text = rz::Measure(transport, parameters, steps);
        return text.ok() ? *text : text.status().ToString();
      });
  std::fputs(texts[0].c_str(), stdout);
  return texts[0].find("roofline") == std::string::npos ? 1 : 0;
}
