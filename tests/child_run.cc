// The child process, its limits, and the pipe that it answers through.
#include "tests/child_run.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "ir/error.h"

namespace tc {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMeasured = false;
#else
constexpr bool kMeasured = true;
#endif

// A line of /proc/self/status, in bytes.
int64_t status_bytes(const char* name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != name) continue;
    int64_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

void limit(int resource, int64_t most) {
  const rlimit both{static_cast<rlim_t>(most), static_cast<rlim_t>(most)};
  setrlimit(resource, &both);
}

// In the child: the text that the parent gets.
std::string limited(const std::function<std::string()>& work, const ChildLimits& limits) {
  const int64_t before = status_bytes("VmRSS:");
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, limits.seconds);
  // Far more than it may touch, so that what it reserves is not taken for what it holds.
  if (kMeasured) limit(RLIMIT_DATA, status_bytes("VmData:") + 2 * limits.bytes + (int64_t{1} << 30));
  std::string answer;
  try {
    answer = work();
  } catch (const std::exception& error) {
    answer = text("an exception escaped: ", error.what());
  } catch (...) {
    answer = "an unknown exception escaped";
  }
  const int64_t held = status_bytes("VmHWM:") - before;
  if (answer.empty() && kMeasured && held > limits.bytes)
    answer = text("it held ", held, " bytes; ", limits.bytes, " are allowed");
  return answer;
}

std::string read_all(int descriptor, int seconds) {
  std::string answer;
  char part[4096];
  for (pollfd ready{descriptor, POLLIN, 0}; poll(&ready, 1, seconds * 1000) > 0;) {
    const ssize_t count = read(descriptor, part, sizeof part);
    if (count <= 0) return answer;
    answer.append(part, static_cast<size_t>(count));
  }
  return answer + "it waits without end";
}

}  // namespace

std::string run_in_child(const std::function<std::string()>& work, const ChildLimits& limits) {
  int ends[2];
  if (pipe(ends) != 0) fail(ErrorKind::Internal, "no pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) fail(ErrorKind::Internal, "no child process");
  if (child == 0) {
    close(ends[0]);
    const std::string answer = limited(work, limits);
    const ssize_t written = write(ends[1], answer.data(), std::min<size_t>(answer.size(), 60000));
    _exit(written < 0 ? 1 : 0);
  }
  close(ends[1]);
  // A busy machine gives it less than a processor.
  std::string answer = read_all(ends[0], limits.seconds * 10);
  close(ends[0]);
  if (!answer.empty()) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!answer.empty()) return answer;
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    if (number == SIGXCPU || number == SIGKILL) return text("it took more than ", limits.seconds, " s");
    return text("signal ", number, " (", strsignal(number), ")");
  }
  return WEXITSTATUS(status) == 0 ? "" : text("it ended with ", WEXITSTATUS(status));
}

}  // namespace tc
