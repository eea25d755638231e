// Processes of ours end, and no signal goes to a number that is no longer theirs.
#include "tuner/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tc {
namespace {

// A child that runs `work`; it ends with 0 where that returns.
template <class Work>
ChildProcess child_of(Work work) {
  const pid_t pid = fork();
  if (pid == 0) {
    work();
    _exit(0);
  }
  return ChildProcess(pid);
}

void wait_for_end(ChildProcess& child) {
  while (!child.has_ended()) usleep(1000);
}

TEST(ChildProcess, IsForgottenOnceItHasBeenWaitedFor) {
  ChildProcess child = child_of([] { _exit(7); });
  EXPECT_GT(child.pid(), 0);
  wait_for_end(child);
  EXPECT_EQ(child.pid(), -1);
  EXPECT_EQ(WEXITSTATUS(child.status()), 7);
  // With a number of -1 a signal would go to every process of the user.
  child.stop(10);
  child.kill_now();
  EXPECT_TRUE(child.has_ended());
  EXPECT_EQ(WEXITSTATUS(child.status()), 7);
}

TEST(ChildProcess, IsNoneToBeginWith) {
  ChildProcess none;
  EXPECT_TRUE(none.has_ended());
  none.stop(10);
  none.kill_now();
}

TEST(ChildProcess, IsAskedToEndBeforeItIsKilled) {
  ChildProcess polite = child_of([] { pause(); });
  polite.stop(10);
  EXPECT_EQ(WTERMSIG(polite.status()), SIGTERM);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  ChildProcess stubborn = child_of([&] {
    signal(SIGTERM, SIG_IGN);
    char byte = 0;
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    for (;;) pause();
  });
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  stubborn.stop(0.05);
  EXPECT_EQ(WTERMSIG(stubborn.status()), SIGKILL);
}

}  // namespace
}  // namespace tc
