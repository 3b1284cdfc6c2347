// Collectives between real processes over UCX: random calls against the sequential oracle, and the
// same bits as over simulated wires.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/communicator.h"
#include "collectives/testing/collective_case.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"
#include "tests/integration/process_job.h"

namespace rz {
namespace {

using ::rz::testing::Bytes;
using ::rz::testing::DrawJobCase;
using ::rz::testing::JobCase;
using ::rz::testing::MakeRankCalls;
using ::rz::testing::RandomElements;
using ::rz::testing::RankCall;
using ::rz::testing::RunInProcesses;
using ::rz::testing::SimJob;

constexpr absl::Duration kGenerous = absl::Seconds(120);

UcxOptions Ucx(UcxOptions::Transports transports) {
  UcxOptions options;
  options.transports = transports;
  if (transports == UcxOptions::Transports::kTcp) options.net_device = "lo";
  return options;
}

std::string Name(UcxOptions::Transports transports) {
  switch (transports) {
    case UcxOptions::Transports::kAutomatic:
      return "Automatic";
    case UcxOptions::Transports::kTcp:
      return "Tcp";
    case UcxOptions::Transports::kSharedMemory:
      return "SharedMemory";
  }
  return "";
}

struct Parameters {
  int world;
  UcxOptions::Transports transports;
};

class CollectivesProcessTest : public ::testing::TestWithParam<Parameters> {
 protected:
  static std::vector<std::string> Run(const testing::RankBody& body) {
    return RunInProcesses(GetParam().world, Ucx(GetParam().transports), body);
  }
};

// Runs this rank's part of one case.
absl::Status RunCase(const JobCase& c, Transport* transport) {
  CommunicatorOptions options = c.options;
  options.operation_timeout = kGenerous;
  RZ_ASSIGN_OR_RETURN(auto comm, Communicator::Create(transport, options));
  // Every other job lets the ranks share memory, where they can.
  if (c.seed % 2 == 0) {
    RZ_RETURN_IF_ERROR(comm->ShareMemory());
    // From then on ranks that cannot choose algorithms for a network.
    if (!comm->shares_memory()) options.link = LinkKind::kNetwork;
  }
  const int rank = transport->rank().value();
  std::vector<std::vector<std::unique_ptr<RankCall>>> calls;
  std::vector<Operation> operations;
  for (const auto& call : c.calls) {
    calls.push_back(MakeRankCalls(call, c.world, options, comm->shares_memory()));
    // In some jobs every buffer can be reached, in some those of every other rank.
    if (c.seed % 8 == 0 || (c.seed % 8 == 2 && rank % 2 == 0)) {
      RZ_RETURN_IF_ERROR(calls.back()[rank]->UseBufferOf(*comm));
    }
    RZ_ASSIGN_OR_RETURN(const Operation operation, calls.back()[rank]->Start(*comm));
    operations.push_back(operation);
  }
  for (Operation& operation : operations) RZ_RETURN_IF_ERROR(operation.Wait());
  for (auto& call : calls) {
    call[rank]->TakeBack();
    if (const std::string wrong = call[rank]->Check(); !wrong.empty()) {
      return absl::DataLossError(wrong);
    }
  }
  return absl::OkStatus();
}

std::string RunCases(Transport* transport, uint64_t first_seed, int cases, int64_t largest_count) {
  CommunicatorOptions between;
  between.id = 1;
  between.operation_timeout = kGenerous;
  absl::StatusOr<std::unique_ptr<Communicator>> barrier = Communicator::Create(transport, between);
  if (!barrier.ok()) return barrier.status().ToString();
  for (uint64_t seed = first_seed; seed < first_seed + static_cast<uint64_t>(cases); ++seed) {
    const JobCase c = DrawJobCase(seed, transport->world_size(), largest_count);
    absl::Status status = RunCase(c, transport);
    if (status.ok()) status = (*barrier)->Barrier();
    if (!status.ok()) return absl::StrCat(status.ToString(), "; ", c.ToString());
  }
  return "";
}

TEST_P(CollectivesProcessTest, RandomCallsMatchTheOracle) {
  // With all the parameters more than two thousand cases, each world and transport its own.
  const auto first_seed = static_cast<uint64_t>(GetParam().transports) * 10'000;
  const std::vector<std::string> wrong = Run([=](Transport* transport) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(transport->world_size()) * 1000;
    std::string text = RunCases(transport, seed, 120, 600);
    return text.empty() ? RunCases(transport, seed + 500, 6, 300'000) : text;
  });
  EXPECT_THAT(wrong, ::testing::Each(""));
}

// Messages, a split and a group, as a program would use them.
absl::Status UseTheRest(Transport* transport, bool share_memory) {
  CommunicatorOptions options;
  options.operation_timeout = kGenerous;
  RZ_ASSIGN_OR_RETURN(auto comm, Communicator::Create(transport, options));
  if (share_memory) RZ_RETURN_IF_ERROR(comm->ShareMemory());
  const int world = comm->world_size();
  const int rank = comm->rank().value();
  const std::vector<int64_t> out(100'000, rank);
  std::vector<int64_t> in(out.size());
  const auto count = static_cast<int64_t>(out.size());
  RZ_ASSIGN_OR_RETURN(Operation receive,
                      comm->StartRecv(in.data(), count, DType::kInt64, Rank((rank + 1) % world)));
  RZ_RETURN_IF_ERROR(
      comm->Send(out.data(), count, DType::kInt64, Rank((rank + world - 1) % world)));
  RZ_RETURN_IF_ERROR(receive.Wait());
  if (in != std::vector<int64_t>(in.size(), (rank + 1) % world)) {
    return absl::DataLossError("a message is wrong");
  }
  RZ_ASSIGN_OR_RETURN(auto half, comm->Split(rank % 2, -rank));
  // One rank alone shares with itself.
  if (half->world_size() > 1 && half->shares_memory() != comm->shares_memory()) {
    return absl::DataLossError("the half shares memory otherwise than the whole");
  }
  std::vector<Call> calls(3);
  int32_t sums[3] = {rank, 1, rank * rank};
  int32_t expected[3] = {0, half->world_size(), 0};
  for (int r = rank % 2; r < world; r += 2) {
    expected[0] += r;
    expected[2] += r * r;
  }
  for (int i = 0; i < 3; ++i) {
    calls[i].collective = Collective::kAllReduce;
    calls[i].dtype = DType::kInt32;
    calls[i].send = calls[i].recv = &sums[i];
    calls[i].count = 1;
  }
  RZ_RETURN_IF_ERROR(half->RunGroup(calls));
  if (!std::equal(sums, sums + 3, expected)) return absl::DataLossError("a sum is wrong");
  return comm->Barrier();
}

TEST_P(CollectivesProcessTest, MessagesSplitsAndGroups) {
  const std::vector<std::string> wrong = Run([](Transport* transport) {
    absl::Status status = UseTheRest(transport, false);
    if (status.ok()) status = UseTheRest(transport, true);
    return status.ok() ? std::string() : status.ToString();
  });
  EXPECT_THAT(wrong, ::testing::Each(""));
}

// The mean of bfloat16 inputs, over all that must not change its bits.
constexpr int64_t kCount = 4099;
constexpr DType kDType = DType::kBFloat16;

Bytes InputOf(int rank) { return RandomElements(kDType, kCount, 77 + rank); }

uint32_t CrcOf(const Bytes& bytes) { return Crc32c(0, bytes.data(), bytes.size()); }

uint32_t SimulatedCrc(int world) {
  SimJob job(world, {}, {});
  std::vector<Bytes> data;
  for (int r = 0; r < world; ++r) data.push_back(InputOf(r));
  EXPECT_OK(job.Run(1, [&](int r, int) {
    return job.comm(r).StartAllReduce(data[r].data(), data[r].data(), kCount, kDType,
                                      ReduceOp::kAvg);
  }));
  return CrcOf(data[0]);
}

// Leaves the mean on every rank, by one of the ways there are.
absl::Status Mean(Communicator& comm, int way, Bytes& data) {
  if (way == 0) return comm.AllReduce(data.data(), data.data(), kCount, kDType, ReduceOp::kAvg);
  if (way == 1) {
    const Rank root(comm.world_size() - 1);
    RZ_RETURN_IF_ERROR(comm.Reduce(data.data(), data.data(), kCount, kDType, ReduceOp::kAvg, root));
    return comm.Broadcast(data.data(), kCount, kDType, root);
  }
  Bytes shard(data.size());
  RZ_RETURN_IF_ERROR(comm.ReduceScatter(data.data(), shard.data(), kCount, kDType, ReduceOp::kAvg));
  return comm.AllGather(shard.data(), data.data(), kCount, kDType);
}

std::string RepeatedCrcs(Transport* transport) {
  uint32_t first = 0;
  for (int repeat = 0; repeat < 100; ++repeat) {
    constexpr const char* kAlgorithms[] = {
        "", "all_reduce:ring,reduce:ring,reduce_scatter:ring",
        "all_reduce:pairwise,reduce:pairwise,reduce_scatter:pairwise,all_gather:ring",
        "all_reduce:bruck,reduce:direct,all_gather:bruck"};
    constexpr size_t kSlices[] = {100, 4096, 256 << 10};
    CommunicatorOptions options;
    options.algorithms = kAlgorithms[repeat % 4];
    options.slice_bytes = kSlices[repeat % 3];
    options.lanes_in_flight = 1 + repeat % 5;
    options.operation_timeout = kGenerous;
    absl::StatusOr<std::unique_ptr<Communicator>> comm = Communicator::Create(transport, options);
    if (!comm.ok()) return comm.status().ToString();
    if (repeat % 8 == 0) {
      if (const absl::Status shared = (*comm)->ShareMemory(); !shared.ok()) {
        return shared.ToString();
      }
    }
    Bytes data = InputOf(transport->rank().value());
    // The ways change slower than the algorithms and slices, so that all meet all.
    if (const absl::Status status = Mean(**comm, repeat / 12 % 3, data); !status.ok()) {
      return status.ToString();
    }
    if (const absl::Status met = (*comm)->Barrier(); !met.ok()) return met.ToString();
    const uint32_t crc = CrcOf(data);
    if (repeat == 0) first = crc;
    if (crc != first) return absl::StrCat("repeat ", repeat, " has another CRC");
  }
  return absl::StrCat(first);
}

TEST_P(CollectivesProcessTest, BitsAreThoseOfEveryOtherTransportAndRun) {
  const std::string expected = absl::StrCat(SimulatedCrc(GetParam().world));
  EXPECT_THAT(Run(RepeatedCrcs), ::testing::Each(expected));
}

std::vector<Parameters> AllParameters() {
  std::vector<Parameters> all = {{4, UcxOptions::Transports::kAutomatic}};
  for (int world = 1; world <= 8; ++world) {
    all.push_back({world, UcxOptions::Transports::kSharedMemory});
    all.push_back({world, UcxOptions::Transports::kTcp});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, CollectivesProcessTest, ::testing::ValuesIn(AllParameters()),
                         [](const auto& info) {
                           return absl::StrCat("World", info.param.world,
                                               Name(info.param.transports));
                         });

}  // namespace
}  // namespace rz
