// The collectives through the C interface: values over random worlds, requests, groups, and that
// what is wrong is refused.
#include "collectives/c_api/c_api.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "collectives/c_api/thread_comms.h"
#include "gmock/gmock.h"

namespace rz::c_api {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// Small whole numbers, so that every order of summation gives the same.
int64_t Value(int rank, size_t i) { return static_cast<int64_t>((i * 7 + 3) % 11) + rank * 13; }

std::vector<int64_t> Values(int rank, size_t count) {
  std::vector<int64_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = Value(rank, i);
  return values;
}

int64_t Sum(int world, size_t i) {
  int64_t sum = 0;
  for (int r = 0; r < world; ++r) sum += Value(r, i);
  return sum;
}

class Ranks {
 public:
  Ranks(int rank, int world, size_t count, bool waits, rz_comm_t* comm)
      : rank_(rank), world_(world), count_(count), waits_(waits), comm_(comm) {}

  void TestAll() {
    AllReduce();
    Reduce();
    ReduceScatter();
    AllGather();
    GatherAndScatter();
    Broadcast();
    AllToAll();
    Variants();
    OK(rz_barrier(comm_, Request()));
    Wait();
  }

 private:
  // Where a request is to be put, if calls of this test have any.
  rz_request_t** Request() { return waits_ ? &request_ : nullptr; }
  void Wait() {
    if (!waits_) return;
    EXPECT_NE(request_, nullptr);
    OK(rz_wait(&request_, 0));
    EXPECT_EQ(request_, nullptr);
  }
  size_t world() const { return static_cast<size_t>(world_); }
  size_t begin() const { return static_cast<size_t>(rank_) * count_; }

  void AllReduce() {
    const std::vector<int64_t> send = Values(rank_, count_);
    std::vector<int64_t> recv(count_);
    OK(rz_all_reduce(send.data(), recv.data(), count_, RZ_INT64, RZ_SUM, comm_, Request()));
    Wait();
    for (size_t i = 0; i < count_; ++i) ASSERT_EQ(recv[i], Sum(world_, i)) << i;
  }

  void Reduce() {
    const int root = world_ - 1;
    std::vector<int64_t> both = Values(rank_, count_);
    OK(rz_reduce(both.data(), both.data(), count_, RZ_INT64, RZ_MAX, root, comm_, Request()));
    Wait();
    for (size_t i = 0; i < count_; ++i) {
      ASSERT_EQ(both[i], Value(rank_ == root ? world_ - 1 : rank_, i)) << i;
    }
  }

  void ReduceScatter() {
    const std::vector<int64_t> send = Values(rank_, world() * count_);
    std::vector<int64_t> recv(count_);
    OK(rz_reduce_scatter(send.data(), recv.data(), count_, RZ_INT64, RZ_SUM, comm_, Request()));
    Wait();
    for (size_t i = 0; i < count_; ++i) ASSERT_EQ(recv[i], Sum(world_, begin() + i)) << i;
  }

  void AllGather() {
    std::vector<int64_t> recv(world() * count_);
    const std::vector<int64_t> own = Values(rank_, count_);
    std::copy(own.begin(), own.end(), recv.begin() + begin());
    OK(rz_all_gather(recv.data() + begin(), recv.data(), count_, RZ_INT64, comm_, Request()));
    Wait();
    ExpectGathered(recv);
  }

  void ExpectGathered(const std::vector<int64_t>& recv) {
    for (size_t i = 0; i < recv.size(); ++i) {
      ASSERT_EQ(recv[i], Value(static_cast<int>(i / count_), i % count_)) << i;
    }
  }

  void GatherAndScatter() {
    const std::vector<int64_t> send = Values(rank_, count_);
    std::vector<int64_t> all(rank_ == 0 ? world() * count_ : 0);
    OK(rz_gather(send.data(), all.data(), count_, RZ_INT64, 0, comm_, Request()));
    Wait();
    if (rank_ == 0) ExpectGathered(all);
    std::vector<int64_t> back(count_);
    OK(rz_scatter(all.data(), back.data(), count_, RZ_INT64, 0, comm_, Request()));
    Wait();
    ASSERT_EQ(back, send);
  }

  void Broadcast() {
    const std::vector<int64_t> send = Values(rank_, count_);
    std::vector<int64_t> recv(count_);
    OK(rz_broadcast(rank_ == 0 ? send.data() : nullptr, recv.data(), count_, RZ_INT64, 0, comm_,
                    Request()));
    Wait();
    ASSERT_EQ(recv, Values(0, count_));
  }

  void AllToAll() {
    const std::vector<int64_t> send = Values(rank_, world() * count_);
    std::vector<int64_t> recv(world() * count_);
    OK(rz_all_to_all(send.data(), recv.data(), count_, RZ_INT64, comm_, Request()));
    Wait();
    for (size_t i = 0; i < recv.size(); ++i) {
      const int from = static_cast<int>(i / count_);
      ASSERT_EQ(recv[i], Value(from, begin() + i % count_)) << i;
    }
  }

  // Rank r's block has r + count elements in all of them.
  void Variants() {
    std::vector<size_t> counts, offsets = {0};
    for (size_t r = 0; r < world(); ++r) {
      counts.push_back(count_ + r);
      offsets.push_back(offsets.back() + counts.back());
    }
    const size_t own = counts[static_cast<size_t>(rank_)];
    const size_t offset = offsets[static_cast<size_t>(rank_)];
    const std::vector<int64_t> send = Values(rank_, offsets.back());
    std::vector<int64_t> shard(own), all(offsets.back());
    OK(rz_reduce_scatter_v(send.data(), shard.data(), counts.data(), RZ_INT64, RZ_SUM, comm_,
                           Request()));
    Wait();
    for (size_t i = 0; i < own; ++i) ASSERT_EQ(shard[i], Sum(world_, offset + i)) << i;
    OK(rz_all_gather_v(shard.data(), all.data(), counts.data(), RZ_INT64, comm_, Request()));
    Wait();
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], Sum(world_, i)) << i;
    // To rank j go counts[j] elements, and own elements come from each.
    const std::vector<size_t> from(world(), own);
    std::vector<int64_t> received(world() * own);
    OK(rz_all_to_all_v(send.data(), counts.data(), received.data(), from.data(), RZ_INT64, comm_,
                       Request()));
    Wait();
    for (size_t i = 0; i < received.size(); ++i) {
      ASSERT_EQ(received[i], Value(static_cast<int>(i / own), offset + i % own)) << i;
    }
  }

  const int rank_;
  const int world_;
  const size_t count_;
  const bool waits_;
  rz_comm_t* const comm_;
  rz_request_t* request_ = nullptr;
};

TEST(CollectivesTest, EveryOneInWorldsOfAllSizes) {
  for (int world : {1, 2, 3, 5}) {
    RunComms(world, [&](int rank, rz_comm_t* comm) {
      std::mt19937 random(static_cast<unsigned>(world));
      for (bool waits : {false, true}) {
        for (size_t count : {size_t{1}, size_t{1 + random() % 1000}, size_t{20000}}) {
          Ranks(rank, world, count, waits, comm).TestAll();
        }
      }
      int32_t own = -1, ranks = -1, hosts = -1;
      OK(rz_comm_rank(comm, &own));
      OK(rz_comm_count(comm, &ranks));
      OK(rz_comm_hosts(comm, &hosts));
      EXPECT_EQ(own, rank);
      EXPECT_EQ(ranks, world);
      EXPECT_EQ(hosts, 1);
    });
  }
}

TEST(CollectivesTest, AsMessagesToo) {
  rz_comm_options_t options = RZ_COMM_OPTIONS_INIT;
  options.no_shared_memory = 1;
  RunComms(
      3, [&](int rank, rz_comm_t* comm) { Ranks(rank, 3, 1000, true, comm).TestAll(); }, &options);
}

TEST(CollectivesTest, EveryTypeAndOperation) {
  RunComms(2, [](int, rz_comm_t* comm) {
    for (rz_dtype_t dtype = RZ_FLOAT32; dtype <= RZ_FLOAT8_E5M2; ++dtype) {
      std::vector<char> buffer(9 * rz_size_of(dtype));
      ASSERT_FALSE(buffer.empty()) << dtype;
      for (rz_op_t op = RZ_SUM; op <= RZ_PROD; ++op) {
        const bool is_float = dtype <= RZ_FLOAT16 || dtype >= RZ_FLOAT8_E4M3;
        const rz_result_t expected = op == RZ_AVG && !is_float ? RZ_ERROR_INVALID_ARGUMENT : RZ_OK;
        EXPECT_EQ(rz_all_reduce(buffer.data(), buffer.data(), 9, dtype, op, comm, nullptr),
                  expected)
            << dtype << " " << op << ": " << rz_last_error();
      }
    }
    for (rz_dtype_t none : {-1, RZ_FLOAT8_E5M2 + 1, 1 << 30}) {
      EXPECT_EQ(rz_size_of(none), 0u);
      char byte = 0;
      EXPECT_EQ(rz_all_reduce(&byte, &byte, 1, none, RZ_SUM, comm, nullptr),
                RZ_ERROR_INVALID_ARGUMENT);
    }
  });
}

TEST(CollectivesTest, NothingAtAll) {
  RunComms(3, [](int, rz_comm_t* comm) {
    OK(rz_all_reduce(nullptr, nullptr, 0, RZ_FLOAT32, RZ_SUM, comm, nullptr));
    OK(rz_broadcast(nullptr, nullptr, 0, RZ_FLOAT32, 2, comm, nullptr));
    OK(rz_all_to_all(nullptr, nullptr, 0, RZ_FLOAT32, comm, nullptr));
  });
}

TEST(PremulTest, MultipliesBeforeItSums) {
  RunComms(3, [](int, rz_comm_t* comm) {
    const float factor = 2;
    rz_op_t op = -1;
    OK(rz_op_create_premul_sum(&op, &factor, RZ_FLOAT32, comm));
    std::vector<float> values(100, 2);
    OK(rz_all_reduce(values.data(), values.data(), 100, RZ_FLOAT32, op, comm, nullptr));
    EXPECT_THAT(values, Each(12));
    // Of another type: refused on all ranks alike.
    EXPECT_EQ(rz_all_reduce(values.data(), values.data(), 50, RZ_FLOAT64, op, comm, nullptr),
              RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(rz_last_error(), AllOf(HasSubstr("float32"), HasSubstr("float64")));
    OK(rz_op_destroy(op, comm));
    EXPECT_EQ(rz_op_destroy(op, comm), RZ_ERROR_INVALID_ARGUMENT);
    rz_op_t next = -1;
    OK(rz_op_create_premul_sum(&next, &factor, RZ_FLOAT32, comm));
    EXPECT_NE(next, op);
    EXPECT_EQ(rz_all_reduce(values.data(), values.data(), 1, RZ_FLOAT32, op, comm, nullptr),
              RZ_ERROR_INVALID_ARGUMENT);
  });
}

TEST(PremulTest, FactorsOfIntegersMayBeNegative) {
  RunComms(1, [](int, rz_comm_t* comm) {
    const int8_t small_factor = -2;
    const int32_t factor = -3;
    rz_op_t small_op = 0, op = 0;
    OK(rz_op_create_premul_sum(&small_op, &small_factor, RZ_INT8, comm));
    OK(rz_op_create_premul_sum(&op, &factor, RZ_INT32, comm));
    int8_t small = 5;
    int32_t value = 1 << 20;
    OK(rz_all_reduce(&small, &small, 1, RZ_INT8, small_op, comm, nullptr));
    OK(rz_all_reduce(&value, &value, 1, RZ_INT32, op, comm, nullptr));
    EXPECT_EQ(small, -10);
    EXPECT_EQ(value, -3 * (1 << 20));
  });
}

TEST(PremulTest, ThereAreSixtyFourAtATime) {
  RunComms(1, [](int, rz_comm_t* comm) {
    const int32_t factor = 3;
    std::vector<rz_op_t> ops(64);
    for (rz_op_t& op : ops) OK(rz_op_create_premul_sum(&op, &factor, RZ_INT32, comm));
    rz_op_t one_more = 0;
    EXPECT_EQ(rz_op_create_premul_sum(&one_more, &factor, RZ_INT32, comm), RZ_ERROR_OUT_OF_MEMORY);
    int32_t value = 5;
    OK(rz_all_reduce(&value, &value, 1, RZ_INT32, ops.back(), comm, nullptr));
    EXPECT_EQ(value, 15);
  });
}

TEST(MessageTest, MeetInOrderAndAlsoOneself) {
  RunComms(3, [](int rank, rz_comm_t* comm) {
    const int next = (rank + 1) % 3;
    const int before = (rank + 2) % 3;
    const int64_t first[] = {rank}, second[] = {rank + 100};
    int64_t got[3] = {-1, -1, -1};
    rz_request_t* requests[6] = {};
    OK(rz_send(first, 1, RZ_INT64, next, comm, &requests[0]));
    OK(rz_send(second, 1, RZ_INT64, next, comm, &requests[1]));
    OK(rz_recv(&got[0], 1, RZ_INT64, before, comm, &requests[2]));
    OK(rz_recv(&got[1], 1, RZ_INT64, before, comm, &requests[3]));
    EXPECT_EQ(rz_send(first, 1, RZ_INT64, rank, comm, nullptr), RZ_ERROR_INVALID_ARGUMENT);
    OK(rz_send(first, 1, RZ_INT64, rank, comm, &requests[4]));
    OK(rz_recv(&got[2], 1, RZ_INT64, rank, comm, &requests[5]));
    for (rz_request_t*& request : requests) OK(rz_wait(&request, 60));
    EXPECT_EQ(got[0], before);
    EXPECT_EQ(got[1], before + 100);
    EXPECT_EQ(got[2], rank);
  });
}

TEST(RequestTest, TestDoesNotBlockAndEndsWhatIsDone) {
  std::atomic<bool> tested{false};
  RunComms(2, [&](int rank, rz_comm_t* comm) {
    float value = 1;
    rz_request_t* request = nullptr;
    if (rank == 1) tested.wait(false);
    OK(rz_all_reduce(&value, &value, 1, RZ_FLOAT32, RZ_SUM, comm, &request));
    int32_t done = -1;
    if (rank == 0) {
      OK(rz_test(&request, &done));
      EXPECT_EQ(done, 0);
      EXPECT_NE(request, nullptr);
      EXPECT_EQ(rz_comm_destroy(comm), RZ_ERROR_FAILED_PRECONDITION);
      EXPECT_THAT(rz_last_error(), HasSubstr("under way: 1"));
      tested = true;
      tested.notify_all();
    }
    rz_request_t* const copy = request;
    for (done = 0; done == 0;) OK(rz_test(&request, &done));
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(value, 2);
    OK(rz_test(&request, &done));
    EXPECT_EQ(done, 1);
    OK(rz_wait(&request, 0));
    rz_request_t* stale = copy;
    EXPECT_EQ(rz_wait(&stale, 0), RZ_ERROR_INVALID_HANDLE);
    EXPECT_EQ(rz_test(&stale, &done), RZ_ERROR_INVALID_HANDLE);
  });
}

TEST(RequestTest, AWaitThatIsTooShortFailsTheCommunicator) {
  std::atomic<bool> failed{false};
  RunComms(2, [&](int rank, rz_comm_t* comm) {
    float value = 1;
    if (rank == 0) {
      rz_request_t* request = nullptr;
      OK(rz_all_reduce(&value, &value, 1, RZ_FLOAT32, RZ_SUM, comm, &request));
      EXPECT_EQ(rz_wait(&request, -1), RZ_ERROR_INVALID_ARGUMENT);
      EXPECT_NE(request, nullptr);
      EXPECT_EQ(rz_wait(&request, 0.05), RZ_ERROR_TIMEOUT) << rz_last_error();
      EXPECT_EQ(request, nullptr);
      EXPECT_EQ(rz_barrier(comm, nullptr), RZ_ERROR_TIMEOUT) << rz_last_error();
      rz_result_t error = RZ_OK;
      char text[20];
      OK(rz_comm_get_error(comm, &error, text, sizeof text));
      EXPECT_EQ(error, RZ_ERROR_TIMEOUT);
      EXPECT_EQ(std::string(text).size(), 19u);
      failed = true;
      failed.notify_all();
    } else {
      failed.wait(false);
      EXPECT_NE(rz_barrier(comm, nullptr), RZ_OK);
    }
  });
}

TEST(GroupTest, CallsAndMessagesStartTogether) {
  RunComms(3, [](int rank, rz_comm_t* comm) {
    for (bool waits : {false, true}) {
      const int next = (rank + 1) % 3;
      const int before = (rank + 2) % 3;
      std::vector<int64_t> sums = Values(rank, 100);
      std::vector<int64_t> more = Values(rank, 7);
      const std::vector<int64_t> sent = Values(rank, 50);
      std::vector<int64_t> received(50), spread(rank == 1 ? 0 : 10), gathered(6);
      spread.resize(10);
      const std::vector<int64_t> source = Values(9, 10);
      const std::vector<int64_t> block = Values(rank, static_cast<size_t>(rank) + 1);
      const std::vector<size_t> counts = {1, 2, 3};
      OK(rz_group_start(comm));
      EXPECT_EQ(rz_group_start(comm), RZ_ERROR_FAILED_PRECONDITION);
      OK(rz_all_reduce(sums.data(), sums.data(), 100, RZ_INT64, RZ_SUM, comm, nullptr));
      OK(rz_all_reduce(more.data(), more.data(), 7, RZ_INT64, RZ_SUM, comm, nullptr));
      OK(rz_all_gather_v(block.data(), gathered.data(), counts.data(), RZ_INT64, comm, nullptr));
      OK(rz_broadcast(source.data(), spread.data(), 10, RZ_INT64, 1, comm, nullptr));
      // Refused, and no part of the group.
      EXPECT_EQ(rz_all_reduce(nullptr, nullptr, 5, RZ_INT64, RZ_SUM, comm, nullptr),
                RZ_ERROR_INVALID_ARGUMENT);
      rz_request_t* own = nullptr;
      EXPECT_EQ(rz_barrier(comm, &own), RZ_ERROR_INVALID_ARGUMENT);
      OK(rz_send(sent.data(), 50, RZ_INT64, next, comm, nullptr));
      OK(rz_recv(received.data(), 50, RZ_INT64, before, comm, nullptr));
      rz_request_t* request = nullptr;
      OK(rz_group_end(comm, waits ? &request : nullptr));
      EXPECT_EQ(request != nullptr, waits);
      OK(rz_wait(&request, 0));
      for (size_t i = 0; i < 100; ++i) ASSERT_EQ(sums[i], Sum(3, i));
      for (size_t i = 0; i < 7; ++i) ASSERT_EQ(more[i], Sum(3, i));
      EXPECT_EQ(received, Values(before, 50));
      EXPECT_EQ(spread, source);
      EXPECT_EQ(gathered, (std::vector<int64_t>{Value(0, 0), Value(1, 0), Value(1, 1), Value(2, 0),
                                                Value(2, 1), Value(2, 2)}));
    }
    OK(rz_group_start(comm));
    OK(rz_group_end(comm, nullptr));
    EXPECT_EQ(rz_group_end(comm, nullptr), RZ_ERROR_FAILED_PRECONDITION);
  });
}

TEST(CheckTest, CountsWhoseBytesOverflowAreRefused) {
  RunComms(2, [](int rank, rz_comm_t* comm) {
    char byte = 0;
    for (size_t count : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 8 + 1}) {
      EXPECT_EQ(rz_all_reduce(&byte, &byte, count, RZ_FLOAT64, RZ_SUM, comm, nullptr),
                RZ_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ(rz_all_gather(&byte, &byte, count, RZ_FLOAT64, comm, nullptr),
                RZ_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ(rz_all_to_all(&byte, &byte, count, RZ_FLOAT64, comm, nullptr),
                RZ_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ(rz_send(&byte, count, RZ_FLOAT64, 1 - rank, comm, nullptr),
                RZ_ERROR_INVALID_ARGUMENT);
      char other = 0;
      EXPECT_EQ(rz_broadcast(&byte, &other, count, RZ_FLOAT64, rank, comm, nullptr),
                RZ_ERROR_INVALID_ARGUMENT);
    }
    double values[4] = {};
    for (int32_t root : {-1, 2, 1 << 30}) {
      EXPECT_EQ(rz_reduce(values, values, 1, RZ_FLOAT64, RZ_SUM, root, comm, nullptr),
                RZ_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ(rz_recv(values, 1, RZ_FLOAT64, root, comm, nullptr), RZ_ERROR_INVALID_ARGUMENT);
    }
    for (rz_op_t op : {-1, 5, 0x1000, 0x11000, 0x1fff, 1 << 30}) {
      EXPECT_EQ(rz_all_reduce(values, values, 1, RZ_FLOAT64, op, comm, nullptr),
                RZ_ERROR_INVALID_ARGUMENT);
    }
    // Everybody is still there.
    EXPECT_EQ(rz_broadcast(values, values + 1, 2, RZ_FLOAT64, rank, comm, nullptr),
              RZ_ERROR_INVALID_ARGUMENT);
    OK(rz_barrier(comm, nullptr));
  });
}

}  // namespace
}  // namespace rz::c_api
