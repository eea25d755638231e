// Plans: descriptor, bind, run with threads, constants, linking and determinism.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>

#include "codegen/llvm/artefact/link.h"
#include "codegen/llvm/kernel_code.h"
#include "ir/error.h"
#include "runtime/abi.h"
#include "tests/codegen_harness.h"
#include "tests/codegen_kernels.h"
#include "tests/small_plan.h"

namespace tc::testing {
namespace {

struct Owner {
  std::barrier<>* barrier;
  std::vector<int32_t>* done;
};

void wait(const tc_frame* frame) { static_cast<Owner*>(frame->owner)->barrier->arrive_and_wait(); }
void note(const tc_frame* frame, int32_t step) { static_cast<Owner*>(frame->owner)->done->push_back(step); }

TEST(CodegenPlan, DescriptorTellsThePlan) {
  const Plan plan = small_plan();
  const Loaded model(plan);
  const tc_descriptor& d = *model.descriptor;
  EXPECT_EQ(d.magic, TC_ABI_MAGIC);
  EXPECT_EQ(d.abi_version, 1u);
  EXPECT_EQ(d.struct_size, offsetof(tc_descriptor, scratch));  // no size decides what it takes
  EXPECT_STREQ(d.model, "small");
  EXPECT_STREQ(d.target, "test");
  EXPECT_STREQ(d.provenance, "by hand");
  EXPECT_NE(std::string(d.features).find("avx2"), std::string::npos) << d.features;
  ASSERT_EQ(d.input_count, 2);
  ASSERT_EQ(d.output_count, 2);
  ASSERT_EQ(d.symbol_count, 1);
  // Two copies and three calls, the loop and the branch.
  ASSERT_EQ(d.step_count, 7);
  EXPECT_STREQ(d.steps[1], "thrice");
  EXPECT_STREQ(d.steps[3], "copy");
  EXPECT_STREQ(d.steps[4], "if");
  EXPECT_STREQ(d.symbols[0].name, "seq");
  EXPECT_EQ(d.symbols[0].minimum, 1);
  EXPECT_EQ(d.symbols[0].maximum, 5000);
  EXPECT_STREQ(d.inputs[0].name, "x");
  EXPECT_EQ(d.inputs[0].dtype, TC_F32);
  EXPECT_EQ(d.inputs[0].rank, 1);
  EXPECT_EQ(d.inputs[0].dims[0].symbol, 0);
  EXPECT_EQ(d.inputs[1].dims[0].symbol, -1);
  EXPECT_EQ(d.inputs[1].dims[0].value, 1);
  EXPECT_EQ(d.outputs[0].dims[0].symbol, -2);
  EXPECT_EQ(d.outputs[1].dims[0].symbol, 0);
  EXPECT_EQ(d.constant_bytes, 64 + (5000 * 4 + 63) / 64 * 64);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(d.constants) % 64, 0u);
  EXPECT_EQ(std::memcmp(d.constants + 64, plan.constants[1].make()->bytes.data(), 20000), 0);
}

TEST(CodegenPlan, BindComputesSizesAndRefusesRanges) {
  const Loaded model(small_plan());
  int64_t dims[3] = {};
  int64_t seq = 100;
  EXPECT_EQ(model.descriptor->bind(&seq, dims), (400 + 63) / 64 * 128);
  EXPECT_EQ(dims[0], 200);
  EXPECT_EQ(dims[1], 100);
  EXPECT_EQ(dims[2], 3);
  for (const int64_t wrong : {int64_t{0}, int64_t{5001}, int64_t{-1}, INT64_MAX}) {
    seq = wrong;
    EXPECT_LT(model.descriptor->bind(&seq, dims), 0) << wrong;
  }
}

TEST(CodegenPlan, BindRefusesOverflow) {
  Plan plan = small_plan();
  plan.symbols["seq"].second = INT64_MAX;
  plan.arena_bytes = Dim::symbol("seq") * Dim::symbol("seq");
  const Loaded model(plan);
  int64_t dims[3] = {};
  int64_t seq = int64_t{1} << 31;
  EXPECT_EQ(model.descriptor->bind(&seq, dims), int64_t{1} << 62);
  seq = int64_t{1} << 32;
  EXPECT_LT(model.descriptor->bind(&seq, dims), 0);
}

TEST(CodegenPlan, RunsWithThreads) {
  const Plan plan = small_plan();
  const Loaded model(plan);
  for (const int threads : {1, 2, 3}) {
    for (const int64_t seq : {1, 17, 64, 4999}) {
      for (const bool flag : {false, true}) {
        const Tensor x = seeded(DType::F32, {seq}, 3);
        std::vector<float> y(static_cast<size_t>(2 * seq) + 1, -99), n(static_cast<size_t>(3 * seq));
        uint8_t flag_byte = flag;
        int64_t dims[3];
        const int64_t arena_bytes = model.descriptor->bind(&seq, dims);
        void* arena = std::aligned_alloc(64, static_cast<size_t>(arena_bytes));
        std::memset(arena, 0xff, static_cast<size_t>(arena_bytes));
        void* inputs[] = {const_cast<uint8_t*>(x.bytes.data()), &flag_byte};
        void* outputs[] = {y.data(), n.data()};
        std::barrier<> barrier(threads);
        std::vector<int32_t> done;
        Owner owner{&barrier, &done};
        std::vector<std::thread> pool;
        for (int thread = 0; thread < threads; ++thread) {
          pool.emplace_back([&, thread] {
            alignas(64) uint8_t scratch[64];
            tc_frame frame = {inputs,  outputs, static_cast<uint8_t*>(arena),
                              scratch, &seq,    thread,
                              threads, wait,    note,
                              &owner,  nullptr, nullptr};
            model.descriptor->run(&frame);
          });
        }
        for (std::thread& thread : pool) thread.join();
        EXPECT_EQ(done, (std::vector<int32_t>{0, 2, 2, 2, 1, 3, flag ? 5 : 6, 4}));
        const TensorPtr constant = plan.constants[1].make();
        const float* c = constant->data<float>();
        // The second trip's result; a fourth trip would have overwritten it.
        const float* second = static_cast<const float*>(arena);
        for (int64_t i = 0; i < seq; ++i) {
          const float value = x.data<float>()[i];
          ASSERT_EQ(second[i], ((value + c[i]) + value) + value) << i << " of " << seq;
        }
        std::free(arena);
        for (int64_t i = 0; i < seq; ++i) {
          const float value = x.data<float>()[i];
          ASSERT_EQ(y[static_cast<size_t>(i)], (((value + c[i]) + value) + value) + value)
              << i << " of " << seq << ", threads " << threads;
          ASSERT_EQ(y[static_cast<size_t>(seq + i)], flag ? value + c[i] : value)
              << i << " of " << seq << ", threads " << threads;
        }
        EXPECT_EQ(y.back(), -99);
      }
    }
  }
}

// y = x where seq is 17 and `other` 2, else y = x + c, many times over.
Plan plan_by_sizes(int copies) {
  using Kind = Location::Kind;
  Plan plan;
  plan.model = "sizes";
  plan.target = "test";
  plan.symbols["other"] = {1, 9};
  plan.symbols["seq"] = {1, 5000};
  const Dim seq = Dim::symbol("seq");
  plan.inputs = {{"x", DType::F32, {seq}}, {"unused", DType::F32, {Dim::symbol("other")}}};
  plan.outputs = {{"y", DType::F32, {seq}}};
  plan.constants = {PlanConstant(std::make_shared<Tensor>(seeded(DType::F32, {5000}, 7)))};
  plan.kernels = {symbolic_add(Scope::Constant)};
  PlanStep copy;
  copy.kind = PlanStep::Kind::Copy;
  copy.locations = {at(Kind::Output, 0), at(Kind::Input, 0)};
  copy.bytes = 17 * 4;
  PlanStep branch;
  branch.kind = PlanStep::Kind::If;
  branch.sizes = {{seq, 17}, {Dim::symbol("other"), 2}};
  branch.body = PlanSteps(static_cast<size_t>(copies), copy);
  branch.otherwise =
      PlanSteps(static_cast<size_t>(copies),
                call(0, {at(Kind::Input, 0), at(Kind::Constant, 0), at(Kind::Output, 0)}, {seq}));
  plan.steps = {branch};
  return plan;
}

// In one function, and in several.
TEST(CodegenPlan, BranchesBySizes) {
  for (const int copies : {1, 600}) {
    const Plan plan = plan_by_sizes(copies);
    const Loaded model(plan);
    const TensorPtr constant = plan.constants[0].make();
    for (const auto& [other, seq] : {std::pair<int64_t, int64_t>{2, 17}, {3, 17}, {2, 18}, {1, 1}}) {
      for (const int threads : {1, 2}) {
        const Tensor x = seeded(DType::F32, {seq}, 3), unused = seeded(DType::F32, {other}, 4);
        std::vector<float> y(static_cast<size_t>(seq) + 1, -99);
        void* inputs[] = {const_cast<uint8_t*>(x.bytes.data()), const_cast<uint8_t*>(unused.bytes.data())};
        void* outputs[] = {y.data()};
        const int64_t symbols[] = {other, seq};
        std::barrier<> barrier(threads);
        std::vector<int32_t> done;
        Owner owner{&barrier, &done};
        std::vector<std::thread> pool;
        for (int thread = 0; thread < threads; ++thread) {
          pool.emplace_back([&, thread] {
            alignas(64) uint8_t memory[64], scratch[64];
            tc_frame frame = {inputs,  outputs, memory, scratch, symbols, thread,
                              threads, wait,    note,   &owner,  nullptr, nullptr};
            model.descriptor->run(&frame);
          });
        }
        for (std::thread& thread : pool) thread.join();
        const bool copied = seq == 17 && other == 2;
        std::vector<int32_t> expected(static_cast<size_t>(copies));
        std::iota(expected.begin(), expected.end(), copied ? 1 : copies + 1);
        expected.push_back(0);
        EXPECT_EQ(done, expected) << seq << ", " << other;
        for (int64_t i = 0; i < seq; ++i) {
          const float value = x.data<float>()[i];
          ASSERT_EQ(y[static_cast<size_t>(i)], copied ? value : value + constant->data<float>()[i]);
        }
        EXPECT_EQ(y.back(), -99);
      }
    }
  }
}

// So many steps that they are rows of a table: y = x, to which each turn adds a constant, and x or the
// constant again where its flags are set.
constexpr int64_t kWidth = 2048;  // floats: more than one thread copies
Plan long_plan() {
  using Kind = Location::Kind;
  Plan plan;
  plan.model = "long";
  plan.target = "test";
  plan.inputs = {{"x", DType::F32, {Dim(kWidth)}}, {"flags", DType::Bool, {Dim(4)}}};
  plan.outputs = {{"y", DType::F32, {Dim(kWidth)}}};
  const auto sum = [](const std::vector<ExprPtr>& each) { return binary(BinaryOp::Add, each[0], each[1]); };
  plan.kernels = {elementwise(kWidth, 16, DType::F32, DType::F32, sum)};
  auto ones = std::make_shared<Tensor>(DType::F32, std::vector<int64_t>{kWidth});
  for (int64_t i = 0; i < kWidth; ++i) ones->set(i, 1);
  plan.constants = {PlanConstant(std::make_shared<Tensor>(seeded(DType::F32, {3}, 5))), PlanConstant(ones)};
  plan.arena_bytes = 2 * kWidth * 4;
  const Location x = at(Kind::Input, 0), one = at(Kind::Constant, 1);
  const Location now = at(Kind::Arena, 0), next = at(Kind::Arena, 1, kWidth * 4);
  const auto copy = [](const Location& to, const Location& from) {
    PlanStep step;
    step.kind = PlanStep::Kind::Copy;
    step.locations = {to, from};
    step.bytes = kWidth * 4;
    return step;
  };
  const auto branch = [](int64_t flag, PlanSteps body, PlanSteps otherwise) {
    PlanStep step;
    step.kind = PlanStep::Kind::If;
    step.locations = {at(Kind::Input, 1, flag)};
    step.body = std::move(body);
    step.otherwise = std::move(otherwise);
    return step;
  };
  plan.steps = {copy(now, x)};
  for (int64_t i = 0; i < 100; ++i) {
    plan.steps.push_back(call(0, {now, one, next}));
    plan.steps.back().single_thread = i % 3 == 0;
    plan.steps.push_back(copy(now, next));
    const PlanStep inner = branch((i + 1) % 4, {call(0, {now, one, next}), copy(now, next)}, {});
    plan.steps.push_back(branch(i % 4, {call(0, {now, x, next}), copy(now, next), inner}, {copy(next, now)}));
  }
  plan.steps.push_back(copy(at(Kind::Output, 0), now));
  return plan;
}

// What the turns of long_plan() add to x[0] = x, and the numbers of the steps as they end.
float simulate_long(const PlanSteps& steps, const uint8_t* flags, float x, std::vector<int32_t>& done) {
  float now = 0, next = 0;
  int32_t number = 0;
  const std::function<void(const PlanSteps&, bool)> run = [&](const PlanSteps& list, bool runs) {
    for (const PlanStep& step : list) {
      const int32_t own = number++;
      const bool of_input = step.locations.size() > 1 && step.locations[1].kind == Location::Kind::Input;
      if (step.kind == PlanStep::Kind::Call && runs) next = now + (of_input ? x : 1);
      if (step.kind == PlanStep::Kind::Copy && runs && step.locations[0].kind == Location::Kind::Arena) {
        const float from = of_input ? x : step.locations[1].index == 0 ? now : next;
        (step.locations[0].index == 0 ? now : next) = from;
      }
      if (step.kind == PlanStep::Kind::If) {
        const bool is_set = flags[step.locations[0].offset.constant()] != 0;
        run(step.body, runs && is_set);
        run(step.otherwise, runs && !is_set);
      }
      if (runs) done.push_back(own);
    }
  };
  run(steps, true);
  return now;
}

TEST(CodegenPlan, ManyStepsAreRowsOfATable) {
  const Plan plan = long_plan();
  const Loaded model(plan);
  for (const int threads : {1, 2}) {
    for (const unsigned set : {1u, 14u}) {
      uint8_t flags[4];
      for (unsigned i = 0; i < 4; ++i) flags[i] = set >> i & 1;
      std::vector<float> x(kWidth), y(kWidth + 1, -99);
      for (int64_t i = 0; i < kWidth; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i % 7);
      void* arena = std::aligned_alloc(64, 2 * kWidth * 4);
      void* inputs[] = {x.data(), flags};
      void* outputs[] = {y.data()};
      std::barrier<> barrier(threads);
      std::vector<int32_t> done, expected;
      Owner owner{&barrier, &done};
      std::vector<std::thread> pool;
      for (int thread = 0; thread < threads; ++thread) {
        pool.emplace_back([&, thread] {
          alignas(64) uint8_t scratch[64];
          tc_frame frame = {inputs,  outputs, static_cast<uint8_t*>(arena),
                            scratch, nullptr, thread,
                            threads, wait,    note,
                            &owner,  nullptr, nullptr};
          model.descriptor->run(&frame);
        });
      }
      for (std::thread& thread : pool) thread.join();
      for (const size_t i : {size_t{0}, size_t{5}, static_cast<size_t>(kWidth - 1)}) {
        expected.clear();
        ASSERT_EQ(y[i], simulate_long(plan.steps, flags, x[i], expected))
            << i << ", threads " << threads << ", flags " << set;
      }
      EXPECT_EQ(done, expected);
      EXPECT_EQ(y.back(), -99);
      std::free(arena);
    }
  }
}

// y[t] = the element of x that the t-th run of a kernel reads last, going through x by a loop that
// alternates.
Plan alternating_plan() {
  using Kind = Location::Kind;
  ScheduledKernel last = symbolic_add(Scope::Input);
  Kernel& kernel = last.kernel;
  kernel.parameters.clear();
  kernel.buffers.erase(kernel.buffers.begin() + 1);
  kernel.buffers[0].shape = {Affine(5)};
  kernel.buffers[1].shape = {Affine(1)};
  kernel.statements[0].iterators = {{"i", Affine(5)}};
  kernel.statements[0].write = {1, {{Affine(0), nullptr}}};
  kernel.statements[0].value = load(DType::F32, 0, {v("i")});
  TileStatement instance;
  instance.statement = 0;
  instance.iterators = {{"i", v("i1")}};
  last.root = for_loop("i1", 5, leaf({instance}));
  last.root->marks.push_back({"alternate", 0, {}});
  Plan plan;
  plan.model = "alternating";
  plan.target = "test";
  plan.inputs = {{"x", DType::F32, {Dim(5)}}};
  plan.outputs = {{"y", DType::F32, {Dim(5)}}};
  plan.kernels = {last};
  PlanStep loop;
  loop.kind = PlanStep::Kind::Loop;
  loop.symbol = "t";
  loop.trip = 4;
  loop.body = {call(0, {at(Kind::Input, 0), at(Kind::Output, 0, Dim::symbol("t") * 4)})};
  plan.steps = {loop, call(0, {at(Kind::Input, 0), at(Kind::Output, 0, Dim(16))})};
  return plan;
}

TEST(CodegenPlan, EveryOtherRunInALoopGoesBackwards) {
  const Loaded model(alternating_plan());
  float x[5] = {1, 2, 3, 4, 5}, y[5] = {};
  void* inputs[] = {x};
  void* outputs[] = {y};
  tc_frame frame = {};
  frame.inputs = inputs;
  frame.outputs = outputs;
  frame.threads = 1;
  frame.barrier = [](const tc_frame*) {};
  model.descriptor->run(&frame);
  EXPECT_EQ(std::vector<float>(y, y + 5), (std::vector<float>{5, 1, 5, 1, 5}));
}

// The first n elements of x, where n is the first input.
Plan sized_plan() {
  using Kind = Location::Kind;
  Plan plan;
  plan.model = "sized";
  plan.target = "test";
  plan.symbols["seq"] = {1, 5000};
  const Dim seq = Dim::symbol("seq"), n = Dim::symbol("n");
  plan.data_symbols["n"] = seq;
  plan.inputs = {{"count", DType::I64, {}}, {"x", DType::F32, {seq}}};
  plan.outputs = {{"y", DType::F32, {n}}, {"z", DType::F32, {seq + n}}};
  PlanStep bind;
  bind.kind = PlanStep::Kind::Bind;
  bind.symbol = "n";
  bind.bound = seq;
  bind.locations = {at(Kind::Input, 0)};
  bind.label = "size 'n'";
  PlanStep copy;
  copy.kind = PlanStep::Kind::Copy;
  copy.locations = {at(Kind::Output, 0), at(Kind::Input, 1)};
  copy.bytes = n * 4;
  plan.steps = {bind, copy};
  return plan;
}

struct WrongSize {
  std::barrier<>* barrier;
  std::vector<int64_t> told;
};

TEST(CodegenPlan, BindsSizesThatARunComputes) {
  const Loaded model(sized_plan());
  const tc_descriptor& d = *model.descriptor;
  EXPECT_EQ(d.abi_version, 2u);
  EXPECT_EQ(Loaded(small_plan()).descriptor->abi_version, 1u);
  EXPECT_EQ(d.outputs[0].dims[0].symbol, -3);
  EXPECT_EQ(d.outputs[1].dims[0].symbol, -3);
  const int64_t seq = 100;
  int64_t most[2];
  EXPECT_EQ(d.bind(&seq, most), 0);
  EXPECT_EQ(most[0], 100);
  EXPECT_EQ(most[1], 200);
  const Tensor x = seeded(DType::F32, {seq}, 3);
  for (const int threads : {1, 2, 3}) {
    for (const int64_t n : {0, 7, 100, 101, -1}) {
      std::vector<float> y(101, -99), z(201);
      int64_t count = n, sizes[2] = {-5, -5};
      void* inputs[] = {&count, const_cast<uint8_t*>(x.bytes.data())};
      void* outputs[] = {y.data(), z.data()};
      std::barrier<> barrier(threads);
      WrongSize owner{&barrier, {}};
      std::vector<std::thread> pool;
      for (int thread = 0; thread < threads; ++thread) {
        pool.emplace_back([&, thread] {
          alignas(64) uint8_t scratch[64];
          tc_frame frame = {};
          frame.inputs = inputs;
          frame.outputs = outputs;
          frame.scratch = scratch;
          frame.symbols = &seq;
          frame.thread = thread;
          frame.threads = threads;
          frame.barrier = [](const tc_frame* f) {
            static_cast<WrongSize*>(f->owner)->barrier->arrive_and_wait();
          };
          frame.owner = &owner;
          frame.output_dims = sizes;
          frame.wrong_size = [](const tc_frame* f, int32_t step, int64_t size, int64_t bound) {
            static_cast<WrongSize*>(f->owner)->told = {step, size, bound};
          };
          d.run(&frame);
        });
      }
      for (std::thread& thread : pool) thread.join();
      const bool right = n >= 0 && n <= seq;
      EXPECT_EQ(owner.told, right ? std::vector<int64_t>() : (std::vector<int64_t>{0, n, seq}));
      EXPECT_EQ(sizes[0], right ? n : -5);
      EXPECT_EQ(sizes[1], right ? seq + n : -5);
      for (int64_t i = 0; i <= 100; ++i) {
        ASSERT_EQ(y[static_cast<size_t>(i)], right && i < n ? x.data<float>()[i] : -99.0f)
            << i << " of " << n;
      }
    }
  }
}

TEST(CodegenPlan, ErrorsSayWhatIsWrong) {
  const Bytes garbage(100, 7);
  try {
    link_shared({{garbage}}, host_target(), "/tmp/tc-test-never.so");
    FAIL() << "garbage was linked";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    EXPECT_NE(std::string(error.what()).find("linking /tmp/tc-test-never.so failed"), std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(std::filesystem::exists("/tmp/tc-test-never.so"));
  // A later link is not harmed by the failed one.
  const Loaded model(small_plan());
  EXPECT_EQ(model.descriptor->magic, TC_ABI_MAGIC);
  try {
    link_executable({}, host_target(), "/nowhere", {}, "/tmp/tc-test-never");
    FAIL() << "an executable was linked from nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(),
              "cannot link an executable for " + host_target().name + ": /nowhere/crt1.o is missing");
  }
  Target unknown = host_target();
  unknown.triple = "pdp11-unknown-none";
  try {
    kernel_object(symbolic_add(Scope::Input), unknown, "kernel");
    FAIL() << "code for a PDP-11";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Target);
    EXPECT_NE(std::string(error.what()).find("LLVM has no code generator for pdp11-unknown-none"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tc::testing
