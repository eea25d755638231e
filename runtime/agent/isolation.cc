#include "runtime/agent/isolation.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "runtime/agent/confine.h"
#include "runtime/agent/file.h"

namespace tc::agent {
namespace {

// System calls that some C libraries' headers lack; the numbers are the same on all processors.
constexpr int kPidfdOpen = 434, kPidfdGetfd = 438, kCreateRuleset = 444;

// Whether `attempt` succeeds in a child process that is made with these flags of clone(2).
bool child_succeeds(const std::function<bool()>& attempt, int flags = 0) {
  const auto child = static_cast<pid_t>(
      flags == 0 ? fork() : syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child < 0) return false;
  if (child == 0) _exit(attempt() ? 0 : 1);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool try_memory() {
  const struct rlimit limits = {64 << 20, 64 << 20};
  if (setrlimit(RLIMIT_AS, &limits) != 0) return false;
  void* memory = mmap(nullptr, size_t{1} << 31, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED;
}

// Whether a seccomp filter works: a call that it forbids has to kill the process.
bool try_filter() {
  sock_filter program[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
                           {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_socket},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EDOM},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  sock_fprog filter = {4, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) return false;
  return syscall(SYS_socket, 0, 0, 0) < 0 && errno == EDOM;
}

// Whether a parent can receive its child's seccomp notifications. This needs a filter that notifies, a
// descriptor of the child process, and the right to copy a descriptor out of the child.
bool try_notify() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    sock_filter program[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    sock_fprog filter = {1, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const int listener = static_cast<int>(
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
    if (write(ends[1], &listener, sizeof listener) < 0) _exit(1);
    for (;;) pause();
  }
  int listener = -1;
  const bool told = read(ends[0], &listener, sizeof listener) == sizeof listener;
  const Descriptor process(static_cast<int>(syscall(kPidfdOpen, child, 0)));
  const Descriptor taken(told && listener >= 0 && process.get() >= 0
                             ? static_cast<int>(syscall(kPidfdGetfd, process.get(), listener, 0))
                             : -1);
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
  close(ends[0]), close(ends[1]);
  return taken.get() >= 0;
}

int landlock_version() {
  const long version = syscall(kCreateRuleset, nullptr, 0, 1 /* asks for the version */);
  if (version <= 0) return 0;
  const bool holds = child_succeeds([version] {
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           forbid_files(static_cast<int>(version), false) == nullptr;
  });
  return holds ? static_cast<int>(version) : 0;
}

// Whether the namespaces of these flags can be made, either directly or inside a user namespace.
bool has_namespace(int flags, bool behind_user) {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  // A process namespace has to be made by clone, since unshare makes it only for later children.
  const int first = (behind_user ? CLONE_NEWUSER : 0) | (flags & CLONE_NEWPID);
  return child_succeeds(
      [=] {
        if (behind_user && map_user(user, group) != nullptr) return false;
        const int rest = flags & ~CLONE_NEWPID;
        if (rest != 0 && unshare(rest) != 0) return false;
        return (flags & CLONE_NEWNS) == 0 || enter_root(Root()) == nullptr;
      },
      first);
}

Isolation find_out() {
  Isolation found;
  found.filter = child_succeeds(try_filter);
  found.notify = found.filter && try_notify();
  found.memory = child_succeeds(try_memory);
  found.landlock = landlock_version();
  long long ran = 0, waited = 0, switches = 0;
  std::ifstream times("/proc/self/schedstat");
  found.thread_times = (times >> ran >> waited >> switches) && switches > 0;
  const uid_t other = geteuid() == 0 ? unused_user() : 0;
  found.user = other != 0 && child_succeeds([other] { return become_user(other) == nullptr; });
  found.user_namespace = !found.user && has_namespace(0, true);
  const bool behind = found.user_namespace;
  found.processes = has_namespace(CLONE_NEWPID, behind);
  found.files = has_namespace(CLONE_NEWNS, behind);
  found.network = has_namespace(CLONE_NEWNET, behind);
  found.ipc = has_namespace(CLONE_NEWIPC | CLONE_NEWUTS, behind);
  return found;
}

std::set<unsigned long> users_of_passwd() {
  std::ifstream file("/etc/passwd");
  std::set<unsigned long> users;
  for (std::string line; std::getline(file, line);) {
    const size_t name = line.find(':');
    const size_t password = name == std::string::npos ? name : line.find(':', name + 1);
    if (password != std::string::npos) users.insert(std::strtoul(line.c_str() + password + 1, nullptr, 10));
  }
  return users;
}

// The largest range [first, last] of user ids that this user namespace maps.
void known_users(unsigned long& first, unsigned long& last) {
  first = 0, last = 0xfffffffeul;
  std::ifstream file("/proc/self/uid_map");
  unsigned long most = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    unsigned long inside = 0, outside = 0, count = 0;
    if (!(words >> inside >> outside >> count) || count <= most) continue;
    most = count;
    first = inside;
    last = inside + count - 1;
  }
}

}  // namespace

uid_t unused_user() {
  static std::atomic<unsigned long> count = 0;
  unsigned long first, last;
  known_users(first, last);
  // Ids far above those that systems assign; in a container that maps few ids, its upper ones.
  constexpr unsigned long kFar = 0x70000000;
  const unsigned long turn = static_cast<unsigned long>(getpid()) % 4096 * 1024 + count++ % 1024;
  if (first <= kFar && kFar + (1 << 22) <= last) return static_cast<uid_t>(kFar + turn);
  const std::set<unsigned long> taken = users_of_passwd();
  const unsigned long width = (last - first) / 4;
  for (unsigned long i = 0; i < width; ++i) {
    const unsigned long user = last - 2 - (turn + i) % width;
    if (user != 65534 && user > 0 && taken.count(user) == 0) return static_cast<uid_t>(user);
  }
  return 0;
}

int Isolation::clone_flags() const {
  return (user_namespace ? CLONE_NEWUSER : 0) | (processes ? CLONE_NEWPID : 0);
}

int Isolation::unshare_flags() const {
  return (files ? CLONE_NEWNS : 0) | (network ? CLONE_NEWNET : 0) | (ipc ? CLONE_NEWIPC | CLONE_NEWUTS : 0);
}

const Isolation& isolation() {
  static const Isolation found = find_out();
  return found;
}

std::vector<std::string> isolation_names() {
  const Isolation& found = isolation();
  std::vector<std::string> names = {"process group", "time limit", "stopped between runs"};
  const auto add = [&](bool here, const std::string& name) {
    if (here) names.push_back(name);
  };
  add(found.filter, "seccomp");
  add(found.notify, "seccomp notification");
  add(found.memory, "memory limit");
  add(found.user, "own user");
  add(found.user_namespace, "user namespace");
  add(found.processes, "process namespace");
  add(found.files, "empty root");
  add(found.network, "network namespace");
  add(found.ipc, "ipc namespace");
  add(found.landlock > 0, "Landlock " + std::to_string(found.landlock));
  add(found.thread_times, "thread times");
  return names;
}

std::vector<std::string> isolation_lacks() {
  const Isolation& found = isolation();
  std::vector<std::string> lacks;
  const auto add = [&](bool here, const char* what) {
    if (!here) lacks.push_back(what);
  };
  add(found.filter, "seccomp: candidates may make any system call");
  add(found.notify,
      "seccomp notification: a forbidden call kills without being named, threads are not counted");
  add(found.memory, "memory limit: candidates may use up the machine's memory");
  add(found.has_own_user(), "own user: candidates have the rights of the agent's user");
  add(found.processes, "process namespace: candidates can name other processes");
  add(found.files, "empty root: candidates see the agent's files");
  add(found.network, "network namespace: only the system call filter keeps candidates from the network");
  add(found.ipc, "ipc namespace: only the system call filter keeps candidates from shared memory of others");
  add(found.thread_times, "thread times: a thread that only spins may pass for one that works");
  return lacks;
}

}  // namespace tc::agent
