// Programs of single kernels: the reference is what the interpreter says, schedules agree with it, and every
// kind of builder makes the same of them; the pool of processes answers for whatever becomes of its workers.
#include "tuner/builders.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "ir/error.h"
#include "runtime/rpc/sha256.h"
#include "scheduler/scheduler.h"
#include "tests/scheduler_kernels.h"
#include "tuner/builder_wire.h"
#include "tuner/process_builder.h"
#include "tuner/relay_builder.h"
#include "tuner/run_library.h"

namespace tc::testing {
namespace {

KernelProgram program_of(const NamedKernel& named) {
  KernelProgram program;
  program.kernel = small_kernel(named.name);
  program.layout_lines = named.layout_lines;
  return program;
}

std::vector<NamedKernel> kernels_of_fixed_size() {
  std::vector<NamedKernel> result;
  for (const NamedKernel& named : small_kernels()) {
    if (small_kernel(named.name).parameters.empty()) result.push_back(named);
  }
  return result;
}

double worst_difference(const PortInfo& port, const Bytes& got, const Bytes& expected) {
  Tensor a, b;
  a.dtype = b.dtype = port.dtype;
  for (const Dim& dim : port.shape) a.shape.push_back(dim.constant());
  b.shape = a.shape;
  a.bytes = got;
  b.bytes = expected;
  double worst = 0, largest = 1e-30;
  for (int64_t i = 0; i < a.count(); ++i) {
    if (std::isnan(b.as_double(i))) continue;
    largest = std::max(largest, std::fabs(b.as_double(i)));
    const double difference = std::fabs(a.as_double(i) - b.as_double(i));
    worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
  }
  return worst / largest;
}

TEST(KernelProgram, ReferenceIsWhatTheInterpreterSays) {
  const Target here = parse_target("native");
  int compared = 0;
  for (const NamedKernel& named : kernels_of_fixed_size()) {
    KernelProgram program = program_of(named);
    program.layout_lines.clear();
    const ScheduledKernel plain = Schedule(program.kernel, here).finish();
    const Plan plan = kernel_plan(plain, here, program.constants_seed);
    std::map<std::string, Tensor> buffers;
    size_t input = 0, constant = 0;
    for (const Buffer& buffer : program.kernel.buffers) {
      Tensor tensor;
      tensor.dtype = buffer.dtype;
      for (const Affine& size : buffer.shape) tensor.shape.push_back(size.constant());
      if (buffer.scope == Scope::Input) {
        tensor.bytes = sample_data(buffer.dtype, sizes_of(plan.inputs[input]), 7, input).bytes;
        ++input;
      } else if (buffer.scope == Scope::Constant) {
        tensor = *plan.constants[constant++].make();
      } else {
        continue;
      }
      buffers[buffer.name] = tensor;
    }
    interpret(program.kernel, {}, buffers, true);
    const std::vector<Bytes> outputs = reference_outputs(program, here, {7})[0];
    size_t output = 0;
    for (const Buffer& buffer : program.kernel.buffers) {
      if (buffer.scope != Scope::Output) continue;
      EXPECT_LE(worst_difference(plan.outputs[output], outputs[output], buffers.at(buffer.name).bytes), 1e-5)
          << named.name << " " << buffer.name;
      ++output;
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
}

int64_t elements(const PortInfo& port) {
  int64_t count = 1;
  for (const Dim& dim : port.shape) count *= dim.constant();
  return count;
}

// A schedule may merge dimensions, which changes the shape and no byte.
TEST(KernelProgram, PortsAreThoseOfTheLayouts) {
  for (const NamedKernel& named : kernels_of_fixed_size()) {
    const KernelProgram program = program_of(named);
    const Target here = parse_target("native");
    const ProgramPorts ports = program_ports(program, here);
    const auto trace = default_schedule(program.kernel, here, 1, program.layout_lines);
    const Plan plan = kernel_plan(trace.finish(), here, 1);
    ASSERT_EQ(ports.inputs.size(), plan.inputs.size()) << named.name;
    for (size_t i = 0; i < ports.inputs.size(); ++i)
      EXPECT_EQ(elements(ports.inputs[i]), elements(plan.inputs[i])) << named.name;
    ASSERT_EQ(ports.outputs.size(), plan.outputs.size()) << named.name;
    for (size_t i = 0; i < ports.outputs.size(); ++i)
      EXPECT_EQ(elements(ports.outputs[i]), elements(plan.outputs[i])) << named.name;
  }
}

// Calls take turns at copies of the constants, and at nothing else.
TEST(KernelProgram, CallsHaveConstantsOfTheirOwn) {
  const Target here = parse_target("native");
  for (const NamedKernel& named : kernels_of_fixed_size()) {
    const KernelProgram program = program_of(named);
    const ScheduledKernel plain = Schedule(program.kernel, here).finish();
    const Plan once = kernel_plan(plain, here, 1), thrice = kernel_plan(plain, here, 1, 3);
    ASSERT_EQ(thrice.steps.size(), 3u);
    ASSERT_EQ(thrice.constants.size(), 3 * once.constants.size());
    std::set<int> seen;
    size_t constants = 0;
    for (const PlanStep& step : thrice.steps) {
      ASSERT_EQ(step.locations.size(), once.steps[0].locations.size());
      for (size_t i = 0; i < step.locations.size(); ++i) {
        const Location &first = once.steps[0].locations[i], &now = step.locations[i];
        EXPECT_EQ(now.kind, first.kind);
        if (now.kind != Location::Kind::Constant) {
          EXPECT_EQ(now.index, first.index);
          continue;
        }
        ++constants;
        EXPECT_TRUE(seen.insert(now.index).second) << named.name;
        EXPECT_EQ(thrice.constants[static_cast<size_t>(now.index)].make()->bytes,
                  once.constants[static_cast<size_t>(first.index)].make()->bytes);
      }
    }
    EXPECT_EQ(constants, thrice.constants.size());
  }
}

TEST(KernelProgram, AsManyCallsAsFillTheSecondCache) {
  Target target = parse_target("x86-64-v3");
  target.l2_bytes = 1 << 20;
  const Kernel kernel = parse_kernel(R"(kernel "k"
  input A f32[64]
  constant K f32[1024, 64]
  output B f32[1024]
  init[i:1024]: B[i] = 0
  sum[i:1024, k:64]: B[i] += K[i, k] * A[k]
)");
  const int64_t own = 1024 * 64 * 4;
  EXPECT_EQ(calls_per_run(kernel, target, 0), 1);
  EXPECT_EQ(calls_per_run(kernel, target, own), 1);
  EXPECT_EQ(calls_per_run(kernel, target, 2 * own + 1), 3);
  EXPECT_EQ(calls_per_run(kernel, target, int64_t{1} << 40), 4 * target.l2_bytes / own);
  target.l2_bytes = int64_t{1} << 40;
  EXPECT_EQ(calls_per_run(kernel, target, int64_t{1} << 40), 64);
  EXPECT_EQ(calls_per_run(small_kernel("row_sum"), target, int64_t{1} << 40), 1) << "it has no constants";
}

TEST(KernelProgram, OneCallWhereColdConstantsMakeNoDifference) {
  Target target = parse_target("x86-64-v4");
  const auto calls = [&](int rows) {
    const Kernel kernel = parse_kernel(text(R"(kernel "k"
  input A f32[)",
                                            rows, R"(, 64]
  constant K f32[64, 64]
  output B f32[)",
                                            rows, R"(, 64]
  init[i:)",
                                            rows, R"(, j:64]: B[i, j] = 0
  sum[i:)",
                                            rows, R"(, j:64, k:64]: B[i, j] += A[i, k] * K[k, j]
)"));
    return calls_per_run(kernel, target, int64_t{1} << 40);
  };
  EXPECT_EQ(calls(16), 64);
  EXPECT_EQ(calls(4096), 1);
}

TEST(KernelProgram, CountsConstantsBetweenCalls) {
  Plan plan;
  for (const int64_t size : {100, 20, 3}) {
    plan.constants.emplace_back(std::make_shared<Tensor>(DType::F32, std::vector<int64_t>{size}));
  }
  const auto call = [](int kernel, int constant) {
    PlanStep step;
    step.kernel = kernel;
    step.locations = {{Location::Kind::Constant, constant, Dim()}};
    return step;
  };
  PlanStep loop, branch;
  loop.kind = PlanStep::Kind::Loop;
  branch.kind = PlanStep::Kind::If;
  branch.otherwise = {call(2, 2)};
  loop.body = {call(1, 1), branch};
  plan.steps = {call(0, 0), loop, call(3, 1)};
  EXPECT_EQ(constant_bytes_between_calls(plan),
            (std::map<int, int64_t>{{0, 4 * 123}, {1, 4 * 23}, {2, 4 * 23}, {3, 4 * 123}}));
}

TEST(KernelProgram, RefusesSymbolicSizes) {
  for (const NamedKernel& named : small_kernels()) {
    const Kernel kernel = small_kernel(named.name);
    if (kernel.parameters.empty()) continue;
    try {
      kernel_plan(Schedule(kernel, parse_target("native")).finish(), parse_target("native"), 1);
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("has symbolic sizes"), std::string::npos);
    }
    return;
  }
}

KernelProgram convolution() {
  for (const NamedKernel& named : kernels_of_fixed_size()) {
    if (named.name.find("conv") != std::string::npos) return program_of(named);
  }
  return program_of(kernels_of_fixed_size().front());
}

// A worker of the pool is a relay as well: one that does everything itself.
BuilderPlace place() { return {"frontend", "runtime/lib", ::testing::TempDir(), {"frontend/tc-builder"}}; }

// All candidates in the order of the traces, each of which comes once.
std::vector<BuiltCandidate> built_by(CandidateBuilder& builder, const KernelProgram& program,
                                     const std::string& target, const std::vector<Trace>& traces) {
  std::vector<BuiltCandidate> result(traces.size());
  std::set<size_t> seen;
  builder.build(program, target, traces, [&](size_t i, BuiltCandidate candidate) {
    EXPECT_TRUE(seen.insert(i).second) << i;
    result.at(i) = std::move(candidate);
  });
  EXPECT_EQ(seen.size(), traces.size());
  return result;
}

// The text of the Device error that the action throws.
template <class Action>
std::string device_error(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Device);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

// What every kind of builder does.
class Builder : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<CandidateBuilder> open() const { return open_builder(GetParam(), place()); }
};

INSTANTIATE_TEST_SUITE_P(Kinds, Builder, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const BuilderKind& kind : builder_kinds()) names.emplace_back(kind.name);
                           return names;
                         }()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(Builder, BuildsInOrderAndNamesWhatIsIllegal) {
  const KernelProgram program = convolution();
  const Target here = parse_target("native");
  const Trace best = default_schedule(program.kernel, here, 1, program.layout_lines).trace();
  Trace illegal = program.layout_lines;
  illegal.push_back("split nothing 4 as a b");
  const auto built = built_by(*open(), program, here.name, {best, illegal, program.layout_lines});
  ASSERT_EQ(built.size(), 3u);
  for (const size_t i : {size_t{0}, size_t{2}}) {
    ASSERT_EQ(built[i].outcome, Outcome::Ok) << built[i].detail;
    EXPECT_EQ(built[i].sha256, rpc::sha256_of(built[i].executable));
    const std::string path = ::testing::TempDir() + text("executable", i);
    std::ofstream(path, std::ios::binary) << built[i].executable;
    ASSERT_EQ(chmod(path.c_str(), 0700), 0);
    // Runs without files beside it: what it lacks here is its input.
    EXPECT_EQ(std::system((path + " >/dev/null 2>&1").c_str()), 2 << 8);
  }
  EXPECT_NE(built[0].sha256, built[2].sha256);
  EXPECT_EQ(built[1].outcome, Outcome::Illegal);
  EXPECT_TRUE(built[1].executable.empty());
  EXPECT_NE(built[1].detail.find("nothing"), std::string::npos) << built[1].detail;
}

// So that a candidate may be built again where the first one was lost, and by another kind of builder.
TEST_P(Builder, TheSameCandidateHasTheSameBytes) {
  const KernelProgram program = convolution();
  const auto built = built_by(*open(), program, "native", {program.layout_lines, program.layout_lines});
  EXPECT_EQ(built[0].executable, built[1].executable);
  EXPECT_EQ(built[0].sha256,
            build_candidate(program, "native", program.layout_lines, place().libraries, place().work_folder)
                .sha256);
}

TEST_P(Builder, LeavesNoFiles) {
  BuilderPlace own = place();
  own.work_folder += "builder-" + GetParam();
  std::filesystem::create_directory(own.work_folder);
  const KernelProgram program = convolution();
  built_by(*open_builder(GetParam(), own), program, "native",
           {program.layout_lines, {"split nothing 4 as a b"}});
  EXPECT_TRUE(std::filesystem::is_empty(own.work_folder));
}

TEST_P(Builder, SaysHowManyCallsARunHas) {
  const auto builder = open();
  KernelProgram program = convolution();
  const auto once = built_by(*builder, program, "native", {program.layout_lines})[0];
  program.bytes_between_calls = int64_t{1} << 30;
  const auto often = built_by(*builder, program, "native", {program.layout_lines})[0];
  ASSERT_EQ(often.outcome, Outcome::Ok) << often.detail;
  EXPECT_EQ(once.calls, 1);
  const Schedule plain(program.kernel, parse_target("native"));
  EXPECT_EQ(often.calls, calls_per_run(plain.kernel(), parse_target("native"), program.bytes_between_calls));
  EXPECT_GT(often.calls, 1);
  EXPECT_GT(often.executable.size(), once.executable.size());
}

TEST_P(Builder, BuildsForTheBoard) {
  const KernelProgram program = convolution();
  const auto built = built_by(*open(), program, "rv64gcv", {program.layout_lines});
  EXPECT_EQ(built[0].outcome, Outcome::Ok) << built[0].detail;
}

TEST_P(Builder, GivesReferences) {
  const KernelProgram program = convolution();
  const auto two = open()->reference(program, "native", {1, 2});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0], reference_outputs(program, parse_target("native"), {1})[0]);
  EXPECT_EQ(two[1], reference_outputs(program, parse_target("native"), {2})[0]);
  EXPECT_NE(two[0], two[1]);
}

TEST_P(Builder, AMachineThatCannotWriteIsNoVerdictOnACandidate) {
  BuilderPlace nowhere = place();
  nowhere.work_folder = "/nonexistent";
  const auto builder = open_builder(GetParam(), nowhere);
  EXPECT_NE(device_error([&] {
              builder->build(convolution(), "native", {{}}, [](size_t, const BuiltCandidate&) {});
            }).find("a candidate cannot be built here: cannot make a temporary file /nonexistent/"),
            std::string::npos);
}

TEST(Builders, AnUnknownOneIsASentenceThatListsThem) {
  EXPECT_EQ(
      device_error([] { open_builder("threads:4", place()); }),
      "builders is 'threads:4'; give one of processes[:N] (N processes on this machine, as many as it has cores "
      "without a number), in-process (the tuner's own process, one candidate after the other: for tests), "
      "ray[://HOST:PORT] (a Ray cluster by the address of its head, or without one a Ray of this machine alone)");
  for (const char* wanted :
       {"processes:", "processes:0", "processes:x", "processes:4x", "processes:99999999999"}) {
    EXPECT_EQ(device_error([&] { open_builder(wanted, place()); }),
              text("builders is '", wanted,
                   "'; give processes:N with a number from 1 to 1024, or processes for one on each core"));
  }
  EXPECT_EQ(device_error([] { open_builder("in-process:2", place()); }),
            "builders is 'in-process:2'; in-process takes nothing after its name");
  for (const char* wanted : {"ray:", "ray:here", "ray://", "ray://here", "ray://:1", "ray://here:"}) {
    EXPECT_EQ(
        device_error([&] { open_builder(wanted, place()); }),
        text(
            "builders is '", wanted,
            "'; give ray://HOST:PORT with the address of the cluster's head, or ray for one on this machine"));
  }
  BuilderPlace without_package = place();
  without_package.relay.clear();
  EXPECT_EQ(
      device_error([&] { open_builder("ray", without_package); }),
      "builders is 'ray': the program that hands candidates on to Ray is a part of the Python package tc");
}

ProcessBuilderOptions processes() {
  ProcessBuilderOptions options;
  options.program = "frontend/tc-builder";
  options.libraries = place().libraries;
  options.work_folder = place().work_folder;
  options.workers = 2;
  return options;
}

std::vector<BuiltCandidate> built_with(const ProcessBuilderOptions& options,
                                       const std::vector<Trace>& traces) {
  ProcessBuilder builder(options);
  return built_by(builder, convolution(), "native", traces);
}

TEST(ProcessBuilder, AnswersForWorkersThatDie) {
  ProcessBuilderOptions bad = processes();
  bad.program = "/bin/false";
  for (const BuiltCandidate& candidate : built_with(bad, {{}, {}, {}})) {
    EXPECT_EQ(candidate.outcome, Outcome::CompileError);
    EXPECT_EQ(candidate.detail, "the compiler ended early");
  }
}

TEST(ProcessBuilder, StopsWaitingForWorkersThatHang) {
  ProcessBuilderOptions bad = processes();
  bad.program = "/usr/bin/yes";  // never reads, and what it writes is no answer
  bad.timeout_seconds = 1;
  EXPECT_NE(built_with(bad, {{}})[0].outcome, Outcome::Ok);
  bad.timeout_seconds = 0.0001;
  bad.program = processes().program;
  const auto late = built_with(bad, {{}})[0];
  EXPECT_EQ(late.outcome, Outcome::Timeout) << late.detail;
}

TEST(ProcessBuilder, SaysThatItsProgramIsMissing) {
  ProcessBuilderOptions bad = processes();
  bad.program = "/nowhere/tc-builder";
  EXPECT_NE(device_error([&] { built_with(bad, {{}}); }).find("cannot start /nowhere/tc-builder"),
            std::string::npos);
}

RelayBuilderOptions relay(const std::vector<std::string>& command) {
  RelayBuilderOptions options;
  options.command = command;
  options.libraries = place().libraries;
  options.work_folder = place().work_folder;
  return options;
}

// A relay that answers the first request by these words, and the next ones by nothing.
RelayBuilderOptions relay_that_says(const std::vector<std::string>& words) {
  const std::string path = ::testing::TempDir() + "answer";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  EXPECT_TRUE(wire::write_words(file, words));
  close(file);
  return relay({"/bin/sh", "-c", "cat " + path + "; exec cat > /dev/null"});
}

TEST(RelayBuilder, ManyCandidatesAtOnce) {
  RelayBuilder builder(relay({"frontend/tc-builder"}));
  const KernelProgram program = convolution();
  std::vector<Trace> traces(600, {"split nothing 4 as a b"});
  traces[300] = program.layout_lines;
  const auto built = built_by(builder, program, "native", traces);
  for (size_t i = 0; i < traces.size(); ++i)
    EXPECT_EQ(built[i].outcome, i == 300 ? Outcome::Ok : Outcome::Illegal) << i;
}

TEST(RelayBuilder, SaysHowTheRelayEnded) {
  for (const auto& [command, how] : std::vector<std::pair<std::string, std::string>>{
           {"exit 3", "with exit status 3"}, {"kill -9 $$", "by signal 9 (Killed)"}}) {
    RelayBuilder builder(relay({"/bin/sh", "-c", command}));
    const auto build = [&] { built_by(builder, convolution(), "native", {{}}); };
    const std::string due =
        "the program that hands on candidates (/bin/sh) ended " + how + "; run the same command again";
    EXPECT_EQ(device_error(build), due);
    EXPECT_EQ(device_error(build), due) << "it is not used again";
  }
  RelayBuilderOptions silent = relay({"/bin/sleep", "60"});
  silent.silent_seconds = 0.2;
  RelayBuilder builder(silent);
  EXPECT_EQ(
      device_error([&] { built_by(builder, convolution(), "native", {{}}); }),
      "the program that hands on candidates has not answered for 0.2 s; see whether the cluster's nodes are "
      "alive");
}

TEST(RelayBuilder, TellsWhatTheMachineLacks) {
  RelayBuilder builder(relay_that_says({"1", "machine", "no node is alive"}));
  EXPECT_EQ(device_error([&] { built_by(builder, convolution(), "native", {{}}); }), "no node is alive");
}

// What comes from other machines is checked before anything is made of it.
TEST(RelayBuilder, WhatIsNoAnswerFailsTheCandidate) {
  const std::string hash = rpc::sha256_of("program");
  const std::vector<std::vector<std::string>> answers = {
      {"1"},
      {"1", "ok"},
      {"1", "fine", "0", "", "1", hash, "program"},
      {"1", "ok", "0", "", "1", rpc::sha256_of("other"), "program"},
      {"1", "ok", "0", "", "0", hash, "program"},
      {"1", "ok", "0", "", "x", hash, "program"},
      {"1", "ok", "0", "", "99999999999999999999", hash, "program"},
      {"1", "ok", "0", "", "1", rpc::sha256_of(""), ""},
      {"1", "ok", "3", "wrong", "1", hash, "program"},
      {"1", "ok", "-1", "", "1", hash, "program"},
      {"1", "ok", "", "", "1", hash, "program"},
      {"1", "ok", "0", "", "1", hash, "program", "more"}};
  for (const auto& words : answers) {
    RelayBuilder builder(relay_that_says(words));
    const BuiltCandidate built = built_by(builder, convolution(), "native", {{}})[0];
    EXPECT_EQ(built.outcome, Outcome::CompileError);
    EXPECT_TRUE(built.executable.empty());
    EXPECT_EQ(built.detail, "what its builder answered is no answer; tc has to be the same version there");
  }
  RelayBuilder builder(relay_that_says({"1", "ok", "0", "", "1", hash, "program"}));
  EXPECT_EQ(built_by(builder, convolution(), "native", {{}})[0].executable, "program");
  RelayBuilder failing(relay_that_says({"1", "error", "its workers died"}));
  EXPECT_EQ(built_by(failing, convolution(), "native", {{}})[0].detail, "its workers died");
}

}  // namespace
}  // namespace tc::testing
