/* A compiled model written by hand: y = 2 * x of fixed shape, each thread its part. */
#include <stddef.h>

#include "runtime/abi.h"

static const tc_dim dims[] = {{10, -1, 0}, {100, -1, 0}};
static const tc_port inputs[] = {{"x", TC_F32, 2, dims}};
static const tc_port outputs[] = {{"y", TC_F32, 2, dims}};
static const char* const steps[] = {"double"};

static int64_t bind(const int64_t* values, int64_t* sizes) {
  (void)values;
  sizes[0] = 10;
  sizes[1] = 100;
  return 0;
}

#ifndef REPEAT
#define REPEAT 1
#endif

static void run(const tc_frame* frame) {
  const float* x = (const float*)frame->inputs[0];
  float* y = (float*)frame->outputs[0];
  for (volatile int again = 0; again < REPEAT; ++again)
    for (int64_t i = 1000 * frame->thread / frame->threads; i < 1000 * (frame->thread + 1) / frame->threads;
         ++i)
      y[i] = 2 * x[i];
}

extern const tc_descriptor tc_model_descriptor;
const tc_descriptor tc_model_descriptor = {
    .magic = TC_ABI_MAGIC,
    .abi_version = TC_ABI_VERSION,
    .struct_size = sizeof(tc_descriptor),
    .model = "double",
    .target = "any",
    .features = "",
    .provenance = "written by hand",
    .input_count = 1,
    .output_count = 1,
    .step_count = 1,
    .inputs = inputs,
    .outputs = outputs,
    .steps = steps,
    .bind = bind,
    .run = run,
};
