// What is kept of the kernels that a tuner measures, and what is built ahead.
#include "tuner/prepared_kernels.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "runtime/rpc/sha256.h"
#include "scheduler/scheduler.h"

namespace tc::testing {
namespace {

// Counts what it is asked for, and builds nothing that runs.
class CountingBuilder : public CandidateBuilder {
 public:
  void build(const KernelProgram& program, const std::string&, const std::vector<Trace>& traces,
             const OnBuilt& built) override {
    thread = std::this_thread::get_id();
    begun = true;
    while (hangs) interruption_point();
    if (fails) fail(ErrorKind::Device, "the disk is full");
    for (size_t i = 0; i < traces.size(); ++i) {
      BuiltCandidate candidate;
      candidate.outcome = Outcome::Ok;
      candidate.calls = 1;
      candidate.executable = std::string(1000, 'x') + program.kernel.name + trace_text(traces[i]);
      candidate.sha256 = rpc::sha256_of(candidate.executable);
      builds += program.kernel.name + "." + traces[i].back() + " ";
      built(i, candidate);
    }
  }

  std::vector<std::vector<Bytes>> reference(const KernelProgram& program, const std::string&,
                                            const std::vector<uint64_t>& seeds) override {
    references += program.kernel.name + " ";
    return std::vector<std::vector<Bytes>>(seeds.size(), {Bytes(64)});
  }

  bool build_models(const ModelProgram&, const std::vector<Choices>&, const OnBuilt&) override {
    return false;
  }

  std::string builds, references;
  std::thread::id thread;
  std::atomic<bool> begun = false, hangs = false;
  bool fails = false;
};

class PreparedKernelsTest : public ::testing::Test {
 protected:
  PreparedKernelsTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    for (KernelTask* task : {&one_, &two_, &three_}) task->target = parse_target("x86-64-v3");
  }

  static KernelTask named(const std::string& name) {
    KernelTask task;
    task.kernel = parse_kernel("kernel \"" + name +
                               "\"\n  input A f32[16]\n  output B f32[16]\n  copy[i:16]: B[i] = A[i]\n");
    task.workload = name;
    return task;
  }

  static KernelRequest request(const KernelTask& task) {
    KernelRequest request = {&task, {}};
    request.program.kernel = task.kernel;
    return request;
  }

  size_t files() const {
    const std::filesystem::directory_iterator all(folder_);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }

  const std::string folder_ = ::testing::TempDir() + "prepared";
  CountingBuilder builder_;
  KernelTask one_ = named("one"), two_ = named("two"), three_ = named("three");
  const Trace a_ = {"a"}, b_ = {"b"};
};

TEST_F(PreparedKernelsTest, WhatWasMadeIsKeptForALaterBatch) {
  {
    PreparedKernels prepared(builder_, folder_, {1, 2});
    prepared.get(request(one_), {a_}).fastest_call = 5;
    prepared.get(request(two_), {a_});
    const PreparedKernel& again = prepared.get(request(one_), {a_, b_});
    EXPECT_EQ(builder_.references, "one two ");
    EXPECT_EQ(builder_.builds, "one.a two.a one.b ");
    EXPECT_EQ(again.fastest_call, 5);
    EXPECT_EQ(again.reference.size(), 2u);
    EXPECT_EQ(again.reference[1].first, 2u);
    EXPECT_EQ(again.ports.inputs.size(), 1u);
    EXPECT_TRUE(std::filesystem::exists(again.built.at(b_).file.path));
    EXPECT_EQ(files(), 3u);
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(PreparedKernelsTest, TheOldestIsForgottenWhereThereIsNoRoom) {
  PreparedKernels prepared(builder_, folder_, {1}, 1500);
  for (const KernelTask* task : {&one_, &two_, &three_}) prepared.get(request(*task), {a_});
  EXPECT_EQ(files(), 2u) << "the last one, and another";
  prepared.get(request(two_), {a_});
  EXPECT_EQ(builder_.references, "one two three ");
  prepared.get(request(one_), {a_});
  EXPECT_EQ(builder_.references, "one two three one ");
}

TEST_F(PreparedKernelsTest, AnotherThreadBuildsAhead) {
  PreparedKernels prepared(builder_, folder_, {1});
  prepared.begin(request(two_), a_);
  prepared.get(request(two_), {a_, b_});
  EXPECT_EQ(builder_.references, "two ");
  EXPECT_EQ(builder_.builds, "two.a two.b ");
  prepared.begin(request(three_), a_);
  prepared.get(request(three_), {a_});
  EXPECT_NE(builder_.thread, std::this_thread::get_id());
}

TEST_F(PreparedKernelsTest, WhatIsBuiltAheadIsStopped) {
  PreparedKernels prepared(builder_, folder_, {1});
  builder_.hangs = true;
  prepared.begin(request(two_), a_);
  while (!builder_.begun) std::this_thread::yield();
  prepared.stop();
  prepared.begin(request(two_), a_);
  {
    const TimeLimit limit(0.05);
    EXPECT_THROW(prepared.get(request(two_), {a_}), Interrupted);
  }
  builder_.hangs = false;
  EXPECT_EQ(prepared.get(request(two_), {a_}).built.size(), 1u);
  EXPECT_EQ(builder_.builds, "two.a ");
}

TEST_F(PreparedKernelsTest, AFailureAheadIsToldToWhoAsksForTheKernel) {
  PreparedKernels prepared(builder_, folder_, {1});
  builder_.fails = true;
  prepared.begin(request(two_), a_);
  EXPECT_EQ(prepared.get(request(one_), {}).workload, "one");
  EXPECT_THROW(prepared.get(request(two_), {a_}), Error);
  builder_.fails = false;
  EXPECT_EQ(prepared.get(request(two_), {a_}).built.size(), 1u);
}

}  // namespace
}  // namespace tc::testing
