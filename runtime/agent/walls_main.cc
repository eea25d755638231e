// tc-walls: runs a program of this machine that reads a file which an attacker may have written, confined
// like a candidate.
//
//   tc-walls --file 5 --descriptor 6 --show /usr/lib ... -- /usr/bin/python3 ARGUMENTS
//
// The program gets the caller's standard input, output and error, each --descriptor as 10, 11, ..., the file
// at /candidate, and the paths of --show, read-only. It gets nothing else: no environment, no network, no
// other process. It ends when the caller does. The exit code is that of the program; 128 plus the number of
// the signal that ended it; or, with a line on standard error, kNoWalls where this system lacks a means of
// confinement, or kNoStart where the program cannot be started.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "runtime/agent/child.h"
#include "runtime/agent/process.h"

namespace tc::agent {
namespace {

constexpr int kNoStart = 124, kNoWalls = 125;
constexpr int kMaxThreads = 64;
// Processor time, until the program itself sets a limit for the file.
constexpr double kMaxSeconds = 3600;

// The means of confinement that are lacking, for a message; empty where none is.
std::string lacking(const Isolation& walls) {
  std::string text;
  const auto need = [&](bool here, const char* name) {
    if (!here) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  need(walls.filter, "a system call filter (seccomp)");
  need(walls.has_own_user(), "a user of its own or a user namespace");
  need(walls.files, "a mount namespace");
  need(walls.processes, "a process namespace");
  need(walls.network, "a network namespace");
  need(walls.memory, "limits on memory");
  return text;
}

Launch launch_of(int count, char** words) {
  Launch launch;
  int at = 1;
  const auto number = [&] { return std::atoi(words[at + 1]); };
  for (; at + 1 < count && std::strcmp(words[at], "--") != 0; at += 2) {
    const std::string option = words[at];
    if (option == "--file") launch.executable = number();
    else if (option == "--descriptor") launch.descriptors.push_back(number());
    else if (option == "--show") launch.shown.push_back(words[at + 1]);
    else throw std::runtime_error("there is no option " + option);
  }
  for (++at; at < count; ++at) launch.arguments.push_back(words[at]);
  struct stat about;
  if (launch.arguments.empty() || fstat(launch.executable, &about) != 0)
    throw std::runtime_error("usage: tc-walls --file N [--descriptor N] [--show PATH] -- PROGRAM ARGUMENTS");
  launch.program = launch.arguments.front();
  launch.executable_bytes = about.st_size;
  for (const std::string& folder : library_folders()) launch.shown.push_back(folder);
  launch.is_interpreter = true;
  launch.extra_bytes = -1;
  launch.cpu_seconds = kMaxSeconds;
  launch.threads = kMaxThreads;
  launch.walls.notify = false;
  return launch;
}

// Runs the program; returns its status as in wait(2). Throws where it cannot be started.
int run(const Launch& launch) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
  ChildPlan plan(launch);
  plan.input = 0, plan.output = 1, plan.errors = 2, plan.status = ends[1];
  plan.parents = {ends[0]};
  const pid_t child = start_child(plan);
  if (child < 0) throw std::runtime_error(std::string("starting a process: ") + std::strerror(errno));
  close(ends[1]);
  ChildStatus status = {};
  const bool failed = read(ends[0], &status, sizeof status) == static_cast<ssize_t>(sizeof status);
  int result = 0;
  while (waitpid(child, &result, 0) < 0 && errno == EINTR) {}
  if (failed) throw std::runtime_error(std::string(status.what) + ": " + std::strerror(status.value));
  return result;
}

int main_of(int count, char** words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string missing = lacking(isolation());
  if (!missing.empty()) {
    std::fprintf(stderr, "%s\n", missing.c_str());
    return kNoWalls;
  }
  try {
    const Launch launch = launch_of(count, words);
    const int result = run(launch);
    return WIFSIGNALED(result) ? 128 + WTERMSIG(result) : WEXITSTATUS(result);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return kNoStart;
  }
}

}  // namespace
}  // namespace tc::agent

int main(int count, char** words) { return tc::agent::main_of(count, words); }
