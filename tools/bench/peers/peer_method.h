// What the peers' programs share: their command line, buffers, and the measuring loop of
// `rz_bench --batches` and `--fresh` (tools/bench/measurement.h), over whatever barrier and maximum
// the peer has.
//
//   PROGRAM OPERATION --sizes 8,1024 [--budget US] [--huge] [--fresh] [--ranks N]
//           [--rank R --store FOLDER --address A]
//
// Element type float, operation sum, root 0. A size is the larger buffer's bytes, a multiple of
// 4 * ranks. Each line printed is `OPERATION SIZE PLACEMENT TIME_US`. The results of the first call
// are checked: a wrong one ends the program with an error.
#ifndef RINGZERO_TOOLS_BENCH_PEERS_PEER_METHOD_H_
#define RINGZERO_TOOLS_BENCH_PEERS_PEER_METHOD_H_

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tools/bench/batch_method.h"

namespace peers {

struct Options {
  std::string operation;
  std::vector<size_t> sizes;
  double budget_us = 100'000;
  bool huge = false;
  bool fresh = false;
  int ranks = 2;  // of a program that starts them itself
  // Of a rank that was started by others: itself, where the ranks find each other, its address.
  int rank = -1;
  std::string store;
  std::string address = "127.0.0.1";
};

inline Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] { return i + 1 < argc ? argv[++i] : ""; };
    if (argument == "--sizes") {
      const std::string list = value();
      for (size_t at = 0; at < list.size(); at = std::min(list.find(',', at), list.size()) + 1) {
        options.sizes.push_back(std::strtoull(list.c_str() + at, nullptr, 10));
      }
    } else if (argument == "--budget") {
      options.budget_us = std::atof(value());
    } else if (argument == "--ranks") {
      options.ranks = std::atoi(value());
    } else if (argument == "--rank") {
      options.rank = std::atoi(value());
    } else if (argument == "--store") {
      options.store = value();
    } else if (argument == "--address") {
      options.address = value();
    } else if (argument == "--huge") {
      options.huge = true;
    } else if (argument == "--fresh") {
      options.fresh = true;
    } else if (argument[0] != '-' && options.operation.empty()) {
      options.operation = argument;
    } else {
      std::fprintf(stderr, "unexpected argument '%s'\n", argument.c_str());
      std::exit(2);
    }
  }
  return options;
}

// What a peer tells its ranks with.
struct World {
  int rank = 0;
  int size = 1;
  std::function<void()> barrier;
  std::function<void(double*, int)> take_largest;  // over the ranks, elementwise
};

// Freed with free().
inline float* Allocate(size_t elements, bool huge) {
  const size_t alignment = huge ? size_t{2} << 20 : 4096;
  const size_t bytes =
      (std::max<size_t>(elements, 1) * sizeof(float) + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, bytes);
  if (memory == nullptr) {
    std::fprintf(stderr, "no memory for %zu bytes\n", bytes);
    std::exit(1);
  }
  if (huge) madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 0, bytes);
  return static_cast<float*>(memory);
}

// Element i of rank r's input: small integers, so that sums are exact.
inline float Input(int rank, size_t i) { return static_cast<float>(i % 13 + rank); }
inline float SumOfInputs(int ranks, size_t i) {
  return static_cast<float>(ranks * (i % 13) + static_cast<size_t>(ranks) * (ranks - 1) / 2);
}

inline double NowUs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// Stores to every element, as rz_bench --fresh does.
inline void Rewrite(float* input, size_t elements) {
  static unsigned turn = 0;
  const uint32_t word = ++turn & 1 ? 0x3c3c3c3cu : 0x38383838u;
  for (size_t i = 0; i < elements; ++i) {
    std::memcpy(input + i, &word, sizeof(word));
    asm volatile("" : : "r"(input) : "memory");  // not memset
  }
}

// Time of a call in us: the median over samples of the slowest rank's.
inline double Measure(const World& world, const Options& options, const std::function<void()>& call,
                      const std::function<void()>& rewrite) {
  constexpr int kWarmup = 5;
  for (int i = 0; i < kWarmup; ++i) call();
  world.barrier();
  double estimate = NowUs();
  for (int64_t i = 0; i < rz::kEstimateCalls; ++i) call();
  estimate = (NowUs() - estimate) / rz::kEstimateCalls;
  world.take_largest(&estimate, 1);
  const int64_t calls = options.fresh ? 1 : rz::CallsPerBatch(estimate);
  const int64_t count = rz::IterationsFor(options.budget_us, estimate * static_cast<double>(calls));
  std::vector<double> samples(count);
  for (double& sample : samples) {
    if (options.fresh) rewrite();
    world.barrier();
    const double begin = NowUs();
    for (int64_t i = 0; i < calls; ++i) call();
    sample = (NowUs() - begin) / static_cast<double>(calls);
  }
  world.take_largest(samples.data(), static_cast<int>(count));
  std::sort(samples.begin(), samples.end());
  return samples[(samples.size() + 1) / 2 - 1];
}

inline void Report(const World& world, const Options& options, size_t size, const char* placement,
                   double time_us) {
  if (world.rank != 0) return;
  std::printf("%s %zu %s %.4f\n", options.operation.c_str(), size, placement, time_us);
  std::fflush(stdout);
}

}  // namespace peers

#endif  // RINGZERO_TOOLS_BENCH_PEERS_PEER_METHOD_H_
