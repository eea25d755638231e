// Ends a process that this one has started, and never any other.
#include "tuner/child_process.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

namespace tc {

bool ChildProcess::wait(int flags) {
  if (pid_ < 0) return true;
  pid_t found;
  do found = waitpid(pid_, &status_, flags);
  while (found < 0 && errno == EINTR);
  if (found == 0) return false;
  pid_ = -1;
  return true;
}

bool ChildProcess::has_ended() { return wait(WNOHANG); }

void ChildProcess::kill_now() {
  if (has_ended()) return;
  kill(pid_, SIGKILL);
  wait(0);
}

void ChildProcess::stop(double seconds) {
  if (has_ended()) return;
  kill(pid_, SIGTERM);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!has_ended() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  kill_now();
}

}  // namespace tc
