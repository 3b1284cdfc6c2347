// PointToPoint: messages from one rank to another, beside the collectives and their order.
//
// Each ordered pair of ranks counts its messages: the n-th send of one meets the n-th receive of
// the other, whatever else is under way. A header goes first and says what the sender called, so
// that the receiver can compare before it waits for data that may never come. Any number may be
// outstanding; a rank may send to itself. Once as many were under way before, nothing is allocated.
//
// A mismatch, a failed transfer or Fail ends everything; the owner hears of the first two through
// failure(). Threads: one owner.
#ifndef RINGZERO_COLLECTIVES_POINT_TO_POINT_H_
#define RINGZERO_COLLECTIVES_POINT_TO_POINT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/group.h"
#include "runtime/base/dtype.h"
#include "runtime/base/types.h"
#include "runtime/transport/transport.h"

namespace rz {

class PointToPoint final : public CompletionSink {
 public:
  PointToPoint(Transport* transport, Group group, uint32_t communicator_id);

  // elsewhere[r]: rank r is on another host; for the counters.
  void set_elsewhere(std::vector<bool> elsewhere) { elsewhere_ = std::move(elsewhere); }

  // Starts a message; its number among those of this rank. The arguments have been checked.
  //   the transport's refusal of a post, after which failure() is set
  absl::StatusOr<int64_t> Send(const void* buffer, int64_t count, DType dtype, Rank peer);
  absl::StatusOr<int64_t> Receive(void* buffer, int64_t count, DType dtype, Rank peer);

  bool IsDone(int64_t number) const { return Find(number) < 0; }

  // Of a done message: OK or the cause of failure.
  absl::Status ResultOf(int64_t number) const;

  // The transport holds no memory of ours.
  bool idle() const { return pending_ == 0; }

  // OK, or what went wrong first.
  const absl::Status& failure() const { return failure_; }

  // Messages under way count as failed with `cause`; they are done when their memory is back.
  void Fail(const absl::Status& cause);

  // Reports everything as done although the transport never gave the memory back.
  void Abandon() { active_.clear(); }

  // "send 3 of 10 float32 to rank 1".
  std::string Describe(int64_t number) const;

  int64_t payload_bytes() const { return payload_bytes_; }
  int64_t header_bytes() const { return header_bytes_; }
  // Of the payload, to ranks of other hosts.
  int64_t bytes_between_hosts() const { return bytes_between_hosts_; }

  void OnComplete(uint64_t token, const absl::Status& status, size_t bytes) override;

 private:
  // As it travels between processes of one build on machines of one byte order.
  struct Header {
    uint64_t sequence = 0;
    int64_t count = 0;
    uint8_t dtype = 0;
    uint8_t reserved[7] = {};
  };

  struct Message {
    int64_t number = 0;
    bool is_send = false;
    Rank peer;
    uint64_t sequence = 0;
    int64_t count = 0;
    DType dtype = DType::kFloat32;
    int pending = 0;
    Header header;              // what is sent, or what came
    bool has_header = false;    // of a receive: it came
    absl::Status wrong_length;  // of the data that came
  };

  absl::StatusOr<int64_t> Start(bool is_send, void* buffer, int64_t count, DType dtype, Rank peer);
  absl::Status Post(int index, bool header, absl::Span<std::byte> memory);
  int Find(int64_t number) const;  // index in messages_, -1: done
  void Finish(int index);
  void Judge(Message& message, const absl::Status& status, size_t bytes, bool header);
  absl::Status CheckHeader(const Message& message) const;
  std::string Describe(const Message& message) const;
  void SetFailure(const Message& message, const absl::Status& status);

  Transport* const transport_;
  const Group group_;
  const uint32_t communicator_id_;

  std::vector<uint64_t> sent_;      // messages so far, by peer
  std::vector<uint64_t> received_;  // likewise
  std::deque<Message> messages_;    // addresses stay: the transport writes into headers
  std::vector<int> free_;
  std::vector<int> active_;  // oldest first
  int pending_ = 0;
  int64_t next_number_ = 0;
  int64_t payload_bytes_ = 0;
  int64_t header_bytes_ = 0;
  int64_t bytes_between_hosts_ = 0;
  std::vector<bool> elsewhere_;  // empty: not known
  absl::Status failure_;
  std::vector<int64_t> failed_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_POINT_TO_POINT_H_
