// The simulated board: cycles that are the same each time and less for less work.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/agent/runner.h"
#include "tests/agent/cheater.h"
#include "tests/agent/program.h"
#include "tests/agent/work.h"

namespace tc::agent {
namespace {

Batch make_batch(const std::vector<std::string>& executables) {
  Batch batch;
  for (const std::string& path : executables) batch.executables.push_back(read_file(path));
  batch.inputs = {make_port("x", "f32", {10, 100})};
  batch.outputs = {make_port("y", "f32", {10, 100})};
  for (const uint64_t seed : {7, 8}) {
    std::vector<float> values(1000);
    fill_sample(batch.inputs[0], seed, 0, values.data());
    for (float& value : values) value *= 2;
    batch.data_sets.push_back({seed, {make_file(values.data(), 4000)}});
  }
  batch.tolerance = 1e-5;
  batch.timeout_seconds = 60;
  batch.memory_bytes = 64 << 20;
  return batch;
}

std::vector<Result> measure(const Batch& batch, bool cache = true) {
  QemuOptions options;
  options.plugin = "runtime/qemu/libcount_plugin.so";
  options.cache = cache;
  std::vector<Result> results(batch.executables.size());
  make_qemu_runner(options)->measure(
      batch, [&](const Result& result) { results.at(result.candidate) = result; }, nullptr);
  return results;
}

TEST(QemuRunner, SimulatedCyclesAreExact) {
  const Batch batch = make_batch({"tests/agent/served_model.riscv64", "tests/agent/served_slow.riscv64"});
  const std::vector<Result> first = measure(batch), second = measure(batch);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(first[i].outcome, Outcome::Ok) << first[i].detail;
    ASSERT_EQ(first[i].samples.size(), 1u);
    EXPECT_EQ(first[i].samples, second[i].samples);
    EXPECT_GT(first[i].peak_bytes, 0);
  }
  // A thousand elements: neither the start-up nor another data set is in it.
  EXPECT_GT(first[0].samples[0], 300);
  EXPECT_LT(first[0].samples[0], 20000);
  EXPECT_GT(first[1].samples[0], 1.4 * first[0].samples[0]);
  // In the caches that the first data set filled, there is little to wait for.
  const std::vector<Result> plain = measure(batch, false);
  ASSERT_EQ(plain[0].samples.size(), 1u) << plain[0].detail;
  EXPECT_LE(plain[0].samples[0], first[0].samples[0]);
}

// Where inputs are floats, one run is executed and timed twice; where they are integers, two are executed.
TEST(QemuRunner, OneRunHasTheCyclesOfTheSecondOfTwo) {
  Batch batch = make_batch({"tests/agent/served_model.riscv64", "tests/agent/served_slow.riscv64"});
  const std::vector<Result> once = measure(batch), plain_once = measure(batch, false);
  batch.inputs[0].dtype = make_port("x", "i32", {10, 100}).dtype;
  for (Batch::DataSet& set : batch.data_sets) {
    std::vector<float> values(1000);
    fill_sample(batch.inputs[0], set.seed, 0, values.data());
    for (float& value : values) value *= 2;
    set.expected = {make_file(values.data(), 4000)};
  }
  const std::vector<Result> each = measure(batch), plain_each = measure(batch, false);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(each[i].outcome, Outcome::Ok) << each[i].detail;
    EXPECT_EQ(once[i].samples, each[i].samples);
    EXPECT_EQ(plain_once[i].samples, plain_each[i].samples);
  }
}

// One that is no faster than another is not chosen, and so not checked on the other data sets. Where no time
// of another one is given, the batch's first is checked on all, and the others are compared with it.
TEST(QemuRunner, ChecksOnAllDataSetsWhatMayBeChosen) {
  Batch batch = make_batch({"tests/agent/served_model.riscv64"});
  const double cycles = measure(batch)[0].samples[0];
  batch.data_sets[0].seed = 9;
  for (const double known : {0.0, cycles + 1}) {
    batch.known_call = known;
    const Result result = measure(batch)[0];
    EXPECT_EQ(result.outcome, Outcome::WrongResult);
    EXPECT_TRUE(result.samples.empty());
    EXPECT_NE(result.detail.find("data set 1 of 2"), std::string::npos) << result.detail;
  }
  batch.executables.push_back(batch.executables[0]);
  batch.known_call = 0;
  const std::vector<Result> two = measure(batch);
  EXPECT_EQ(two[0].outcome, Outcome::WrongResult) << "nor is it one to compare with";
  EXPECT_EQ(two[1].outcome, Outcome::WrongResult);
  batch.known_call = cycles;
  const Result slower = measure(batch)[0];
  ASSERT_EQ(slower.outcome, Outcome::Ok) << slower.detail;
  EXPECT_EQ(slower.samples[0], cycles);
}

// Whatever a candidate saves in commands of many runs, here each has one; and what it does on another thread
// counts.
TEST(QemuRunner, NoCheaterTakesFewerCycles) {
  constexpr int64_t kCount = 256;
  Batch batch = make_batch({});
  batch.inputs = {make_port("x", "f32", {kCount})};
  batch.outputs = {make_port("y", "f32", {kCount})};
  for (Batch::DataSet& set : batch.data_sets) {
    std::vector<float> values(kCount), due(kCount);
    fill_sample(batch.inputs[0], set.seed, 0, values.data());
    do_work(values.data(), due.data(), kCount);
    set.expected = {make_file(due.data(), 4 * kCount)};
  }
  const std::vector<int> cheats = {kHonest,      kLastTwo,  kByFullHash,  kEverySecond,
                                   kHalfAndSpin, kHandOver, kOnTwoThreads};
  for (const int cheat : cheats) {
    const std::string bytes = candidate(cheat, "tests/agent/cheater.riscv64");
    batch.executables.push_back(make_file(bytes.data(), static_cast<int64_t>(bytes.size())));
  }
  const std::vector<Result> results = measure(batch);
  ASSERT_EQ(results[0].samples.size(), 1u) << results[0].detail;
  for (const Result& result : results) {
    const double least = 0.9 * results[0].samples[0];
    if (!result.samples.empty()) {
      EXPECT_GE(result.samples[0], least) << "behaviour " << cheats[result.candidate];
    }
  }
  ASSERT_EQ(results.back().samples.size(), 1u) << results.back().detail;
}

TEST(QemuRunner, CandidatesRunSideBySideAndKeepTheirPlaces) {
  const std::string fast = "tests/agent/served_model.riscv64", slow = "tests/agent/served_slow.riscv64";
  const std::vector<Result> two = measure(make_batch({fast, slow}));
  const std::vector<Result> many = measure(make_batch({slow, fast, slow, fast, fast, slow}));
  for (const int i : {1, 3, 4}) EXPECT_EQ(many[i].samples, two[0].samples) << i;
  for (const int i : {0, 2, 5}) EXPECT_EQ(many[i].samples, two[1].samples) << i;
}

TEST(QemuRunner, WrongResultHasNoTime) {
  Batch batch = make_batch({"tests/agent/served_model.riscv64"});
  batch.data_sets[1].seed = 9;
  const Result result = measure(batch)[0];
  EXPECT_EQ(result.outcome, Outcome::WrongResult);
  EXPECT_TRUE(result.samples.empty());
  EXPECT_NE(result.detail.find("data set 2 of 2"), std::string::npos) << result.detail;
}

TEST(QemuRunner, NoProgramForTheBoard) {
  Batch batch = make_batch({"tests/agent/served_model.riscv64"});
  batch.executables.push_back(make_file("no program", 10));
  const std::vector<Result> results = measure(batch);
  EXPECT_EQ(results[0].outcome, Outcome::Ok) << results[0].detail;
  EXPECT_EQ(results[1].outcome, Outcome::Crash) << results[1].detail;
}

FilePtr behaving(int behaviour) {
  const FilePtr original = read_file("tests/agent/candidate.riscv64");
  std::string bytes(reinterpret_cast<const char*>(original->data()), static_cast<size_t>(original->bytes()));
  const size_t at = bytes.find("behaviour:");
  bytes[at + 10] = static_cast<char>('0' + behaviour / 10);
  bytes[at + 11] = static_cast<char>('0' + behaviour % 10);
  return make_file(bytes.data(), original->bytes());
}

// The second does not end by itself.
TEST(QemuRunner, StopsARunThatTakesTooLong) {
  Batch batch = make_batch({});
  batch.executables = {behaving(0), behaving(1)};
  batch.longest_call = 1e5;
  const std::vector<Result> results = measure(batch);
  EXPECT_EQ(results[0].outcome, Outcome::Ok) << results[0].detail;
  EXPECT_EQ(results[1].outcome, Outcome::Timeout);
  EXPECT_NE(results[1].detail.find("it was stopped while answering a command of no run"), std::string::npos)
      << results[1].detail;
  EXPECT_NE(results[1].detail.find("it takes more simulated cycles than it may"), std::string::npos);
}

TEST(QemuRunner, LimitsHold) {
  Batch batch = make_batch({"tests/agent/candidate.riscv64"});
  const auto result_of = [&](int behaviour, double timeout) {
    batch.executables = {behaving(behaviour)};
    batch.timeout_seconds = timeout;
    return measure(batch)[0];
  };
  EXPECT_EQ(result_of(0, 30).outcome, Outcome::Ok) << "a simulated core needs no marks of it";
  EXPECT_EQ(result_of(1, 1).outcome, Outcome::Timeout);
  EXPECT_EQ(result_of(2, 30).outcome, Outcome::Crash);
  const Result hungry = result_of(15, 60);
  EXPECT_EQ(hungry.outcome, Outcome::OutOfMemory) << hungry.detail;
  EXPECT_EQ(result_of(4, 30).outcome, Outcome::WrongResult);
  for (const int behaviour : {6, 7, 8}) {
    const Result result = result_of(behaviour, 30);
    EXPECT_EQ(result.outcome, Outcome::Crash) << result.detail;
    EXPECT_NE(result.detail.find("system call"), std::string::npos) << result.detail;
  }
}

TEST(QemuRunner, SaysWhatIsMissing) {
  QemuOptions options;
  options.plugin = "/nowhere/libcount_plugin.so";
  EXPECT_THROW(make_qemu_runner(options), std::runtime_error);
  options.qemu = "no-such-emulator";
  try {
    make_qemu_runner(options);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("apt install qemu-user"), std::string::npos);
  }
}

}  // namespace
}  // namespace tc::agent
