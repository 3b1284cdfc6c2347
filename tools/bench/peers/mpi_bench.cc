// Collectives of an MPI, measured as rz_bench measures ringzero's; see peer_method.h.
#include <mpi.h>

#include "tools/bench/peers/peer_method.h"

namespace peers {
namespace {

// Elements of each rank's buffers for one size; `block` is one rank's share.
struct Shape {
  size_t block = 0, total = 0, send = 0, recv = 0;
};

struct Buffers {
  float* send = nullptr;
  float* recv = nullptr;
};

Shape ShapeOf(const std::string& operation, size_t bytes, int ranks, int rank) {
  Shape shape;
  shape.block = std::max<size_t>(1, bytes / sizeof(float) / ranks);
  shape.total = shape.block * ranks;
  const bool root = rank == 0;
  shape.send = shape.recv = shape.total;
  if (operation == "reduce_scatter") shape.recv = shape.block;
  if (operation == "all_gather") shape.send = shape.block;
  if (operation == "gather") shape.send = shape.block, shape.recv = root ? shape.total : 0;
  if (operation == "scatter") shape.send = root ? shape.total : 0, shape.recv = shape.block;
  if (operation == "reduce") shape.recv = root ? shape.total : 0;
  if (operation == "barrier") shape.send = shape.recv = 0;
  return shape;
}

void Exchange(const Shape& shape, const Buffers& buffers, int rank, int ranks) {
  const int count = static_cast<int>(shape.total);
  MPI_Sendrecv(buffers.send, count, MPI_FLOAT, (rank + 1) % ranks, 0, buffers.recv, count,
               MPI_FLOAT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// A call with separate buffers; null where the operation has none.
std::function<void()> OutOfPlace(const std::string& operation, const Shape& shape, const Buffers& b,
                                 int rank, int ranks) {
  const int block = static_cast<int>(shape.block), total = static_cast<int>(shape.total);
  const MPI_Comm comm = MPI_COMM_WORLD;
  if (operation == "all_reduce") {
    return [=] { MPI_Allreduce(b.send, b.recv, total, MPI_FLOAT, MPI_SUM, comm); };
  }
  if (operation == "reduce_scatter") {
    return [=] { MPI_Reduce_scatter_block(b.send, b.recv, block, MPI_FLOAT, MPI_SUM, comm); };
  }
  if (operation == "all_gather") {
    return [=] { MPI_Allgather(b.send, block, MPI_FLOAT, b.recv, block, MPI_FLOAT, comm); };
  }
  if (operation == "reduce") {
    return [=] { MPI_Reduce(b.send, b.recv, total, MPI_FLOAT, MPI_SUM, 0, comm); };
  }
  if (operation == "all_to_all") {
    return [=] { MPI_Alltoall(b.send, block, MPI_FLOAT, b.recv, block, MPI_FLOAT, comm); };
  }
  if (operation == "gather") {
    return [=] { MPI_Gather(b.send, block, MPI_FLOAT, b.recv, block, MPI_FLOAT, 0, comm); };
  }
  if (operation == "scatter") {
    return [=] { MPI_Scatter(b.send, block, MPI_FLOAT, b.recv, block, MPI_FLOAT, 0, comm); };
  }
  if (operation == "sendrecv") return [=] { Exchange(shape, b, rank, ranks); };
  if (operation == "barrier") return [=] { MPI_Barrier(comm); };
  return nullptr;
}

// A call on `whole`, which has all ranks' elements; null where ringzero has none to compare.
std::function<void()> InPlace(const std::string& operation, const Shape& shape, float* whole,
                              int rank) {
  const int block = static_cast<int>(shape.block), total = static_cast<int>(shape.total);
  const MPI_Comm comm = MPI_COMM_WORLD;
  const void* const here = MPI_IN_PLACE;
  if (operation == "broadcast") return [=] { MPI_Bcast(whole, total, MPI_FLOAT, 0, comm); };
  if (operation == "all_reduce") {
    return [=] { MPI_Allreduce(here, whole, total, MPI_FLOAT, MPI_SUM, comm); };
  }
  if (operation == "reduce_scatter") {
    return [=] { MPI_Reduce_scatter_block(here, whole, block, MPI_FLOAT, MPI_SUM, comm); };
  }
  if (operation == "all_gather") {
    return [=] { MPI_Allgather(here, 0, MPI_FLOAT, whole, block, MPI_FLOAT, comm); };
  }
  if (operation == "reduce") {
    return [=] { MPI_Reduce(rank == 0 ? here : whole, whole, total, MPI_FLOAT, MPI_SUM, 0, comm); };
  }
  if (operation == "gather") {
    return [=] {
      MPI_Gather(rank == 0 ? here : whole, block, MPI_FLOAT, whole, block, MPI_FLOAT, 0, comm);
    };
  }
  if (operation == "scatter") {
    return [=] {
      MPI_Scatter(whole, block, MPI_FLOAT, rank == 0 ? const_cast<void*>(here) : whole, block,
                  MPI_FLOAT, 0, comm);
    };
  }
  return nullptr;
}

// What recv[i] must be after a call with separate buffers.
float Expected(const std::string& operation, const Shape& shape, int rank, int ranks, size_t i) {
  const size_t block = shape.block;
  const int source = static_cast<int>(i / block);
  if (operation == "reduce_scatter") return SumOfInputs(ranks, rank * block + i);
  if (operation == "all_gather" || operation == "gather") return Input(source, i % block);
  if (operation == "all_to_all") return Input(source, rank * block + i % block);
  if (operation == "scatter") return Input(0, rank * block + i);
  if (operation == "sendrecv") return Input((rank + ranks - 1) % ranks, i);
  return SumOfInputs(ranks, i);
}

void Check(const Options& options, const Shape& shape, const Buffers& buffers, int rank,
           int ranks) {
  size_t wrong = 0;
  for (size_t i = 0; i < shape.recv; ++i) {
    wrong += buffers.recv[i] != Expected(options.operation, shape, rank, ranks, i);
  }
  if (wrong == 0) return;
  std::fprintf(stderr, "rank %d: %zu elements of %s are wrong\n", rank, wrong,
               options.operation.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

bool RunSize(const World& world, const Options& options, size_t size) {
  const Shape shape = ShapeOf(options.operation, size, world.size, world.rank);
  const Buffers buffers = {Allocate(shape.total, options.huge),
                           Allocate(shape.total, options.huge)};
  for (size_t i = 0; i < shape.send; ++i) buffers.send[i] = Input(world.rank, i);
  const auto out = OutOfPlace(options.operation, shape, buffers, world.rank, world.size);
  const auto in = InPlace(options.operation, shape, buffers.recv, world.rank);
  if (out != nullptr) {
    out();
    Check(options, shape, buffers, world.rank, world.size);
    Report(world, options, size, "out_of_place",
           Measure(world, options, out, [&] { Rewrite(buffers.send, shape.send); }));
  }
  if (in != nullptr) {
    const size_t elements = options.operation == "all_gather" || options.operation == "gather"
                                ? shape.block
                                : shape.total;
    float* const input =
        buffers.recv + (options.operation == "all_gather" ? world.rank * shape.block : 0);
    Report(world, options, size, "in_place",
           Measure(world, options, in, [&] { Rewrite(input, elements); }));
  }
  std::free(buffers.send);
  std::free(buffers.recv);
  return out != nullptr || in != nullptr;
}

int Main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  world.barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
  world.take_largest = [](double* values, int count) {
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  };
  const Options options = ParseOptions(argc, argv);
  for (size_t size : options.sizes) {
    if (RunSize(world, options, size)) continue;
    if (world.rank == 0) std::fprintf(stderr, "no operation %s here\n", options.operation.c_str());
    MPI_Finalize();
    return 2;
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace peers

int main(int argc, char** argv) { return peers::Main(argc, argv); }
