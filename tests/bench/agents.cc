// Two builds of the agent beside each other: the same honest candidates, measured by both in turn.
//
// `bazel run //tests/bench:agents -- BEFORE/tc-agent AFTER/tc-agent [PAIRS]`, with full paths. Prints for
// each size of work what a run takes by either, and at the end the mean, over the sizes, of the second
// agent's least time over the first's, how many candidates each rejected, and how long their measurements
// took.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/agent/runner.h"
#include "tests/agent/work.h"
#include "tuner/client.h"

namespace tc {
namespace {

constexpr int kCandidates = 5;  // of a batch
constexpr int kRounds = 10;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// An agent of its own, alone at a socket.
class AgentProgram {
 public:
  AgentProgram(const std::string& program, const std::string& folder, const std::string& name) {
    const std::string socket = folder + "/" + name, token_file = folder + "/token";
    const std::string token(64, 'a');
    std::ofstream(token_file) << token << "\n";
    std::vector<std::string> words = {program, "--standalone", "unix:" + socket, "--token-file", token_file};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ) != 0) {
      std::fprintf(stderr, "%s cannot be started\n", program.c_str());
      std::exit(1);
    }
    posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; i < 200 && access(socket.c_str(), F_OK) != 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    device_ = connect_agent("unix:" + socket, token);
  }
  ~AgentProgram() {
    device_.reset();
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }

  struct Times {
    std::vector<double> fastest;  // of each candidate that has a time, in seconds
    int rejected = 0;
    double seconds = 0;  // of the whole, and of the processors
    double processor_seconds = 0;
  };
  Times measure(const rpc::MeasureRequest& request, const std::vector<RemoteFile>& files) {
    Times times;
    const double begin = now(), begin_processor = processor_seconds();
    device_->upload(files);
    device_->measure(request, [&](const rpc::MeasureResult& result) {
      if (result.outcome() != rpc::OK) {
        ++times.rejected;
        std::printf("rejected: %s\n", result.detail().c_str());
        return;
      }
      times.fastest.push_back(*std::min_element(result.samples().begin(), result.samples().end()));
    });
    times.seconds = now() - begin;
    times.processor_seconds = processor_seconds() - begin_processor;
    return times;
  }

 private:
  // Of the agent and of the candidates that it has waited for.
  double processor_seconds() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;  // up to the twelfth behind the name: time of the user
    double ticks = 0, all = 0;
    for (int i = 0; i < 4 && fields >> ticks; ++i) all += ticks;
    return all / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

  pid_t pid_ = -1;
  std::unique_ptr<LeasedDevice> device_;
};

// The work of work.h on so many elements, by the honest candidate.
rpc::MeasureRequest request_of(int64_t count, std::vector<RemoteFile>& files) {
  std::ifstream file("tests/agent/cheater", std::ios::binary);
  const std::string program((std::istreambuf_iterator<char>(file)), {});
  files = {remote_bytes(program.data(), program.size())};
  rpc::MeasureRequest request;
  for (int i = 0; i < kCandidates; ++i) request.add_executables(files[0].sha256);
  for (rpc::Port* port : {request.add_inputs(), request.add_outputs()}) {
    port->set_name("x");
    port->set_dtype("f32");
    port->add_shape(count);
  }
  for (const uint64_t seed : {7, 8}) {
    std::vector<float> values(static_cast<size_t>(count)), due(values.size());
    agent::fill_sample(agent::make_port("x", "f32", {count}), seed, 0, values.data());
    do_work(values.data(), due.data(), due.size());
    files.push_back(remote_bytes(due.data(), 4 * due.size()));
    auto* set = request.add_data_sets();
    set->set_seed(seed);
    set->add_expected(files.back().sha256);
  }
  request.set_tolerance(1e-5);
  request.set_threads(1);
  request.set_rounds(kRounds);
  request.set_sample_seconds(0.01);  // the tuner's
  request.set_timeout_seconds(20);
  request.set_memory_bytes(64 << 20);
  return request;
}

double least(const std::vector<double>& values) {
  return values.empty() ? NAN : *std::min_element(values.begin(), values.end());
}

void compare(const std::string& before, const std::string& after, int pairs) {
  char folder[] = "/tmp/tc-agents-XXXXXX";
  if (mkdtemp(folder) == nullptr) std::exit(1);
  {
    AgentProgram first(before, folder, "before"), second(after, folder, "after");
    using Both = std::pair<double, double>;     // of either agent
    std::map<int64_t, Both> fastest, quickest;  // least of all pairs of a size: of a run, of the whole batch
    int rejected_before = 0, rejected_after = 0;
    double processor_before = 0, processor_after = 0;
    for (int pair = 0; pair < pairs; ++pair) {
      const int64_t count = int64_t{1} << (pair * 3 % 13 + 1);
      std::vector<RemoteFile> files;
      const rpc::MeasureRequest request = request_of(count, files);
      AgentProgram::Times a, b;
      // Who begins changes: what drifts harms both alike.
      if (pair % 2 == 0) a = first.measure(request, files), b = second.measure(request, files);
      else b = second.measure(request, files), a = first.measure(request, files);
      rejected_before += a.rejected, rejected_after += b.rejected;
      processor_before += a.processor_seconds, processor_after += b.processor_seconds;
      auto& [batch_before, batch_after] = quickest.try_emplace(count, INFINITY, INFINITY).first->second;
      batch_before = std::min(batch_before, a.seconds), batch_after = std::min(batch_after, b.seconds);
      auto& [least_before, least_after] = fastest.try_emplace(count, INFINITY, INFINITY).first->second;
      least_before = std::min(least_before, least(a.fastest));
      least_after = std::min(least_after, least(b.fastest));
      std::printf("%6lld elements: %9.3f us before, %9.3f us after, ratio %.4f\n",
                  static_cast<long long>(count), least(a.fastest) * 1e6, least(b.fastest) * 1e6,
                  least(b.fastest) / least(a.fastest));
    }
    std::printf("of processors a candidate takes %.1f ms before, %.1f ms after\n",
                processor_before / (pairs * kCandidates) * 1e3,
                processor_after / (pairs * kCandidates) * 1e3);
    double logs = 0, smallest = INFINITY, largest = 0, seconds_before = 0, seconds_after = 0;
    for (const auto& [count, both] : quickest) seconds_before += both.first, seconds_after += both.second;
    for (const auto& [count, both] : fastest) {
      const double ratio = both.second / both.first;
      logs += std::log(ratio);
      smallest = std::min(smallest, ratio), largest = std::max(largest, ratio);
    }
    std::printf(
        "%d candidates by each, of %zu sizes: after / before %.4f in the mean (%.4f to %.4f); rejected %d before, %d after; "
        "a candidate takes %.1f ms of measuring before, %.1f ms after\n",
        pairs * kCandidates, fastest.size(), std::exp(logs / static_cast<double>(fastest.size())), smallest,
        largest, rejected_before, rejected_after,
        seconds_before / static_cast<double>(kCandidates * fastest.size()) * 1e3,
        seconds_after / static_cast<double>(kCandidates * fastest.size()) * 1e3);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tc

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "use: agents BEFORE/tc-agent AFTER/tc-agent [PAIRS]\n");
    return 2;
  }
  tc::compare(arguments[1], arguments[2], count > 3 ? std::max(1, std::atoi(arguments[3])) : 40);
}
