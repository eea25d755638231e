// Building by a relay.
#include "tuner/relay_builder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "tuner/builder_wire.h"
#include "tuner/piped_child.h"

namespace tc {
namespace {

using wire::Words;

constexpr size_t kMaxOpen = 256;  // requests that wait for an answer
constexpr double kStopSeconds = 5;
constexpr int kPollMilliseconds = 20;

}  // namespace

struct RelayBuilder::State {
  explicit State(const RelayBuilderOptions& wanted) : options(wanted), child(wanted.command) {
    // Requests are written without blocking, since the relay may wait for us to read its answers.
    fcntl(child.in(), F_SETFL, fcntl(child.in(), F_GETFL) | O_NONBLOCK);
  }
  ~State() { child.end(kStopSeconds); }

  // Asks for `count` things at once; `answered` gets each answer, in any order.
  void ask(size_t count, const std::function<Words(size_t i, const std::string& number)>& request,
           const std::function<void(size_t i, Words answer)>& answered) {
    const std::lock_guard lock(mutex);
    if (is_cut) fail_ended();
    std::map<std::string, size_t> open;
    last_progress = wire::Clock::now();
    for (size_t next = 0; next < count || !open.empty();) {
      while (next < count && open.size() < kMaxOpen && is_all_sent()) {
        const std::string number = text(++last_number);
        message = wire::message_of(request(next, number));
        sent = 0;
        open[number] = next++;
        send();
      }
      // While the relay waits for somebody to read its answers, it may read no requests.
      if (!is_all_sent() && !is_answering()) continue;
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

  bool is_all_sent() const { return sent == message.size(); }

  // Sends what of the message the relay takes now. The rest goes first when the next one is to be sent.
  void send() {
    Whole whole(*this);
    const ssize_t count = write(child.in(), message.data() + sent, message.size() - sent);
    if (count < 0 && errno != EAGAIN && errno != EINTR) fail_ended();
    if (count > 0) {
      sent += static_cast<size_t>(count);
      last_progress = wire::Clock::now();
    }
    whole.done();
  }

  // Waits until the relay takes more of the message, which is sent, or has an answer: returns whether it has.
  bool is_answering() {
    pollfd ends[] = {{child.in(), POLLOUT, 0}, {child.out(), POLLIN, 0}};
    interruption_point();
    poll(ends, 2, kPollMilliseconds);
    if (ends[1].revents != 0) return true;
    if (ends[0].revents != 0) send();
    else if (wire::Clock::now() > deadline_after(last_progress)) fail_silent();
    return false;
  }

  wire::Clock::time_point deadline_after(wire::Clock::time_point begin) const {
    return begin + std::chrono::duration_cast<wire::Clock::duration>(
                       std::chrono::duration<double>(options.silent_seconds));
  }

  Words receive() {
    Whole whole(*this);
    Words answer;
    switch (wire::read_words(child.out(), answer, deadline_after(wire::Clock::now()))) {
      case wire::ReadEnd::Done: break;
      case wire::ReadEnd::Closed: fail_ended();
      case wire::ReadEnd::Late: fail_silent();
    }
    last_progress = wire::Clock::now();
    whole.done();
    return answer;
  }

  [[noreturn]] void fail_silent() {
    fail(ErrorKind::Device, "the program that hands on candidates has not answered for ",
         options.silent_seconds, " s; see whether the cluster's nodes are alive");
  }

  [[noreturn]] void fail_ended() {
    child.end(kStopSeconds);
    fail(ErrorKind::Device, "the program that hands on candidates (", options.command.front(), ") ended ",
         child.how_it_ended(), "; run the same command again");
  }

  PipedChild child;
  std::mutex mutex;
  uint64_t last_number = 0;
  std::string message;  // a request, of which so many bytes are sent
  size_t sent = 0;
  bool is_cut = false;
  wire::Clock::time_point last_progress = wire::Clock::now();
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
                                {traces[i], {}, options.libraries, options.work_folder});
      },
      [&](size_t i, Words answer) { built(i, wire::candidate_in(std::move(answer))); });
}

std::vector<std::vector<Bytes>> RelayBuilder::reference(const KernelProgram& program,
                                                        const std::string& target,
                                                        const std::vector<uint64_t>& seeds) {
  std::vector<std::vector<Bytes>> results;
  state_->ask(
      1,
      [&](size_t, const std::string& number) {
        return wire::request_of(number, "reference", program, target, {{}, seeds, "", ""});
      },
      [&](size_t, const Words& answer) {
        results = wire::reference_in(answer, program.kernel.name, seeds.size());
      });
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
