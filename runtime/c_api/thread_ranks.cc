#include "runtime/c_api/thread_ranks.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace rz::c_api {
namespace {

void RunRank(const char* rendezvous, int rank, int world,
             const std::function<void(int rank, rz_job_t* job)>& body) {
  rz_job_options_t options = RZ_JOB_OPTIONS_INIT;
  options.rendezvous = rendezvous;
  options.world_size = world;
  options.rank = rank;
  rz_job_t* job = nullptr;
  ASSERT_EQ(rz_init(&options, &job), RZ_OK) << rz_last_error();
  body(rank, job);
  EXPECT_EQ(rz_finalize(job), RZ_OK) << rz_last_error();
}

}  // namespace

void RunRanks(int world, const std::function<void(int rank, rz_job_t* job)>& body) {
  rz_server_t* server = nullptr;
  ASSERT_EQ(rz_server_start(nullptr, &server), RZ_OK) << rz_last_error();
  char address[300];
  ASSERT_EQ(rz_server_address(server, address, sizeof address), RZ_OK) << rz_last_error();
  std::vector<std::thread> ranks;
  ranks.reserve(static_cast<size_t>(world));
  for (int rank = 0; rank < world; ++rank) {
    ranks.emplace_back(RunRank, address, rank, world, std::cref(body));
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(rz_server_stop(server), RZ_OK) << rz_last_error();
}

}  // namespace rz::c_api
