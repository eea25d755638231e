// Candidates that fight back, under an agent that is root and one that is not, on this processor and on the
// simulated board: contained, classed, without a time, the agent and a bystander alive. The list that it
// prints says what held each. Some are held without the system call filter too, and a few show that without
// any wall they would get what they are after.
#include <gtest/gtest.h>
#include <sys/personality.h>

#include <cstdio>
#include <numeric>

#include "runtime/agent/measure.h"
#include "tests/agent/hostile.h"
#include "tests/agent/program.h"
#include "tests/agent/stage.h"

namespace tc::agent {
namespace {

#define NAME(name) #name,
const std::vector<std::string>& attack_names() {
  static const std::vector<std::string> names = {PROCESS_ATTACKS(NAME) FILE_ATTACKS(NAME) SYSTEM_ATTACKS(NAME)
                                                     OWN_ATTACKS(NAME)};
  return names;
}

void write_behind(std::string& bytes, const std::string& mark, const std::string& text) {
  const size_t at = bytes.find(mark);
  ASSERT_NE(at, std::string::npos) << mark;
  bytes.replace(at + mark.size(), text.size(), text);
}

// The harmless one first and then all that try something.
std::vector<int> all_attacks() {
  std::vector<int> attacks(attack_names().size());
  std::iota(attacks.begin(), attacks.end(), 0);
  return attacks;
}

// y = 2 * x, by those.
Batch batch_of(const std::vector<int>& attacks, const std::string& program, const std::string& secret,
               pid_t agent, double timeout) {
  Batch batch;
  const std::string original = read_text(program);
  for (const int attack : attacks) {
    std::string bytes = original;
    char number[16];
    std::snprintf(number, sizeof number, "%02d", attack);
    write_behind(bytes, "behaviour:", number);
    std::snprintf(number, sizeof number, "%010d", agent);
    write_behind(bytes, "agent:", number);
    write_behind(bytes, "secret:", secret);
    batch.executables.push_back(make_file(bytes.data(), static_cast<int64_t>(bytes.size())));
  }
  batch.inputs = {make_port("x", "f32", {10, 100})};
  batch.outputs = {make_port("y", "f32", {10, 100})};
  for (const uint64_t seed : {7, 8}) {
    std::vector<float> values(1000);
    fill_sample(batch.inputs[0], seed, 0, values.data());
    for (float& value : values) value *= 2;
    batch.data_sets.push_back({seed, {make_file(values.data(), 4000)}});
  }
  batch.tolerance = 1e-5;
  batch.rounds = 3;
  batch.sample_seconds = 0.002;
  batch.timeout_seconds = timeout;
  batch.memory_bytes = 64 << 20;
  return batch;
}

// What qemu answers for itself, with yes and without doing anything.
bool is_played_by_qemu(int attack) {
  return attack == kHwpoison || attack == kOffline || attack == kRemovePages || attack == kMerge ||
         attack == kLimits;
}

void expect_held(const Stage& stage, const Staged& staged, const std::vector<int>& attacks, const char* where,
                 bool is_simulated) {
  EXPECT_TRUE(staged.agent_lives) << where << ": the agent is gone";
  EXPECT_TRUE(staged.bystander_lives) << where << ": the bystander is gone";
  EXPECT_EQ(staged.failure, "") << where;
  EXPECT_TRUE(stage.has_secret());
  EXPECT_NE(access("/tmp/tc_hostile_was_here", F_OK), 0);
  ASSERT_EQ(staged.results.size(), attacks.size()) << where;
  int held = 0;
  for (const auto& [index, result] : staged.results) {
    const int attack = attacks[static_cast<size_t>(index)];
    const std::string& name = attack_names()[static_cast<size_t>(attack)];
    std::printf("%s: %-18s %s\n", where, name.c_str() + 1,
                result.outcome == Outcome::Ok ? "measured" : result.detail.c_str());
    if (attack == kHarmless) {
      EXPECT_EQ(result.outcome, Outcome::Ok) << where << ": " << result.detail;
      continue;
    }
    // Where its thread had no time before the agent stopped it, the outputs are right and stay so: nothing
    // was gained.
    if (attack == kLateWrites && result.outcome == Outcome::Ok) continue;
    EXPECT_NE(result.outcome, Outcome::Ok) << where << ": " << name;
    EXPECT_TRUE(result.samples.empty()) << where << ": " << name;
    const bool is_play = is_simulated && is_played_by_qemu(attack);
    EXPECT_TRUE(is_play || result.detail.find("GOT") == std::string::npos)
        << where << ": " << name << ": " << result.detail;
    EXPECT_EQ(result.detail.find(kSecret), std::string::npos) << where << ": " << name;
    EXPECT_EQ(result.detail.find('\033'), std::string::npos) << where << ": " << name;
    ++held;
  }
  std::printf("%s: %d attacks held\n", where, held);
  EXPECT_GE(held, static_cast<int>(attacks.size()) - 2);
}

// Asked in a process of its own: what isolation() found out once holds for that process's user.
bool has_filter() {
  const pid_t child = fork();
  if (child == 0) _exit(isolation().filter ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class Hostile : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && geteuid() != 0) GTEST_SKIP() << "only root can be an agent that is root";
    if (!has_filter()) GTEST_SKIP() << "this system has no seccomp";
  }
  uid_t user() const { return GetParam() || geteuid() != 0 ? geteuid() : kNobodyElse; }
};

TEST_P(Hostile, NativeCandidatesAreHeld) {
  const Stage stage(user());
  const std::string program = stage.copy("tests/agent/hostile");
  const Staged staged =
      stage.measure([&](pid_t agent) { return batch_of(all_attacks(), program, stage.secret(), agent, 2); },
                    [] { return make_native_runner(); });
  expect_held(stage, staged, all_attacks(), GetParam() ? "root, native" : "user, native", false);
}

TEST_P(Hostile, SimulatedCandidatesAreHeld) {
  if (access("/usr/bin/qemu-riscv64", X_OK) != 0) GTEST_SKIP() << "there is no qemu-riscv64";
  const Stage stage(user());
  QemuOptions options;
  options.plugin = stage.copy("runtime/qemu/libcount_plugin.so");
  const std::string program = stage.copy("tests/agent/hostile.riscv64");
  const Staged staged =
      stage.measure([&](pid_t agent) { return batch_of(all_attacks(), program, stage.secret(), agent, 8); },
                    [&] {
                      // Those that reach for qemu's memory need not look for it.
                      personality(ADDR_NO_RANDOMIZE);
                      return make_qemu_runner(options);
                    });
  expect_held(stage, staged, all_attacks(), GetParam() ? "root, simulated" : "user, simulated", true);
}

// Measures as the native runner does, but without some of the walls.
class OpenRunner : public Runner, public Bench {
 public:
  explicit OpenRunner(std::function<void(Isolation&)> leave_out) : leave_out_(std::move(leave_out)) {}
  std::string name() const override { return "native"; }
  std::string unit() const override { return "seconds"; }
  std::vector<std::string> isolation() const override { return {}; }
  void measure(const Batch& batch, const std::function<void(const Result&)>& done,
               const std::function<bool()>& cancelled) override {
    measure_batch(*this, batch, done, cancelled);
  }
  void prepare(Launch& launch, const Batch&, const File&) override { leave_out_(launch.walls); }
  bool is_deterministic() const override { return false; }

 private:
  const std::function<void(Isolation&)> leave_out_;
};

// What namespaces, the empty root, the user and the limits hold by themselves: no filter is there to refuse
// the call.
TEST_P(Hostile, AreHeldWithoutTheFilter) {
  const Stage stage(user());
  const std::string program = stage.copy("tests/agent/hostile");
  const std::vector<int> attacks = {
      kHarmless,
      // Processes that have no name, and rights that its user has not.
      kKillParent,
      kKillAll,
      kKillThread,
      kKillTkill,
      kQueueSignal,
      kPidfd,
      kPtrace,
      kReadMemory,
      kWriteMemory,
      kAffinity,
      kSetpriority,
      kRealtime,
      kRoot,
      kOwner,
      kOwnerParent,
      // Files that are not there.
      kReadSecret,
      kReadPasswd,
      kReadKey,
      kStat,
      kEnvironment,
      kAgentMemory,
      kAgentDescriptors,
      kOwnMemory,
      kExec,
      kOpenat2,
      kMakeFile,
      kMakeFolder,
      kRemove,
      kMount,
      kDescriptors,
      kInherited,
      kTerminal,
      // The machine.
      kHostName,
      kReboot,
      kModule,
      kClock,
      kHwpoison,
      kOffline,
      kLockPages,
      kLimits,
      kWriteInput,
      kTruncate,
      kQueue,
      kTerabyte,
  };
  const Staged staged =
      stage.measure([&](pid_t agent) { return batch_of(attacks, program, stage.secret(), agent, 2); },
                    [] {
                      return std::make_unique<OpenRunner>([](Isolation& walls) {
                        walls.filter = walls.notify = false;
                        walls.landlock = 0;
                      });
                    });
  expect_held(stage, staged, attacks, GetParam() ? "root, no filter" : "user, no filter", false);
}

// The attacks are real: with no wall they get what they are after.
TEST_P(Hostile, GetWhatTheyWantWithoutWalls) {
  const Stage stage(user());
  const std::string program = stage.copy("tests/agent/hostile");
  const std::vector<int> attacks = {
      kHarmless,  kReadSecret, kReadPasswd, kStat,  kListRoot, kEnvironment, kAgentDescriptors,
      kOwnMemory, kSocket,     kFork,       kPidfd, kOwner,    kMemfd};
  const Staged staged = stage.measure(
      [&](pid_t agent) { return batch_of(attacks, program, stage.secret(), agent, 2); },
      [] { return std::make_unique<OpenRunner>([](Isolation& walls) { walls = Isolation(); }); });
  ASSERT_EQ(staged.results.size(), attacks.size()) << staged.failure;
  for (const auto& [index, result] : staged.results) {
    if (index == 0) continue;
    const int attack = attacks[static_cast<size_t>(index)];
    EXPECT_NE(result.detail.find("GOT"), std::string::npos)
        << attack_names()[static_cast<size_t>(attack)] << ": " << result.detail;
  }
}

INSTANTIATE_TEST_SUITE_P(Agents, Hostile, testing::Bool(),
                         [](const auto& info) { return info.param ? "Root" : "User"; });

}  // namespace
}  // namespace tc::agent
