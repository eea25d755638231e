// Work shared by the agents of one target, and kept from those of another: the real tracker and agents,
// the tuner's client and measurer, and candidates that take their time without a processor.
#include "tests/agent/program.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/agent/runner.h"
#include "tuner/client.h"
#include "tuner/remote_measurer.h"

namespace tc {
namespace {

constexpr int kWrong = 4, kNap = 31;  // of tests/agent/candidate.c
constexpr size_t kCandidates = 200, kEvery = 10;

// A tracker with agents of this machine and a board that nobody asks for.
struct Fleet {
  explicit Fleet(int agents) {
    const std::string prefix = "share" + std::to_string(agents);
    tracker = std::make_unique<Program>(
        std::vector<std::string>{"runtime/tracker/tc-tracker", "--insecure", "--listen", "127.0.0.1:0"},
        prefix);
    address = tracker->word_after("listens at ");
    for (int i = 0; i < agents; ++i) add("here" + std::to_string(i), prefix, {});
    if (access("/usr/bin/qemu-riscv64", X_OK) == 0)
      add("board", prefix, {"--runner", "qemu", "--plugin", "runtime/qemu/libcount_plugin.so"});
  }
  void add(const std::string& name, const std::string& prefix, const std::vector<std::string>& options) {
    std::vector<std::string> words = {
        "runtime/agent/tc-agent", "--insecure", "--tracker", address, "--name", name};
    words.insert(words.end(), options.begin(), options.end());
    programs.push_back(std::make_unique<Program>(words, prefix + name));
    programs.back()->word_after("announced to the tracker at ");
  }

  std::string address;
  std::unique_ptr<Program> tracker;
  std::vector<std::unique_ptr<Program>> programs;
};

// y = 2 * x on 1000 floats, by many that nap and some that are wrong.
ProgramSet programs_of(const std::string& folder) {
  const auto file_of = [&](int behaviour) {
    const std::string path = folder + "/candidate" + std::to_string(behaviour);
    std::ofstream(path, std::ios::binary) << candidate(behaviour);
    return remote_file(path);
  };
  const RemoteFile nap = file_of(kNap), wrong = file_of(kWrong);
  ProgramSet set;
  set.executables.assign(kCandidates + 1, nap);
  for (size_t i = kEvery; i <= kCandidates; i += kEvery) set.executables[i] = wrong;
  PortInfo port;
  port.name = "x";
  port.dtype = DType::F32;
  port.shape = {Dim(10), Dim(100)};
  set.inputs = set.outputs = {port};
  for (const uint64_t seed : {1, 2}) {
    std::vector<float> values(1000);
    agent::fill_sample(agent::make_port("x", "f32", {10, 100}), seed, 0, values.data());
    for (float& value : values) value *= 2;
    set.data_sets.emplace_back(seed, std::vector{remote_bytes(values.data(), 4000)});
  }
  return set;
}

double seconds_with(int agents, const ProgramSet& programs) {
  Fleet fleet(agents);
  auto tracker = std::make_shared<TrackerClient>("insecure://" + fleet.address);
  double seconds = 0;
  {
    const auto builder = in_process_builder({});  // the programs are there
    RemoteMeasurer measurer(
        [&](bool first) {
          DeviceRequest wanted;
          wanted.target = "this machine";
          wanted.architecture = "x86-64";
          wanted.wait_seconds = first ? 30 : 0;
          return tracker->acquire(wanted);
        },
        *builder, {});
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<Measurement> results = measurer.measure_programs(programs, 1);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].outcome, i > 0 && i % kEvery == 0 ? Outcome::WrongResult : Outcome::Ok)
          << i << ": " << results[i].detail;
      if (results[i].outcome == Outcome::Ok) {
        EXPECT_GE(results[i].time.minimum, 0.01);
      }
    }
  }
  // Each gave its part, and the board nothing.
  for (int i = 0; i < 50; ++i) {
    int64_t all = 0;
    for (const rpc::DeviceState& state : tracker->devices()) all += state.measured();
    if (all >= static_cast<int64_t>(kCandidates)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until the next heartbeat
  }
  for (const rpc::DeviceState& state : tracker->devices()) {
    EXPECT_EQ(state.state(), "free");
    if (state.device().name() == "board") {
      EXPECT_EQ(state.measured(), 0);
    } else {
      EXPECT_GT(static_cast<double>(state.measured()), 0.4 * kCandidates / agents) << state.device().name();
    }
  }
  return seconds;
}

TEST(Share, TwoAgentsTakeHardlyMoreThanHalfTheTimeOfOne) {
  const ProgramSet programs = programs_of(testing::TempDir());
  double one = 0, two = 0;
  // Side by side: what else the machine does slows both.
  std::thread alone([&] { one = seconds_with(1, programs); });
  two = seconds_with(2, programs);
  alone.join();
  EXPECT_LE(two, 0.6 * one) << one << " s";
  std::printf("200 slow measurements: %.2f s by one agent, %.2f s by two (%.2f)\n", one, two, two / one);
}

}  // namespace
}  // namespace tc
