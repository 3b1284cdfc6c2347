#include "tools/train/progress.h"

#include <memory>

#include "gmock/gmock.h"

namespace rz {
namespace {

// A stream into memory.
class Capture {
 public:
  Capture() : file_(open_memstream(&data_, &size_)) {}
  ~Capture() {
    std::fclose(file_);
    std::free(data_);
  }
  std::FILE* file() { return file_; }
  std::string Text() {
    std::fflush(file_);
    return std::string(data_, size_);
  }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  std::FILE* file_;
};

TEST(ProgressTest, WithoutRedrawing_ABarIsOneLineAtItsEnd) {
  Capture capture;
  ManualClock clock;
  Progress progress(capture.file(), false, &clock);
  progress.Bar("epoch 1/3", 1, 4, "loss 2");
  progress.EndBar("epoch 1/3", 4, 4, "loss 1");
  progress.Line("end");
  EXPECT_EQ(capture.Text(), "epoch 1/3 [========================] 4/4 loss 1\nend\n");
}

TEST(ProgressTest, Redrawing_CoversWhatWasThereAndKeepsItsPace) {
  Capture capture;
  ManualClock clock;
  Progress progress(capture.file(), true, &clock);
  progress.Bar("e", 1, 4, "long");
  progress.Bar("e", 2, 4, "too early to be drawn");
  clock.Advance(absl::Milliseconds(100));
  progress.Bar("e", 3, 4, "l");
  progress.EndBar("e", 4, 4, "x");
  EXPECT_EQ(capture.Text(),
            "\re [======>                 ] 1/4 long"
            "\re [==================>     ] 3/4 l   "
            "\re [========================] 4/4 x\n");
}

TEST(ProgressTest, FullDisk_IsRemembered) {
  std::FILE* const full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  ManualClock clock;
  Progress progress(full, false, &clock);
  EXPECT_TRUE(progress.status().ok());
  progress.Line("x");
  EXPECT_EQ(progress.status().message(),
            "cannot write to standard output: No space left on device");
  progress.Line("y");
  EXPECT_FALSE(progress.status().ok());
  std::fclose(full);
}

TEST(ProgressTest, NoStream_WritesNothing) {
  ManualClock clock;
  Progress progress(nullptr, true, &clock);
  progress.Line("x");
  progress.Bar("e", 1, 4, "");
  progress.EndBar("e", 4, 4, "");
}

TEST(ProgressTest, NothingToDo_IsAFullBar) {
  Capture capture;
  ManualClock clock;
  Progress(capture.file(), false, &clock).EndBar("e", 0, 0, "");
  EXPECT_EQ(capture.Text(), "e [========================] 0/0 \n");
}

}  // namespace
}  // namespace rz
