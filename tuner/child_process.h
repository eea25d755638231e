// A process that this one has started.
#pragma once

#include <sys/types.h>

namespace tc {

// The process id is used only until the process has been waited for. Afterwards the system may give the same
// id to another process, which no signal of ours may reach.
class ChildProcess {
 public:
  ChildProcess() = default;
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  // -1 where there is no process, or it has been waited for.
  pid_t pid() const { return pid_; }
  // How it ended, as waitpid() says; 0 before that.
  int status() const { return status_; }
  // Whether the process has ended (or there is none); does not wait.
  bool has_ended();
  // Kills it where it still runs, and waits for its end.
  void kill_now();
  // Asks it to end (SIGTERM), and kills it where it has not ended after `seconds`.
  void stop(double seconds);

 private:
  // Waits with the flags of waitpid(); true where it has ended.
  bool wait(int flags);

  pid_t pid_ = -1;
  int status_ = 0;
};

}  // namespace tc
