// Reductions by functions of the caller's through the C interface: values over random worlds,
// requests and groups, a function that fails or calls back, and what is refused.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "collectives/c_api/c_api.h"
#include "collectives/c_api/thread_comms.h"
#include "gmock/gmock.h"

namespace rz::c_api {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

int32_t Xor(void* result, const void* a, const void* b, size_t count, rz_dtype_t dtype, void*) {
  const size_t bytes = count * rz_size_of(dtype);
  for (size_t i = 0; i < bytes; ++i) {
    static_cast<uint8_t*>(result)[i] =
        static_cast<const uint8_t*>(a)[i] ^ static_cast<const uint8_t*>(b)[i];
  }
  return 0;
}

// The one farther from 0, of float32. *user counts the elements.
int32_t AbsMax(void* result, const void* a, const void* b, size_t count, rz_dtype_t, void* user) {
  for (size_t i = 0; i < count; ++i) {
    const float x = static_cast<const float*>(a)[i];
    const float y = static_cast<const float*>(b)[i];
    static_cast<float*>(result)[i] = std::abs(x) >= std::abs(y) ? x : y;
  }
  *static_cast<size_t*>(user) += count;
  return 0;
}

template <rz_op_t kOp>
int32_t Usual(void* result, const void* a, const void* b, size_t count, rz_dtype_t, void*) {
  const auto* const x = static_cast<const int64_t*>(a);
  const auto* const y = static_cast<const int64_t*>(b);
  for (size_t i = 0; i < count; ++i) {
    static_cast<int64_t*>(result)[i] = kOp == RZ_SUM   ? x[i] + y[i]
                                       : kOp == RZ_MAX ? std::max(x[i], y[i])
                                                       : std::min(x[i], y[i]);
  }
  return 0;
}

std::vector<int64_t> Random(int rank, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed * 100 + static_cast<uint64_t>(rank));
  std::vector<int64_t> values(count);
  for (int64_t& value : values) value = static_cast<int64_t>(random() >> 8);
  return values;
}

std::vector<int64_t> XorOfAll(int world, size_t count, uint64_t seed) {
  std::vector<int64_t> all(count);
  for (int r = 0; r < world; ++r) {
    const std::vector<int64_t> values = Random(r, count, seed);
    for (size_t i = 0; i < count; ++i) all[i] ^= values[i];
  }
  return all;
}

// Every reduction of `count` elements a rank, by `op`.
void ExpectXors(int rank, int world, size_t count, rz_op_t op, rz_comm_t* comm) {
  const auto n = static_cast<size_t>(world);
  std::vector<int64_t> values = Random(rank, n * count, 1);
  const std::vector<int64_t> all = XorOfAll(world, n * count, 1);
  const auto begin = static_cast<ptrdiff_t>(static_cast<size_t>(rank) * count);
  const std::vector<int64_t> own(all.begin() + begin,
                                 all.begin() + begin + static_cast<ptrdiff_t>(count));
  std::vector<int64_t> block(count);
  OK(rz_reduce_scatter(values.data(), block.data(), count, RZ_INT64, op, comm, nullptr));
  ASSERT_EQ(block, own);
  const std::vector<size_t> counts(n, count);
  block.assign(count, 0);
  rz_request_t* request = nullptr;
  OK(rz_reduce_scatter_v(values.data(), block.data(), counts.data(), RZ_INT64, op, comm, &request));
  OK(rz_wait(&request, 0));
  ASSERT_EQ(block, own);
  std::vector<int64_t> whole(n * count);
  OK(rz_reduce(values.data(), whole.data(), n * count, RZ_INT64, op, world - 1, comm, nullptr));
  ASSERT_TRUE(rank != world - 1 || whole == all);
  OK(rz_all_reduce(values.data(), values.data(), n * count, RZ_INT64, op, comm, nullptr));
  ASSERT_EQ(values, all);
}

TEST(FunctionTest, CombinesWhatAllRanksGive) {
  for (int world = 1; world <= 8; ++world) {
    rz_comm_options_t options = RZ_COMM_OPTIONS_INIT;
    options.no_shared_memory = world % 2;
    RunComms(
        world,
        [&](int rank, rz_comm_t* comm) {
          for (uint32_t flags : {0, int{RZ_OP_ANY_ORDER}}) {
            rz_op_t op = -1;
            OK(rz_op_create(&op, Xor, nullptr, flags, comm));
            for (size_t count : {0, 1, 7, 1000, 20'001}) {
              ExpectXors(rank, world, count, op, comm);
            }
            OK(rz_op_destroy(op, comm));
          }
        },
        &options);
  }
}

TEST(FunctionTest, HasTheBitsOfTheOperationItStandsFor) {
  struct {
    rz_op_t op;
    rz_reduce_function_t function;
  } const kOps[] = {{RZ_SUM, Usual<RZ_SUM>}, {RZ_MAX, Usual<RZ_MAX>}, {RZ_MIN, Usual<RZ_MIN>}};
  RunComms(5, [&](int rank, rz_comm_t* comm) {
    for (const auto& pair : kOps) {
      rz_op_t op = -1;
      OK(rz_op_create(&op, pair.function, nullptr, 0, comm));
      for (size_t count : {3, 500, 30'000}) {
        const std::vector<int64_t> values = Random(rank, count, count);
        std::vector<int64_t> by_op(count), by_function(count);
        OK(rz_all_reduce(values.data(), by_op.data(), count, RZ_INT64, pair.op, comm, nullptr));
        OK(rz_all_reduce(values.data(), by_function.data(), count, RZ_INT64, op, comm, nullptr));
        ASSERT_EQ(by_function, by_op);
      }
    }
  });
}

TEST(FunctionTest, IsGivenWhatItWasMadeWith) {
  RunComms(3, [](int rank, rz_comm_t* comm) {
    size_t elements = 0;
    rz_op_t op = -1;
    OK(rz_op_create(&op, AbsMax, &elements, RZ_OP_ANY_ORDER, comm));
    std::vector<float> values(100, rank == 1 ? -7.0f : static_cast<float>(rank));
    OK(rz_all_reduce(values.data(), values.data(), 100, RZ_FLOAT32, op, comm, nullptr));
    EXPECT_THAT(values, Each(-7));
    EXPECT_GT(elements, 0u);
    std::vector<uint16_t> halves(1000, static_cast<uint16_t>(1 << rank));
    rz_op_t bits = -1;
    OK(rz_op_create(&bits, Xor, nullptr, 0, comm));
    OK(rz_all_reduce(halves.data(), halves.data(), 1000, RZ_BFLOAT16, bits, comm, nullptr));
    EXPECT_THAT(halves, Each(7));
  });
}

TEST(FunctionTest, GroupsKeepItUntilTheyEnd) {
  RunComms(3, [](int rank, rz_comm_t* comm) {
    rz_op_t op = -1;
    OK(rz_op_create(&op, Xor, nullptr, 0, comm));
    std::vector<int64_t> small = Random(rank, 10, 2), other = Random(rank, 20, 3);
    std::vector<int64_t> sums(5, rank);
    int64_t token = 0;
    // Rank 0's group stays under way until it lets the others make theirs.
    if (rank > 0) {
      OK(rz_recv(&token, 1, RZ_INT64, 0, comm, nullptr));
    }
    OK(rz_group_start(comm));
    OK(rz_all_reduce(small.data(), small.data(), 10, RZ_INT64, op, comm, nullptr));
    OK(rz_all_reduce(other.data(), other.data(), 20, RZ_INT64, op, comm, nullptr));
    OK(rz_all_reduce(sums.data(), sums.data(), 5, RZ_INT64, RZ_SUM, comm, nullptr));
    EXPECT_EQ(rz_op_destroy(op, comm), RZ_ERROR_FAILED_PRECONDITION);
    EXPECT_THAT(rz_last_error(), HasSubstr("rz_group_end"));
    rz_request_t* request = nullptr;
    OK(rz_group_end(comm, &request));
    if (rank == 0) {
      EXPECT_EQ(rz_op_destroy(op, comm), RZ_ERROR_FAILED_PRECONDITION);
      EXPECT_THAT(rz_last_error(), HasSubstr("rz_wait"));
      for (int peer : {1, 2}) OK(rz_send(&token, 1, RZ_INT64, peer, comm, nullptr));
    }
    OK(rz_wait(&request, 0));
    OK(rz_op_destroy(op, comm));
    EXPECT_EQ(small, XorOfAll(3, 10, 2));
    EXPECT_EQ(other, XorOfAll(3, 20, 3));
    EXPECT_THAT(sums, Each(3));
  });
}

TEST(FunctionTest, RanksCompareThemByTheOrderOfTheirMaking) {
  RunComms(2, [](int rank, rz_comm_t* comm) {
    rz_op_t first = -1, second = -1;
    OK(rz_op_create(&first, Xor, nullptr, 0, comm));
    OK(rz_op_create(&second, Xor, nullptr, 0, comm));
    int64_t value = 5;
    EXPECT_EQ(rz_all_reduce(&value, &value, 1, RZ_INT64, rank == 0 ? first : second, comm, nullptr),
              RZ_ERROR_FAILED_PRECONDITION);
    EXPECT_THAT(rz_last_error(), AllOf(HasSubstr("function 1"), HasSubstr("function 2")));
  });
}

TEST(FunctionTest, OneThatFailsEndsTheCallOnAllRanks) {
  for (int32_t no_shared_memory : {0, 1}) {
    rz_comm_options_t options = RZ_COMM_OPTIONS_INIT;
    options.no_shared_memory = no_shared_memory;
    RunComms(
        3,
        [](int rank, rz_comm_t* comm) {
          rz_op_t op = -1;
          const auto fails = [](void*, const void*, const void*, size_t, rz_dtype_t, void* user) {
            return *static_cast<int*>(user) == 1 ? 42 : 0;
          };
          OK(rz_op_create(&op, fails, &rank, 0, comm));
          std::vector<int64_t> values(50'000);
          const rz_result_t result = rz_all_reduce(values.data(), values.data(), values.size(),
                                                   RZ_INT64, op, comm, nullptr);
          EXPECT_TRUE(result == RZ_ERROR_ABORTED || rank != 1) << result;
          EXPECT_NE(result, RZ_OK);
          EXPECT_THAT(rz_last_error(),
                      HasSubstr("function 1 of the communicator returned 42 on rank 1"));
          EXPECT_NE(rz_barrier(comm, nullptr), RZ_OK);
          OK(rz_op_destroy(op, comm));
        },
        &options);
  }
}

TEST(FunctionTest, MayNotCallBack) {
  RunComms(2, [](int, rz_comm_t* comm) {
    static std::atomic<int> called;
    called = 0;
    const auto calls_back = [](void*, const void*, const void*, size_t, rz_dtype_t, void* user) {
      auto* const comm = static_cast<rz_comm_t*>(user);
      int64_t value = 1;
      EXPECT_EQ(rz_all_reduce(&value, &value, 1, RZ_INT64, RZ_SUM, comm, nullptr),
                RZ_ERROR_WRONG_THREAD);
      EXPECT_THAT(rz_last_error(), HasSubstr("may not call back"));
      EXPECT_EQ(rz_barrier(comm, nullptr), RZ_ERROR_WRONG_THREAD);
      EXPECT_EQ(rz_comm_destroy(comm), RZ_ERROR_WRONG_THREAD);
      rz_op_t op = -1;
      EXPECT_EQ(rz_op_create(&op, Xor, nullptr, 0, comm), RZ_ERROR_WRONG_THREAD);
      int32_t rank = -1;
      EXPECT_EQ(rz_comm_rank(comm, &rank), RZ_OK);
      ++called;
      return 0;
    };
    rz_op_t op = -1;
    OK(rz_op_create(&op, calls_back, comm, 0, comm));
    std::vector<int64_t> values(1000);
    OK(rz_all_reduce(values.data(), values.data(), 1000, RZ_INT64, op, comm, nullptr));
    EXPECT_GT(called, 0);
    OK(rz_barrier(comm, nullptr));
  });
}

TEST(FunctionTest, MayAbort) {
  RunComms(2, [](int, rz_comm_t* comm) {
    const auto aborts = [](void*, const void*, const void*, size_t, rz_dtype_t, void* user) {
      EXPECT_EQ(rz_comm_abort(static_cast<rz_comm_t*>(user), "no such number"), RZ_OK);
      return 1;
    };
    rz_op_t op = -1;
    OK(rz_op_create(&op, aborts, comm, 0, comm));
    int64_t value = 1;
    EXPECT_NE(rz_all_reduce(&value, &value, 1, RZ_INT64, op, comm, nullptr), RZ_OK);
    EXPECT_THAT(rz_last_error(), HasSubstr("no such number"));
  });
}

TEST(FunctionTest, WhatCannotBeIsRefused) {
  RunComms(2, [](int rank, rz_comm_t* comm) {
    rz_op_t op = -1;
    EXPECT_EQ(rz_op_create(nullptr, Xor, nullptr, 0, comm), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_op_create(&op, nullptr, nullptr, 0, comm), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(rz_last_error(), HasSubstr("function is NULL"));
    EXPECT_EQ(rz_op_create(&op, Xor, nullptr, 2, comm), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(rz_last_error(), HasSubstr("flags are 2"));
    EXPECT_EQ(rz_op_create(&op, Xor, nullptr, 0, nullptr), RZ_ERROR_INVALID_HANDLE);
    rz_comm_t* other = nullptr;
    OK(rz_comm_split(comm, 0, rank, &other));
    OK(rz_op_create(&op, Xor, nullptr, 0, comm));
    int64_t value = 3;
    // Of another communicator, which has as many of its own, and after its end.
    rz_op_t others = -1;
    OK(rz_op_create(&others, Xor, nullptr, 0, other));
    EXPECT_EQ(rz_all_reduce(&value, &value, 1, RZ_INT64, op, other, nullptr),
              RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_op_destroy(op, other), RZ_ERROR_INVALID_ARGUMENT);
    OK(rz_op_destroy(op, comm));
    EXPECT_EQ(rz_op_destroy(op, comm), RZ_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(rz_all_reduce(&value, &value, 1, RZ_INT64, op, comm, nullptr),
              RZ_ERROR_INVALID_ARGUMENT);
    OK(rz_comm_destroy(other));
    std::vector<rz_op_t> ops(64);
    for (rz_op_t& made : ops) OK(rz_op_create(&made, Xor, nullptr, 0, comm));
    EXPECT_EQ(rz_op_create(&op, Xor, nullptr, 0, comm), RZ_ERROR_OUT_OF_MEMORY);
    OK(rz_all_reduce(&value, &value, 1, RZ_INT64, ops.back(), comm, nullptr));
    EXPECT_EQ(value, 0);
  });
}

}  // namespace
}  // namespace rz::c_api
