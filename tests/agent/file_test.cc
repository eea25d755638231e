// Memory files: sealing one while another process still has its pages.
#include "runtime/agent/file.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace tc::agent {
namespace {

TEST(SharedMemory, IsSealedWhenAForkedProcessLetsItGo) {
  SharedMemory memory("forked", 100);
  memory.data()[0] = 7;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // it has the mapping, and executes another program later
    usleep(300000);
    _exit(0);
  }
  memory.make_read_only();
  EXPECT_EQ(memory.data()[0], 7);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace tc::agent
