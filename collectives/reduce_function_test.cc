// Reductions by a function of the caller's, over SimWorld. property_test.cc and
// shared_property_test.cc compare them with the kernels' bits; here are their order, and what
// becomes of a call whose function fails.
#include "collectives/reduce_function.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/algorithm.h"
#include "collectives/chunk_layout.h"
#include "collectives/communicator.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::SimJob;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Elements = std::vector<uint64_t>;

// An element is a map x -> factor * x + term of 32-bit numbers: associative, and does not commute.
uint64_t Then(uint64_t first, uint64_t second) {
  const auto factor = static_cast<uint32_t>(first >> 32) * static_cast<uint32_t>(second >> 32);
  const auto term = static_cast<uint32_t>(second >> 32) * static_cast<uint32_t>(first) +
                    static_cast<uint32_t>(second);
  return uint64_t{factor} << 32 | term;
}

class Composition final : public ReduceFunction {
 public:
  explicit Composition(uint32_t number = 1) : number_(number) {}

  bool Combine(void* result, const void* a, const void* b, int64_t count, DType dtype) override {
    EXPECT_EQ(dtype, DType::kUint64);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(result) % sizeof(uint64_t), 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % sizeof(uint64_t), 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % sizeof(uint64_t), 0u);
    if (calls_left_.has_value() && (*calls_left_)-- <= 0) return false;
    const auto* const first = static_cast<const uint64_t*>(a);
    const auto* const second = static_cast<const uint64_t*>(b);
    for (int64_t i = 0; i < count; ++i) {
      static_cast<uint64_t*>(result)[i] = Then(first[i], second[i]);
    }
    return true;
  }
  uint32_t number() const override { return number_; }
  bool any_order() const override { return false; }

  void FailAfter(int calls) { calls_left_ = calls; }

 private:
  const uint32_t number_;
  std::optional<int> calls_left_;
};

std::vector<Elements> InputsOf(int world, int64_t count) {
  std::mt19937_64 random(static_cast<uint64_t>(world) * 1000 + static_cast<uint64_t>(count));
  std::vector<Elements> inputs(static_cast<size_t>(world), Elements(static_cast<size_t>(count)));
  for (Elements& input : inputs) {
    for (uint64_t& element : input) element = random();
  }
  return inputs;
}

// Of all ranks, an element of rank r's from rank r + 1 round to r.
Elements Composed(const std::vector<Elements>& inputs) {
  const int world = static_cast<int>(inputs.size());
  Elements composed(inputs[0].size());
  for (int r = 0; r < world; ++r) {
    const Range own = EvenSplit(static_cast<int64_t>(composed.size()), world, r);
    for (int64_t i = own.offset; i < own.end(); ++i) {
      const auto at = static_cast<size_t>(i);
      composed[at] = inputs[static_cast<size_t>((r + 1) % world)][at];
      for (int step = 2; step <= world; ++step) {
        composed[at] = Then(composed[at], inputs[static_cast<size_t>((r + step) % world)][at]);
      }
    }
  }
  return composed;
}

struct How {
  Collective collective = Collective::kAllReduce;
  int world = 1;
  int64_t count = 0;
  std::string algorithm = "";  // chosen
  bool shares_memory = false;
  bool in_place = false;
};

// A job whose ranks reduce `how.count` elements by a composition each.
class ComposingJob {
 public:
  explicit ComposingJob(const How& how)
      : how_(how),
        inputs_(InputsOf(how.world, how.count)),
        outputs_(inputs_),
        functions_(static_cast<size_t>(how.world)),
        job_(how.world, {.seed = static_cast<uint64_t>(how.count)}, OptionsOf(how)) {
    if (how.shares_memory) {
      EXPECT_TRUE(job_.ShareMemory().value());
    }
  }

  absl::Status Run() {
    return job_.Run(1, [this](int r, int) { return Start(r); });
  }

  absl::Status TellTheOthers() {
    return job_.AbortAll(absl::UnavailableError("told by the rendezvous"));
  }

  Composition& function(int rank) { return functions_[static_cast<size_t>(rank)]; }
  const absl::Status& result(int rank) const { return job_.results()[static_cast<size_t>(rank)]; }

  // What rank r's call has to leave is there.
  bool IsComposed(int r) const {
    const Elements composed = Composed(inputs_);
    const Elements& output = outputs_[static_cast<size_t>(r)];
    if (how_.collective == Collective::kAllReduce) return output == composed;
    if (how_.collective == Collective::kReduce) {
      return r != how_.world - 1 || output == composed;
    }
    const Range own = EvenSplit(how_.count, how_.world, r);
    const int64_t at = how_.in_place ? own.offset : 0;
    return std::equal(composed.begin() + own.offset, composed.begin() + own.end(),
                      output.begin() + at);
  }

 private:
  static CommunicatorOptions OptionsOf(const How& how) {
    CommunicatorOptions options;
    options.slice_bytes = 1024;
    options.shared_slot_bytes = 4096;
    if (!how.algorithm.empty()) {
      options.algorithms = absl::StrCat(std::string(NameOf(how.collective)), ":", how.algorithm);
    }
    return options;
  }

  absl::StatusOr<Operation> Start(int r) {
    const auto at = static_cast<size_t>(r);
    uint64_t* const out = outputs_[at].data();
    const uint64_t* const in = how_.in_place ? out : inputs_[at].data();
    const CallOptions call = {.function = &functions_[at]};
    constexpr ReduceOp kOp = ReduceOp::kFunction;
    switch (how_.collective) {
      case Collective::kReduce:
        return job_.comm(r).StartReduce(in, out, how_.count, DType::kUint64, kOp,
                                        Rank(how_.world - 1), call);
      case Collective::kReduceScatter:
        return job_.comm(r).StartReduceScatter(
            in, how_.in_place ? out + EvenSplit(how_.count, how_.world, r).offset : out, how_.count,
            DType::kUint64, kOp, call);
      default:
        return job_.comm(r).StartAllReduce(in, out, how_.count, DType::kUint64, kOp, call);
    }
  }

  const How how_;
  const std::vector<Elements> inputs_;
  std::vector<Elements> outputs_;
  std::vector<Composition> functions_;
  SimJob job_;
};

constexpr Collective kReductions[] = {Collective::kAllReduce, Collective::kReduce,
                                      Collective::kReduceScatter};

// Of every way that deterministic mode may take.
std::vector<How> WaysOf(int world, int64_t count) {
  std::vector<How> ways;
  for (Collective collective : kReductions) {
    for (bool in_place : {false, true}) {
      for (bool shares_memory : {false, true}) {
        ways.push_back({collective, world, count, "", shares_memory, in_place});
      }
      for (const AlgorithmTraits& traits : AllAlgorithms()) {
        if (traits.collective != collective || !traits.canonical) continue;
        ways.push_back(
            {collective, world, count, std::string(NameOf(traits.algorithm)), false, in_place});
      }
    }
  }
  return ways;
}

std::string TextOf(const How& how) {
  return absl::StrCat(std::string(NameOf(how.collective)), " of ", how.count, " on ", how.world,
                      " ranks, ", how.algorithm, how.shares_memory ? "shared memory" : "",
                      how.in_place ? ", in place" : "");
}

TEST(ReduceFunctionTest, CombinesInTheOrderOfRanksFromTheOwnersNextRoundToTheOwner) {
  for (int world = 1; world <= 8; ++world) {
    for (int64_t count : {0, 1, 5, 64, 2000}) {
      for (const How& how : WaysOf(world, count)) {
        SCOPED_TRACE(TextOf(how));
        ComposingJob job(how);
        ASSERT_THAT(job.Run(), IsOk());
        for (int r = 0; r < world; ++r) {
          ASSERT_THAT(job.result(r), IsOk());
          ASSERT_TRUE(job.IsComposed(r)) << "rank " << r;
        }
      }
    }
  }
}

TEST(ReduceFunctionTest, OneThatFailsEndsTheCallAndNobodyTakesItForDone) {
  constexpr int kWorld = 4;
  int failed_calls = 0;
  for (int64_t count : {5, 64, 4000}) {
    for (const How& how : WaysOf(kWorld, count)) {
      for (int calls : {0, 1, 5}) {
        SCOPED_TRACE(absl::StrCat(TextOf(how), ", fails after ", calls, " calls"));
        ComposingJob job(how);
        job.function(1).FailAfter(calls);
        // The others wait for rank 1 until somebody tells them, as the rendezvous does.
        if (!job.Run().ok()) {
          ASSERT_THAT(job.TellTheOthers(), IsOk());
        }
        for (int r = 0; r < kWorld; ++r) {
          EXPECT_TRUE(!job.result(r).ok() || job.IsComposed(r)) << "rank " << r;
        }
        if (job.result(1).ok()) continue;  // it has no more to do
        ++failed_calls;
        EXPECT_THAT(job.result(1),
                    StatusIs(absl::StatusCode::kAborted,
                             AllOf(HasSubstr("rank 1"), HasSubstr("function of the reduction"),
                                   HasSubstr(std::string(NameOf(how.collective))))));
      }
    }
  }
  EXPECT_GE(failed_calls, 60);
}

TEST(ReduceFunctionTest, RanksWithDifferentFunctionsAreToldSo) {
  for (bool shares_memory : {false, true}) {
    SimJob job(3, {.seed = 1}, {});
    if (shares_memory) {
      ASSERT_TRUE(job.ShareMemory().value());
    }
    std::vector<Composition> functions = {Composition(1), Composition(1), Composition(2)};
    std::vector<Elements> elements(3, Elements(10, 1));
    ASSERT_THAT(job.Run(1,
                        [&](int r, int) {
                          return job.comm(r).StartAllReduce(elements[r].data(), elements[r].data(),
                                                            10, DType::kUint64, ReduceOp::kFunction,
                                                            {.function = &functions[r]});
                        }),
                IsOk());
    for (int r = 0; r < 3; ++r) {
      EXPECT_THAT(job.results()[r],
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           AllOf(HasSubstr("all_reduce of 10 uint64 function 1"),
                                 HasSubstr("all_reduce of 10 uint64 function 2"))));
    }
  }
}

}  // namespace
}  // namespace rz
