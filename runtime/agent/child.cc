#include "runtime/agent/child.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <stdexcept>

#include "runtime/agent/process.h"
#include "runtime/serve.h"

namespace tc::agent {
namespace {

constexpr int kMaxFiles = 1024;  // most descriptors of a candidate
constexpr int kAway = 400;       // descriptors are moved here first; above all those of a candidate
constexpr int64_t kSlack = int64_t{64} << 20;
constexpr int kCloseRange = 436;  // newer than some headers; the same on all processors
// Limit of pending signals, which the system counts per user; a candidate has a user of its own, and needs
// far fewer.
constexpr int64_t kSignals = 64;

void tell(int descriptor, ChildStatus::Kind kind, int value, const char* what) {
  const ChildStatus status = {kind, value, what};
  if (write(descriptor, &status, sizeof status) < 0) _exit(127);
}

[[noreturn]] void give_up(int status, const char* what) {
  tell(status, ChildStatus::Failed, errno, what);
  _exit(127);
}

void require(int status, const char* problem) {
  if (problem != nullptr) give_up(status, problem);
}

void limit(int status, int resource, int64_t value, const char* what) {
  struct rlimit limits;
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limits) != 0) give_up(status, what);
  limits.rlim_max = std::min(limits.rlim_max, static_cast<rlim_t>(value));
  limits.rlim_cur = limits.rlim_max;
  if (setrlimit(static_cast<__rlimit_resource>(resource), &limits) != 0) give_up(status, what);
}

// Gives the descriptors the numbers under which the candidate knows them. They are first moved to high
// numbers, so that none overwrites another. Returns the new descriptor of the status pipe.
int place_descriptors(ChildPlan& plan) {
  const Launch& launch = *plan.launch;
  const int status = fcntl(plan.status, F_DUPFD_CLOEXEC, kAway);
  if (status < 0) give_up(plan.status, "descriptors");
  const auto away = [&](int& descriptor) {
    if (descriptor < 0) return;
    descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, kAway);
    if (descriptor < 0) give_up(status, "descriptors");
  };
  int executable = launch.executable, report = launch.report;
  away(plan.input), away(plan.output), away(plan.errors), away(executable), away(report);
  for (int& descriptor : plan.descriptors) away(descriptor);
  for (const int descriptor : plan.parents) close(descriptor);
  for (int number = 3; number < 64; ++number) close(number);
  const auto place = [&](int descriptor, int number) {
    if (descriptor >= 0 && dup2(descriptor, number) < 0) give_up(status, "descriptors");
  };
  place(plan.input, 0), place(plan.output, 1), place(plan.errors, 2);
  place(executable, kExecutableDescriptor), place(report, kReportDescriptor);
  int next = runtime::kFirstDataDescriptor;
  for (const int descriptor : plan.descriptors) place(descriptor, next++);
  // All other descriptors, including the parent's, are closed by the exec.
  constexpr unsigned kCloexec = 4;
  if (syscall(kCloseRange, next, ~0u, kCloexec) != 0)
    for (int number = next; number < kMaxFiles; ++number) fcntl(number, F_SETFD, FD_CLOEXEC);
  const bool keeps_executable = !launch.program.empty() && !plan.walls.files;
  if (!keeps_executable) fcntl(kExecutableDescriptor, F_SETFD, FD_CLOEXEC);
  return status;
}

void enter_walls(const ChildPlan& plan, int status) {
  const Isolation& walls = plan.walls;
  if (walls.user_namespace) require(status, map_user(plan.agent_user, plan.agent_group));
  if (walls.unshare_flags() != 0 && unshare(walls.unshare_flags()) != 0) give_up(status, "namespaces");
  if (walls.files) require(status, enter_root(plan.root));
  if (walls.user) require(status, become_user(plan.own_user));
  // Set here, since changing the user resets both.
  prctl(PR_SET_DUMPABLE, 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before PR_SET_PDEATHSIG: then nobody reads the pipe, and poll reports an error.
  struct pollfd look = {status, 0, 0};
  if (poll(&look, 1, 0) > 0 && (look.revents & POLLERR) != 0) _exit(127);
}

void set_limits(const ChildPlan& plan, int status) {
  const Launch& launch = *plan.launch;
  limit(status, RLIMIT_CORE, 0, "core limit");
  limit(status, RLIMIT_FSIZE, 0, "file size limit");
  limit(status, RLIMIT_NOFILE, kMaxFiles, "descriptor limit");
  limit(status, RLIMIT_CPU, static_cast<int64_t>(std::ceil(launch.cpu_seconds)) + 1, "processor time limit");
  limit(status, RLIMIT_MEMLOCK, 0, "locked memory limit");
  limit(status, RLIMIT_MSGQUEUE, 0, "message queue limit");
  limit(status, RLIMIT_NICE, 0, "priority limit");
  limit(status, RLIMIT_RTPRIO, 0, "priority limit");
  if (plan.walls.user) {
    // The system counts these per user, and this user is the candidate's alone.
    limit(status, RLIMIT_NPROC, launch.threads, "thread limit");
    limit(status, RLIMIT_SIGPENDING, kSignals, "signal limit");
  }
  if (launch.extra_bytes >= 0)
    limit(status, RLIMIT_AS, launch.memory_bytes + launch.extra_bytes + kSlack, "address space limit");
}

void install_filter(ChildPlan& plan, int status) {
  for (const size_t index : plan.filter.process_places)
    plan.filter.program[index].k = static_cast<uint32_t>(getpid());
  const sock_fprog program = {static_cast<unsigned short>(plan.filter.program.size()),
                              plan.filter.program.data()};
  const unsigned flags = plan.walls.notify ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
  const long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (listener < 0) give_up(status, "system call filter");
  if (!plan.walls.notify) return;
  tell(status, ChildStatus::Filter, static_cast<int>(listener), "");
  // Waits until the parent has fetched the descriptor of the notifications.
  char go;
  if (read(0, &go, 1) != 1) _exit(127);
}

[[noreturn]] void become_candidate(ChildPlan& plan) {
  const Launch& launch = *plan.launch;
  setsid();
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int status = place_descriptors(plan);
  if (!launch.processors.empty()) sched_setaffinity(0, sizeof plan.processors, &plan.processors);
  // The addresses decide which data conflict in caches, so they have to be the same each time. An emulator
  // keeps random addresses, since the candidate that it runs must not know them.
  if (launch.program.empty()) personality(ADDR_NO_RANDOMIZE);
  enter_walls(plan, status);
  set_limits(plan, status);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up(status, "no new privileges");
  require(status, forbid_files(plan.walls.landlock, !launch.program.empty()));
  if (plan.walls.filter) install_filter(plan, status);

  const char* const environment[] = {"MALLOC_ARENA_MAX=1", "LC_ALL=C", nullptr};
  auto* arguments = const_cast<char* const*>(plan.arguments.data());
  auto* variables = const_cast<char* const*>(environment);
  const char* path = launch.program.c_str();
  if (launch.program.empty())
    syscall(SYS_execveat, kExecutableDescriptor, "", arguments, variables, 0x1000 /* empty path */);
  else if (plan.walls.filter) syscall(SYS_execveat, AT_FDCWD, path, arguments, variables, 0);
  else execve(path, arguments, variables);
  give_up(status, "execution");
}

}  // namespace

ChildPlan::ChildPlan(const Launch& launched)
    : launch(&launched),
      walls(launched.walls),
      agent_user(geteuid()),
      agent_group(getegid()),
      descriptors(launched.descriptors) {
  const bool programs = !launched.program.empty();
  filter = make_filter({walls.notify, programs, launched.is_interpreter});
  if (walls.user) {
    own_user = unused_user();
    if (own_user == 0) throw std::runtime_error("starting a candidate: no user id is free");
  }
  if (programs && walls.files) {
    std::vector<std::string> shown = launched.shown;
    shown.push_back(launched.program);
    root = make_root(shown);
    root.program = kExecutableDescriptor;
    root.program_bytes = launched.executable_bytes;
  }
  for (const std::string& argument : launched.arguments) arguments.push_back(argument.c_str());
  arguments.push_back(nullptr);
  CPU_ZERO(&processors);
  for (const int processor : launched.processors) CPU_SET(processor, &processors);
}

pid_t start_child(ChildPlan& plan) {
  const int flags = plan.walls.clone_flags();
  const auto child = static_cast<pid_t>(
      flags == 0 ? fork() : syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) become_candidate(plan);
  return child;
}

}  // namespace tc::agent
