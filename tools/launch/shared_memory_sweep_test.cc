#include "tools/launch/shared_memory_sweep.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "gmock/gmock.h"
#include "tools/launch/process.h"

namespace rz {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A directory on the file system in question.
class SharedMemorySweepTest : public ::testing::Test {
 protected:
  SharedMemorySweepTest() {
    char name[] = "/dev/shm/rz_sweep_XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~SharedMemorySweepTest() override { std::filesystem::remove_all(directory_); }

  std::string Make(const std::string& name) {
    std::string path = directory_ + "/" + name;
    std::ofstream(path) << std::string(8192, 'x');
    return path;
  }

  std::set<std::string> Left() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  std::string directory_;
};

TEST_F(SharedMemorySweepTest, WhatNobodyHolds_IsRemoved) {
  Make("ucx_shm_posix_1");
  Make("ucx_shm_posix_23fffa39");
  EXPECT_EQ(SweepSharedMemory(directory_, 0), 2);
  EXPECT_THAT(Left(), IsEmpty());
}

TEST_F(SharedMemorySweepTest, WhatIsOpenOrMapped_Stays) {
  const ScopedFd open_file(open(Make("ucx_shm_posix_open").c_str(), O_RDONLY | O_CLOEXEC));
  void* mapped = nullptr;
  {
    const ScopedFd file(open(Make("ucx_shm_posix_mapped").c_str(), O_RDWR | O_CLOEXEC));
    mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  }
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(SweepSharedMemory(directory_, 0), 0);
  EXPECT_THAT(Left(), ElementsAre("ucx_shm_posix_mapped", "ucx_shm_posix_open"));
  munmap(mapped, 4096);
  EXPECT_EQ(SweepSharedMemory(directory_, 0), 1);
  EXPECT_THAT(Left(), ElementsAre("ucx_shm_posix_open"));
}

TEST_F(SharedMemorySweepTest, OlderFilesAndOtherThings_Stay) {
  Make("ucx_shm_posix_old");
  EXPECT_EQ(SweepSharedMemory(directory_, time(nullptr) + 1000), 0);
  std::filesystem::rename(directory_ + "/ucx_shm_posix_old", directory_ + "/other");
  std::filesystem::create_directory(directory_ + "/ucx_shm_posix_directory");
  std::filesystem::create_symlink(directory_ + "/other", directory_ + "/ucx_shm_posix_link");
  EXPECT_EQ(SweepSharedMemory(directory_, 0), 0);
  EXPECT_THAT(Left(), ElementsAre("other", "ucx_shm_posix_directory", "ucx_shm_posix_link"));
  EXPECT_EQ(SweepSharedMemory(directory_ + "/absent", 0), 0);
}

}  // namespace
}  // namespace rz
