// Results, versions, options, the server, jobs, forks.
#include "runtime/c_api/c_api.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/c_api/thread_ranks.h"

namespace rz::c_api {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ResultTest, EveryResultHasWords) {
  for (rz_result_t result = RZ_OK; result <= RZ_ERROR_INTERNAL; ++result) {
    EXPECT_STRNE(rz_strerror(result), "unknown result") << result;
  }
  EXPECT_STREQ(rz_strerror(-1), "unknown result");
  EXPECT_STREQ(rz_strerror(RZ_ERROR_INTERNAL + 1), "unknown result");
}

TEST(ResultTest, TheLastErrorIsTheThreadsOwnAndNamesTheFunction) {
  EXPECT_EQ(rz_init(nullptr, nullptr), RZ_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(rz_last_error(), "rz_init: job is NULL");
  std::thread([] { EXPECT_STREQ(rz_last_error(), ""); }).join();
}

TEST(VersionTest, IsThatOfTheHeader) {
  EXPECT_EQ(rz_version(), RZ_VERSION_MAJOR * 1000000 + RZ_VERSION_MINOR * 1000 + RZ_VERSION_PATCH);
  EXPECT_STREQ(rz_version_string(), "0.1.0");
}

TEST(FeatureTest, AreWordsAndNotPartsOfWords) {
  EXPECT_EQ(rz_has_feature("zero"), 1);
  EXPECT_EQ(rz_has_feature("host"), 1);
  for (const char* none : {"zer", "ero", "", " ", "host tcp", "cuda"}) {
    EXPECT_EQ(rz_has_feature(none), 0) << none;
  }
  EXPECT_EQ(rz_has_feature(nullptr), 0);
}

TEST(OptionsTest, ANewerProgramMaySetOnlyWhatThisLibraryKnows) {
  struct Newer {
    rz_job_options_t known = RZ_JOB_OPTIONS_INIT;
    uint64_t unknown = 0;
  } newer;
  newer.known.size = sizeof newer;
  rz_job_t* job = nullptr;
  EXPECT_EQ(rz_init(&newer.known, &job), RZ_OK) << rz_last_error();
  EXPECT_EQ(rz_finalize(job), RZ_OK);
  newer.unknown = 1;
  EXPECT_EQ(rz_init(&newer.known, &job), RZ_ERROR_UNSUPPORTED);
  EXPECT_EQ(job, nullptr);
}

TEST(OptionsTest, SizesThatCannotBeAreRefused) {
  rz_job_t* job = nullptr;
  for (size_t size : {size_t{0}, size_t{8}, sizeof(rz_job_options_t) - 1, size_t{4097}, SIZE_MAX}) {
    rz_job_options_t options = RZ_JOB_OPTIONS_INIT;
    options.size = size;
    EXPECT_EQ(rz_init(&options, &job), RZ_ERROR_INVALID_ARGUMENT) << size;
  }
}

TEST(OptionsTest, ValuesThatCannotBeAreRefusedByName) {
  const auto refused = [](const auto& set) {
    rz_job_options_t options = RZ_JOB_OPTIONS_INIT;
    set(&options);
    rz_job_t* job = nullptr;
    EXPECT_EQ(rz_init(&options, &job), RZ_ERROR_INVALID_ARGUMENT);
    return std::string(rz_last_error());
  };
  EXPECT_THAT(refused([](auto* o) { o->world_size = -1; }), HasSubstr("world_size"));
  EXPECT_THAT(refused([](auto* o) { o->world_size = 16385; }), HasSubstr("world_size"));
  EXPECT_THAT(refused([](auto* o) { o->rank = -2; }), HasSubstr("rank"));
  EXPECT_THAT(refused([](auto* o) { o->rank = 16384; }), HasSubstr("rank"));
  EXPECT_THAT(refused([](auto* o) { o->transport = "pigeon"; }), HasSubstr("pigeon"));
  EXPECT_THAT(refused([](auto* o) { o->join_timeout = -1; }), HasSubstr("join_timeout"));
  EXPECT_THAT(refused([](auto* o) { o->join_timeout = NAN; }), HasSubstr("join_timeout"));
  EXPECT_THAT(refused([](auto* o) { o->connect_timeout = 3601; }), HasSubstr("connect_timeout"));
  EXPECT_THAT(refused([](auto* o) { o->world_size = 2; }), HasSubstr("RZ_RENDEZVOUS"));
}

TEST(ServerTest, StartsOnAFreePortAndStopsOnce) {
  rz_server_t* server = nullptr;
  ASSERT_EQ(rz_server_start(nullptr, &server), RZ_OK) << rz_last_error();
  char address[262];
  EXPECT_EQ(rz_server_address(server, address, 4), RZ_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(rz_server_address(server, address, sizeof address), RZ_OK);
  EXPECT_THAT(address, StartsWith("127.0.0.1:"));
  rz_server_options_t taken = RZ_SERVER_OPTIONS_INIT;
  taken.listen = address;
  rz_server_t* second = nullptr;
  EXPECT_EQ(rz_server_start(&taken, &second), RZ_ERROR_UNAVAILABLE);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(rz_server_stop(server), RZ_OK);
  EXPECT_EQ(rz_server_stop(server), RZ_ERROR_INVALID_HANDLE);
}

TEST(ServerTest, OtherAddressesThanLoopbackAreAskedForTwice) {
  rz_server_options_t options = RZ_SERVER_OPTIONS_INIT;
  options.listen = "0.0.0.0:0";
  rz_server_t* server = nullptr;
  EXPECT_EQ(rz_server_start(&options, &server), RZ_ERROR_FAILED_PRECONDITION);
  options.insecure = 1;
  ASSERT_EQ(rz_server_start(&options, &server), RZ_OK) << rz_last_error();
  EXPECT_EQ(rz_server_stop(server), RZ_OK);
}

TEST(JobTest, RanksMeetAtABarrier) {
  std::atomic<int> met{0};
  RunRanks(3, [&](int rank, rz_job_t* job) {
    int32_t own = -1, world = -1;
    EXPECT_EQ(rz_job_rank(job, &own), RZ_OK);
    EXPECT_EQ(rz_job_world_size(job, &world), RZ_OK);
    EXPECT_EQ(own, rank);
    EXPECT_EQ(world, 3);
    ++met;
    EXPECT_EQ(rz_job_barrier(job, "all", 0), RZ_OK) << rz_last_error();
    EXPECT_EQ(met, 3);
  });
}

TEST(JobTest, ABarrierSaysWhoIsMissing) {
  RunRanks(2, [&](int rank, rz_job_t* job) {
    if (rank == 0) {
      EXPECT_EQ(rz_job_barrier(job, "half", 0.2), RZ_ERROR_TIMEOUT);
      EXPECT_THAT(rz_last_error(), HasSubstr("1"));
    }
    EXPECT_EQ(rz_job_barrier(job, "end", 0), RZ_OK) << rz_last_error();
  });
}

TEST(JobTest, AFailureIsToldToTheOthers) {
  RunRanks(2, [&](int rank, rz_job_t* job) {
    if (rank == 1) {
      EXPECT_EQ(rz_job_fail(job, "the disk is full"), RZ_OK) << rz_last_error();
    } else {
      EXPECT_EQ(rz_job_barrier(job, "never", 60), RZ_ERROR_UNAVAILABLE);
      EXPECT_THAT(rz_last_error(), HasSubstr("the disk is full"));
    }
  });
}

TEST(JobTest, ARankIsThereOnce) {
  rz_server_t* server = nullptr;
  ASSERT_EQ(rz_server_start(nullptr, &server), RZ_OK);
  char address[262];
  ASSERT_EQ(rz_server_address(server, address, sizeof address), RZ_OK);
  rz_job_options_t options = RZ_JOB_OPTIONS_INIT;
  options.rendezvous = address;
  options.world_size = 2;
  options.rank = 0;
  options.join_timeout = 0.3;
  rz_job_t* job = nullptr;
  EXPECT_EQ(rz_init(&options, &job), RZ_ERROR_TIMEOUT);
  EXPECT_THAT(rz_last_error(), HasSubstr("1"));
  EXPECT_EQ(job, nullptr);
  EXPECT_EQ(rz_server_stop(server), RZ_OK);
}

TEST(JobTest, ASecondThreadIsRefusedWhileOneIsWithin) {
  std::atomic<bool> refused{false};
  RunRanks(2, [&](int rank, rz_job_t* job) {
    if (rank == 1) {
      refused.wait(false);  // so that the other one waits
      EXPECT_EQ(rz_job_barrier(job, "go", 0), RZ_OK) << rz_last_error();
      return;
    }
    std::thread waiting([&] {
      rz_result_t result;
      do {
        result = rz_job_barrier(job, "go", 0);
      } while (result == RZ_ERROR_WRONG_THREAD);
      EXPECT_EQ(result, RZ_OK) << rz_last_error();
    });
    while (rz_job_barrier(job, "probe", 0.001) != RZ_ERROR_WRONG_THREAD) {
      std::this_thread::yield();  // so that the other one gets in between
    }
    EXPECT_EQ(rz_finalize(job), RZ_ERROR_WRONG_THREAD);
    rz_job_t* other = nullptr;
    EXPECT_EQ(rz_init(nullptr, &other), RZ_OK) << rz_last_error();  // jobs do not mind each other
    EXPECT_EQ(rz_finalize(other), RZ_OK);
    refused = true;
    refused.notify_all();
    waiting.join();
  });
}

TEST(ForkTest, AChildOfAProcessThatUsedTheLibraryIsTold) {
  rz_job_t* job = nullptr;
  ASSERT_EQ(rz_init(nullptr, &job), RZ_OK) << rz_last_error();
  const pid_t child = fork();
  if (child == 0) {
    int32_t rank = 0;
    rz_job_t* second = nullptr;
    const bool told = rz_job_rank(job, &rank) == RZ_ERROR_FORKED &&
                      std::strstr(rz_last_error(), "forked") != nullptr &&
                      rz_init(nullptr, &second) == RZ_ERROR_FORKED &&
                      rz_finalize(job) == RZ_ERROR_FORKED && rz_version() > 0;
    _exit(told ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(rz_finalize(job), RZ_OK) << rz_last_error();
}

}  // namespace
}  // namespace rz::c_api
