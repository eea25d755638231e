// Contexts: binding shapes, running, threads, errors.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "fakes.h"
#include "runtime/memory_present.h"

namespace tc {
namespace {

TEST(Run, RightForEveryThreadCountAndShape) {
  const ModelPtr model = open_linked(tc_model_fake);
  for (int threads : {0, 1, 2, 3, 4, 7, 16}) {
    const ContextPtr context = make_context(model, threads);
    for (int64_t batch : {1, 2, 5, 100, 3, 20000, 1})
      EXPECT_EQ(run_fake(context.get(), batch, threads), "") << threads << " " << batch;
    EXPECT_EQ(tc_context_threads_used(context.get()), threads > 0 ? threads : tc_core_count());
  }
}

TEST(Run, ManyRunsOfOneContext) {
  const ModelPtr model = open_linked(tc_model_fake);
  const ContextPtr context = make_context(model, 4);
  for (int i = 0; i < 500; ++i) ASSERT_EQ(run_fake(context.get(), 1 + i % 9, i), "");
}

TEST(Run, RightWithoutPolling) {
  tc_set_spin_time(0);
  const ModelPtr model = open_linked(tc_model_fake);
  const ContextPtr context = make_context(model, 4);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(run_fake(context.get(), 1 + i % 9, i), "");
  tc_set_spin_time(100);
}

TEST(Run, SixtyFourUserThreads) {
  const ModelPtr model = open_linked(tc_model_fake);
  std::atomic<int> failures{0};
  std::vector<std::thread> users;
  for (int user = 0; user < 64; ++user)
    users.emplace_back([&, user] {
      const ContextPtr context = make_context(model, 1 + user % 4);
      for (int i = 0; i < 50; ++i)
        if (!run_fake(context.get(), 1 + (user + i) % 40, user * 100 + i).empty()) ++failures;
    });
  for (std::thread& user : users) user.join();
  EXPECT_EQ(failures, 0);
}

TEST(Run, NullArguments) {
  const ModelPtr model = open_linked(tc_model_fake);
  const ContextPtr context = make_context(model, 1);
  EXPECT_EQ(tc_model_get_info(model.get(), nullptr), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(tc_last_error(), "tc_model_get_info: info is null");
  const tc_shape shapes[] = {{nullptr, 2, 0}, {nullptr, 2, 0}};
  EXPECT_EQ(tc_context_bind(context.get(), shapes, 2), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(tc_last_error(), "tc_context_bind: the sizes of input 'x' are null");
  ASSERT_EQ(bind_fake(context.get(), 1, 1), TC_OK);
  EXPECT_EQ(tc_context_run(context.get(), nullptr, 2, nullptr, 3), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(tc_last_error(), "tc_context_run: inputs or outputs is null");
  EXPECT_EQ(tc_context_run(context.get(), nullptr, 1, nullptr, 3), TC_ERROR_ARGUMENT);
  const std::string counts = tc_last_error();
  EXPECT_NE(counts.find("tc_context_run: 1 inputs and 3 outputs; model '"), std::string::npos) << counts;
}

TEST(Run, ShapesThatNoMachineHasRoomFor) {
  tc_descriptor descriptor = tc_model_fake;
  const tc_symbol wide = {"batch", 1, int64_t{1} << 60};
  descriptor.symbols = &wide;
  const ModelPtr model = open_linked(descriptor);
  const ContextPtr context = make_context(model, 1);
  EXPECT_EQ(bind_fake(context.get(), int64_t{1} << 41, int64_t{1} << 41), TC_ERROR_MEMORY);
  std::string said = tc_last_error();
  const std::string told =
      std::string("MB of working memory for these shapes, which cannot be had (") +
      (runtime::memory_present().of_group ? "the control group of this process, as of a container, allows "
                                          : "this machine has ");
  EXPECT_NE(said.find(told), std::string::npos) << said;
  EXPECT_EQ(bind_fake(context.get(), int64_t{1} << 44, int64_t{1} << 44), TC_ERROR_SHAPE);
  said = tc_last_error();
  EXPECT_EQ(said, "model 'fake': these shapes are too large, or too small for a window");
}

TEST(Run, ContextInUseIsBusy) {
  const ModelPtr model = open_linked(tc_model_fake);
  const ContextPtr context = make_context(model, 1);
  std::atomic<int> done{0}, busy{0}, other{0};
  std::vector<std::thread> users;
  for (int user = 0; user < 2; ++user)
    users.emplace_back([&] {
      while (busy == 0 && done < 20000) {
        const std::string text = run_fake(context.get(), 2000, 0);
        if (text.empty()) ++done;
        else if (text ==
                 "a context of model 'fake' is running in another thread; give each "
                 "thread its own")
          ++busy;
        else ++other;
      }
    });
  for (std::thread& user : users) user.join();
  EXPECT_GT(busy, 0);
  EXPECT_EQ(other, 0);
}

void expect_shape_error(tc_context* context, int64_t x, int64_t y, const std::string& text) {
  EXPECT_EQ(bind_fake(context, x, y), TC_ERROR_SHAPE);
  EXPECT_EQ(std::string(tc_last_error()), text);
}

TEST(Bind, NamesInputAxisAndExpectation) {
  const ModelPtr model = open_linked(tc_model_fake);
  const ContextPtr context = make_context(model, 1);
  tc_context* c = context.get();
  EXPECT_EQ(tc_context_output_shape(c, 0, nullptr, nullptr, nullptr), TC_ERROR_SHAPE);
  EXPECT_STREQ(tc_last_error(),
               "tc_context_output_shape: model 'fake' has no shapes yet; call "
               "tc_context_bind first");
  expect_shape_error(c, 4, 5,
                     "input 'y': axis 0 ('batch') is 5, but axis 0 of input 'x' makes "
                     "'batch' 4");
  expect_shape_error(c, 0, 0, "input 'x': axis 0 ('batch') is 0; the model takes 1 to 100000");
  expect_shape_error(c, -1, 2, "input 'x': axis 0 has the size -1");
  const int64_t dims[] = {4, 5, 6};
  const tc_shape wrong_size[] = {{dims, 2, 0}, {dims, 2, 0}};
  EXPECT_EQ(tc_context_bind(c, wrong_size, 2), TC_ERROR_SHAPE);
  EXPECT_STREQ(tc_last_error(), "input 'x': axis 1 is 5; the model expects 3");
  const tc_shape wrong_rank[] = {{dims, 3, 0}, {dims, 2, 0}};
  EXPECT_EQ(tc_context_bind(c, wrong_rank, 2), TC_ERROR_SHAPE);
  EXPECT_STREQ(tc_last_error(), "input 'x' has rank 3; the model expects rank 2");
  EXPECT_EQ(tc_context_bind(c, wrong_rank, 1), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(tc_last_error(), "tc_context_bind: 1 shapes; model 'fake' has 2 inputs");
  EXPECT_EQ(tc_context_run(c, nullptr, 2, nullptr, 3), TC_ERROR_ARGUMENT);
  EXPECT_EQ(run_fake(c, 4, 0), "");
}

TEST(Bind, SizesAndMemory) {
  const ModelPtr model = open_linked(tc_model_fake);
  const ContextPtr context = make_context(model, 3);
  ASSERT_EQ(bind_fake(context.get(), 7, 7), TC_OK);
  int64_t dims[TC_MAX_RANK];
  int32_t rank;
  uint64_t bytes;
  ASSERT_EQ(tc_context_output_shape(context.get(), 2, dims, &rank, &bytes), TC_OK);
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(dims[0], 14);
  EXPECT_EQ(bytes, 14u);
  ASSERT_EQ(tc_context_input_shape(context.get(), 1, dims, &rank, &bytes), TC_OK);
  EXPECT_EQ(dims[0], 7);
  EXPECT_EQ(dims[1], 3);
  EXPECT_EQ(bytes, 84u);
  tc_memory_info memory = {};
  memory.struct_size = sizeof memory;
  ASSERT_EQ(tc_context_memory(context.get(), &memory), TC_OK);
  EXPECT_EQ(memory.constant_bytes, 64);
  EXPECT_EQ(memory.arena_bytes, 7 * 3 * 4 * 2);
  EXPECT_EQ(memory.scratch_bytes, 3 * 64);
}

TEST(Run, ChecksBuffers) {
  const ModelPtr model = open_linked(tc_model_fake);
  const ContextPtr context = make_context(model, 1);
  ASSERT_EQ(bind_fake(context.get(), 1, 1), TC_OK);
  alignas(8) char memory[64] = {};
  int64_t shape[2];
  const auto text = [&](const void* x, uint64_t bytes, void* z) -> std::string {
    const tc_input_buffer inputs[] = {{x, bytes}, {memory + 16, 12}};
    const tc_output_buffer outputs[] = {{z, 12}, {shape, 16}, {memory + 48, 2}};
    return tc_context_run(context.get(), inputs, 2, outputs, 3) == TC_OK ? "" : tc_last_error();
  };
  EXPECT_EQ(text(memory, 12, memory + 32), "");
  EXPECT_EQ(text(memory, 16, memory + 32), "input 'x': the buffer has 16 bytes; the shape needs 12");
  EXPECT_EQ(text(nullptr, 12, memory + 32), "input 'x': the buffer is null");
  EXPECT_EQ(text(memory + 2, 12, memory + 32),
            "input 'x': the buffer is not aligned to its elements' 4 bytes");
  EXPECT_EQ(text(memory, 12, nullptr), "output 'z': the buffer is null");
}

TEST(Create, ChecksThreads) {
  const ModelPtr model = open_linked(tc_model_fake);
  tc_context* context = nullptr;
  EXPECT_EQ(tc_context_create(model.get(), -1, &context), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(tc_last_error(),
               "tc_context_create: -1 threads; give 1 to 1024, or 0 for the model's default");
  EXPECT_EQ(tc_context_create(model.get(), 1025, &context), TC_ERROR_ARGUMENT);
  EXPECT_EQ(tc_context_create(nullptr, 1, &context), TC_ERROR_ARGUMENT);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(tc_context_run(nullptr, nullptr, 0, nullptr, 0), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(tc_last_error(), "tc_context_run: the context handle is null or destroyed");
}

// A model without symbols, inputs or outputs, whose parts the tests replace.
tc_descriptor bare() {
  tc_descriptor d = tc_model_fake;
  d.input_count = d.output_count = d.symbol_count = 0;
  d.bind = [](const int64_t*, int64_t*) { return int64_t{0}; };
  return d;
}

TEST(Create, TellsMemoryThatCannotBeHad) {
  tc_descriptor d = bare();
  d.bind = [](const int64_t*, int64_t*) { return int64_t{1} << 45; };
  const ModelPtr model = open_linked(d);
  tc_context* context = nullptr;
  EXPECT_EQ(tc_context_create(model.get(), 1, &context), TC_ERROR_MEMORY);
  EXPECT_NE(std::string(tc_last_error()).find("model 'fake' needs 35184372.1 MB of working memory"),
            std::string::npos)
      << tc_last_error();
  d.bind = [](const int64_t*, int64_t*) { return int64_t{-1}; };
  const ModelPtr overflowing = open_linked(d);
  EXPECT_EQ(tc_context_create(overflowing.get(), 1, &context), TC_ERROR_SHAPE);
  EXPECT_STREQ(tc_last_error(), "model 'fake': these shapes are too large, or too small for a window");
}

TEST(Run, BlocksAreAligned) {
  tc_descriptor d = bare();
  static std::atomic<int> misaligned;
  misaligned = 0;
  d.scratch_bytes = 100;
  d.bind = [](const int64_t*, int64_t*) { return int64_t{5000001}; };
  d.run = [](const tc_frame* frame) {
    if (reinterpret_cast<uintptr_t>(frame->arena) % 64 != 0) ++misaligned;
    if (reinterpret_cast<uintptr_t>(frame->scratch) % 64 != 0) ++misaligned;
    if (frame->scratch < frame->arena + 5000001) ++misaligned;
    frame->arena[0 + frame->thread] = frame->scratch[99] = 1;
  };
  const ModelPtr model = open_linked(d);
  const ContextPtr context = make_context(model, 3);
  EXPECT_EQ(tc_context_run(context.get(), nullptr, 0, nullptr, 0), TC_OK);
  EXPECT_EQ(misaligned, 0);
}

TEST(Run, ScratchMemoryMayDependOnSizes) {
  tc_descriptor d = bare();
  static std::atomic<int64_t> apart;
  apart = 0;
  d.abi_version = 4;
  d.scratch_bytes = 100;
  d.run = [](const tc_frame* frame) { apart += frame->thread == 1 ? frame->scratch - frame->arena : 0; };
  d.scratch = [](const int64_t*) { return int64_t{1000}; };
  const auto stride = [&] {
    const ModelPtr model = open_linked(d);
    const ContextPtr context = make_context(model, 2);
    EXPECT_EQ(tc_context_run(context.get(), nullptr, 0, nullptr, 0), TC_OK);
    return apart.exchange(0);
  };
  EXPECT_EQ(stride(), 1024);
  d.scratch = [](const int64_t*) { return int64_t{10}; };
  EXPECT_EQ(stride(), 128);
  d.abi_version = 3;  // has no such field
  d.scratch = [](const int64_t*) { return int64_t{1000}; };
  EXPECT_EQ(stride(), 128);
  d.abi_version = 4;
  d.scratch = [](const int64_t*) { return int64_t{-1}; };
  const ModelPtr overflowing = open_linked(d);
  tc_context* context = nullptr;
  EXPECT_EQ(tc_context_create(overflowing.get(), 1, &context), TC_ERROR_SHAPE);
  EXPECT_STREQ(tc_last_error(), "model 'fake': these shapes are too large, or too small for a window");
}

// Thread 0 has the rest of its scratch memory in the arena.
TEST(Run, TheFirstThreadMayHaveLessScratchMemory) {
  tc_descriptor d = bare();
  static std::atomic<int64_t> begins[3];
  d.abi_version = 5;
  d.scratch_bytes = 100;
  d.first_scratch_bytes = 0;
  d.scratch = nullptr;
  d.run = [](const tc_frame* frame) { begins[frame->thread] = frame->scratch - frame->arena; };
  const auto expect = [&](const std::vector<int64_t>& wanted, int64_t all) {
    const ModelPtr model = open_linked(d);
    const ContextPtr context = make_context(model, 3);
    EXPECT_EQ(tc_context_run(context.get(), nullptr, 0, nullptr, 0), TC_OK);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(begins[i], wanted[i]) << "thread " << i;
    tc_memory_info memory = {};
    memory.struct_size = sizeof memory;
    EXPECT_EQ(tc_context_memory(context.get(), &memory), TC_OK);
    EXPECT_EQ(memory.scratch_bytes, all);
  };
  expect({0, 0, 128}, 256);
  d.first_scratch_bytes = 10;
  expect({0, 64, 192}, 320);
  d.scratch = [](const int64_t*) { return int64_t{70}; };  // each thread's, whatever else it has
  expect({0, 128, 256}, 384);
  d.abi_version = 4;  // has no such field
  expect({0, 128, 256}, 384);
  d.scratch = nullptr;
  expect({0, 128, 256}, 384);
}

// Output 0 of the fake model may lie in its input 1; all of them have the same shape.
constexpr int32_t kPairs[] = {1, -1, -1};

TEST(Run, OutputsMayLieInInputs) {
  tc_descriptor d = tc_model_fake;
  EXPECT_EQ(tc_model_output_in_place(open_linked(d).get(), 0), -1);
  d.in_place = kPairs;
  const ModelPtr model = open_linked(d);
  EXPECT_EQ(tc_model_output_in_place(model.get(), 0), 1);
  for (int32_t index : {-1, 1, 2, 3}) EXPECT_EQ(tc_model_output_in_place(model.get(), index), -1);
  EXPECT_EQ(tc_model_output_in_place(nullptr, 0), -1);
  const ContextPtr context = make_context(model, 1);
  EXPECT_EQ(run_fake(context.get(), 5, 1), "");  // apart
  const int64_t dims[] = {2, 3};
  const tc_shape shapes[] = {{dims, 2, 0}, {dims, 2, 0}};
  ASSERT_EQ(tc_context_bind(context.get(), shapes, 2), TC_OK);
  alignas(64) float values[32] = {};
  int64_t shape[2];
  uint8_t ones[4];
  float* const y = values + 16;
  const auto run = [&](float* z) {
    const tc_input_buffer inputs[] = {{values, 24}, {y, 24}};
    const tc_output_buffer outputs[] = {{z, 24}, {shape, 16}, {ones, 4}};
    return tc_context_run(context.get(), inputs, 2, outputs, 3);
  };
  EXPECT_EQ(run(y), TC_OK);
  EXPECT_EQ(y[5], 20);
  EXPECT_EQ(run(y + 1), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(
      tc_last_error(),
      "tc_context_run: the buffers of input 'y' and output 'z' overlap; give the output the buffer of "
      "input 'y', or one apart from all inputs");
  EXPECT_EQ(run(values), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(
      tc_last_error(),
      "tc_context_run: the buffers of input 'x' and output 'z' overlap; give the output the buffer of "
      "input 'y', or one apart from all inputs");
  EXPECT_EQ(run(y + 6), TC_OK);
}

TEST(Run, RefusesPairsThatCannotBe) {
  tc_descriptor d = tc_model_fake;
  tc_model* model = nullptr;
  const auto refusal = [&](const int32_t* pairs) {
    d.in_place = pairs;
    EXPECT_EQ(tc_model_open_linked(&d, &model), TC_ERROR_MODEL);
    return std::string(tc_last_error());
  };
  const int32_t outside[] = {2, -1, -1}, twice[] = {0, 0, -1}, other[] = {-1, 0, -1};
  const std::string begin = "linked model: the model's descriptor is damaged (",
                    end = "); compile the model again";
  EXPECT_EQ(refusal(outside), begin + "an output lies in an input that there is not" + end);
  EXPECT_EQ(refusal(other), begin + "an output lies in an input of another type" + end);
  tc_port outputs[3] = {d.outputs[0], d.outputs[0], d.outputs[2]};
  d.outputs = outputs;
  EXPECT_EQ(refusal(twice), begin + "two outputs lie in one input" + end);
  d.abi_version = 5;  // has no such field
  EXPECT_EQ(tc_model_open_linked(&d, &model), TC_OK);
  tc_model_close(model);
}

TEST(Run, ReportsSteps) {
  const ModelPtr model = open_linked(tc_model_fake);
  const ContextPtr context = make_context(model, 2);
  std::vector<int> steps;
  ASSERT_EQ(
      tc_context_set_profile(
          context.get(),
          [](void* user, int32_t step) { static_cast<std::vector<int>*>(user)->push_back(step); }, &steps),
      TC_OK);
  EXPECT_EQ(run_fake(context.get(), 3, 0), "");
  ASSERT_EQ(steps.size(), 22u);
  EXPECT_EQ(steps[0], 0);
  EXPECT_EQ(steps[1], 1);
  EXPECT_EQ(steps[21], 2);
  ASSERT_EQ(tc_context_set_profile(context.get(), nullptr, nullptr), TC_OK);
  EXPECT_EQ(run_fake(context.get(), 3, 0), "");
  EXPECT_EQ(steps.size(), 22u);
}

#if defined(__x86_64__)
TEST(Run, FloatModeIsTheDefaultAndRestored) {
  tc_descriptor d = bare();
  static std::atomic<int> strange;
  strange = 0;
  d.run = [](const tc_frame* frame) {
    frame->barrier(frame);
    if ((__builtin_ia32_stmxcsr() & 0xffc0u) != 0x1f80u) ++strange;
  };
  const ModelPtr model = open_linked(d);
  const unsigned old = __builtin_ia32_stmxcsr();
  constexpr unsigned kFlushing = 0x9fc0;  // denormals flushed
  __builtin_ia32_ldmxcsr(kFlushing);
  const ContextPtr context = make_context(model, 4);
  const tc_status status = tc_context_run(context.get(), nullptr, 0, nullptr, 0);
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(old);
  EXPECT_EQ(status, TC_OK);
  EXPECT_EQ(after, kFlushing);
  EXPECT_EQ(strange, 0);
}
#endif

// A model that makes as many bytes as `grown_bytes` says, in a segment that it grows first.
int64_t grown_bytes = 0;

tc_descriptor growing() {
  static const tc_dim dims[] = {{0, -3, 0}};
  static const tc_port port = {"y", TC_U8, 1, dims};
  static const char* const steps[] = {"size 'n' of node 'find'"};
  tc_descriptor d = bare();
  d.abi_version = 3;
  d.output_count = 1;
  d.outputs = &port;
  d.step_count = 1;
  d.steps = steps;
  d.segment_count = 1;
  d.bind = [](const int64_t*, int64_t* output_dims) {
    output_dims[0] = -1;
    return int64_t{0};
  };
  d.run = [](const tc_frame* frame) {
    if (frame->thread == 0) frame->grow(frame, 0, 0, grown_bytes, grown_bytes, 100000);
    frame->barrier(frame);
    if (frame->segments[0] == nullptr) return;
    if (frame->thread != 0) return;
    memset(frame->segments[0], 7, static_cast<size_t>(grown_bytes));
    frame->output_data[0] = frame->segments[0];
    frame->output_dims[0] = grown_bytes;
  };
  return d;
}

TEST(Run, GrowsSegments) {
  const tc_descriptor d = growing();
  const ModelPtr model = open_linked(d);
  const ContextPtr context = make_context(model, 2);
  int64_t dims[TC_MAX_RANK] = {};
  uint64_t bytes = 1;
  ASSERT_EQ(tc_context_output_shape(context.get(), 0, dims, nullptr, &bytes), TC_OK);
  EXPECT_EQ(dims[0], -1);
  EXPECT_EQ(bytes, 0u);
  const tc_output_buffer none = {nullptr, 0};
  const void* data = nullptr;
  EXPECT_EQ(tc_context_result_data(context.get(), 0, &data), TC_ERROR_ARGUMENT);
  for (const int64_t size :
       {int64_t{10}, int64_t{90000}, int64_t{200000}, int64_t{0}, int64_t{-1}, int64_t{5000}}) {
    grown_bytes = size;
    const tc_status status = tc_context_run(context.get(), nullptr, 0, &none, 1);
    if (size < 0 || size > 100000) {
      EXPECT_EQ(status, TC_ERROR_MEMORY);
      const std::string error = tc_last_error();
      EXPECT_NE(error.find(size < 0 ? "and tensors of that size are too large for any memory"
                                    : "take 0.2 MB, beyond the 0.1 MB"),
                std::string::npos)
          << error;
      EXPECT_NE(error.find("size 'n' of node 'find' is " + std::to_string(size)), std::string::npos) << error;
      continue;
    }
    ASSERT_EQ(status, TC_OK) << tc_last_error();
    ASSERT_EQ(tc_context_result_shape(context.get(), 0, dims, nullptr, &bytes), TC_OK);
    EXPECT_EQ(bytes, static_cast<uint64_t>(size));
    ASSERT_EQ(tc_context_result_data(context.get(), 0, &data), TC_OK);
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(static_cast<const uint8_t*>(data)[i], 7);
  }
  EXPECT_EQ(tc_context_result_data(context.get(), 1, &data), TC_ERROR_ARGUMENT);
  uint8_t room[16];
  const tc_output_buffer buffer = {room, sizeof room};
  EXPECT_EQ(tc_context_run(context.get(), nullptr, 0, &buffer, 1), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(
      tc_last_error(),
      "output 'y': its size has no bound, so that it takes no buffer; give null and read tc_context_result_data after the run");
}

TEST(Pool, IdleThreadsUseNoTime) {
  const ModelPtr model = open_linked(tc_model_fake);
  const ContextPtr context = make_context(model, 4);
  ASSERT_EQ(run_fake(context.get(), 100, 0), "");
  usleep(20000);
  timespec before, after;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  usleep(300000);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  const double seconds = static_cast<double>(after.tv_sec - before.tv_sec) +
                         static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-9;
  EXPECT_LT(seconds, 0.01);
}

#if !defined(__SANITIZE_THREAD__)
TEST(Pool, WorksAfterFork) {
  const ModelPtr model = open_linked(tc_model_fake);
  const ContextPtr context = make_context(model, 4);
  ASSERT_EQ(run_fake(context.get(), 100, 0), "");
  const pid_t child = fork();
  if (child == 0) {
    const bool right = run_fake(context.get(), 50, 3).empty() && tc_context_threads_used(context.get()) == 4;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(run_fake(context.get(), 100, 0), "");
}
#endif

}  // namespace
}  // namespace tc
