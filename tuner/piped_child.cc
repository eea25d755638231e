// A process with a pipe each way.
#include "tuner/piped_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string_view>
#include <thread>

#include "ir/error.h"

extern char** environ;

namespace tc {

namespace {

// The environment of this process, with another folder for temporary files unless it is empty.
std::vector<std::string> environment_with(const std::string& temporary_folder) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool is_replaced =
        !temporary_folder.empty() && std::string_view(*variable).rfind("TMPDIR=", 0) == 0;
    if (!is_replaced) variables.push_back(*variable);
  }
  if (!temporary_folder.empty()) variables.push_back("TMPDIR=" + temporary_folder);
  return variables;
}

// Pointers to the words and a null behind them, for as long as these live.
std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

PipedChild::PipedChild(const std::vector<std::string>& command, const std::string& temporary_folder) {
  signal(SIGPIPE, SIG_IGN);  // whoever writes is told that the process died; it must not end this one
  const std::string& program = command.at(0);
  int down[2], up[2];
  if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0)
    fail(ErrorKind::Device, "cannot make pipes for ", program, ": ", strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, down[0], 0);
  posix_spawn_file_actions_adddup2(&actions, up[1], 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const std::vector<std::string> environment = environment_with(temporary_folder);
  const std::vector<char*> arguments = pointers_to(command), variables = pointers_to(environment);
  pid_t child = -1;
  const int code =
      posix_spawn(&child, program.c_str(), &actions, &attributes, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(down[0]);
  close(up[1]);
  in_ = down[1];
  out_ = up[0];
  if (code != 0) {
    close(in_);
    close(out_);
    fail(ErrorKind::Device, "cannot start ", program, ": ", strerror(code), "; reinstall tc");
  }
  process_ = ChildProcess(child);
}

PipedChild::~PipedChild() { end(0); }

void PipedChild::end(double seconds) {
  if (in_ >= 0) close(in_);
  if (out_ >= 0) close(out_);
  in_ = out_ = -1;
  const auto last = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!process_.has_ended() && std::chrono::steady_clock::now() < last)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  process_.kill_now();
}

std::string PipedChild::how_it_ended() {
  if (!process_.has_ended()) return "";
  const int status = process_.status();
  if (WIFSIGNALED(status))
    return text("by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  return text("with exit status ", WEXITSTATUS(status));
}

}  // namespace tc
