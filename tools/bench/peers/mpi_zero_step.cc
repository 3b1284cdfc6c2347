// A ZeRO-1 step over an MPI, from gradients that are ready to parameters that are updated on all
// ranks: reduce_scatter, AdamW on the shard, all_gather. What somebody writes who has MPI and no
// ringzero; measured beside tests/integration/zero_step_benchmark.cc.
//
//   mpirun ... PROGRAM MILLIONS_OF_PARAMETERS STEPS
//
// Prints `bf16 MS`, bfloat16 gradients and parameters with an operation of its own that adds in
// float32, and `fp32 MS`, MPI's own sum of float32: medians over the steps of the slowest rank.
#include <mpi.h>

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

namespace {

constexpr float kLearningRate = 1e-3f, kBeta1 = 0.9f, kBeta2 = 0.999f, kEps = 1e-8f, kDecay = 0.01f;
constexpr size_t kHugePage = size_t{2} << 20;

template <typename T>
T* Allocate(size_t count) {
  const size_t bytes = (count * sizeof(T) + kHugePage - 1) / kHugePage * kHugePage;
  void* const memory = std::aligned_alloc(kHugePage, bytes);
  if (memory == nullptr) std::abort();
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 0, bytes);
  return static_cast<T*>(memory);
}

inline float Widen(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// To nearest, ties to even; of numbers.
inline uint16_t Round(float value) {
  uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  return static_cast<uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
}

void AddBFloat16(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const uint16_t*>(in);
  auto* b = static_cast<uint16_t*>(inout);
  for (int i = 0; i < *count; ++i) b[i] = Round(Widen(a[i]) + Widen(b[i]));
}

struct States {
  float* master;
  float* m;
  float* v;
};

inline float Update(float gradient, float& master, float& m, float& v, float step_size,
                    float inverse_root_2) {
  m = kBeta1 * m + (1 - kBeta1) * gradient;
  v = kBeta2 * v + (1 - kBeta2) * gradient * gradient;
  master = master * (1 - kLearningRate * kDecay) -
           step_size * (m / (std::sqrt(v) * inverse_root_2 + kEps));
  return master;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Milliseconds of the slowest rank.
double Time(int steps, const std::function<void(int step)>& run) {
  std::vector<double> times;
  constexpr int kWarm = 3;
  for (int step = 1; step <= steps + kWarm; ++step) {
    MPI_Barrier(MPI_COMM_WORLD);
    double took = -MPI_Wtime();
    run(step);
    took += MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (step > kWarm) times.push_back(took * 1e3);
  }
  return Median(times);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks = 0, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 3) {
    if (rank == 0) std::fprintf(stderr, "usage: %s MILLIONS_OF_PARAMETERS STEPS\n", argv[0]);
    MPI_Finalize();
    return 2;
  }
  const size_t shard = (std::strtoull(argv[1], nullptr, 10) << 20) / static_cast<size_t>(ranks);
  const size_t all = shard * static_cast<size_t>(ranks);
  const int steps = std::atoi(argv[2]);
  const int count = static_cast<int>(shard);
  const float mean = 1.0f / static_cast<float>(ranks);
  States states = {Allocate<float>(shard), Allocate<float>(shard), Allocate<float>(shard)};

  MPI_Datatype bfloat16;
  MPI_Op add;
  MPI_Type_contiguous(2, MPI_BYTE, &bfloat16);
  MPI_Type_commit(&bfloat16);
  MPI_Op_create(AddBFloat16, 1, &add);
  auto* const gradients16 = Allocate<uint16_t>(all);
  auto* const parameters16 = Allocate<uint16_t>(all);
  auto* const shard16 = Allocate<uint16_t>(shard);
  for (size_t i = 0; i < all; ++i) gradients16[i] = static_cast<uint16_t>(0x3c00 + i % 61);
  const double bf16 = Time(steps, [&](int step) {
    const float step_size = kLearningRate / (1 - std::pow(kBeta1, static_cast<float>(step)));
    const float root = 1 / std::sqrt(1 - std::pow(kBeta2, static_cast<float>(step)));
    MPI_Reduce_scatter_block(gradients16, shard16, count, bfloat16, add, MPI_COMM_WORLD);
    for (size_t i = 0; i < shard; ++i) {
      shard16[i] = Round(Update(Widen(shard16[i]) * mean, states.master[i], states.m[i],
                                states.v[i], step_size, root));
    }
    MPI_Allgather(shard16, count, bfloat16, parameters16, count, bfloat16, MPI_COMM_WORLD);
  });

  auto* const gradients = Allocate<float>(all);
  auto* const parameters = Allocate<float>(all);
  auto* const sums = Allocate<float>(shard);
  for (size_t i = 0; i < all; ++i) gradients[i] = static_cast<float>(i % 61) / 4096;
  const double fp32 = Time(steps, [&](int step) {
    const float step_size = kLearningRate / (1 - std::pow(kBeta1, static_cast<float>(step)));
    const float root = 1 / std::sqrt(1 - std::pow(kBeta2, static_cast<float>(step)));
    MPI_Reduce_scatter_block(gradients, sums, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (size_t i = 0; i < shard; ++i) {
      Update(sums[i] * mean, states.master[i], states.m[i], states.v[i], step_size, root);
    }
    MPI_Allgather(states.master, count, MPI_FLOAT, parameters, count, MPI_FLOAT, MPI_COMM_WORLD);
  });
  if (rank == 0) std::printf("bf16 %.3f\nfp32 %.3f\n", bf16, fp32);
  MPI_Finalize();
  return 0;
}
