// Programs of single kernels: the reference is what the interpreter says, schedules agree with it, and
// the pool answers for whatever becomes of its workers.
#include "tuner/builder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>

#include "ir/error.h"
#include "scheduler/scheduler.h"
#include "tests/scheduler_kernels.h"
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
    const std::vector<Bytes> outputs = reference_outputs(program, here, 7);
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
  input A f32[)", rows, R"(, 64]
  constant K f32[64, 64]
  output B f32[)", rows, R"(, 64]
  init[i:)", rows, R"(, j:64]: B[i, j] = 0
  sum[i:)", rows, R"(, j:64, k:64]: B[i, j] += A[i, k] * K[k, j]
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

class Pool : public ::testing::Test {
 protected:
  BuildPoolOptions options() const {
    BuildPoolOptions options;
    options.program = "tuner/tc-builder";
    options.library_folder = "runtime/lib";
    options.work_folder = ::testing::TempDir();
    options.workers = 2;
    return options;
  }
  static KernelProgram convolution() {
    for (const NamedKernel& named : kernels_of_fixed_size()) {
      if (named.name.find("conv") != std::string::npos) return program_of(named);
    }
    return program_of(kernels_of_fixed_size().front());
  }
};

TEST_F(Pool, BuildsInOrderAndNamesWhatIsIllegal) {
  BuildPool pool(options());
  const KernelProgram program = convolution();
  const Target here = parse_target("native");
  const Trace best = default_schedule(program.kernel, here, 1, program.layout_lines).trace();
  Trace illegal = program.layout_lines;
  illegal.push_back("split nothing 4 as a b");
  const auto built = pool.build(program, here.name, {best, illegal, program.layout_lines});
  ASSERT_EQ(built.size(), 3u);
  for (const size_t i : {size_t{0}, size_t{2}}) {
    ASSERT_EQ(built[i].outcome, Outcome::Ok) << built[i].detail;
    struct stat info {};
    ASSERT_EQ(stat(built[i].path.c_str(), &info), 0);
    EXPECT_TRUE(info.st_mode & S_IXUSR);
    // Runs without files beside it: what it lacks here is its input.
    EXPECT_NE(std::system((built[i].path + " >/dev/null 2>&1").c_str()), 127 << 8);
  }
  EXPECT_EQ(built[1].outcome, Outcome::Illegal);
  EXPECT_NE(built[1].detail.find("nothing"), std::string::npos) << built[1].detail;
}

TEST_F(Pool, SaysHowManyCallsARunHas) {
  BuildPool pool(options());
  KernelProgram program = convolution();
  const auto once = pool.build(program, "native", {program.layout_lines})[0];
  program.bytes_between_calls = int64_t{1} << 30;
  const auto often = pool.build(program, "native", {program.layout_lines})[0];
  ASSERT_EQ(often.outcome, Outcome::Ok) << often.detail;
  EXPECT_EQ(once.calls, 1);
  const Schedule plain(program.kernel, parse_target("native"));
  EXPECT_EQ(often.calls, calls_per_run(plain.kernel(), parse_target("native"), program.bytes_between_calls));
  EXPECT_GT(often.calls, 1);
  EXPECT_GT(std::filesystem::file_size(often.path), std::filesystem::file_size(once.path));
}

TEST_F(Pool, BuildsForTheBoard) {
  BuildPool pool(options());
  const KernelProgram program = convolution();
  const auto built = pool.build(program, "rv64gcv", {program.layout_lines});
  EXPECT_EQ(built[0].outcome, Outcome::Ok) << built[0].detail;
}

TEST_F(Pool, AnswersForWorkersThatDie) {
  BuildPoolOptions bad = options();
  bad.program = "/bin/false";
  BuildPool pool(bad);
  const auto built = pool.build(convolution(), "native", {{}, {}, {}});
  for (const BuiltCandidate& candidate : built) {
    EXPECT_EQ(candidate.outcome, Outcome::CompileError);
    EXPECT_EQ(candidate.detail, "the compiler ended early");
  }
}

TEST_F(Pool, StopsWaitingForWorkersThatHang) {
  BuildPoolOptions bad = options();
  bad.program = "/usr/bin/yes";   // never reads, and what it writes is no answer
  bad.timeout_seconds = 1;
  EXPECT_NE(BuildPool(bad).build(convolution(), "native", {{}})[0].outcome, Outcome::Ok);
  bad.timeout_seconds = 0.0001;
  bad.program = options().program;
  const auto late = BuildPool(bad).build(convolution(), "native", {{}})[0];
  EXPECT_EQ(late.outcome, Outcome::Timeout) << late.detail;
}

TEST_F(Pool, SaysThatItsProgramIsMissing) {
  BuildPoolOptions bad = options();
  bad.program = "/nowhere/tc-builder";
  try {
    BuildPool(bad).build(convolution(), "native", {{}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cannot start /nowhere/tc-builder"), std::string::npos) << error.what();
  }
}

TEST_F(Pool, ReferencesComeFromItsWorkers) {
  BuildPool pool(options());
  const KernelProgram program = convolution();
  const auto two = pool.reference(program, "native", {1, 2});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0], reference_outputs(program, parse_target("native"), 1));
  EXPECT_NE(two[0], two[1]);
}

}  // namespace
}  // namespace tc::testing
