/* The work of hand-made candidates that are timed, for both sides: y[i] from x[i] in many steps, so that
 * a run takes about 0.8 us an element and none of it can be left out. */
#pragma once

#include <stddef.h>

enum { kWorkSteps = 400 };

static inline void do_work(const float* x, float* y, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float value = x[i];
    for (int step = 0; step < kWorkSteps; ++step) value = 0.5f * value + 0.25f * x[i];
    y[i] = value + x[i];
  }
}
