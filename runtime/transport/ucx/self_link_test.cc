#include "runtime/transport/ucx/self_link.h"

#include <array>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;
using ::testing::ElementsAre;

class SelfLinkTest : public ::testing::Test {
 protected:
  UcxOperation* Send(Tag tag, std::string& data) {
    return Post(UcxOperation::Kind::kSend, tag, data);
  }
  UcxOperation* Receive(Tag tag, std::string& buffer) {
    return Post(UcxOperation::Kind::kReceive, tag, buffer);
  }

  std::vector<UcxOperation*> Ready() {
    std::vector<UcxOperation*> ready;
    while (UcxOperation* each = ready_.PopFront()) ready.push_back(each);
    return ready;
  }

  SelfLink link_;
  OperationList ready_;

 private:
  UcxOperation* Post(UcxOperation::Kind kind, Tag tag, std::string& memory) {
    UcxOperation* operation = pool_.Take();
    operation->kind = kind;
    operation->tag = tag;
    operation->data = reinterpret_cast<std::byte*>(memory.data());
    operation->size = memory.size();
    link_.Post(operation, ready_);
    return operation;
  }

  OperationPool pool_;
};

TEST_F(SelfLinkTest, EarlySendWaitsForItsReceive) {
  std::string data = "early", buffer(8, '.');
  UcxOperation* send = Send(1, data);
  EXPECT_TRUE(Ready().empty());
  UcxOperation* receive = Receive(1, buffer);
  EXPECT_THAT(Ready(), ElementsAre(send, receive));
  EXPECT_EQ(buffer, "early...");
  EXPECT_EQ(receive->moved_bytes, 5u);
  EXPECT_EQ(send->moved_bytes, 5u);
}

TEST_F(SelfLinkTest, SameTagKeepsItsOrder) {
  std::string a = "a", b = "b", first(1, '.'), second(1, '.');
  Receive(1, first);
  Receive(1, second);
  Send(1, a);
  Send(1, b);
  EXPECT_EQ(Ready().size(), 4u);
  EXPECT_EQ(first + second, "ab");
}

TEST_F(SelfLinkTest, TagsOfOneBucketAreIndependent) {
  constexpr Tag kTag = 7;
  constexpr Tag kSameBucket = kTag + (Tag{1} << 20);
  std::string a = "a", b = "b", to_a(1, '.'), to_b(1, '.');
  Send(kTag, a);
  Send(kSameBucket, b);
  Receive(kSameBucket, to_b);
  EXPECT_EQ(Ready().size(), 2u);
  EXPECT_EQ(to_b, "b");
  Receive(kTag, to_a);
  EXPECT_EQ(Ready().size(), 2u);
  EXPECT_EQ(to_a, "a");
}

TEST_F(SelfLinkTest, TruncationIsTheReceiversAlone) {
  std::string data = "too long", buffer(3, '.');
  UcxOperation* send = Send(1, data);
  UcxOperation* receive = Receive(1, buffer);
  EXPECT_THAT(send->status, IsOk());
  EXPECT_THAT(receive->status, StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_EQ(buffer, "...");
}

TEST_F(SelfLinkTest, FailAllCompletesWhatWaits) {
  std::string data = "x", buffer = "y";
  UcxOperation* send = Send(1, data);
  UcxOperation* receive = Receive(2, buffer);
  link_.FailAll(absl::CancelledError("over"), ready_);
  EXPECT_THAT(send->status, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(receive->status, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(Ready().size(), 2u);
  link_.FailAll(absl::CancelledError("again"), ready_);
  EXPECT_TRUE(Ready().empty());
}

}  // namespace
}  // namespace rz
