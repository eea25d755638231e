#include "runtime/agent/process.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "runtime/agent/filter.h"
#include "runtime/serve.h"

namespace tc::agent {
namespace {

constexpr size_t kMostErrorText = 2000;
constexpr int kMostFiles = 1024;           // descriptors of a candidate
constexpr int kAway = 400;                 // above those that a candidate gets
constexpr double kSlice = 0.1;             // seconds between looks at `cancelled`
constexpr int64_t kSlack = int64_t{64} << 20;
// Newer than some C libraries' headers; alike on all processors.
constexpr int kPidfdOpen = 434, kCloseRange = 436, kPidfdGetfd = 438;

// What the child tells its parent before it is the candidate.
struct Status {
  enum Kind : int { Filter, Failed, Network } kind;
  int value;            // descriptor of the notifications or -1; errno
  const char* what;     // a literal: parent and child have the same
};

void make_pipe(Descriptor& reading, Descriptor& writing) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
  reading = Descriptor(ends[0]);
  writing = Descriptor(ends[1]);
}

// Everything that the child needs, made before the fork: afterwards only system calls are allowed.
struct ChildPlan {
  const Launch* launch;
  Isolation isolation;
  sock_fprog filter;
  std::vector<size_t> process_places;
  std::vector<const char*> arguments;
  std::vector<int> descriptors;
  int input, output, errors, status;
  pid_t parent;
  cpu_set_t processors;
};

void tell(int descriptor, Status::Kind kind, int value, const char* what) {
  const Status status = {kind, value, what};
  if (write(descriptor, &status, sizeof status) < 0) _exit(127);
}

[[noreturn]] void give_up(int status, const char* what) {
  tell(status, Status::Failed, errno, what);
  _exit(127);
}

void limit(int status, int resource, int64_t value, const char* what) {
  struct rlimit limits;
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limits) != 0) give_up(status, what);
  limits.rlim_max = std::min(limits.rlim_max, static_cast<rlim_t>(value));
  limits.rlim_cur = limits.rlim_max;
  if (setrlimit(static_cast<__rlimit_resource>(resource), &limits) != 0) give_up(status, what);
}

// The child's life between fork and exec.
[[noreturn]] void become_candidate(ChildPlan& plan) {
  const Launch& launch = *plan.launch;
  setsid();
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  // Out of the way of the numbers that they become, then there.
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
  for (int number = 3; number < 64; ++number) close(number);
  const auto place = [&](int descriptor, int number) {
    if (descriptor >= 0 && dup2(descriptor, number) < 0) give_up(status, "descriptors");
  };
  place(plan.input, 0), place(plan.output, 1), place(plan.errors, 2);
  place(executable, kExecutableDescriptor), place(report, kReportDescriptor);
  int next = runtime::kFirstDataDescriptor;
  for (const int descriptor : plan.descriptors) place(descriptor, next++);
  // All others end with the exec, the parent's own included.
  constexpr unsigned kCloexec = 4;
  if (syscall(kCloseRange, next, ~0u, kCloexec) != 0)
    for (int number = next; number < kMostFiles; ++number) fcntl(number, F_SETFD, FD_CLOEXEC);
  if (launch.program.empty()) fcntl(kExecutableDescriptor, F_SETFD, FD_CLOEXEC);

  if (!launch.processors.empty()) sched_setaffinity(0, sizeof plan.processors, &plan.processors);
  // Addresses decide how data meet in caches: the same each time.
  personality(ADDR_NO_RANDOMIZE);
  if (plan.isolation.network && unshare(CLONE_NEWNET) != 0 &&
      unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
    give_up(status, "network namespace");
  // New credentials, which a user namespace brings, undo both.
  prctl(PR_SET_DUMPABLE, 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(127);

  limit(status, RLIMIT_CORE, 0, "core limit");
  limit(status, RLIMIT_FSIZE, 0, "file size limit");
  limit(status, RLIMIT_NOFILE, kMostFiles, "descriptor limit");
  limit(status, RLIMIT_CPU, static_cast<int64_t>(std::ceil(launch.cpu_seconds)) + 1,
        "processor time limit");
  if (launch.extra_bytes >= 0)
    limit(status, RLIMIT_AS, launch.memory_bytes + launch.extra_bytes + kSlack,
          "address space limit");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up(status, "no new privileges");
  if (plan.isolation.filter) {
    for (const size_t index : plan.process_places)
      plan.filter.filter[index].k = static_cast<uint32_t>(getpid());
    const unsigned flags = plan.isolation.notify ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
    const long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &plan.filter);
    if (listener < 0) give_up(status, "system call filter");
    if (plan.isolation.notify) {
      tell(status, Status::Filter, static_cast<int>(listener), "");
      // The parent has taken it over once it says so.
      char go;
      if (read(0, &go, 1) != 1) _exit(127);
    }
  }
  const char* const environment[] = {"MALLOC_ARENA_MAX=1", "LC_ALL=C", nullptr};
  auto* arguments = const_cast<char* const*>(plan.arguments.data());
  auto* variables = const_cast<char* const*>(environment);
  const char* path = launch.program.c_str();
  if (launch.program.empty())
    syscall(SYS_execveat, kExecutableDescriptor, "", arguments, variables, 0x1000 /* empty path */);
  else if (plan.isolation.filter)
    syscall(SYS_execveat, AT_FDCWD, path, arguments, variables, 0);
  else
    execve(path, arguments, variables);
  give_up(status, "execution");
}

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n')).substr(0, 300);
  for (char& c : line)
    if (c < 0x20 || c > 0x7e) c = '?';
  return line;
}

std::string megabytes(int64_t bytes) {
  return std::to_string((bytes + (1 << 19)) >> 20) + " MiB";
}

}  // namespace

double now_seconds() {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Process::Process(const Launch& launch) : launch_(launch) {
  signal(SIGPIPE, SIG_IGN);  // a candidate may be gone when it is spoken to
  Descriptor input, output, errors, status;
  make_pipe(input, input_);
  make_pipe(output_, output);
  make_pipe(errors_, errors);
  make_pipe(status_, status);
  for (const int descriptor : {output_.get(), errors_.get(), status_.get(), input_.get()})
    fcntl(descriptor, F_SETFL, O_NONBLOCK);

  ChildPlan plan = {};
  plan.launch = &launch_;
  plan.isolation = isolation();
  Filter filter = make_filter(plan.isolation.notify);
  plan.filter = {static_cast<unsigned short>(filter.program.size()), filter.program.data()};
  plan.process_places = filter.process_places;
  for (const std::string& argument : launch_.arguments) plan.arguments.push_back(argument.c_str());
  plan.arguments.push_back(nullptr);
  plan.descriptors = launch_.descriptors;
  plan.input = input.get(), plan.output = output.get(), plan.errors = errors.get();
  plan.status = status.get();
  plan.parent = getpid();
  CPU_ZERO(&plan.processors);
  for (const int processor : launch_.processors) CPU_SET(processor, &plan.processors);

  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error(std::string("starting a process: ") + std::strerror(errno));
  if (pid_ == 0) become_candidate(plan);
}

Process::~Process() { kill_group(); }

void Process::kill_group() {
  if (pid_ < 0 || reaped_) return;
  // The group is the child's once it called setsid; before that there is the child alone.
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  while (waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
}

void Process::misbehave(Outcome outcome, const std::string& detail) {
  kill_group();
  throw Misbehaviour{outcome, detail};
}

void Process::send(const void* bytes, size_t count) {
  // A few bytes into a pipe that is empty; one that is full or closed shows in what comes next.
  if (write(input_.get(), bytes, count) < 0) return;
}

void Process::expect_silence(const std::string& doing) {
  char text[64];
  const ssize_t got = read(output_.get(), text, sizeof text);
  if (got == 0) explain_end(doing);
  if (got > 0)
    misbehave(Outcome::Crash, "wrote '" + first_line(std::string(text, static_cast<size_t>(got))) +
                                  "' to its standard output " + doing + ", where nothing was due");
}

void Process::read_errors() {
  char text[4096];
  // A flood is thrown away, but not for longer than it takes to look at other things.
  for (int i = 0; i < 16; ++i) {
    const ssize_t got = read(errors_.get(), text, sizeof text);
    if (got == 0) errors_.close();
    if (got <= 0) return;
    if (error_text_.size() < kMostErrorText) error_text_.append(text, static_cast<size_t>(got));
  }
}

int64_t Process::address_space() const {
  char text[128] = "";
  const Descriptor file(open(("/proc/" + std::to_string(pid_) + "/statm").c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 || read(file.get(), text, sizeof text - 1) <= 0) return 0;
  return std::strtoll(text, nullptr, 10) * sysconf(_SC_PAGESIZE);
}

int64_t Process::peak_bytes() const {
  char text[4096] = "";
  const Descriptor file(
      open(("/proc/" + std::to_string(pid_) + "/status").c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 || read(file.get(), text, sizeof text - 1) <= 0) return 0;
  const char* line = std::strstr(text, "VmHWM:");
  return line == nullptr ? 0 : std::strtoll(line + 6, nullptr, 10) * 1024;
}

void Process::answer_notification(const std::string& doing) {
  alignas(8) char request_bytes[512] = {}, response_bytes[512] = {};
  auto& request = *reinterpret_cast<seccomp_notif*>(request_bytes);
  auto& response = *reinterpret_cast<seccomp_notif_resp*>(response_bytes);
  if (ioctl(notifications_.get(), SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) return;
  const int number = request.data.nr;
  uint64_t arguments[6], bytes = 0;
  std::copy(std::begin(request.data.args), std::end(request.data.args), arguments);
  if (starts_program(number) && !programs_) {
    programs_ = true;
  } else if (asks_for_memory(number, arguments, &bytes)) {
    const int64_t most = launch_.memory_bytes + launch_.extra_bytes;
    const int64_t used = address_space();
    if (launch_.extra_bytes >= 0 &&
        (bytes > static_cast<uint64_t>(most) || used + static_cast<int64_t>(bytes) > most))
      misbehave(Outcome::OutOfMemory,
                "asked for " + megabytes(static_cast<int64_t>(std::min<uint64_t>(bytes, 1ull << 60))) +
                    " of memory on top of " + megabytes(used) + " while " + doing +
                    "; allowed are " + megabytes(most) + " in all");
  } else {
    const std::string why = intention(number);
    misbehave(Outcome::Crash, "made the system call " + system_call_name(number) +
                                  (why.empty() ? "" : " (" + why + ")") + " while " + doing +
                                  "; candidates may not");
  }
  response.id = request.id;
  response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  ioctl(notifications_.get(), SECCOMP_IOCTL_NOTIF_SEND, &response);
}

// Its standard output is closed: it ended, or is about to, or closed it and goes on.
void Process::explain_end(const std::string& doing) {
  const double deadline = now_seconds() + 1;
  struct rusage usage = {};
  for (;;) {
    if (notifications_.get() >= 0) {
      struct pollfd look = {notifications_.get(), POLLIN, 0};
      if (poll(&look, 1, 0) > 0 && (look.revents & POLLIN) != 0) answer_notification(doing);
    }
    const pid_t done = wait4(pid_, &wait_status_, WNOHANG, &usage);
    if (done == pid_) break;
    if (now_seconds() > deadline)
      misbehave(Outcome::Crash, "closed its standard output while " + doing);
    const struct timespec pause = {0, 1000000};
    nanosleep(&pause, nullptr);
  }
  kill(-pid_, SIGKILL);  // what else is in its group
  reaped_ = true;
  if (errors_.get() >= 0) read_errors();
  const std::string said =
      error_text_.empty() ? "" : "; it said: " + first_line(error_text_);
  if (WIFSIGNALED(wait_status_)) {
    const int number = WTERMSIG(wait_status_);
    const char* name = sigabbrev_np(number);
    const std::string signal =
        name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(number);
    if (number == SIGXCPU)
      misbehave(Outcome::Timeout, "used more than " +
                                      std::to_string(std::lround(std::ceil(launch_.cpu_seconds))) +
                                      " s of processor time while " + doing);
    // No one but the agent and a system without memory kills so.
    if (number == SIGKILL)
      misbehave(Outcome::OutOfMemory, "was killed by the system, which was out of memory, while " +
                                          doing + said);
    if (number == SIGSYS)
      misbehave(Outcome::Crash,
                "made a system call that candidates may not make while " + doing + said);
    // Without word of what it asks for: one that held nearly all it may have likely asked for more.
    struct rusage own = {};
    getrusage(RUSAGE_SELF, &own);
    if (!isolation().notify && usage.ru_maxrss > own.ru_maxrss &&
        usage.ru_maxrss * 1024 > (launch_.memory_bytes + launch_.extra_bytes) / 5 * 4)
      misbehave(Outcome::OutOfMemory, "died of " + signal + " with " +
                                          megabytes(usage.ru_maxrss * 1024) + " in use while " +
                                          doing + said);
    misbehave(Outcome::Crash, "died of " + signal + " while " + doing + said);
  }
  const int code = WEXITSTATUS(wait_status_);
  if (code == runtime::kServeOutOfMemory)
    misbehave(Outcome::OutOfMemory, "found no memory while " + doing + said);
  misbehave(Outcome::Crash, "exited with code " + std::to_string(code) + " while " + doing + said);
}

double Process::expect(char letter, double seconds, const std::string& doing,
                       const std::function<bool()>& cancelled) {
  const double deadline = now_seconds() + seconds;
  for (;;) {
    const double left = deadline - now_seconds();
    if (left <= 0)
      misbehave(Outcome::Timeout, "was not done after " + std::to_string(std::lround(seconds * 1e3)) +
                                      " ms of " + doing);
    struct pollfd look[4] = {{output_.get(), POLLIN, 0},
                             {errors_.get(), POLLIN, 0},
                             {notifications_.get(), POLLIN, 0},
                             {status_.get(), POLLIN, 0}};
    const int wait = static_cast<int>(std::ceil(std::min(left, kSlice) * 1e3));
    if (poll(look, 4, wait) < 0 && errno != EINTR)
      throw std::runtime_error(std::string("poll: ") + std::strerror(errno));
    if ((look[2].revents & POLLIN) != 0) answer_notification(doing);
    if (look[1].revents != 0) read_errors();
    if (look[3].revents != 0) {
      Status status = {};
      const ssize_t got = read(status_.get(), &status, sizeof status);
      if (got != static_cast<ssize_t>(sizeof status)) {
        status_.close();  // closed by the exec
        started_ = true;
      } else if (status.kind == Status::Filter) {
        const Descriptor process(static_cast<int>(syscall(kPidfdOpen, pid_, 0)));
        notifications_ =
            Descriptor(static_cast<int>(syscall(kPidfdGetfd, process.get(), status.value, 0)));
        if (notifications_.get() < 0)
          throw std::runtime_error(std::string("watching a process: ") + std::strerror(errno));
        send("g", 1);
      } else {
        const std::string why = std::strerror(status.value);
        kill_group();
        // A file that is no program is the candidate's fault; all before that is ours.
        if (std::strcmp(status.what, "execution") == 0 && launch_.program.empty()) {
          if (status.value == ENOMEM)
            throw Misbehaviour{Outcome::OutOfMemory, "is larger than the memory it may use"};
          throw Misbehaviour{Outcome::Crash, "cannot be executed here: " + why};
        }
        throw std::runtime_error(std::string("starting a candidate: ") + status.what + ": " + why);
      }
    }
    if (look[0].revents != 0) {
      char text[64];
      const ssize_t got = read(output_.get(), text, sizeof text);
      const double when = now_seconds();
      if (got == 0) explain_end(doing);
      if (got == 1 && text[0] == letter) return when;
      if (got > 0)
        misbehave(Outcome::Crash, "wrote '" + first_line(std::string(text, static_cast<size_t>(got))) +
                                      "' to its standard output while " + doing +
                                      ", where '" + letter + "' was due");
    }
    if (cancelled && cancelled()) {
      kill_group();
      throw Cancelled();
    }
  }
}

namespace {

bool child_succeeds(int (*attempt)()) {
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) _exit(attempt());
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int try_network() {
  return unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 ? 0 : 1;
}

int try_memory() {
  const struct rlimit limits = {64 << 20, 64 << 20};
  if (setrlimit(RLIMIT_AS, &limits) != 0) return 1;
  void* memory = mmap(nullptr, size_t{1} << 31, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? 0 : 1;
}

// The filter holds where a call that it forbids kills.
int try_filter() {
  sock_filter program[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
                           {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_socket},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EDOM},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  sock_fprog filter = {4, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 1;
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) return 1;
  return syscall(SYS_socket, 0, 0, 0) < 0 && errno == EDOM ? 0 : 1;
}

// Whether a parent gets at its child's notifications: the filter says so, and so do a process
// descriptor and the right to take a descriptor out of a child.
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
  const Descriptor taken(
      told && listener >= 0 && process.get() >= 0
          ? static_cast<int>(syscall(kPidfdGetfd, process.get(), listener, 0)) : -1);
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  close(ends[0]), close(ends[1]);
  return taken.get() >= 0;
}

}  // namespace

const Isolation& isolation() {
  static const Isolation found = [] {
    Isolation result;
    result.filter = child_succeeds(try_filter);
    result.notify = result.filter && try_notify();
    result.network = child_succeeds(try_network);
    result.memory = child_succeeds(try_memory);
    return result;
  }();
  return found;
}

std::vector<std::string> isolation_names() {
  const Isolation& found = isolation();
  std::vector<std::string> names = {"process group", "time limit"};
  if (found.filter) names.push_back("seccomp");
  if (found.notify) names.push_back("seccomp notification");
  if (found.memory) names.push_back("memory limit");
  if (found.network) names.push_back("network namespace");
  return names;
}

}  // namespace tc::agent
