#include "tools/train/images.h"

#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "tools/train/gzip_testing.h"

namespace rz {
namespace {

using ::rz::testing::Bytes;
using ::rz::testing::Gzip;
using ::rz::testing::IdxBytes;
using ::rz::testing::StatusIs;
using ::rz::testing::WriteBytes;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;

// Three training images and two test images of 2 x 2 pixels.
class FashionMnistTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(::testing::TempDir(), "/fashion-",
                              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(directory_);
    Write("train-images-idx3", IdxBytes({3, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255}));
    Write("train-labels-idx1", IdxBytes({3}, {9, 0, 4}));
    Write("t10k-images-idx3", IdxBytes({2, 2, 2}, {1, 1, 1, 1, 2, 2, 2, 2}));
    Write("t10k-labels-idx1", IdxBytes({2}, {1, 2}));
  }

  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& part) const {
    return absl::StrCat(directory_, "/", part, "-ubyte.gz");
  }
  void Write(const std::string& part, const Bytes& idx) { WriteBytes(Path(part), Gzip(idx)); }

  std::string directory_;
};

TEST_F(FashionMnistTest, ReadsBothParts) {
  ASSERT_OK_AND_ASSIGN(const ImageDataset dataset, LoadFashionMnist(directory_));
  EXPECT_EQ(dataset.train.count(), 3);
  EXPECT_EQ(dataset.test.count(), 2);
  EXPECT_EQ(dataset.train.features, 4);
  EXPECT_EQ(dataset.train.classes, 10);
  EXPECT_THAT(dataset.train.labels, ElementsAre(9, 0, 4));
  EXPECT_THAT(dataset.test.images, ElementsAre(1, 1, 1, 1, 2, 2, 2, 2));
}

TEST_F(FashionMnistTest, Gather_Picks) {
  ASSERT_OK_AND_ASSIGN(const ImageDataset dataset, LoadFashionMnist(directory_));
  std::vector<uint8_t> pixels(8);
  std::vector<uint8_t> labels(2);
  dataset.train.Gather({2, 0}, absl::MakeSpan(pixels), absl::MakeSpan(labels));
  EXPECT_THAT(labels, ElementsAre(4, 9));
  EXPECT_THAT(pixels, ElementsAre(8, 9, 10, 255, 0, 1, 2, 3));
}

TEST_F(FashionMnistTest, EachFileMissing_NamesItAndThePackage) {
  for (const char* part :
       {"train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"}) {
    SetUp();
    std::filesystem::remove(Path(part));
    EXPECT_THAT(
        LoadFashionMnist(directory_),
        StatusIs(absl::StatusCode::kNotFound,
                 AllOf(HasSubstr(Path(part)), HasSubstr("apt-get install dataset-fashion-mnist"),
                       HasSubstr("--data-dir"))));
  }
}

TEST_F(FashionMnistTest, EachFileDamaged_IsNamed) {
  for (const char* part :
       {"train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"}) {
    SetUp();
    WriteBytes(Path(part), {0x1f, 0x8b, 8, 0});
    EXPECT_THAT(LoadFashionMnist(directory_), StatusIs(kDataLoss, HasSubstr(Path(part))));
  }
}

TEST_F(FashionMnistTest, LabelAbove9_NamesItsPosition) {
  Write("t10k-labels-idx1", IdxBytes({2}, {9, 10}));
  EXPECT_THAT(LoadFashionMnist(directory_),
              StatusIs(kDataLoss, HasSubstr("expected labels 0 to 9, found 10 at position 1")));
}

TEST_F(FashionMnistTest, ImagesAndLabelsDifferInNumber) {
  Write("train-labels-idx1", IdxBytes({2}, {1, 2}));
  EXPECT_THAT(LoadFashionMnist(directory_),
              StatusIs(kDataLoss, AllOf(HasSubstr("expected 3 labels"), HasSubstr("found 2"))));
}

TEST_F(FashionMnistTest, TestImagesOfAnotherSize) {
  Write("t10k-images-idx3", IdxBytes({2, 1, 2}, {1, 1, 2, 2}));
  EXPECT_THAT(LoadFashionMnist(directory_),
              StatusIs(kDataLoss, HasSubstr("expected test images of 4 pixels")));
}

TEST_F(FashionMnistTest, LabelsInPlaceOfImages_IsDataLoss) {
  Write("train-images-idx3", IdxBytes({3}, {9, 0, 4}));
  EXPECT_THAT(LoadFashionMnist(directory_),
              StatusIs(kDataLoss, HasSubstr("expected an IDX header of 16 bytes")));
}

TEST(DebianFashionMnistTest, IsComplete) {
  if (access(kFashionMnistDir, F_OK) != 0) {
    GTEST_SKIP() << "apt-get install dataset-fashion-mnist";
  }
  ASSERT_OK_AND_ASSIGN(const ImageDataset dataset, LoadFashionMnist(kFashionMnistDir));
  EXPECT_EQ(dataset.train.count(), 60'000);
  EXPECT_EQ(dataset.test.count(), 10'000);
  EXPECT_EQ(dataset.train.features, 784);
  EXPECT_THAT(dataset.train.labels, Each(Lt(10)));
}

TEST(SyntheticImagesTest, DependsOnItsSeedAlone) {
  const ImageDataset a = SyntheticImages(1, 20, 3, 100, 50);
  const ImageDataset b = SyntheticImages(1, 20, 3, 100, 50);
  const ImageDataset c = SyntheticImages(2, 20, 3, 100, 50);
  EXPECT_EQ(a.train.images, b.train.images);
  EXPECT_EQ(a.test.labels, b.test.labels);
  EXPECT_NE(a.train.images, c.train.images);
  EXPECT_EQ(a.train.count(), 100);
  EXPECT_EQ(a.test.count(), 50);
  EXPECT_EQ(a.train.images.size(), 2000u);
  EXPECT_THAT(a.train.labels, Each(Lt(3)));
  // Training and test samples share the patterns and nothing else.
  EXPECT_NE(std::vector<uint8_t>(a.train.images.begin(), a.train.images.begin() + 1000),
            a.test.images);
}

}  // namespace
}  // namespace rz
