// A grid of ranks in C++: communicators of the rows and columns, and calls that overlap in a group.
//   rz_run -n 4 -- ./grid
#include <ringzero.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

void Check(rz_result_t result) {
  if (result != RZ_OK) throw std::runtime_error(rz_last_error());
}

// Handles that end by themselves.
struct Ending {
  void operator()(rz_job_t* job) const { rz_finalize(job); }
  void operator()(rz_comm_t* comm) const { rz_comm_destroy(comm); }
};
using Job = std::unique_ptr<rz_job_t, Ending>;
using Communicator = std::unique_ptr<rz_comm_t, Ending>;

Job Join() {
  rz_job_t* job = nullptr;
  Check(rz_init(nullptr, &job));
  return Job(job);
}

Communicator Everybody(const Job& job) {
  rz_comm_t* comm = nullptr;
  Check(rz_comm_create(job.get(), nullptr, &comm));
  return Communicator(comm);
}

Communicator Split(const Communicator& whole, int color, int key) {
  rz_comm_t* part = nullptr;
  Check(rz_comm_split(whole.get(), color, key, &part));
  return Communicator(part);
}

void Run() {
  const Job job = Join();
  const Communicator all = Everybody(job);
  int32_t rank = 0, ranks = 0;
  Check(rz_comm_rank(all.get(), &rank));
  Check(rz_comm_count(all.get(), &ranks));
  int columns = 1;  // the widest grid of whole rows that is no wider than high
  for (int width = 1; width * width <= ranks; ++width) {
    if (ranks % width == 0) columns = width;
  }
  const Communicator row = Split(all, rank / columns, rank);
  const Communicator column = Split(all, rank % columns, rank);

  // Sums along the row and along the column, of many small tensors at once.
  std::vector<std::vector<float>> tensors(8, std::vector<float>(100, static_cast<float>(rank)));
  for (const Communicator* comm : {&row, &column}) {
    rz_request_t* request = nullptr;
    Check(rz_group_start(comm->get()));
    for (std::vector<float>& tensor : tensors) {
      Check(rz_all_reduce(tensor.data(), tensor.data(), tensor.size(), RZ_FLOAT32, RZ_SUM,
                          comm->get(), nullptr));
    }
    Check(rz_group_end(comm->get(), &request));
    Check(rz_wait(&request, 0));  // other work could be done until here
  }
  std::printf("rank %d of %d, grid of %d columns: sum %g\n", rank, ranks, columns,
              static_cast<double>(tensors[7][99]));
}

}  // namespace

int main() {
  try {
    Run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
