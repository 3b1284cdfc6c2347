// Counts beyond 32 bits, on memory that costs nothing: one piece of it stands at every multiple of
// its size, but for the end of the buffer, which is its own.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "collectives/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

constexpr int kWorld = 2;
constexpr size_t kPiece = size_t{8} << 20;
constexpr size_t kRepeated = size_t{1} << 32;
constexpr size_t kTail = 64;
constexpr size_t kMapped = kRepeated + kPiece;
constexpr int64_t kCount = static_cast<int64_t>(kRepeated + kTail);

class EchoingBuffer {
 public:
  EchoingBuffer() {
    const int fd = memfd_create("piece", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(2 * kPiece)), 0);
    void* const space =
        mmap(nullptr, kMapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(space, MAP_FAILED);
    data_ = static_cast<int8_t*>(space);
    for (size_t at = 0; at < kMapped; at += kPiece) {
      const off_t from = at < kRepeated ? 0 : static_cast<off_t>(kPiece);
      EXPECT_NE(mmap(data_ + at, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, from),
                MAP_FAILED);
    }
    close(fd);
  }
  ~EchoingBuffer() { munmap(data_, kMapped); }

  int8_t* data() { return data_; }
  int8_t* tail() { return data_ + kRepeated; }

 private:
  int8_t* data_ = nullptr;
};

class LargeCountTest : public ::testing::Test {
 protected:
  LargeCountTest() {
    CommunicatorOptions options;
    options.slice_bytes = size_t{4} << 20;
    options.clock = world_.clock();
    for (int r = 0; r < kWorld; ++r) {
      absl::StatusOr<std::unique_ptr<Communicator>> comm =
          Communicator::Create(world_.transport(Rank(r)), options);
      EXPECT_OK(comm.status());
      comms_.push_back(*std::move(comm));
      std::memset(buffers_[r].data(), 1 + r, kPiece);
      for (size_t i = 0; i < kTail; ++i) {
        buffers_[r].tail()[i] = static_cast<int8_t>(static_cast<int>(i) + 10 * r);
      }
      std::memset(buffers_[r].tail() + kTail, 99, kTail);
    }
  }

  template <typename Start>
  void Run(const Start& start) {
    std::vector<Operation> operations;
    for (int r = 0; r < kWorld; ++r) {
      absl::StatusOr<Operation> operation = start(*comms_[r], buffers_[r].data());
      ASSERT_OK(operation.status());
      operations.push_back(*operation);
    }
    for (bool done = false; !done;) {
      done = true;
      for (Operation& operation : operations) done &= operation.Poll();
    }
    for (const Operation& operation : operations) ASSERT_OK(operation.status());
  }

  void ExpectAll(int8_t body, int tail_offset) {
    for (EchoingBuffer& buffer : buffers_) {
      EXPECT_EQ(buffer.data()[0], body);
      EXPECT_EQ(std::memcmp(buffer.data(), buffer.data() + 1, kPiece - 1), 0);
      for (size_t i = 0; i < kTail; ++i) {
        ASSERT_EQ(buffer.tail()[i], static_cast<int8_t>(static_cast<int>(i) + tail_offset));
      }
      for (size_t i = kTail; i < 2 * kTail; ++i) ASSERT_EQ(buffer.tail()[i], 99);
    }
  }

  SimWorld world_{kWorld, {.send_mode = SendMode::kRendezvous, .scribble_receives = false}};
  std::vector<std::unique_ptr<Communicator>> comms_;
  EchoingBuffer buffers_[kWorld];
};

TEST_F(LargeCountTest, BroadcastOfMoreThanFourGibibytes) {
  Run([](Communicator& comm, int8_t* buffer) {
    return comm.StartBroadcast(buffer, kCount, DType::kInt8, Rank(1));
  });
  ExpectAll(2, 10);
  EXPECT_EQ(comms_[1]->wire_counters().broadcast, kCount);
}

// The larger of two bytes is the same however often it is taken.
TEST_F(LargeCountTest, AllReduceOfMoreThanFourGibibytes) {
  Run([](Communicator& comm, int8_t* buffer) {
    return comm.StartAllReduce(buffer, buffer, kCount, DType::kInt8, ReduceOp::kMax);
  });
  ExpectAll(2, 10);
  EXPECT_EQ(comms_[0]->wire_counters().all_reduce, kCount);
}

}  // namespace
}  // namespace rz
