// What a communicator's flight record says of it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/flight/flight_recorder.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::SimJob;

TEST(CommunicatorFlightRecordTest, HasTheCallsInTheirOrder) {
  SimJob job(3, {}, {});
  std::vector<float> data(100);
  ASSERT_THAT(job.Run(2,
                      [&](int r, int i) {
                        Communicator& comm = job.comm(r);
                        return i == 0 ? comm.StartBarrier()
                                      : comm.StartBroadcast(data.data(), 100, DType::kFloat32,
                                                            Rank(2));
                      }),
              IsOk());
  const FlightRecord record = job.comm(1).FlightRecord();
  EXPECT_EQ(record.rank, 1);
  EXPECT_EQ(record.world_size, 3);
  EXPECT_EQ(record.last_number, 2);
  ASSERT_EQ(record.entries.size(), 2u);
  EXPECT_EQ(record.entries[0].kind, "barrier");
  EXPECT_EQ(record.entries[1].kind, "broadcast");
  EXPECT_EQ(record.entries[1].count, 100);
  EXPECT_EQ(record.entries[1].root, 2);
  for (const FlightEntry& entry : record.entries) EXPECT_EQ(entry.state, FlightState::kDone);
}

// So rank 0's account of call 2 tells whether its call 1 was that of the others, even where the
// ring has lost it.
TEST(CommunicatorFlightRecordTest, EqualCallsAfterOtherCallsHaveOtherHashes) {
  std::vector<uint64_t> hashes;
  for (int64_t first_count : {5, 5, 6}) {
    SimJob job(2, {}, {});
    std::vector<float> data(10);
    ASSERT_THAT(job.Run(2,
                        [&](int r, int i) {
                          return job.comm(r).StartBroadcast(data.data(), i == 0 ? first_count : 10,
                                                            DType::kFloat32, Rank(0));
                        }),
                IsOk());
    hashes.push_back(job.comm(0).FlightRecord().entries[1].call_hash);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], hashes[2]);
}

TEST(CommunicatorFlightRecordTest, NamesTheJobOfTheEnvironment) {
  setenv("RZ_JOB", "night", 1);
  EXPECT_EQ(SimJob(1, {}, {}).comm(0).FlightRecord().job, "night");
  unsetenv("RZ_JOB");
  EXPECT_EQ(SimJob(1, {}, {}).comm(0).FlightRecord().job, "default");
}

// However early: nobody has polled it long enough to note whom it waits for.
TEST(CommunicatorFlightRecordTest, AFailedOperationKeepsItsPlace) {
  SimJob job(2, {}, {});
  std::vector<float> data(100'000);
  ASSERT_OK_AND_ASSIGN(Operation operation,
                       job.comm(0).StartAllReduce(data.data(), data.data(), 100'000,
                                                  DType::kFloat32, ReduceOp::kSum));
  job.comm(0).Abort(absl::CancelledError("enough"));
  EXPECT_EQ(operation.Wait(), absl::CancelledError("enough"));
  const FlightRecord record = job.comm(0).FlightRecord();
  ASSERT_EQ(record.entries.size(), 1u);
  EXPECT_EQ(record.entries[0].state, FlightState::kFailed);
  EXPECT_EQ(record.entries[0].position.lane, 0);
}

}  // namespace
}  // namespace rz
