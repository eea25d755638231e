#include "runtime/agent/process.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "runtime/agent/child.h"
#include "runtime/agent/filter.h"
#include "runtime/serve.h"

namespace tc::agent {
namespace {

constexpr size_t kMaxErrorText = 2000;
constexpr double kSlice = 0.1;  // seconds between looks at `cancelled`
// System calls that some C libraries' headers lack; the numbers are the same on all processors.
constexpr int kPidfdOpen = 434, kPidfdGetfd = 438;

void make_pipe(Descriptor& reading, Descriptor& writing) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
  reading = Descriptor(ends[0]);
  writing = Descriptor(ends[1]);
}

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n')).substr(0, 300);
  for (char& c : line)
    if (c < 0x20 || c > 0x7e) c = '?';
  return line;
}

double seconds_of(const struct timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

cpu_set_t mask_of(const std::vector<int>& processors) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int processor : processors) CPU_SET(processor, &mask);
  return mask;
}

// The entries of a folder that are numbers.
std::vector<int> numbers_in(const std::string& folder) {
  std::vector<int> numbers;
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) return numbers;
  while (const struct dirent* entry = readdir(entries))
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])))
      numbers.push_back(std::atoi(entry->d_name));
  closedir(entries);
  return numbers;
}

std::string megabytes(int64_t bytes) { return std::to_string((bytes + (1 << 19)) >> 20) + " MiB"; }

}  // namespace

double thread_seconds() {
  struct timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return seconds_of(time);
}

double now_seconds() {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return seconds_of(time);
}

Process::Process(const Launch& launch) : launch_(launch) {
  signal(SIGPIPE, SIG_IGN);  // a candidate may be gone when a command is written to it
  Descriptor input, output, errors, status;
  make_pipe(input, input_);
  make_pipe(output_, output);
  make_pipe(errors_, errors);
  make_pipe(status_, status);
  for (const int descriptor : {output_.get(), errors_.get(), status_.get(), input_.get()})
    fcntl(descriptor, F_SETFL, O_NONBLOCK);

  ChildPlan plan(launch_);
  plan.input = input.get(), plan.output = output.get(), plan.errors = errors.get();
  plan.status = status.get();
  plan.parents = {input_.get(), output_.get(), errors_.get(), status_.get()};
  pid_ = start_child(plan);
  if (pid_ < 0) throw std::runtime_error(std::string("starting a process: ") + std::strerror(errno));
}

Process::~Process() { kill_group(); }

void Process::kill_group() {
  if (pid_ < 0 || reaped_) return;
  // The child has its own group once it has called setsid; before that, only the child itself is killed.
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  while (waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {}
  reaped_ = true;
}

void Process::misbehave(Outcome outcome, const std::string& detail) {
  kill_group();
  throw Misbehaviour{outcome, detail};
}

void Process::send(const void* bytes, size_t count) {
  // A few bytes always fit into an empty pipe. That the pipe is full or closed shows when the reply does not
  // come.
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
  // A flood of text is discarded, but in limited portions, so that other events are handled in between.
  for (int i = 0; i < 16; ++i) {
    const ssize_t got = read(errors_.get(), text, sizeof text);
    if (got == 0) errors_.close();
    if (got <= 0) return;
    ++requests_;
    if (error_text_.size() < kMaxErrorText) error_text_.append(text, static_cast<size_t>(got));
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
  const Descriptor file(open(("/proc/" + std::to_string(pid_) + "/status").c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 || read(file.get(), text, sizeof text - 1) <= 0) return 0;
  const char* line = std::strstr(text, "VmHWM:");
  return line == nullptr ? 0 : std::strtoll(line + 6, nullptr, 10) * 1024;
}

bool Process::may_have_memory(uint64_t bytes, const std::string& doing) {
  const int64_t most = launch_.memory_bytes + launch_.extra_bytes;
  const int64_t used = address_space();
  if (launch_.extra_bytes < 0) return true;
  if (bytes <= static_cast<uint64_t>(most) && used + static_cast<int64_t>(bytes) <= most) return true;
  misbehave(Outcome::OutOfMemory, "asked for " +
                                      megabytes(static_cast<int64_t>(std::min<uint64_t>(bytes, 1ull << 60))) +
                                      " of memory on top of " + megabytes(used) + " while " + doing +
                                      "; allowed are " + megabytes(most) + " in all");
}

void Process::answer_notification(const std::string& doing) {
  alignas(8) char request_bytes[512] = {}, response_bytes[512] = {};
  auto& request = *reinterpret_cast<seccomp_notif*>(request_bytes);
  auto& response = *reinterpret_cast<seccomp_notif_resp*>(response_bytes);
  if (ioctl(notifications_.get(), SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) return;
  ++requests_;
  const int number = request.data.nr;
  uint64_t arguments[6], bytes = 0;
  std::copy(std::begin(request.data.args), std::end(request.data.args), arguments);
  bool allowed = false;
  if (starts_program(number) && !programs_) {
    programs_ = allowed = true;
  } else if (asks_for_memory(number, arguments, &bytes)) {
    allowed = may_have_memory(bytes, doing);
  } else if (starts_thread(number, arguments)) {
    if (++threads_ > launch_.threads)
      misbehave(Outcome::Crash,
                "started more than " + std::to_string(launch_.threads) + " threads while " + doing);
    allowed = true;
  } else if (reads_file(number, arguments)) {
    // Programs read their libraries before the first reply; later requests come from the candidate itself.
    allowed = !launch_.program.empty() && !ready_;
  } else if (const int signal = signal_of(number, arguments); signal == SIGABRT) {
    explain_signal(signal, 0, doing);
  }
  if (!allowed) {
    const std::string why = intention(number);
    misbehave(Outcome::Crash, "made the system call " + system_call_name(number) +
                                  (why.empty() ? "" : " (" + why + ")") + " while " + doing +
                                  "; candidates may not");
  }
  response.id = request.id;
  response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  ioctl(notifications_.get(), SECCOMP_IOCTL_NOTIF_SEND, &response);
}

std::string Process::said() const {
  return error_text_.empty() ? "" : "; it said: " + first_line(error_text_);
}

// Called when the process has closed its standard output: it has ended, or is ending, or runs on without it.
void Process::explain_end(const std::string& doing) {
  const double deadline = now_seconds() + 1;
  struct rusage usage = {};
  for (;;) {
    if (notifications_.get() >= 0) {
      struct pollfd look = {notifications_.get(), POLLIN, 0};
      if (poll(&look, 1, 0) > 0 && (look.revents & POLLIN) != 0) answer_notification(doing);
    }
    if (reaped_) break;  // it ended when it was to be stopped
    const pid_t done = wait4(pid_, &wait_status_, WNOHANG, &usage);
    if (done == pid_) break;
    if (now_seconds() > deadline) misbehave(Outcome::Crash, "closed its standard output while " + doing);
    const struct timespec pause = {0, 1000000};
    nanosleep(&pause, nullptr);
  }
  kill(-pid_, SIGKILL);  // the rest of its group
  reaped_ = true;
  if (errors_.get() >= 0) read_errors();
  if (WIFSIGNALED(wait_status_)) explain_signal(WTERMSIG(wait_status_), usage.ru_maxrss, doing);
  const int code = WEXITSTATUS(wait_status_);
  if (code == runtime::kServeOutOfMemory)
    misbehave(Outcome::OutOfMemory, "found no memory while " + doing + said());
  if (code == runtime::kServeTooLong) misbehave(Outcome::Timeout, "was stopped while " + doing + said());
  misbehave(Outcome::Crash, "exited with code " + std::to_string(code) + " while " + doing + said());
}

void Process::explain_signal(int number, int64_t most_resident, const std::string& doing) {
  const char* name = sigabbrev_np(number);
  const std::string signal = name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(number);
  if (number == SIGXCPU)
    misbehave(Outcome::Timeout, "used more than " +
                                    std::to_string(std::lround(std::ceil(launch_.cpu_seconds))) +
                                    " s of processor time while " + doing);
  // Only the agent and a system that is out of memory send SIGKILL.
  if (number == SIGKILL)
    misbehave(Outcome::OutOfMemory,
              "was killed by the system, which was out of memory, while " + doing + said());
  if (number == SIGSYS)
    misbehave(Outcome::Crash, "made a system call that candidates may not make while " + doing + said());
  // Without notifications, its requests for memory are unknown: a process that had nearly all the memory it
  // may have probably asked for more.
  struct rusage own = {};
  getrusage(RUSAGE_SELF, &own);
  if (!launch_.walls.notify && most_resident > own.ru_maxrss &&
      most_resident * 1024 > (launch_.memory_bytes + launch_.extra_bytes) / 5 * 4)
    misbehave(Outcome::OutOfMemory, "died of " + signal + " with " + megabytes(most_resident * 1024) +
                                        " in use while " + doing + said());
  misbehave(Outcome::Crash, "died of " + signal + " while " + doing + said());
}

void Process::take_status() {
  ChildStatus status = {};
  const ssize_t got = read(status_.get(), &status, sizeof status);
  if (got != static_cast<ssize_t>(sizeof status)) {
    status_.close();  // closed by the exec
    return;
  }
  if (status.kind == ChildStatus::Filter) {
    const Descriptor process(static_cast<int>(syscall(kPidfdOpen, pid_, 0)));
    notifications_ = Descriptor(static_cast<int>(syscall(kPidfdGetfd, process.get(), status.value, 0)));
    if (notifications_.get() < 0)
      throw std::runtime_error(std::string("watching a process: ") + std::strerror(errno));
    send("g", 1);
    return;
  }
  const std::string why = std::strerror(status.value);
  kill_group();
  // Where the file cannot be executed, the candidate is at fault; everything before that is the agent's
  // fault.
  if (std::strcmp(status.what, "execution") == 0 && launch_.program.empty()) {
    if (status.value == ENOMEM)
      throw Misbehaviour{Outcome::OutOfMemory, "is larger than the memory it may use"};
    throw Misbehaviour{Outcome::Crash, "cannot be executed here: " + why};
  }
  throw std::runtime_error(std::string("starting a candidate: ") + status.what + ": " + why);
}

std::optional<double> Process::take_letter(char letter, const std::string& doing) {
  char text[64];
  const ssize_t got = read(output_.get(), text, sizeof text);
  const double when = now_seconds();
  if (got == 0) explain_end(doing);
  if (got < 0) return std::nullopt;
  if (got == 1 && text[0] == letter) {
    ready_ = true;
    return when;
  }
  misbehave(Outcome::Crash, "wrote '" + first_line(std::string(text, static_cast<size_t>(got))) +
                                "' to its standard output while " + doing + ", where '" + letter +
                                "' was due");
}

double Process::expect(char letter, double seconds, const std::string& doing,
                       const std::function<bool()>& cancelled) {
  if (const auto when = expect_until(letter, now_seconds() + seconds, doing, cancelled)) return *when;
  misbehave(Outcome::Timeout,
            "was not done after " + std::to_string(std::lround(seconds * 1e3)) + " ms of " + doing);
}

std::optional<double> Process::expect_until(char letter, double clock, const std::string& doing,
                                            const std::function<bool()>& cancelled) {
  for (;;) {
    const double left = clock - now_seconds();
    if (left <= 0) return std::nullopt;
    struct pollfd look[4] = {{output_.get(), POLLIN, 0},
                             {errors_.get(), POLLIN, 0},
                             {notifications_.get(), POLLIN, 0},
                             {status_.get(), POLLIN, 0}};
    const auto nanoseconds = static_cast<long>(std::ceil(std::min(left, kSlice) * 1e9));
    const struct timespec wait = {0, std::min(nanoseconds, 999999999L)};
    if (ppoll(look, 4, &wait, nullptr) < 0 && errno != EINTR)
      throw std::runtime_error(std::string("poll: ") + std::strerror(errno));
    if ((look[2].revents & POLLIN) != 0) answer_notification(doing);
    if (look[1].revents != 0) read_errors();
    if (look[3].revents != 0) take_status();
    if (look[0].revents != 0) {
      if (const auto when = take_letter(letter, doing)) return when;
    }
    if (cancelled && cancelled()) {
      kill_group();
      throw Cancelled();
    }
  }
}

void Process::stop() {
  if (stopped_ || reaped_) return;
  kill(pid_, SIGSTOP);
  int status = 0;
  pid_t done;
  do done = waitpid(pid_, &status, WUNTRACED);
  while (done < 0 && errno == EINTR);
  if (done == pid_ && !WIFSTOPPED(status)) {
    // It ended instead; the next call finds out how.
    reaped_ = true;
    wait_status_ = status;
  }
  stopped_ = true;
}

void Process::go_on() {
  if (!stopped_) return;
  stopped_ = false;
  if (!reaped_) kill(pid_, SIGCONT);
}

std::optional<double> Process::processor_seconds() const {
  clockid_t clock;
  struct timespec time;
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) return std::nullopt;
  return seconds_of(time);
}

std::map<int, Process::ThreadTime> Process::thread_times() const {
  const std::string folder = "/proc/" + std::to_string(pid_) + "/task/";
  std::map<int, ThreadTime> times;
  for (const int thread : numbers_in(folder)) {
    char text[128] = "";
    const std::string path = folder + std::to_string(thread) + "/schedstat";
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0 || read(file.get(), text, sizeof text - 1) <= 0) return {};
    long long ran = 0, waited = 0, switches = 0;  // the first two in nanoseconds
    if (std::sscanf(text, "%lld %lld %lld", &ran, &waited, &switches) != 3) return {};
    times[thread] = {static_cast<double>(ran) * 1e-9, switches};
  }
  return times;
}

bool Process::stay_on(const std::vector<int>& processors) {
  const cpu_set_t mask = mask_of(processors);
  bool done = true;
  for (const int thread : numbers_in("/proc/" + std::to_string(pid_) + "/task/"))
    done = sched_setaffinity(thread, sizeof mask, &mask) == 0 && done;
  return done;
}

std::vector<int> own_processors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &mask)) processors.push_back(i);
  return processors;
}

bool run_on(const std::vector<int>& processors) {
  const cpu_set_t mask = mask_of(processors);
  return sched_setaffinity(0, sizeof mask, &mask) == 0;
}

std::vector<std::string> library_folders() { return {"/usr/lib", "/lib", "/lib64", "/usr/lib64"}; }

std::string program_path() {
  return isolation().files ? "/candidate" : "/proc/self/fd/" + std::to_string(kExecutableDescriptor);
}

}  // namespace tc::agent
