// Four real agents behind a real tracker, two of this machine and two simulated boards, of which one fails
// and is slow: what becomes of the measurements, of the board, and of the best schedule.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/agent/device.h"
#include "runtime/agent/leases.h"
#include "runtime/agent/runner.h"
#include "runtime/agent/service.h"
#include "runtime/tracker/service.h"
#include "scheduler/scheduler.h"
#include "tests/rpc/fleet.h"
#include "tuner/builders.h"
#include "tuner/median.h"
#include "tuner/remote_measurer.h"
#include "tuner/search.h"

namespace tc {
namespace {

constexpr double kFailing = 0.05, kSlow = 1.3;

// How many measurements in all, of which a tenth are simulated.
int measurements() {
  const char* wanted = std::getenv("TC_MEASUREMENTS");
  return wanted ? std::atoi(wanted) : 300;
}

// A runner of an agent, which may have a bad board: it fails in some programs, and takes longer for the
// others.
class CountingRunner : public agent::Runner {
 public:
  CountingRunner(std::unique_ptr<agent::Runner> real, double failing, double factor)
      : real_(std::move(real)), failing_(failing), factor_(factor) {}
  std::string name() const override { return real_->name(); }
  std::string unit() const override { return real_->unit(); }
  std::vector<std::string> isolation() const override { return real_->isolation(); }
  bool simulate(rpc::DeviceInfo& device) const override { return real_->simulate(device); }
  void measure(const agent::Batch& batch, const std::function<void(const agent::Result&)>& done,
               const std::function<bool()>& cancelled) override {
    real_->measure(
        batch,
        [&](agent::Result result) {
          ++programs;
          distinct.insert(batch.executables[static_cast<size_t>(result.candidate)]->sha256());
          if (std::uniform_real_distribution<>()(random_) < failing_) {
            ++crashed;
            result.outcome = agent::Outcome::Crash;
            result.detail = "the bad board";
            result.samples.clear();
          }
          for (double& sample : result.samples) sample *= factor_;
          done(result);
        },
        cancelled);
  }

  std::atomic<int> programs = 0, crashed = 0;
  std::set<std::string> distinct;  // programs, by their content; a runner answers one at a time

 private:
  const std::unique_ptr<agent::Runner> real_;
  const double failing_, factor_;
  std::mt19937 random_{11};
};

// An agent as main() makes one, in this process.
class Agent {
 public:
  Agent(const std::string& name, std::unique_ptr<agent::Runner> real, const rpc::Address& tracker,
        double failing = 0, double factor = 1)
      : runner(std::move(real), failing, factor),
        keyring_(rpc::insecure_credentials(tracker)),
        server_(std::make_unique<agent::Server>(runner, keyring_, agent::ServerOptions{"127.0.0.1:0"})) {
    rpc::DeviceInfo device = agent::describe_device(runner);
    device.set_name(name);
    device.set_address("127.0.0.1:" + std::to_string(server_->port()));
    membership_ = std::make_unique<agent::Membership>(device, tracker, keyring_);
    server_->open(device, *membership_);
  }
  ~Agent() { server_.reset(); }

  CountingRunner runner;

 private:
  rpc::Keyring keyring_;
  std::unique_ptr<agent::Membership> membership_;
  std::unique_ptr<agent::Server> server_;
};

std::unique_ptr<agent::Runner> simulated() {
  agent::QemuOptions options;
  options.plugin = "runtime/qemu/libcount_plugin.so";
  options.vector_bits = 256;
  return agent::make_qemu_runner(options);
}

// Notes what another builder has built.
class NotingBuilder : public CandidateBuilder {
 public:
  explicit NotingBuilder(CandidateBuilder& real) : real_(real) {}
  void build(const KernelProgram& program, const std::string& target, const std::vector<Trace>& traces,
             const OnBuilt& built) override {
    real_.build(program, target, traces, [&](size_t index, BuiltCandidate candidate) {
      if (candidate.outcome == Outcome::Ok) distinct.insert(candidate.sha256);
      built(index, std::move(candidate));
    });
  }
  std::vector<std::vector<Bytes>> reference(const KernelProgram& program, const std::string& target,
                                            const std::vector<uint64_t>& seeds) override {
    return real_.reference(program, target, seeds);
  }
  bool build_models(const ModelProgram& program, const std::vector<Choices>& variants,
                    const OnBuilt& built) override {
    return real_.build_models(program, variants, built);
  }

  std::set<std::string> distinct;  // programs, by their content

 private:
  CandidateBuilder& real_;
};

KernelTask product(const std::string& target) {
  KernelTask task;
  task.label = "product";
  task.kernel = parse_kernel(R"(kernel "product"
  input A f32[24, 32]
  constant K f32[32, 48]
  output O f32[24, 48]
  init[m:24, n:48]: O[m, n] = 0
  macc[m:24, n:48, k:32]: O[m, n] += A[m, k] * K[k, n]
)");
  task.workload = workload_key(task.kernel);
  task.target = parse_target(target);
  task.untuned = default_schedule(task.kernel, task.target, 1, {}).trace();
  return task;
}

class FourAgents : public ::testing::Test {
 protected:
  FourAgents()
      : tracker_({"127.0.0.1", 0}, rpc::insecure_credentials({"127.0.0.1", 0}), patient()),
        client_(std::make_shared<TrackerClient>("insecure://" + tracker_.address().text())),
        builder_(open_builder("in-process", {"frontend", "runtime/lib", ::testing::TempDir(), {}})) {}

  // No lease ends because this machine is busy: what was under way would be measured twice.
  static tracker::FleetOptions patient() {
    tracker::FleetOptions options;
    options.lease_ms = 60000;
    return options;
  }

  std::unique_ptr<RemoteMeasurer> measurer(const std::string& architecture, CandidateBuilder& builder) {
    MeasureOptions options;
    options.sample_seconds = 0.002;
    options.work_folder = ::testing::TempDir();
    const auto key = std::make_shared<std::string>();
    const OpenDevice open = [this, architecture, key](bool first) {
      DeviceRequest wanted;
      wanted.target = wanted.architecture = architecture;
      wanted.device_key = *key;
      wanted.wait_seconds = first ? 10 : 0;
      auto device = client_->acquire(wanted);
      if (device && key->empty()) *key = device->info().key();
      return device;
    };
    return std::make_unique<RemoteMeasurer>(open, builder, options);
  }

  std::string state_of(const std::string& name) {
    for (const rpc::DeviceState& device : client_->devices())
      if (device.device().name() == name) return device.state();
    return "unknown";
  }

  tracker::Server tracker_;
  const std::shared_ptr<TrackerClient> client_;
  const std::unique_ptr<CandidateBuilder> builder_;
};

TEST_F(FourAgents, TheBadOneIsPutAsideAndTheBestScheduleStays) {
  Agent good("good", agent::make_native_runner(), tracker_.address());
  const KernelTask task = product("native");
  KernelSearch search(task, {});
  std::vector<Trace> traces = search.propose(11);
  traces.push_back({});  // the loops as they are written, which are much slower
  ASSERT_GE(traces.size(), 8u);
  const std::string architecture = client_->devices().at(0).device().architecture();

  // What the good board says by itself: of each schedule so often that a busy machine does not decide.
  std::map<Trace, std::vector<double>> alone;
  auto one = measurer(architecture, *builder_);
  const auto is_open = [&](const Trace& trace) { return alone[trace].size() < 9; };
  for (int i = 0; i < 100 && std::any_of(traces.begin(), traces.end(), is_open); ++i) {
    const std::vector<Measurement> results = one->measure(task, task.untuned, traces, 5);
    for (size_t t = 0; t < traces.size(); ++t)
      if (results[t].outcome == Outcome::Ok) alone[traces[t]].push_back(results[t].ratio);
  }
  one.reset();  // gives the board back
  ASSERT_FALSE(std::any_of(traces.begin(), traces.end(), is_open));

  Agent bad("bad", agent::make_native_runner(), tracker_.address(), kFailing, kSlow);
  Agent first("first", simulated(), tracker_.address()), second("second", simulated(), tracker_.address());
  const int before = good.runner.programs;

  // The simulated boards give each program the same cycles; what one has measured the other need not.
  const KernelTask simulated_task = product("rv64gcv");
  KernelSearch simulated_search(simulated_task, {});
  NotingBuilder noting(*builder_);
  const auto boards = measurer("riscv64", noting);
  int simulated_count = 0, simulated_failures = 0;
  while (simulated_count < measurements() / 10) {
    const std::vector<Trace> proposed = simulated_search.propose(8);
    if (proposed.empty()) break;
    const auto results = boards->measure(simulated_task, simulated_task.untuned, proposed, 3);
    ASSERT_EQ(results.size(), proposed.size());
    for (const Measurement& result : results) {
      ++simulated_count;
      simulated_failures += result.outcome != Outcome::Ok;
    }
    simulated_search.learn(proposed, results);
  }
  EXPECT_EQ(first.runner.crashed + second.runner.crashed, 0);
  EXPECT_LE(simulated_failures, simulated_count / 10);
  EXPECT_LT(simulated_search.best_ratio(), 1);
  // Each board runs a program once, the incumbent too; a schedule that is stopped is one, too. Some schedules
  // are the same program, which both boards may be running at the same time.
  std::set<std::string> distinct = first.runner.distinct;
  distinct.insert(second.runner.distinct.begin(), second.runner.distinct.end());
  for (const Agent* each : {&first, &second})
    EXPECT_EQ(each->runner.programs, static_cast<int>(each->runner.distinct.size()));
  EXPECT_EQ(distinct, noting.distinct) << "the boards have not run what was built";
  EXPECT_GT(first.runner.programs, 0);
  EXPECT_GT(second.runner.programs, 0);

  std::map<Trace, std::vector<double>> ratios;
  std::map<Outcome, int> outcomes;
  bool is_quarantined = false;
  int until_quarantined = 0, count = 0;
  const auto both = measurer(architecture, *builder_);
  while (count < measurements() - simulated_count) {
    const auto results = both->measure(task, task.untuned, traces, 3);
    ASSERT_EQ(results.size(), traces.size());
    for (size_t i = 0; i < traces.size(); ++i) {
      ++count;
      ++outcomes[results[i].outcome];
      if (results[i].outcome == Outcome::Ok) ratios[traces[i]].push_back(results[i].ratio);
    }
    if (is_quarantined) continue;
    is_quarantined = state_of("bad") == "quarantined";
    until_quarantined = bad.runner.programs;
  }
  int told = 0;
  for (const auto& [outcome, number] : outcomes) told += number;
  EXPECT_EQ(told, count);
  EXPECT_TRUE(is_quarantined) << "after " << bad.runner.programs << " programs";
  EXPECT_LE(until_quarantined, 100);
  EXPECT_NE(state_of("good"), "quarantined");
  // What the bad board failed in was measured on the good one. A busy machine may make times noisy.
  EXPECT_EQ(outcomes[Outcome::Ok] + outcomes[Outcome::Noisy], count)
      << bad.runner.crashed << " crashed on the bad board";

  const auto median_ratio = [&](const Trace& trace) { return median(ratios[trace]); };
  const Trace& best = *std::min_element(traces.begin(), traces.end(), [&](const Trace& a, const Trace& b) {
    return median_ratio(a) < median_ratio(b);
  });
  double least = INFINITY;
  for (const auto& [trace, of_trace] : alone) least = std::min(least, median(of_trace));
  EXPECT_LE(median(alone.at(best)), 1.5 * least)
      << "another schedule is the best one on the good board alone";
  EXPECT_GT(median_ratio({}), 1.5 * median_ratio(best));
  // The tracker counts each of them once, too, by what the agents say with their heartbeats.
  const int all = good.runner.programs + bad.runner.programs + first.runner.programs + second.runner.programs;
  int64_t counted = 0;
  for (int i = 0; i < 100 && counted != all; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    counted = client_->state().counters().measured();
  }
  EXPECT_EQ(counted, all);
  std::cout << count << " + " << simulated_count << " measurements, " << all - before << " programs after "
            << before << "; the bad board ran " << bad.runner.programs << ", of which " << bad.runner.crashed
            << " crashed, and was put aside after " << until_quarantined << "\n";
}

}  // namespace
}  // namespace tc
