// The pool of processes that build candidates, and the worker's side of it.
#include "tuner/process_builder.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "tuner/builder_wire.h"
#include "tuner/piped_child.h"

namespace tc {
namespace {

using wire::Words;

class Worker {
 public:
  // What one that is killed leaves goes with the folder.
  Worker(const std::string& program, const std::string& work_folder) : child_({program}, work_folder) {}

  // The answer, or nothing and the reason in `failure`; then the worker cannot be used again.
  std::optional<Words> ask(const Words& request, double timeout_seconds, BuiltCandidate& failure) {
    using wire::ReadEnd;
    Words answer;
    const auto deadline = wire::Clock::now() + std::chrono::duration_cast<wire::Clock::duration>(
                                                   std::chrono::duration<double>(timeout_seconds));
    const ReadEnd end = wire::write_words(child_.in(), request)
                            ? wire::read_words(child_.out(), answer, deadline)
                            : ReadEnd::Closed;
    if (end == ReadEnd::Done) return answer;
    if (end == ReadEnd::Late) {
      failure = wire::failed(Outcome::Timeout, text("building it took more than ", timeout_seconds, " s"));
      return std::nullopt;
    }
    child_.process().kill_now();
    const int status = child_.process().status();
    const bool by_itself = WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL;
    failure = wire::failed(
        Outcome::CompileError,
        by_itself ? text("the compiler crashed: ", strsignal(WTERMSIG(status))) : "the compiler ended early");
    return std::nullopt;
  }

 private:
  PipedChild child_;
};

}  // namespace

int serve_builds(int in, int out, CompileModel compile) {
  Words request;
  while (wire::read_words(in, request, std::nullopt) == wire::ReadEnd::Done) {
    if (!wire::write_words(out, wire::answer_to(request, compile))) return 1;
  }
  return 0;
}

struct ProcessBuilder::State {
  ProcessBuilderOptions options;
  std::mutex mutex;
  std::vector<std::unique_ptr<Worker>> idle;

  // Sends one request to an idle worker, or to a new one. A worker that failed is not used again.
  std::optional<Words> ask(const Words& request, double seconds, BuiltCandidate& failure) {
    std::unique_ptr<Worker> worker;
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        worker = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (!worker) worker = std::make_unique<Worker>(options.program, options.work_folder);
    std::optional<Words> answer = worker->ask(request, seconds, failure);
    if (answer) {
      const std::lock_guard lock(mutex);
      idle.push_back(std::move(worker));
    }
    return answer;
  }

  // Builds what the requests ask for; each may take so many seconds.
  template <class Request>
  void build_all(size_t count, double seconds, const Request& request, const OnBuilt& built) {
    std::mutex one_at_a_time;
    for_each(count, [&](size_t i) {
      BuiltCandidate candidate;
      if (auto answer = ask(request(i), seconds, candidate)) {
        wire::refuse_machine(*answer);
        candidate = wire::candidate_in(std::move(*answer));
      }
      const std::lock_guard lock(one_at_a_time);
      built(i, std::move(candidate));
    });
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
}
ProcessBuilder::~ProcessBuilder() = default;

void ProcessBuilder::build(const KernelProgram& program, const std::string& target,
                           const std::vector<Trace>& traces, const OnBuilt& built) {
  state_->build_all(
      traces.size(), state_->options.timeout_seconds,
      [&](size_t i) {
        return wire::request_of("0", "build", program, target,
                                {traces[i], {}, state_->options.libraries, state_->options.work_folder});
      },
      built);
}

bool ProcessBuilder::build_models(const ModelProgram& program, const std::vector<Choices>& variants,
                                  const OnBuilt& built) {
  state_->build_all(
      variants.size(), state_->options.model_timeout_seconds,
      [&](size_t i) {
        return wire::model_request_of("0", program, variants[i], state_->options.libraries,
                                      state_->options.work_folder);
      },
      built);
  return true;
}

std::vector<std::vector<Bytes>> ProcessBuilder::reference(const KernelProgram& program,
                                                          const std::string& target,
                                                          const std::vector<uint64_t>& seeds) {
  BuiltCandidate failure;
  auto answer = state_->ask(wire::request_of("0", "reference", program, target, {{}, seeds, "", ""}),
                            state_->options.timeout_seconds, failure);
  if (!answer) answer = {"0", "error", failure.detail};
  wire::refuse_machine(*answer);
  return wire::reference_in(*answer, program.kernel.name, seeds.size());
}

}  // namespace tc
