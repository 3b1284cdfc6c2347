#include "runtime/c_api/handle_table.h"

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"

namespace rz::c_api {
namespace {

using ::testing::HasSubstr;

using Table = HandleTable<int, HandleKind::kRequest>;
using OtherTable = HandleTable<int, HandleKind::kJob>;

std::string ErrorFor(const void* handle) {
  const auto found = Table::Get().Find(handle);
  if (found.ok()) return "";
  EXPECT_EQ(ResultOf(found.status()), RZ_ERROR_INVALID_HANDLE);
  return std::string(found.status().message());
}

TEST(HandleTableTest, AHandleFindsItsObjectUntilItIsClosed) {
  int object = 7;
  void* const handle = Table::Get().Insert(&object).value();
  {
    auto pin = Table::Get().Find(handle);
    ASSERT_TRUE(pin.ok());
    EXPECT_EQ(&**pin, &object);
  }
  EXPECT_EQ(Table::Get().Close(*Table::Get().Find(handle)), &object);
  EXPECT_THAT(ErrorFor(handle), HasSubstr("it was ended"));
}

TEST(HandleTableTest, AHandleOfThePlaceBeforeIsNotTakenForTheNewOne) {
  int first = 1, second = 2;
  void* const before = Table::Get().Insert(&first).value();
  ASSERT_NE(Table::Get().Close(*Table::Get().Find(before)), nullptr);
  void* const after = Table::Get().Insert(&second).value();  // takes the same slot
  EXPECT_EQ(reinterpret_cast<uint64_t>(before) << 32, reinterpret_cast<uint64_t>(after) << 32);
  EXPECT_THAT(ErrorFor(before), HasSubstr("it was ended"));
  EXPECT_EQ(Table::Get().Close(*Table::Get().Find(after)), &second);
}

TEST(HandleTableTest, OtherKindsAndMadeUpValuesAreRefusedByName) {
  int object = 1;
  void* const job = OtherTable::Get().Insert(&object).value();
  EXPECT_THAT(ErrorFor(job), HasSubstr("but a job"));
  EXPECT_THAT(ErrorFor(nullptr), HasSubstr("NULL"));
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) ErrorFor(reinterpret_cast<void*>(random()));
  for (uint64_t value = 1; value < 70000; ++value) ErrorFor(reinterpret_cast<void*>(value));
  EXPECT_NE(OtherTable::Get().Close(*OtherTable::Get().Find(job)), nullptr);
}

TEST(HandleTableTest, OfManyThreadsThatCloseAHandleOneGetsTheObject) {
  for (int round = 0; round < 200; ++round) {
    int object = round;
    void* const handle = Table::Get().Insert(&object).value();
    std::atomic<int> closed{0};
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          auto pin = Table::Get().Find(handle);
          if (!pin.ok()) continue;
          EXPECT_EQ(**pin, round);
          if (i == 25 && Table::Get().Close(*std::move(pin)) != nullptr) ++closed;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(closed, 1);
  }
}

TEST(HandleTableTest, ManyObjectsAtOnceKeepApart) {
  std::vector<int> objects(2000);
  std::vector<void*> handles;
  handles.reserve(objects.size());
  for (int& object : objects) handles.push_back(Table::Get().Insert(&object).value());
  for (size_t i = 0; i < objects.size(); ++i) {
    EXPECT_EQ(Table::Get().Close(*Table::Get().Find(handles[i])), &objects[i]);
  }
}

}  // namespace
}  // namespace rz::c_api
