// Building by a relay.
#include "tuner/relay_builder.h"

#include <fcntl.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "tuner/builder_wire.h"
#include "tuner/piped_child.h"

namespace tc {
namespace {

using wire::Words;

constexpr size_t kMaxOpen = 256;  // requests that wait for an answer
constexpr double kStopSeconds = 5;

}  // namespace

struct RelayBuilder::State {
  explicit State(const RelayBuilderOptions& wanted) : options(wanted), child(wanted.command) {
    // Requests are written without blocking, so that Ctrl-C is heeded where the relay does not read.
    fcntl(child.in(), F_SETFL, fcntl(child.in(), F_GETFL) | O_NONBLOCK);
  }
  ~State() { child.end(kStopSeconds); }

  // Asks for `count` things at once; `answered` gets each answer, in any order.
  void ask(size_t count, const std::function<Words(size_t i, const std::string& number)>& request,
           const std::function<void(size_t i, Words answer)>& answered) {
    const std::lock_guard lock(mutex);
    std::map<std::string, size_t> open;
    for (size_t next = 0; next < count || !open.empty();) {
      while (next < count && open.size() < kMaxOpen) {
        const std::string number = text(++last_number);
        send(request(next, number));
        open[number] = next++;
      }
      Words answer = receive();
      const auto found = open.find(answer.empty() ? "" : answer[0]);
      if (found == open.end()) continue;  // to a request of an earlier call that ended with an error
      wire::refuse_machine(answer);
      const size_t i = found->second;
      open.erase(found);
      answered(i, std::move(answer));
    }
  }

  const RelayBuilderOptions options;

 private:
  // What an interruption cuts in two leaves the pipes without sense, so the relay is not used again.
  class Whole {
   public:
    explicit Whole(State& state) : state_(state) {
      if (std::exchange(state.is_cut, true)) state.fail_ended();
    }
    void done() { state_.is_cut = false; }

   private:
    State& state_;
  };

  void send(const Words& request) {
    Whole whole(*this);
    if (!wire::write_words(child.in(), request)) fail_ended();
    whole.done();
  }

  Words receive() {
    Whole whole(*this);
    Words answer;
    const auto deadline = wire::Clock::now() + std::chrono::duration_cast<wire::Clock::duration>(
                                                   std::chrono::duration<double>(options.silent_seconds));
    switch (wire::read_words(child.out(), answer, deadline)) {
      case wire::ReadEnd::Done: break;
      case wire::ReadEnd::Closed: fail_ended();
      case wire::ReadEnd::Late:
        fail(ErrorKind::Device, "the program that hands on candidates has not answered for ",
             options.silent_seconds, " s; see whether the cluster's nodes are alive");
    }
    whole.done();
    return answer;
  }

  [[noreturn]] void fail_ended() {
    child.end(kStopSeconds);
    fail(ErrorKind::Device, "the program that hands on candidates (", options.command.front(), ") ended ",
         child.how_it_ended(), "; run the same command again");
  }

  PipedChild child;
  std::mutex mutex;
  uint64_t last_number = 0;
  bool is_cut = false;
};

RelayBuilder::RelayBuilder(const RelayBuilderOptions& options) : state_(std::make_unique<State>(options)) {}
RelayBuilder::~RelayBuilder() = default;

void RelayBuilder::build(const KernelProgram& program, const std::string& target,
                         const std::vector<Trace>& traces, const OnBuilt& built) {
  const RelayBuilderOptions& options = state_->options;
  state_->ask(
      traces.size(),
      [&](size_t i, const std::string& number) {
        return wire::request_of(number, "build", program, target,
                                {traces[i], 0, options.libraries, options.work_folder});
      },
      [&](size_t i, Words answer) { built(i, wire::candidate_in(std::move(answer))); });
}

std::vector<std::vector<Bytes>> RelayBuilder::reference(const KernelProgram& program,
                                                        const std::string& target,
                                                        const std::vector<uint64_t>& seeds) {
  std::vector<std::vector<Bytes>> results(seeds.size());
  state_->ask(
      seeds.size(),
      [&](size_t i, const std::string& number) {
        return wire::request_of(number, "reference", program, target, {{}, seeds[i], "", ""});
      },
      [&](size_t i, const Words& answer) { results[i] = wire::reference_in(answer, program.kernel.name); });
  return results;
}

bool RelayBuilder::build_models(const ModelProgram& program, const std::vector<Choices>& variants,
                                const OnBuilt& built) {
  if (program.is_of_this_machine) return false;
  ModelProgram alone = program;
  alone.options += "build_threads 1\n";  // other builds run beside it
  state_->ask(
      variants.size(),
      [&](size_t i, const std::string& number) {
        return wire::model_request_of(number, alone, variants[i], state_->options.libraries,
                                      state_->options.work_folder);
      },
      [&](size_t i, Words answer) { built(i, wire::candidate_in(std::move(answer))); });
  return true;
}

}  // namespace tc
