// Collectives of Gloo over TCP, measured as rz_bench measures ringzero's; see peer_method.h. Starts
// its ranks itself, on the loopback, or is one of them (--rank). They are not bound: each has a
// thread for its sockets beside the one that calls.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>

#include "tools/bench/peers/peer_method.h"

namespace peers {
namespace {

constexpr int kMaxRanks = 64;
constexpr int kMaxSamples = 10'000;

// Shared by the ranks.
struct Meeting {
  pthread_barrier_t barrier;
  double values[kMaxRanks][kMaxSamples];
};

void TakeLargest(Meeting* meeting, int rank, int ranks, double* values, int count) {
  std::copy_n(values, count, meeting->values[rank]);
  pthread_barrier_wait(&meeting->barrier);
  for (int other = 0; other < ranks; ++other) {
    for (int i = 0; i < count; ++i) values[i] = std::max(values[i], meeting->values[other][i]);
  }
  pthread_barrier_wait(&meeting->barrier);
}

using Context = std::shared_ptr<gloo::rendezvous::Context>;

struct Buffers {
  size_t block = 0, total = 0;
  float* send = nullptr;
  float* recv = nullptr;
};

void AllReduce(const Context& context, float* from, float* to, size_t elements) {
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  if (from != to) options.setInput(from, elements);
  options.setOutput(to, elements);
  using Function = void (*)(void*, const void*, const void*, size_t);
  options.setReduceFunction(static_cast<Function>(&gloo::sum<float>));
  gloo::allreduce(options);
}

void AllGather(const Context& context, float* from, size_t block, float* to, size_t total) {
  gloo::AllgatherOptions options(context);
  if (from != nullptr) options.setInput(from, block);
  options.setOutput(to, total);
  gloo::allgather(options);
}

void Broadcast(const Context& context, float* buffer, size_t elements) {
  gloo::BroadcastOptions options(context);
  options.setOutput(buffer, elements);
  options.setRoot(0);
  gloo::broadcast(options);
}

void Fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  _exit(1);
}

// The calls of one operation: null where there are none.
struct Calls {
  std::function<void()> out, in;
  float* in_input = nullptr;  // what --fresh rewrites in place
  size_t in_elements = 0;
};

Calls CallsOf(const Context& context, const Options& options, const Buffers& b) {
  const std::string& operation = options.operation;
  if (operation == "all_reduce") {
    return {[=] { AllReduce(context, b.send, b.recv, b.total); },
            [=] { AllReduce(context, b.recv, b.recv, b.total); }, b.recv, b.total};
  }
  if (operation == "all_gather") {
    return {[=] { AllGather(context, b.send, b.block, b.recv, b.total); }, nullptr};
  }
  if (operation == "broadcast") {
    return {nullptr, [=] { Broadcast(context, b.recv, b.total); }, b.recv, b.total};
  }
  if (operation == "reduce_scatter") {
    // Works on its one buffer; the result of rank r stands at its begin.
    const std::vector<int> counts(context->size, static_cast<int>(b.block));
    const auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
        context, std::vector<float*>{b.recv}, static_cast<int>(b.total), counts);
    return {nullptr, [=] { algorithm->run(); }, b.recv, b.total};
  }
  return {};
}

// The first call, with inputs whose result is known.
void Check(const Options& options, const Buffers& b, const Calls& calls, int rank, int ranks) {
  float* const input = calls.out != nullptr ? b.send : b.recv;
  for (size_t i = 0; i < b.total; ++i) input[i] = Input(rank, i);
  (calls.out != nullptr ? calls.out : calls.in)();
  const bool scatters = options.operation == "reduce_scatter";
  for (size_t i = 0; i < (scatters ? b.block : b.total); ++i) {
    float expected = SumOfInputs(ranks, scatters ? rank * b.block + i : i);
    if (options.operation == "all_gather") {
      expected = Input(static_cast<int>(i / b.block), i % b.block);
    }
    if (options.operation == "broadcast") expected = Input(0, i);
    if (b.recv[i] != expected) Fail("a result is wrong");
  }
}

Context Connect(const Options& options, const std::string& folder, int rank) {
  gloo::transport::tcp::attr address;
  address.hostname = options.address;
  gloo::rendezvous::FileStore store(folder);
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank, options.ranks);
  auto device = gloo::transport::tcp::CreateDevice(address);
  context->connectFullMesh(store, device);
  return context;
}

// For a rank that shares nothing with the others but Gloo.
World WorldOver(const Context& context) {
  World world;
  world.rank = context->rank;
  world.size = context->size;
  world.barrier = [=] {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  };
  world.take_largest = [=](double* values, int count) {
    gloo::AllreduceOptions options(context);
    options.setOutput(values, static_cast<size_t>(count));
    using Function = void (*)(void*, const void*, const void*, size_t);
    options.setReduceFunction(static_cast<Function>(&gloo::max<double>));
    gloo::allreduce(options);
  };
  return world;
}

World WorldOver(const Context& context, Meeting* meeting) {
  World world;
  world.rank = context->rank;
  world.size = context->size;
  world.barrier = [=] { pthread_barrier_wait(&meeting->barrier); };
  world.take_largest = [=](double* values, int count) {
    TakeLargest(meeting, context->rank, context->size, values, count);
  };
  return world;
}

// Ends the process: threads of Gloo's are in the middle of something.
void RunRank(const Options& options, const Context& context, const World& world) {
  const int rank = world.rank;
  const int ranks = world.size;
  for (size_t size : options.sizes) {
    Buffers buffers;
    buffers.block = std::max<size_t>(1, size / sizeof(float) / ranks);
    buffers.total = buffers.block * ranks;
    buffers.send = Allocate(buffers.total, options.huge);
    buffers.recv = Allocate(buffers.total, options.huge);
    const Calls calls = CallsOf(context, options, buffers);
    if (calls.out == nullptr && calls.in == nullptr) Fail("no such operation here");
    Check(options, buffers, calls, rank, ranks);
    const size_t sent = options.operation == "all_gather" ? buffers.block : buffers.total;
    if (calls.out != nullptr) {
      Report(world, options, size, "out_of_place",
             Measure(world, options, calls.out, [&] { Rewrite(buffers.send, sent); }));
    }
    // Sums that grow without end would slow nothing down, but denormal ones would.
    std::memset(buffers.recv, 0, buffers.total * sizeof(float));
    if (calls.in != nullptr) {
      Report(world, options, size, "in_place", Measure(world, options, calls.in, [&] {
               Rewrite(calls.in_input, calls.in_elements);
             }));
    }
    world.barrier();
    std::free(buffers.send);
    std::free(buffers.recv);
  }
  world.barrier();
  _exit(0);
}

int Main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Options options = ParseOptions(argc, argv);
  if (options.ranks < 1 || options.ranks > kMaxRanks) Fail("--ranks takes 1 to 64");
  if (options.rank >= 0) {
    const Context context = Connect(options, options.store, options.rank);
    RunRank(options, context, WorldOver(context));
  }
  char folder[] = "/tmp/gloo_bench_XXXXXX";
  if (mkdtemp(folder) == nullptr) Fail("no folder for the rendezvous can be made");
  auto* const meeting = static_cast<Meeting*>(
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (meeting == MAP_FAILED) Fail("no shared memory");
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&meeting->barrier, &shared, static_cast<unsigned>(options.ranks));
  std::vector<pid_t> ranks(options.ranks);
  for (int rank = 0; rank < options.ranks; ++rank) {
    ranks[rank] = fork();
    if (ranks[rank] != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const Context context = Connect(options, folder, rank);
    RunRank(options, context, WorldOver(context, meeting));
  }
  bool failed = false;
  for (int left = options.ranks; left > 0; --left) {
    int status = 0;
    wait(&status);
    // The others wait for one that has failed.
    if (status != 0 && !failed) {
      for (pid_t rank : ranks) kill(rank, SIGKILL);
      failed = true;
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace peers

int main(int argc, char** argv) { return peers::Main(argc, argv); }
