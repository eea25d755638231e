// The native runner against hand-made candidates, good and bad: each classed rightly, no time for a
// bad one, the agent lives on.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/agent/process.h"
#include "runtime/agent/runner.h"

namespace tc::agent {
namespace {

// clang-format off
enum Behaviour {
  kRight = 0, kLoop, kCrash, kAllocate, kWrong, kStale, kSocket, kWriteFile, kFork, kFlood, kMute,
  kExitEarly, kUnwritten, kFirstRunOnly, kCrashLate, kReserve, kErrorFlood, kBeyond, kStopThere,
  kKillParent, kExec, kSlow, kThreads, kLoopUnready, kCloseOutput, kChangeInput, kDeepStack,
  kRawSocket, kAbort, kGarbage, kLoopLate, kNap, kSlowFirst, kMatrix
};
// clang-format on

constexpr int64_t kCount = 1000;

FilePtr candidate(Behaviour behaviour) {
  static const FilePtr original = read_file("tests/agent/candidate");
  std::vector<uint8_t> bytes(original->data(), original->data() + original->bytes());
  const std::string marker = "behaviour:";
  const auto at = std::search(bytes.begin(), bytes.end(), marker.begin(), marker.end());
  EXPECT_NE(at, bytes.end());
  at[10] = static_cast<uint8_t>('0' + behaviour / 10);
  at[11] = static_cast<uint8_t>('0' + behaviour % 10);
  return make_file(bytes.data(), static_cast<int64_t>(bytes.size()));
}

Batch make_batch(const std::vector<Behaviour>& behaviours) {
  Batch batch;
  for (const Behaviour behaviour : behaviours) batch.executables.push_back(candidate(behaviour));
  batch.inputs = {make_port("x", "f32", {10, 100})};
  batch.outputs = {make_port("y", "f32", {10, 100})};
  for (const uint64_t seed : {7, 8}) {
    std::vector<float> values(kCount);
    fill_sample(batch.inputs[0], seed, 0, values.data());
    for (float& value : values) value *= 2;
    batch.data_sets.push_back({seed, {make_file(values.data(), kCount * 4)}});
  }
  batch.tolerance = 1e-5;
  batch.rounds = 5;
  batch.sample_seconds = 0.002;
  batch.timeout_seconds = 5;
  batch.memory_bytes = 64 << 20;
  return batch;
}

std::map<int, Result> measure(const Batch& batch) {
  static const std::unique_ptr<Runner> runner = make_native_runner();
  std::map<int, Result> results;
  runner->measure(
      batch,
      [&](const Result& result) {
        EXPECT_TRUE(results.emplace(result.candidate, result).second) << "reported twice";
      },
      nullptr);
  EXPECT_EQ(results.size(), batch.executables.size());
  return results;
}

Result measure_one(Behaviour behaviour, double timeout = 5) {
  Batch batch = make_batch({behaviour});
  batch.timeout_seconds = timeout;
  return measure(batch)[0];
}

void expect_failure(const Result& result, Outcome outcome, const std::string& text) {
  EXPECT_EQ(result.outcome, outcome) << result.detail;
  EXPECT_NE(result.detail.find(text), std::string::npos) << result.detail;
  EXPECT_TRUE(result.samples.empty());
}

void expect_good(const Result& result, int rounds = 5) {
  EXPECT_EQ(result.outcome, Outcome::Ok) << result.detail;
  EXPECT_EQ(result.samples.size(), static_cast<size_t>(rounds));
  for (const double sample : result.samples) {
    EXPECT_GT(sample, 1e-9);
    EXPECT_LT(sample, 1);
  }
  EXPECT_GE(result.runs_per_sample, 1);
  EXPECT_GT(result.peak_bytes, 0);
  EXPECT_LT(result.peak_bytes, 64 << 20);
  EXPECT_EQ(result.worst_error, 0);
}

#define SKIP_WITHOUT(feature) \
  if (!isolation().feature) GTEST_SKIP() << "this system has no " #feature

TEST(NativeRunner, RightOneHasSamples) { expect_good(measure_one(kRight)); }
TEST(NativeRunner, ThreadsAreAllowed) { expect_good(measure_one(kThreads)); }
#if defined(__x86_64__)
TEST(NativeRunner, MatrixRegistersAreGranted) {
  if (!__builtin_cpu_supports("amx-tile")) GTEST_SKIP() << "this machine has no AMX";
  expect_good(measure_one(kMatrix));
}
#endif
TEST(NativeRunner, StandardErrorIsFree) { expect_good(measure_one(kErrorFlood)); }

TEST(NativeRunner, SamplesTellFastFromSlow) {
  Batch batch = make_batch({kRight, kSlow});
  batch.rounds = 3;
  std::map<int, Result> results = measure(batch);
  expect_good(results[0], 3);
  ASSERT_EQ(results[1].outcome, Outcome::Ok) << results[1].detail;
  EXPECT_EQ(results[1].runs_per_sample, 1);
  for (const double sample : results[1].samples) EXPECT_GE(sample, 0.02);
}

// By the time of one call: the last one's run has many.
TEST(NativeRunner, SlowOnesHaveOneSample) {
  Batch batch = make_batch({kRight, kSlow, kRight, kSlow});
  batch.rounds = 3;
  batch.slow_ratio = 4;
  batch.calls = {1, 1, 1, 1000000};
  std::map<int, Result> results = measure(batch);
  expect_good(results[0], 3);
  expect_good(results[1], 1);
  EXPECT_GE(results[1].samples[0], 0.02);
  expect_good(results[2], 3);
  expect_good(results[3], 3);
}

TEST(NativeRunner, LoopsForEver) {
  expect_failure(measure_one(kLoop, 0.5), Outcome::Timeout, "running data set 1");
  expect_failure(measure_one(kLoopLate, 0.5), Outcome::Timeout, "running on inputs of the agent's own");
  expect_failure(measure_one(kLoopUnready, 0.5), Outcome::Timeout, "starting");
  expect_failure(measure_one(kMute, 0.5), Outcome::Timeout, "starting");
}

TEST(NativeRunner, Crashes) {
  expect_failure(measure_one(kCrash), Outcome::Crash, "SIGSEGV");
  expect_failure(measure_one(kCrashLate), Outcome::Crash, "SIGSEGV");
  expect_failure(measure_one(kDeepStack), Outcome::Crash, "SIGSEGV");
  expect_failure(measure_one(kAbort), Outcome::Crash, "SIGABRT");
}

TEST(NativeRunner, ExitsEarly) {
  expect_failure(measure_one(kExitEarly), Outcome::Crash, "code 3 while starting; it said: nothing to do");
  expect_failure(measure_one(kStopThere), Outcome::Crash, "exited with code 0");
  expect_failure(measure_one(kCloseOutput), Outcome::Crash, "closed its standard output");
}

TEST(NativeRunner, AllocatesWithoutEnd) {
  SKIP_WITHOUT(notify);
  expect_failure(measure_one(kAllocate), Outcome::OutOfMemory, "of memory");
  expect_failure(measure_one(kReserve), Outcome::OutOfMemory, "of memory");
}

TEST(NativeRunner, WrongResults) {
  const Result wrong = measure_one(kWrong);
  expect_failure(wrong, Outcome::WrongResult, "data set 1 of 2: output 'y', element [5, 0]: got ");
  EXPECT_GT(wrong.worst_error, 0.4);
  expect_failure(measure_one(kUnwritten), Outcome::WrongResult, "element [0, 0] was not written");
  expect_failure(measure_one(kBeyond), Outcome::WrongResult, "behind the end of output 'y'");
}

TEST(NativeRunner, StaleResults) {
  expect_failure(measure_one(kStale), Outcome::WrongResult, "data set 2 of 2");
  expect_failure(measure_one(kFirstRunOnly), Outcome::WrongResult, "does not run as often");
}

TEST(NativeRunner, BusyWhileSampledIsNoFault) { expect_good(measure_one(kSlowFirst)); }

TEST(NativeRunner, SystemCallsThatAreNotAllowed) {
  SKIP_WITHOUT(notify);
  const std::string file = "/tmp/tc_candidate_was_here";
  unlink(file.c_str());
  expect_failure(measure_one(kSocket), Outcome::Crash, "socket (uses the network) while starting");
  expect_failure(measure_one(kRawSocket), Outcome::Crash, "socket");
  expect_failure(measure_one(kWriteFile), Outcome::Crash, "openat (changes or makes files)");
  expect_failure(measure_one(kFork), Outcome::Crash, "clone (starts processes)");
  expect_failure(measure_one(kKillParent), Outcome::Crash, "kill (reaches into other processes)");
  expect_failure(measure_one(kExec), Outcome::Crash, "execve (starts processes)");
  EXPECT_NE(access(file.c_str(), F_OK), 0);
}

TEST(NativeRunner, InputsCannotBeChanged) { expect_good(measure_one(kChangeInput)); }

TEST(NativeRunner, SpeaksNonsense) {
  expect_failure(measure_one(kFlood), Outcome::Crash, "to its standard output");
  expect_failure(measure_one(kGarbage), Outcome::Crash, "'X' to its standard output");
}

TEST(NativeRunner, NoProgramAtAll) {
  Batch batch = make_batch({kRight});
  batch.executables.push_back(make_file("no program", 10));
  std::map<int, Result> results = measure(batch);
  expect_good(results[0]);
  expect_failure(results[1], Outcome::Crash, "cannot be executed here");
}

// Bad ones between good ones do the good ones no harm.
TEST(NativeRunner, MixedBatch) {
  Batch batch = make_batch({kRight, kCrashLate, kRight, kWrong, kFirstRunOnly, kRight});
  std::map<int, Result> results = measure(batch);
  for (const int good : {0, 2, 5}) expect_good(results[good]);
  EXPECT_EQ(results[1].outcome, Outcome::Crash);
  EXPECT_EQ(results[3].outcome, Outcome::WrongResult);
  EXPECT_EQ(results[4].outcome, Outcome::WrongResult);
}

TEST(NativeRunner, CancelledEndsEarly) {
  const std::unique_ptr<Runner> runner = make_native_runner();
  int asked = 0;
  const double begin = now_seconds();
  runner->measure(
      make_batch({kMute}), [](const Result&) { FAIL() << "reported"; }, [&] { return ++asked > 2; });
  EXPECT_LT(now_seconds() - begin, 3);
}

// The executable that the compiler exports: the runtime's main with a model of fixed shapes.
TEST(NativeRunner, RuntimesMain) {
  Batch batch = make_batch({});
  batch.executables = {read_file("tests/agent/served_model")};
  batch.threads = 2;
  for (const Result& result : {measure(batch)[0]}) {
    EXPECT_EQ(result.outcome, Outcome::Ok) << result.detail;
    EXPECT_EQ(result.samples.size(), 5u);
  }
  // Its size is not that of its inputs.
  batch.inputs = {make_port("x", "f32", {10, 99})};
  EXPECT_EQ(measure(batch)[0].outcome, Outcome::Crash);
}

TEST(Port, RefusesNonsense) {
  EXPECT_THROW(make_port("x", "f31", {1}), std::runtime_error);
  EXPECT_THROW(make_port("x", "f32", {-1}), std::runtime_error);
  EXPECT_THROW(make_port("x", "f32", {1 << 20, 1 << 20, 1 << 20, 1 << 20}), std::runtime_error);
  EXPECT_THROW(make_port("x", "f32", std::vector<int64_t>(17, 1)), std::runtime_error);
  EXPECT_EQ(make_port("x", "bf16", {3, 5}).bytes, 30);
  EXPECT_EQ(make_port("x", "f32", {0, 1 << 30}).bytes, 0);
}

TEST(Samples, AreRoundedToTheType) {
  const int64_t count = 4096;
  std::vector<float> full(count);
  std::vector<_Float16> half(count);
  std::vector<uint16_t> brain(count);
  fill_sample(make_port("x", "f32", {count}), 3, 1, full.data());
  fill_sample(make_port("x", "f16", {count}), 3, 1, half.data());
  fill_sample(make_port("x", "bf16", {count}), 3, 1, brain.data());
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_GE(full[i], -1);
    ASSERT_LT(full[i], 1);
    EXPECT_EQ(half[i], static_cast<_Float16>(full[i])) << full[i];
    uint32_t bits;
    std::memcpy(&bits, &full[i], 4);
    EXPECT_EQ(brain[i], (bits + 0x7fff + (bits >> 16 & 1)) >> 16) << full[i];
  }
  std::vector<int64_t> integers(count);
  fill_sample(make_port("x", "i64", {count}), 3, 1, integers.data());
  for (const int64_t value : integers) EXPECT_TRUE(value == 0 || value == 1);
}

TEST(Compare, KnowsInfinitiesAndNan) {
  const Port port = make_port("y", "f32", {3});
  const float nan = std::nanf(""), inf = INFINITY;
  const float expected[] = {nan, inf, 4};
  const float good[] = {nan, inf, 4.001f}, moved[] = {4, inf, nan}, minus[] = {nan, -inf, 4};
  EXPECT_TRUE(compare(port, good, expected, 1e-3, 0xff).good);
  EXPECT_FALSE(compare(port, good, expected, 1e-4, 0xff).good);
  EXPECT_FALSE(compare(port, moved, expected, 1, 0xff).good);
  EXPECT_FALSE(compare(port, minus, expected, 1, 0xff).good);
  // Poison is a NaN too.
  float poisoned[] = {nan, inf, 4};
  std::memset(poisoned, 0xff, 4);
  EXPECT_FALSE(compare(port, poisoned, expected, 1, 0xff).good);
  // Padding may be anything; a result may not.
  EXPECT_TRUE(compare(port, good, poisoned, 1e-3, 0x7f).good);
  std::memset(poisoned, 0x7f, 4);
  EXPECT_FALSE(compare(port, poisoned, expected, 1, 0x7f).good);
  const Port integers = make_port("y", "i32", {2});
  const int32_t one[] = {1, 2}, other[] = {1, 3};
  EXPECT_TRUE(compare(integers, one, one, 0, 0xff).good);
  EXPECT_EQ(compare(integers, other, one, 1, 0xff).text, "output 'y', element [1]: got 3, expected 2");
}

TEST(Compare, CountsDifferencesWhereverTheyAre) {
  for (const int64_t elements : {1, 2, 63, 64, 65, 1000}) {
    const Port floats = make_port("y", "f32", {elements}), halves = make_port("y", "f16", {elements}),
               bytes = make_port("y", "u8", {elements});
    std::vector<float> expected(static_cast<size_t>(elements), 4.0f);
    std::vector<uint16_t> half(static_cast<size_t>(elements), 0x4400);
    std::vector<uint8_t> byte(static_cast<size_t>(elements), 4);
    EXPECT_EQ(count_differences(floats, expected.data(), expected.data(), 0, 0xff), 0);
    for (const int64_t place : {int64_t{0}, elements / 2, elements - 1}) {
      const auto at = static_cast<size_t>(place);
      auto got = expected;
      got[at] = 4.001f;
      EXPECT_EQ(count_differences(floats, got.data(), expected.data(), 1e-4, 0xff), 1)
          << place << " of " << elements;
      EXPECT_EQ(count_differences(floats, got.data(), expected.data(), 1e-3, 0xff), 0);
      std::memset(&got[at], 0xff, 4);
      EXPECT_EQ(count_differences(floats, got.data(), expected.data(), 1, 0xff), 1) << "not written";
      EXPECT_EQ(count_differences(floats, expected.data(), got.data(), 0, 0x7f), 0) << "padding";
      auto other_half = half;
      other_half[at] = 0x4401;
      EXPECT_EQ(count_differences(halves, other_half.data(), half.data(), 1e-6, 0xff), 1);
      EXPECT_EQ(count_differences(halves, other_half.data(), half.data(), 1e-2, 0xff), 0);
      auto other_byte = byte;
      other_byte[at] = 5;
      EXPECT_EQ(count_differences(bytes, other_byte.data(), byte.data(), 1, 0xff), 1);
    }
    for (float& value : expected) value = 5;
    const std::vector<float> all(static_cast<size_t>(elements), 4.0f);
    EXPECT_EQ(count_differences(floats, all.data(), expected.data(), 1e-3, 0xff), elements);
  }
}

TEST(File, HashIsSha256) {
  EXPECT_EQ(make_file("abc", 3)->sha256(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string text(119, 'a');
  EXPECT_EQ(make_file(text.data(), 119)->sha256(),
            "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb");
  EXPECT_EQ(make_file("", 0)->sha256(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace tc::agent
