// Replays the fuzzer's entry with random bytes and with valid messages that were damaged.
#include <cstdint>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "proto/rendezvous.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace rz {
namespace {

namespace pb = ::ringzero::rendezvous::v1;

class Sequence {
 public:
  explicit Sequence(uint32_t seed) : random_(seed) {}

  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

  void AddNoise() {
    std::string noise(Below(64), '\0');
    for (char& c : noise) c = static_cast<char>(Below(256));
    Add(Below(256), noise);
  }

  void AddMessage() {
    switch (Below(7)) {
      case 0: {
        pb::JoinRequest join;
        join.mutable_protocol()->set_major(1);
        join.set_job("j");
        join.set_world_size(2);
        join.set_wanted_rank(Below(2));
        join.set_incarnation(1 + Below(3));
        join.set_host("h");
        join.set_launch(Below(3));
        return AddDamaged(0, join);
      }
      case 1: {
        pb::PeersRequest peers;
        *peers.mutable_member() = Member();
        peers.set_first_rank(Below(3));
        return AddDamaged(1, peers);
      }
      case 2: {
        pb::WatchRequest watch;
        *watch.mutable_member() = Member();
        return AddDamaged(2, watch);
      }
      case 3: {
        pb::BarrierRequest barrier;
        *barrier.mutable_member() = Member();
        barrier.set_id("b");
        return AddDamaged(3, barrier);
      }
      case 4: {
        pb::ReportFailureRequest report;
        report.set_job("j");
        report.set_rank(Below(3));
        report.set_kind(static_cast<pb::FailureKind>(Below(6)));
        report.set_detail("d");
        report.set_launch(Below(3));
        return AddDamaged(4, report);
      }
      case 5: {
        pb::GatheringRequest gathering;
        gathering.set_job("j");
        return AddDamaged(7, gathering);
      }
      default: {
        pb::LeaveRequest leave;
        *leave.mutable_member() = Member();
        return AddDamaged(5, leave);
      }
    }
  }

  void Run() {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size());
  }

 private:
  pb::Member Member() {
    pb::Member member;
    member.set_job("j");
    member.set_epoch(1 + Below(2));
    member.set_rank(Below(3));
    member.set_incarnation(1 + Below(3));
    return member;
  }

  template <typename Message>
  void AddDamaged(uint8_t operation, const Message& message) {
    std::string bytes = message.SerializeAsString();
    if (Below(4) == 0 && !bytes.empty()) bytes[Below(bytes.size())] ^= 1 << Below(8);
    if (Below(16) == 0) bytes.resize(Below(bytes.size() + 1));
    Add(operation, bytes);
  }

  void Add(uint8_t operation, const std::string& message) {
    bytes_.push_back(static_cast<char>(operation));
    bytes_.push_back(static_cast<char>(message.size() & 0xff));
    bytes_.push_back(static_cast<char>(message.size() >> 8));
    bytes_ += message;
  }

  std::mt19937 random_;
  std::string bytes_;
};

TEST(RpcHandlerFuzzTest, RandomBytesAreAnsweredOnceAndCrashNothing) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Sequence sequence(seed);
    for (int i = 0; i < 40; ++i) {
      if (sequence.Below(4) == 0) {
        sequence.AddNoise();
      } else {
        sequence.AddMessage();
      }
    }
    sequence.Run();
  }
}

}  // namespace
}  // namespace rz
