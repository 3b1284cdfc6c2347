// Measures the constants of the cost model (collectives/cost_model.cc) on this machine: two ranks,
// each a process bound to a core, over UCX's shared memory and over TCP on the loopback; sums,
// copies and local steps in one thread. Prints the best of several runs: what a calm machine does.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "collectives/algorithm.h"
#include "collectives/communicator.h"
#include "collectives/kernels/reduce_kernel.h"
#include "runtime/base/clock.h"
#include "runtime/transport/sim/sim_world.h"
#include "runtime/transport/transport.h"
#include "tests/integration/process_job.h"

namespace rz {
namespace {

// Runs are short and many, so that some fall into moments in which nobody else has the cores.
constexpr int kRuns = 500;
constexpr int kPingPongs = 200;
constexpr int kBursts = 20;
constexpr int kBurst = 32;
constexpr size_t kSlice = size_t{256} << 10;
constexpr int kSlices = 20;
constexpr int kWindow = 4;

// Counts completions; both ranks run the same phases, so tags need not differ.
class Peer final : public CompletionSink {
 public:
  explicit Peer(Transport* transport)
      : transport_(transport), other_(1 - transport->rank().value()) {}

  void Send(const void* data, size_t size) {
    ++under_way_;
    const auto* bytes = static_cast<const std::byte*>(data);
    failed_ |= !transport_->PostSend(other_, 1, {bytes, size}, this, 0).ok();
  }
  void Receive(void* data, size_t size) {
    ++under_way_;
    auto* bytes = static_cast<std::byte*>(data);
    failed_ |= !transport_->PostRecv(other_, 1, {bytes, size}, this, 0).ok();
  }
  void WaitUntil(int under_way) {
    while (under_way_ > under_way && !failed_) {
      if (transport_->Progress() == 0) {
        transport_->WaitForEvent(Deadline::After(*Clock::Steady(), absl::Seconds(10)));
      }
    }
  }
  void OnComplete(uint64_t, const absl::Status& status, size_t) override {
    --under_way_;
    failed_ |= !status.ok();
  }
  bool failed() const { return failed_; }

 private:
  Transport* const transport_;
  const Rank other_;
  int under_way_ = 0;
  bool failed_ = false;
};

template <typename F>
double BestNanoseconds(F f) {
  double best = 1e300;
  for (int run = 0; run < kRuns; ++run) {
    const absl::Duration begin = Clock::Steady()->Now();
    f();
    best = std::min(best, absl::ToDoubleNanoseconds(Clock::Steady()->Now() - begin));
  }
  return best;
}

std::string MeasureLink(Transport* transport) {
  testing::BindToCore(transport->rank().value());
  Peer peer(transport);
  const bool first = transport->rank() == Rank(0);
  uint64_t word = 0;
  const double ping_pong = BestNanoseconds([&] {
    for (int i = 0; i < kPingPongs; ++i) {
      if (first) peer.Send(&word, sizeof word);
      if (first) peer.WaitUntil(0);
      peer.Receive(&word, sizeof word);
      peer.WaitUntil(0);
      if (!first) peer.Send(&word, sizeof word);
      if (!first) peer.WaitUntil(0);
    }
  });
  std::vector<uint64_t> words(2 * kBurst);
  const double bursts = BestNanoseconds([&] {
    for (int i = 0; i < kBursts; ++i) {
      for (int m = 0; m < kBurst; ++m) peer.Receive(&words[m], sizeof word);
      for (int m = 0; m < kBurst; ++m) peer.Send(&words[kBurst + m], sizeof word);
      peer.WaitUntil(0);
    }
  });
  std::vector<std::byte> out(kSlice * kWindow, std::byte{1});
  std::vector<std::byte> in(kSlice * kWindow, std::byte{1});
  const double stream = BestNanoseconds([&] {
    for (int i = 0; i < kSlices; ++i) {
      const size_t at = static_cast<size_t>(i % kWindow) * kSlice;
      peer.Receive(in.data() + at, kSlice);
      peer.Send(out.data() + at, kSlice);
      peer.WaitUntil(2 * (kWindow - 1));
    }
    peer.WaitUntil(0);
  });
  if (peer.failed()) return "failed";
  return absl::StrFormat("alpha %.0f ns, message %.0f ns, beta %.3f ns/B",
                         ping_pong / kPingPongs / 2, bursts / kBursts / kBurst,
                         stream / kSlices / kSlice);
}

void MeasureMemory() {
  std::vector<float> a(kSlice / 4, 1);
  std::vector<float> b(kSlice / 4, 1);
  const ReduceKernel* kernel = *GetReduceKernel(DType::kFloat32, ReduceOp::kSum);
  const double sum =
      BestNanoseconds([&] { kernel->accumulate(a.data(), a.data(), b.data(), a.size()); });
  const double copy = BestNanoseconds([&] { std::memcpy(a.data(), b.data(), kSlice); });
  std::printf("memory: gamma %.3f ns/B, copy %.3f ns/B\n", sum / kSlice, copy / kSlice);
}

// Communicators of one thread that repeat Bruck's all_reduce, which has the square of the ranks in
// local steps.
class ManySteps {
 public:
  ManySteps() {
    CommunicatorOptions options;
    options.algorithms = "all_reduce:bruck";
    options.check_calls = false;
    for (int r = 0; r < kRanks; ++r) {
      auto comm = Communicator::Create(world_.transport(Rank(r)), options);
      if (!comm.ok()) std::abort();
      comms_.push_back(*std::move(comm));
    }
  }

  // Nanoseconds of a call in which every block has one element, and in which one block has: the
  // same messages and steps, of which all, or one in kRanks, have something to do.
  template <typename T>
  double NanosecondsAStep(DType dtype) {
    const double all = BestNanoseconds([&] { Call<T>(dtype, kRanks); });
    const double one = BestNanoseconds([&] { Call<T>(dtype, 1); });
    const ScheduleCost cost =
        TraitsOf(Collective::kAllReduce, Algorithm::kBruck).cost(kRanks, Format::kAccumulator);
    const double steps = static_cast<double>(cost.reduced_blocks + cost.copied_blocks) * kRanks;
    return (all - one) / (steps * (kRanks - 1) / kRanks);
  }

 private:
  static constexpr int kRanks = 64;

  template <typename T>
  void Call(DType dtype, int64_t count) {
    std::vector<T> data(kRanks);
    std::vector<Operation> operations;
    for (auto& comm : comms_) {
      // All in the same memory: what comes out is nobody's concern.
      operations.push_back(
          *comm->StartAllReduce(data.data(), data.data(), count, dtype, ReduceOp::kSum));
    }
    for (bool done = false; !done;) {
      done = true;
      for (Operation& operation : operations) done &= operation.Poll();
    }
  }

  SimWorld world_{kRanks, {.send_mode = SendMode::kEager}};
  std::vector<std::unique_ptr<Communicator>> comms_;
};

void MeasureSteps() {
  ManySteps steps;
  const double narrow = steps.NanosecondsAStep<uint16_t>(DType::kBFloat16);
  const double wide = steps.NanosecondsAStep<float>(DType::kFloat32);
  std::printf("step: %.0f ns of float32, %.0f ns of bfloat16\n", wide, narrow);
}

int Main() {
  UcxOptions tcp;
  tcp.transports = UcxOptions::Transports::kTcp;
  tcp.net_device = "lo";
  std::printf("shared memory: %s\n", testing::RunInProcesses(2, {}, MeasureLink)[0].c_str());
  std::printf("tcp, loopback: %s\n", testing::RunInProcesses(2, tcp, MeasureLink)[0].c_str());
  MeasureMemory();
  MeasureSteps();
  return 0;
}

}  // namespace
}  // namespace rz

int main() { return rz::Main(); }
