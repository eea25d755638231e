// The pool of processes that build candidates, and the worker's side of it.
//
// A request is a list of strings, each after its 32-bit length; so is the answer. The pipes connect processes
// of one user, so neither side is hostile, but a worker may die after any byte.
#include "tuner/process_builder.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "tuner/child_process.h"

extern char** environ;

namespace tc {
namespace {

using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;
constexpr uint32_t kMaxWords = 64;
constexpr uint32_t kMaxWordBytes = 1u << 30;  // an executable has copies of its kernel's constants

bool write_all(int descriptor, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t count = write(descriptor, bytes.data() + at, bytes.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += static_cast<size_t>(count);
  }
  return true;
}

void put_number(std::string& out, uint32_t number) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(number >> (8 * i));
}

bool write_words(int descriptor, const Words& words) {
  std::string bytes;
  put_number(bytes, static_cast<uint32_t>(words.size()));
  for (const std::string& word : words) {
    put_number(bytes, static_cast<uint32_t>(word.size()));
    bytes += word;
  }
  return write_all(descriptor, bytes);
}

enum class ReadEnd { Done, Closed, Late };

ReadEnd read_bytes(int descriptor, char* into, size_t count, std::optional<Clock::time_point> deadline) {
  while (count > 0) {
    if (deadline) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - Clock::now()).count();
      pollfd poller{descriptor, POLLIN, 0};
      if (left <= 0) return ReadEnd::Late;
      interruption_point();
      if (poll(&poller, 1, static_cast<int>(std::min<int64_t>(left, 20))) <= 0) continue;
    }
    const ssize_t got = read(descriptor, into, count);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return ReadEnd::Closed;
    into += got;
    count -= static_cast<size_t>(got);
  }
  return ReadEnd::Done;
}

ReadEnd read_number(int descriptor, uint32_t& number, std::optional<Clock::time_point> deadline) {
  unsigned char bytes[4];
  const ReadEnd end = read_bytes(descriptor, reinterpret_cast<char*>(bytes), 4, deadline);
  number = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | static_cast<uint32_t>(bytes[3]) << 24;
  return end;
}

ReadEnd read_words(int descriptor, Words& words, std::optional<Clock::time_point> deadline) {
  uint32_t count = 0;
  if (const ReadEnd end = read_number(descriptor, count, deadline); end != ReadEnd::Done) return end;
  if (count > kMaxWords) return ReadEnd::Closed;
  words.assign(count, "");
  for (std::string& word : words) {
    uint32_t size = 0;
    if (const ReadEnd end = read_number(descriptor, size, deadline); end != ReadEnd::Done) return end;
    if (size > kMaxWordBytes) return ReadEnd::Closed;
    word.resize(size);
    if (const ReadEnd end = read_bytes(descriptor, word.data(), size, deadline); end != ReadEnd::Done)
      return end;
  }
  return ReadEnd::Done;
}

BuiltCandidate failed(Outcome outcome, const std::string& why) {
  BuiltCandidate candidate;
  candidate.outcome = outcome;
  candidate.detail = why;
  return candidate;
}

// A worker process with a pipe each way.
class Worker {
 public:
  explicit Worker(const std::string& program) {
    int down[2], up[2];
    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0)
      fail(ErrorKind::Device, "cannot make pipes for ", program, ": ", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, down[0], 0);
    posix_spawn_file_actions_adddup2(&actions, up[1], 1);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    // In a process group of its own, so that Ctrl-C reaches the tuner alone; workers end when their input
    // ends.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    char* arguments[] = {const_cast<char*>(program.c_str()), nullptr};
    pid_t child = -1;
    const int code = posix_spawn(&child, program.c_str(), &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(down[0]);
    close(up[1]);
    in_ = down[1];
    out_ = up[0];
    if (code != 0) {
      close_pipes();
      fail(ErrorKind::Device, "cannot start ", program, ": ", strerror(code), "; reinstall tc");
    }
    child_ = ChildProcess(child);
  }
  ~Worker() {
    close_pipes();
    child_.kill_now();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The answer, or nothing and the reason in `failure`; then the worker cannot be used again.
  std::optional<Words> ask(const Words& request, double timeout_seconds, BuiltCandidate& failure) {
    Words answer;
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(timeout_seconds));
    const ReadEnd end = write_words(in_, request) ? read_words(out_, answer, deadline) : ReadEnd::Closed;
    if (end == ReadEnd::Done) return answer;
    if (end == ReadEnd::Late) {
      failure = failed(Outcome::Timeout, text("building it took more than ", timeout_seconds, " s"));
      return std::nullopt;
    }
    child_.kill_now();
    const int status = child_.status();
    const bool by_itself = WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL;
    failure =
        failed(Outcome::CompileError, by_itself ? text("the compiler crashed: ", strsignal(WTERMSIG(status)))
                                                : "the compiler ended early");
    return std::nullopt;
  }

 private:
  void close_pipes() {
    if (in_ >= 0) close(in_);
    if (out_ >= 0) close(out_);
    in_ = out_ = -1;
  }
  ChildProcess child_;
  int in_ = -1, out_ = -1;
};

// The fields that only some requests use: a reference has a seed; a candidate has a trace, the folder of
// libraries and a folder for files.
struct RequestDetails {
  Trace trace;
  uint64_t seed = 0;
  std::string libraries, work_folder;
};

Words request_of(const std::string& what, const KernelProgram& program, const std::string& target,
                 const RequestDetails& details) {
  const auto& [trace, seed, libraries, work_folder] = details;
  return {what,
          str(program.kernel),
          trace_text(program.layout_lines),
          text(program.threads),
          text(program.constants_seed),
          target,
          trace_text(trace),
          text(seed),
          libraries,
          work_folder,
          text(program.bytes_between_calls)};
}

Words answer_to(const Words& request) {
  TC_CHECK(request.size() == 11);
  KernelProgram program;
  program.kernel = parse_kernel(request[1]);
  program.layout_lines = parse_trace(request[2]);
  program.threads = std::stoi(request[3]);
  program.constants_seed = std::stoull(request[4]);
  program.bytes_between_calls = std::stoll(request[10]);
  if (request[0] == "build") {
    BuiltCandidate built =
        build_candidate(program, request[5], parse_trace(request[6]), request[8], request[9]);
    return {"ok",         text(static_cast<int>(built.outcome)),
            built.detail, text(built.calls),
            built.sha256, std::move(built.executable)};
  }
  Words answer = {"ok"};
  for (const Bytes& bytes : reference_outputs(program, parse_target(request[5]), std::stoull(request[7]))) {
    answer.emplace_back(bytes.begin(), bytes.end());
  }
  return answer;
}

BuiltCandidate candidate_in(Words& answer) {
  TC_CHECK(answer.size() == 6);
  BuiltCandidate built;
  built.outcome = static_cast<Outcome>(std::stoi(answer[1]));
  built.detail = answer[2];
  built.calls = std::stoi(answer[3]);
  built.sha256 = answer[4];
  built.executable = std::move(answer[5]);
  return built;
}

}  // namespace

int serve_builds(int in, int out) {
  Words request;
  while (read_words(in, request, std::nullopt) == ReadEnd::Done) {
    Words answer;
    try {
      answer = answer_to(request);
    } catch (const Error& error) {
      answer = {error.kind() == ErrorKind::Device ? "machine" : "error", error.what()};
    } catch (const std::exception& error) {
      answer = {"error", error.what()};
    }
    if (!write_words(out, answer)) return 1;
  }
  return 0;
}

struct ProcessBuilder::State {
  ProcessBuilderOptions options;
  std::mutex mutex;
  std::vector<std::unique_ptr<Worker>> idle;

  // Sends one request to an idle worker, or to a new one. A worker that failed is not used again.
  std::optional<Words> ask(const Words& request, BuiltCandidate& failure) {
    std::unique_ptr<Worker> worker;
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        worker = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (!worker) worker = std::make_unique<Worker>(options.program);
    std::optional<Words> answer = worker->ask(request, options.timeout_seconds, failure);
    if (answer) {
      const std::lock_guard lock(mutex);
      idle.push_back(std::move(worker));
    }
    return answer;
  }

  // Calls work(i) for i < count from as many threads as there are workers.
  template <class Work>
  void for_each(size_t count, const Work& work) {
    std::atomic<size_t> next{0};
    std::atomic<bool> stop{false};
    std::mutex first_error;
    std::exception_ptr error;
    const auto loop = [&] {
      for (size_t i = next++; i < count; i = next++) {
        try {
          interruption_point();
          work(i);
        } catch (...) {
          const std::lock_guard lock(first_error);
          if (!error) error = std::current_exception();
          stop = true;
          return;
        }
      }
    };
    std::vector<std::thread> threads;
    const size_t wanted = std::min(count, static_cast<size_t>(std::max(1, options.workers)));
    for (size_t i = 1; i < wanted; ++i) {
      threads.emplace_back([&] {
        const Helping helping(stop);
        loop();
      });
    }
    loop();
    for (std::thread& thread : threads) thread.join();
    if (error) std::rethrow_exception(error);
  }
};

ProcessBuilder::ProcessBuilder(const ProcessBuilderOptions& options) : state_(std::make_unique<State>()) {
  state_->options = options;
  signal(SIGPIPE, SIG_IGN);  // ask() reports a worker that died; it must not end this process
}
ProcessBuilder::~ProcessBuilder() = default;

void ProcessBuilder::build(const KernelProgram& program, const std::string& target,
                           const std::vector<Trace>& traces, const OnBuilt& built) {
  std::mutex one_at_a_time;
  state_->for_each(traces.size(), [&](size_t i) {
    BuiltCandidate candidate;
    const RequestDetails details = {traces[i], 0, state_->options.libraries, state_->options.work_folder};
    if (auto answer = state_->ask(request_of("build", program, target, details), candidate)) {
      if (answer->at(0) == "machine") fail(ErrorKind::Device, answer->at(1));
      candidate =
          answer->at(0) == "ok" ? candidate_in(*answer) : failed(Outcome::CompileError, answer->at(1));
    }
    const std::lock_guard lock(one_at_a_time);
    built(i, std::move(candidate));
  });
}

std::vector<std::vector<Bytes>> ProcessBuilder::reference(const KernelProgram& program,
                                                          const std::string& target,
                                                          const std::vector<uint64_t>& seeds) {
  std::vector<std::vector<Bytes>> results(seeds.size());
  state_->for_each(seeds.size(), [&](size_t i) {
    BuiltCandidate failure;
    const auto answer =
        state_->ask(request_of("reference", program, target, {{}, seeds[i], "", ""}), failure);
    if (!answer || answer->at(0) != "ok")
      fail(answer && answer->at(0) == "machine" ? ErrorKind::Device : ErrorKind::Internal,
           "the reference of kernel '", program.kernel.name,
           "' cannot be computed: ", answer ? answer->at(1) : failure.detail);
    for (size_t k = 1; k < answer->size(); ++k)
      results[i].emplace_back((*answer)[k].begin(), (*answer)[k].end());
  });
  return results;
}

}  // namespace tc
