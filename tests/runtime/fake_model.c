/* A compiled model written by hand: z = x + y + 20 through the arena, in 20 rounds in which every
 * thread reads what others wrote, and two outputs that depend on the shapes alone. */
#include <stddef.h>
#include <stdint.h>

#include "runtime/abi.h"

#ifndef FAKE_SYMBOL
#define FAKE_SYMBOL tc_model_descriptor
#endif
#ifndef FAKE_VERSION
#define FAKE_VERSION TC_ABI_VERSION
#endif
#ifndef FAKE_MAGIC
#define FAKE_MAGIC TC_ABI_MAGIC
#endif
#ifndef FAKE_SIZE
#define FAKE_SIZE sizeof(tc_descriptor)
#endif
#ifndef FAKE_FEATURES
#define FAKE_FEATURES ""
#endif

enum { kRounds = 20 };

static const tc_symbol symbols[] = {{"batch", 1, 100000}};
static const tc_dim matrix[] = {{0, 0, 0}, {3, -1, 0}};
static const tc_dim pair[] = {{2, -1, 0}};
static const tc_dim doubled[] = {{0, -2, 0}};
static const tc_port inputs[] = {{"x", TC_F32, 2, matrix}, {"y", TC_F32, 2, matrix}};
static const tc_port outputs[] = {
    {"z", TC_F32, 2, matrix}, {"shape", TC_I64, 1, pair}, {"ones", TC_U8, 1, doubled}};
static const char* const steps[] = {"add", "reverse", "rest"};
static const uint8_t constants[64] = {1};

static int64_t bind(const int64_t* values, int64_t* dims) {
  dims[0] = values[0];
  dims[1] = 3;
  dims[2] = 2;
  dims[3] = 2 * values[0];
  return values[0] * 3 * 4 * 2;
}

static void step_done(const tc_frame* frame, int32_t step) {
  if (frame->thread == 0 && frame->step_done != NULL) frame->step_done(frame, step);
}

static void run(const tc_frame* frame) {
  const int64_t count = frame->symbols[0] * 3;
  const int64_t begin = count * frame->thread / frame->threads;
  const int64_t end = count * (frame->thread + 1) / frame->threads;
  const float* x = (const float*)frame->inputs[0];
  const float* y = (const float*)frame->inputs[1];
  float* from = (float*)frame->arena;
  float* to = from + count;
  for (int64_t i = begin; i < end; ++i) from[i] = x[i] + y[i];
  frame->barrier(frame);
  step_done(frame, 0);
  for (int round = 0; round < kRounds; ++round) {
    for (int64_t i = begin; i < end; ++i) {
      float* scratch = (float*)frame->scratch;
      scratch[i % 16] = from[count - 1 - i];
      to[i] = scratch[i % 16] + 1;
    }
    frame->barrier(frame);
    step_done(frame, 1);
    float* old = from;
    from = to;
    to = old;
  }
  float* z = (float*)frame->outputs[0];
  for (int64_t i = begin; i < end; ++i) z[i] = from[i];
  if (frame->thread == 0) {
    int64_t* shape = (int64_t*)frame->outputs[1];
    uint8_t* ones = (uint8_t*)frame->outputs[2];
    shape[0] = frame->symbols[0];
    shape[1] = 3;
    for (int64_t i = 0; i < 2 * frame->symbols[0]; ++i) ones[i] = constants[0];
  }
  frame->barrier(frame);
  step_done(frame, 2);
}

extern const tc_descriptor FAKE_SYMBOL;
const tc_descriptor FAKE_SYMBOL = {
    .magic = FAKE_MAGIC,
    .abi_version = FAKE_VERSION,
    .struct_size = FAKE_SIZE,
    .model = "fake",
    .target = "x86-64-v9",
    .features = FAKE_FEATURES,
    .provenance = "written by hand",
    .input_count = 2,
    .output_count = 3,
    .symbol_count = 1,
    .step_count = 3,
    .inputs = inputs,
    .outputs = outputs,
    .symbols = symbols,
    .steps = steps,
    .bind = bind,
    .run = run,
    .scratch_bytes = 64,
    .first_scratch_bytes = 64,
    .constants = constants,
    .constant_bytes = sizeof constants,
    .default_threads = 0,
};
