// Communicators through the C interface: splits, buffers, failures, metrics, flight records.
#include <atomic>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/c_api/thread_comms.h"
#include "gmock/gmock.h"

namespace rz::c_api {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SplitTest, ColoursGetCommunicatorsOfTheirOwn) {
  RunComms(4, [](int rank, rz_comm_t* comm) {
    rz_comm_t* half = nullptr;
    OK(rz_comm_split(comm, rank % 2, -rank, &half));
    int32_t own = -1, count = -1;
    OK(rz_comm_rank(half, &own));
    OK(rz_comm_count(half, &count));
    EXPECT_EQ(count, 2);
    EXPECT_EQ(own, rank < 2 ? 1 : 0);  // by key, the higher rank first
    int64_t sum = rank;
    OK(rz_all_reduce(&sum, &sum, 1, RZ_INT64, RZ_SUM, half, nullptr));
    EXPECT_EQ(sum, rank % 2 == 0 ? 2 : 4);
    rz_comm_t* none = half;
    OK(rz_comm_split(comm, rank == 0 ? 0 : RZ_SPLIT_NOCOLOR, 0, &none));
    EXPECT_EQ(none == nullptr, rank != 0);
    if (none != nullptr) {
      OK(rz_comm_destroy(none));
    }
    EXPECT_EQ(rz_comm_split(comm, -2, 0, &none), RZ_ERROR_INVALID_ARGUMENT);
    OK(rz_comm_destroy(half));
  });
}

TEST(SplitTest, APartOutlivesTheWhole) {
  RunRanks(2, [](int rank, rz_job_t* job) {
    rz_comm_t* whole = nullptr;
    rz_comm_t* part = nullptr;
    OK(rz_comm_create(job, nullptr, &whole));
    OK(rz_comm_split(whole, 0, rank, &part));
    OK(rz_comm_destroy(whole));
    EXPECT_EQ(rz_finalize(job), RZ_ERROR_FAILED_PRECONDITION);
    EXPECT_EQ(rz_comm_create(job, nullptr, &whole), RZ_ERROR_FAILED_PRECONDITION);
    int64_t sum = 1;
    OK(rz_all_reduce(&sum, &sum, 1, RZ_INT64, RZ_SUM, part, nullptr));
    EXPECT_EQ(sum, 2);
    OK(rz_comm_destroy(part));
    // When none is left there may be a new one.
    OK(rz_comm_create(job, nullptr, &whole));
    OK(rz_barrier(whole, nullptr));
    OK(rz_comm_destroy(whole));
  });
}

// Ranks that wait for the calls of two communicators in another order each move both meanwhile.
TEST(SplitTest, CallsOfTwoCommunicatorsMayBeWaitedForInAnyOrder) {
  for (const char* algorithms : {"", "all_reduce:ring"}) {
    rz_comm_options_t options = RZ_COMM_OPTIONS_INIT;
    options.algorithms = algorithms;
    const auto body = [](int rank, rz_comm_t* whole) {
      rz_comm_t* part = nullptr;
      OK(rz_comm_split(whole, 0, rank, &part));
      rz_comm_t* const comms[] = {whole, part};
      for (const size_t count : {1, 1000, 300'000}) {
        std::vector<int32_t> values[2];
        rz_request_t* requests[2];
        for (int i : {0, 1}) {
          values[i].assign(count, i + 1);
          OK(rz_all_reduce(values[i].data(), values[i].data(), count, RZ_INT32, RZ_SUM, comms[i],
                           &requests[i]));
        }
        const int first = rank == 1 ? 1 : 0;
        for (int i : {first, 1 - first}) OK(rz_wait(&requests[i], 0));
        for (int i : {0, 1}) EXPECT_EQ(values[i].back(), 3 * (i + 1));
      }
      OK(rz_comm_destroy(part));
    };
    RunComms(3, body, &options);
  }
}

TEST(MemoryTest, BuffersAreZeroAlignedAndGivenBackOnce) {
  RunComms(2, [](int, rz_comm_t* comm) {
    void* memory = nullptr;
    OK(rz_mem_alloc(&memory, 10000, comm));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
    auto* const values = static_cast<int64_t*>(memory);
    EXPECT_EQ(std::accumulate(values, values + 1250, int64_t{0}), 0);
    values[0] = 4;
    OK(rz_all_reduce(values, values, 1250, RZ_INT64, RZ_SUM, comm, nullptr));
    EXPECT_EQ(values[0], 8);
    EXPECT_EQ(rz_comm_destroy(comm), RZ_ERROR_FAILED_PRECONDITION);
    EXPECT_EQ(rz_mem_free(values + 1, comm), RZ_ERROR_INVALID_ARGUMENT);
    OK(rz_mem_free(memory, comm));
    EXPECT_EQ(rz_mem_free(memory, comm), RZ_ERROR_INVALID_ARGUMENT);
    OK(rz_mem_free(nullptr, comm));
    OK(rz_mem_alloc(&memory, 0, comm));
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(rz_mem_alloc(&memory, SIZE_MAX / 2, comm), RZ_ERROR_OUT_OF_MEMORY) << rz_last_error();
  });
}

TEST(FailureTest, RanksThatMakeDifferentCallsAreNamed) {
  RunComms(2, [](int rank, rz_comm_t* comm) {
    float values[20] = {};
    EXPECT_EQ(rz_all_reduce(values, values, rank == 0 ? 10 : 20, RZ_FLOAT32, RZ_SUM, comm, nullptr),
              RZ_ERROR_FAILED_PRECONDITION)
        << rz_last_error();
    EXPECT_THAT(rz_last_error(), AllOf(HasSubstr("10"), HasSubstr("20")));
  });
}

TEST(FailureTest, AnAbortEndsWaitsEverywhere) {
  std::atomic<int> created{0};
  RunComms(3, [&](int rank, rz_comm_t* comm) {
    ++created;
    created.notify_all();
    if (rank == 2) {
      for (int ranks = created; ranks < 3; ranks = created) created.wait(ranks);
      OK(rz_comm_abort(comm, "had enough"));
      EXPECT_EQ(rz_barrier(comm, nullptr), RZ_ERROR_ABORTED);
    } else {
      EXPECT_NE(rz_barrier(comm, nullptr), RZ_OK);
    }
    EXPECT_THAT(rz_last_error(), HasSubstr("had enough"));
    rz_result_t error = RZ_OK;
    OK(rz_comm_get_error(comm, &error, nullptr, 0));
    EXPECT_NE(error, RZ_OK);
  });
}

TEST(FailureTest, AThreadMayAbortWhatAnotherIsWaitingFor) {
  RunComms(2, [](int rank, rz_comm_t* comm) {
    float value = 0;
    std::thread aborting;
    if (rank == 0) {
      aborting = std::thread([&] {
        int32_t hosts = 0;
        while (rz_comm_hosts(comm, &hosts) != RZ_ERROR_WRONG_THREAD) std::this_thread::yield();
        OK(rz_comm_abort(comm, "from beside"));
      });
    }
    rz_result_t result;
    do {
      result = rz_recv(&value, 1, RZ_FLOAT32, 1 - rank, comm, nullptr);
    } while (result == RZ_ERROR_WRONG_THREAD);
    EXPECT_EQ(result, rank == 0 ? RZ_ERROR_ABORTED : RZ_ERROR_UNAVAILABLE) << rz_last_error();
    EXPECT_THAT(rz_last_error(), HasSubstr("from beside"));
    if (rank == 0) aborting.join();
  });
}

TEST(FailureTest, WhoAsksForTheErrorIsInNobodysWay) {
  RunComms(1, [](int, rz_comm_t* comm) {
    std::atomic<bool> done{false};
    std::thread asking([&] {
      for (int i = 0; i < 500000; ++i) {
        rz_result_t error = RZ_ERROR_INTERNAL;
        OK(rz_comm_get_error(comm, &error, nullptr, 0));
        EXPECT_EQ(error, RZ_OK);
      }
      done = true;
    });
    int refused = 0;
    while (!done) {
      int32_t hosts = 0;
      if (rz_comm_hosts(comm, &hosts) != RZ_OK) ++refused;
    }
    EXPECT_EQ(refused, 0) << rz_last_error();
    asking.join();
  });
}

// A sum over all ranks of `comm` is what it must be.
void ExpectToWork(rz_comm_t* comm) {
  int32_t count = 0;
  int32_t value = 1;
  OK(rz_comm_count(comm, &count));
  OK(rz_all_reduce(&value, &value, 1, RZ_INT32, RZ_SUM, comm, nullptr));
  EXPECT_EQ(value, count);
}

TEST(RebuildTest, TheJobIsThatOfTheRebuiltCommunicatorFromThenOn) {
  RunRanks(3, [](int rank, rz_job_t* job) {
    rz_comm_t* comm = nullptr;
    OK(rz_comm_create(job, nullptr, &comm));
    rz_comm_t* part = nullptr;
    OK(rz_comm_split(comm, rank % 2, 0, &part));
    OK(rz_barrier(comm, nullptr));
    if (rank == 1) {
      OK(rz_comm_abort(comm, "by hand"));
    }
    EXPECT_NE(rz_barrier(comm, nullptr), RZ_OK);
    rz_comm_t* next = nullptr;
    OK(rz_comm_rebuild(part, nullptr, &next));
    int32_t number = -1;
    OK(rz_comm_rank(next, &number));
    EXPECT_EQ(number, rank);
    OK(rz_job_world_size(job, &number));
    EXPECT_EQ(number, 3);
    // What was before stays failed, and has been rebuilt.
    EXPECT_NE(rz_barrier(comm, nullptr), RZ_OK);
    rz_comm_t* again = nullptr;
    EXPECT_EQ(rz_comm_rebuild(comm, nullptr, &again), RZ_ERROR_FAILED_PRECONDITION);
    EXPECT_THAT(rz_last_error(), HasSubstr("has been rebuilt"));
    OK(rz_comm_destroy(comm));
    OK(rz_comm_destroy(part));
    ExpectToWork(next);
    OK(rz_job_barrier(job, "all", 60));
    OK(rz_comm_split(next, 0, 0, &part));
    ExpectToWork(part);
    OK(rz_comm_destroy(part));
    EXPECT_EQ(rz_comm_create(job, nullptr, &again), RZ_ERROR_FAILED_PRECONDITION);
    OK(rz_comm_destroy(next));
    OK(rz_comm_create(job, nullptr, &again));
    ExpectToWork(again);
    OK(rz_comm_destroy(again));
  });
}

// Before the failure, or once it knows of it.
void ExpectNotToWaitForRank0(bool leaves_late) {
  RunRanks(3, [&](int rank, rz_job_t* job) {
    rz_comm_t* comm = nullptr;
    OK(rz_comm_create(job, nullptr, &comm));
    OK(rz_barrier(comm, nullptr));
    if (rank == 0) {
      if (leaves_late) {
        EXPECT_NE(rz_barrier(comm, nullptr), RZ_OK);
      }
      OK(rz_comm_destroy(comm));
      return;
    }
    if (rank == 1) {
      OK(rz_comm_abort(comm, "by hand"));
    }
    EXPECT_NE(rz_barrier(comm, nullptr), RZ_OK);
    rz_rebuild_options_t options = RZ_REBUILD_OPTIONS_INIT;
    options.min_ranks = 2;
    options.timeout = 300;
    rz_comm_t* next = nullptr;
    OK(rz_comm_rebuild(comm, &options, &next));
    OK(rz_comm_destroy(comm));
    int32_t number = -1;
    OK(rz_comm_rank(next, &number));
    EXPECT_EQ(number, rank - 1);
    ExpectToWork(next);
    OK(rz_comm_destroy(next));
  });
}

TEST(RebuildTest, ARankThatHasLeftIsNotWaitedFor) {
  ExpectNotToWaitForRank0(/*leaves_late=*/false);
}

TEST(RebuildTest, ARankThatLeavesAfterTheFailureIsNotWaitedFor) {
  ExpectNotToWaitForRank0(/*leaves_late=*/true);
}

TEST(RebuildTest, WhatCannotBeIsRefused) {
  RunComms(2, [](int, rz_comm_t* comm) {
    rz_comm_t* next = nullptr;
    EXPECT_EQ(rz_comm_rebuild(comm, nullptr, &next), RZ_ERROR_FAILED_PRECONDITION);
    EXPECT_THAT(rz_last_error(), HasSubstr("has not failed"));
    rz_rebuild_options_t options = RZ_REBUILD_OPTIONS_INIT;
    options.min_ranks = 3;
    EXPECT_EQ(rz_comm_rebuild(comm, &options, &next), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(rz_last_error(), HasSubstr("0 to the job's 2 ranks"));
    options.min_ranks = -1;
    EXPECT_EQ(rz_comm_rebuild(comm, &options, &next), RZ_ERROR_INVALID_ARGUMENT);
    options.min_ranks = 1;
    options.timeout = -1;
    EXPECT_EQ(rz_comm_rebuild(comm, &options, &next), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(next, nullptr);
    ExpectToWork(comm);
  });
}

TEST(MetricsTest, CountWhatWasSentOverMessages) {
  rz_comm_options_t options = RZ_COMM_OPTIONS_INIT;
  options.no_shared_memory = 1;
  options.algorithms = "all_reduce:ring";
  RunComms(
      2,
      [](int, rz_comm_t* comm) {
        std::vector<float> values(1000, 1);
        OK(rz_all_reduce(values.data(), values.data(), 1000, RZ_FLOAT32, RZ_SUM, comm, nullptr));
        rz_comm_metrics_t metrics = RZ_COMM_METRICS_INIT;
        OK(rz_comm_get_metrics(comm, &metrics));
        EXPECT_EQ(metrics.all_reduce, 4000);  // 2 (N - 1) / N of the buffer
        EXPECT_EQ(metrics.broadcast, 0);
        metrics.size = 8;
        EXPECT_EQ(rz_comm_get_metrics(comm, &metrics), RZ_ERROR_INVALID_ARGUMENT);
        // A newer program's struct: what is not known here is 0.
        struct {
          rz_comm_metrics_t known = RZ_COMM_METRICS_INIT;
          int64_t newer = 7;
        } larger;
        larger.known.size = sizeof larger;
        OK(rz_comm_get_metrics(comm, &larger.known));
        EXPECT_EQ(larger.known.all_reduce, 4000);
        EXPECT_EQ(larger.newer, 0);
      },
      &options);
}

TEST(FlightTest, ARecordIsWritten) {
  const std::string directory = absl::StrCat(::testing::TempDir(), "/flight_c_api");
  std::filesystem::remove_all(directory);
  RunComms(2, [&](int, rz_comm_t* comm) {
    OK(rz_barrier(comm, nullptr));
    OK(rz_comm_dump_flight_record(comm, directory.c_str()));
    EXPECT_EQ(rz_comm_dump_flight_record(comm, ""), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(rz_comm_dump_flight_record(comm, "/proc/none"), RZ_OK);
  });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory),
                          std::filesystem::directory_iterator()),
            2);
}

}  // namespace
}  // namespace rz::c_api
