/* A compiled model written by hand, linked as exported executables are: y = 2 * x, each thread its part, in
 * four steps with a barrier behind each, as often over as the digits behind "repeat:" say. */
#include <stddef.h>

#include "runtime/abi.h"

enum { kElements = 1000, kSteps = 4 };
static volatile const char marker[] = "repeat:00000001";

static const tc_dim dims[] = {{kElements, -1, 0}};
static const tc_port inputs[] = {{"x", TC_F32, 1, dims}};
static const tc_port outputs[] = {{"y", TC_F32, 1, dims}};
static const char* const steps[] = {"double"};

static int64_t bind(const int64_t* values, int64_t* sizes) {
  (void)values;
  sizes[0] = kElements;
  return 0;
}

static void run(const tc_frame* frame) {
  const float* x = (const float*)frame->inputs[0];
  float* y = (float*)frame->outputs[0];
  long repeats = 0;
  for (int i = 7; i < 15; ++i) repeats = 10 * repeats + (marker[i] - '0');
  for (int step = 0; step < kSteps; ++step) {
    for (volatile long again = step; again < repeats; again += kSteps)
      for (int64_t i = kElements * frame->thread / frame->threads;
           i < kElements * (frame->thread + 1) / frame->threads; ++i)
        y[i] = 2 * x[i];
    if (frame->threads > 1) frame->barrier(frame);
  }
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
