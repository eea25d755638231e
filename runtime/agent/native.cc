// Candidates on this machine's own processor, timed by the agent's clock.
#include <stdexcept>

#include "runtime/agent/measure.h"

namespace tc::agent {
namespace {

// Threads that an emulator starts for itself.
constexpr int kLauncherThreads = 8;

class NativeRunner : public Runner, public Bench {
 public:
  explicit NativeRunner(std::vector<std::string> launcher) : launcher_(std::move(launcher)) {
    // Candidates get the last of these processors, as long as one remains for the agent.
    processors_ = own_processors();
  }

  std::string name() const override { return "native"; }
  std::string unit() const override { return "seconds"; }
  std::vector<std::string> isolation() const override {
    std::vector<std::string> names = isolation_names();
    if (processors_.size() > 1) names.push_back("own cores");
    return names;
  }
  void measure(const Batch& batch, const std::function<void(const Result&)>& done,
               const std::function<bool()>& cancelled) override {
    measure_batch(*this, batch, done, cancelled);
  }

  void prepare(Launch& launch, const Batch& batch, const File&) override {
    const auto threads = static_cast<size_t>(batch.threads);
    if (threads < processors_.size())
      launch.processors.assign(processors_.end() - batch.threads, processors_.end());
    if (launcher_.empty()) return;
    launch.program = launcher_.front();
    launch.arguments.erase(launch.arguments.begin());
    std::vector<std::string> arguments = launcher_;
    arguments.push_back(program_path());
    launch.arguments.insert(launch.arguments.begin(), arguments.begin(), arguments.end());
    launch.extra_bytes = -1;
    launch.threads += kLauncherThreads;
    launch.shown = library_folders();
  }
  bool is_deterministic() const override { return false; }

 private:
  std::vector<std::string> launcher_;
  std::vector<int> processors_;
};

}  // namespace

std::unique_ptr<Runner> make_native_runner(std::vector<std::string> launcher) {
  return std::make_unique<NativeRunner>(std::move(launcher));
}

}  // namespace tc::agent
