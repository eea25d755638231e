// The memory that control groups leave, from folders that look like those of the system.
#include "runtime/memory_present.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tc::runtime {
namespace {

class MemoryPresentTest : public testing::Test {
 protected:
  MemoryPresentTest() {
    std::string name = testing::TempDir() + "/memory_XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  ~MemoryPresentTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  MemoryPresent found() const { return memory_present(root_.c_str()); }

  std::string root_;
  const int64_t machine_ = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
};

TEST_F(MemoryPresentTest, IsTheMachinesWithoutGroups) {
  EXPECT_EQ(found().bytes, machine_);
  EXPECT_FALSE(found().of_group);
}

TEST_F(MemoryPresentTest, IsWhatItsGroupAllows) {
  write("/proc/self/cgroup", "0::/system.slice/a.service\n");
  write("/sys/fs/cgroup/system.slice/a.service/memory.max", "4096000\n");
  EXPECT_EQ(found().bytes, 4096000);
  EXPECT_TRUE(found().of_group);
}

TEST_F(MemoryPresentTest, IsWhatTheGroupsAroundAllow) {
  write("/proc/self/cgroup", "0::/a/b/c\n");
  write("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
  write("/sys/fs/cgroup/a/b/memory.max", "9000000\n");
  write("/sys/fs/cgroup/a/memory.max", "5000000\n");
  EXPECT_EQ(found().bytes, 5000000);
  write("/sys/fs/cgroup/memory.max",
        "3000000\n");  // of a container, whose own group is the root that it sees
  EXPECT_EQ(found().bytes, 3000000);
  write("/sys/fs/memory.max", "1000\n");
  EXPECT_EQ(found().bytes, 3000000);
}

TEST_F(MemoryPresentTest, IsThatOfTheFirstVersionToo) {
  write("/proc/self/cgroup", "12:cpuset:/a\n4:memory:/docker/0123\n0::/a\n");
  write("/sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "7000000\n");
  write("/sys/fs/cgroup/cpuset/a/memory.limit_in_bytes", "1000\n");
  EXPECT_EQ(found().bytes, 7000000);
  write("/sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes",
        "9223372036854771712\n");  // as the system writes no limit
  EXPECT_EQ(found().bytes, machine_);
  // A container sees the file of its group as that of the root.
  std::filesystem::remove_all(root_ + "/sys/fs/cgroup/memory/docker");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "6000000\n");
  EXPECT_EQ(found().bytes, 6000000);
}

TEST_F(MemoryPresentTest, TakesNothingFromWhatItCannotRead) {
  for (const std::string& text :
       {std::string("0::/../other\n"), std::string("0:/a\n"), std::string(":::\n"), std::string(1 << 20, 'x'),
        "0::/" + std::string(100000, 'a') + "\n", std::string("0::/a\0b\n", 8), std::string("")}) {
    write("/proc/self/cgroup", text);
    write("/sys/fs/other/memory.max", "1000\n");
    EXPECT_EQ(found().bytes, machine_) << text.substr(0, 40);
  }
  write("/proc/self/cgroup", "0::/a\n");
  for (const char* text : {"", "max", "-5", "0", "none", "999999999999999999999999"}) {
    write("/sys/fs/cgroup/a/memory.max", text);
    EXPECT_EQ(found().bytes, machine_) << text;
  }
}

TEST_F(MemoryPresentTest, ErrorsNameWhoLimitsIt) {
  EXPECT_EQ(refuse_memory("m", 3000000, {2000000, true}), TC_ERROR_MEMORY);
  EXPECT_STREQ(
      tc_last_error(),
      "model 'm' needs 3.0 MB of working memory for these shapes, which cannot be had (the control group of this process, as of "
      "a container, allows 2.0 MB); use smaller shapes or fewer threads, or give the group more");
  EXPECT_EQ(refuse_memory("m", 3000000, {2000000, false}), TC_ERROR_MEMORY);
  EXPECT_STREQ(
      tc_last_error(),
      "model 'm' needs 3.0 MB of working memory for these shapes, which cannot be had (this machine has 2.0 MB); use smaller "
      "shapes or fewer threads");
}

}  // namespace
}  // namespace tc::runtime
