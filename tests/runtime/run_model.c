/* A plain C program on a shared artefact: opens it, binds its shapes, runs it on seeded data and
 * prints one line of JSON with times and peak memory. It is compiled as strict C99, and shows what
 * a user of tc_runtime.h writes.
 *
 *   run_model MODEL.so [--threads N] [--repeat N] [SYMBOL=VALUE ...] */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */

#include "runtime/tc_runtime.h"
#define PROGRAM "run_model"
#include "tests/runtime/measure.h"

static void check(tc_status status) {
  if (status != TC_OK) stop(tc_last_error());
}

static enum element_kind kind_of(int32_t dtype) {
  return dtype == TC_F32 || dtype == TC_F64 || dtype == TC_F16 || dtype == TC_BF16 ? FLOATS : INTEGERS;
}

int main(int count, char** arguments) {
  tc_model* model;
  tc_context* context;
  tc_model_info info = {sizeof info};
  tc_memory_info memory = {sizeof memory};
  tc_port_info port;
  tc_shape shapes[MAX_PORTS];
  static int64_t dims[MAX_PORTS][TC_MAX_RANK];
  tc_input_buffer inputs[MAX_PORTS];
  tc_output_buffer outputs[MAX_PORTS];
  int32_t repeat, input_count, output_count, i, axis;
  uint64_t io_bytes = 0;
  double best = 1e300;

  if (count < 2) stop("usage: run_model MODEL.so [--threads N] [--repeat N] [SYMBOL=VALUE ...]");
  repeat = option_value("--repeat", count, arguments);
  check(tc_model_open(arguments[1], &model));
  check(tc_model_get_info(model, &info));
  input_count = tc_model_input_count(model);
  output_count = tc_model_output_count(model);
  if (input_count > MAX_PORTS || output_count > MAX_PORTS) stop("too many ports");
  check(tc_context_create(model, option_value("--threads", count, arguments), &context));

  port.struct_size = sizeof port;
  for (i = 0; i < input_count; ++i) {
    check(tc_model_input_info(model, i, &port));
    for (axis = 0; axis < port.rank; ++axis)
      dims[i][axis] =
          port.dims[axis] >= 0 ? port.dims[axis] : symbol_value(port.symbols[axis], count, arguments);
    shapes[i].dims = dims[i];
    shapes[i].rank = port.rank;
  }
  check(tc_context_bind(context, shapes, input_count));

  for (i = 0; i < input_count; ++i) {
    check(tc_model_input_info(model, i, &port));
    check(tc_context_input_shape(context, i, NULL, NULL, &inputs[i].bytes));
    io_bytes += inputs[i].bytes;
    inputs[i].data = seeded_data(inputs[i].bytes, (uint64_t)tc_dtype_size(port.dtype), kind_of(port.dtype));
  }
  for (i = 0; i < output_count; ++i) {
    check(tc_context_output_shape(context, i, NULL, NULL, &outputs[i].bytes));
    io_bytes += outputs[i].bytes;
    outputs[i].data = malloc((size_t)outputs[i].bytes + 1);
    if (outputs[i].data == NULL) stop("out of memory");
  }

  for (i = 0; i < repeat; ++i) {
    const double begin = now_ms();
    double time;
    check(tc_context_run(context, inputs, input_count, outputs, output_count));
    time = now_ms() - begin;
    if (time < best) best = time;
  }
  check(tc_context_memory(context, &memory));
  printf(
      "{\"model\": \"%s\", \"threads\": %d, \"min_ms\": %.6f, \"constants\": %lld, "
      "\"arena\": %lld, \"scratch\": %lld, \"inputs_outputs\": %llu, \"peak\": %lld}\n",
      info.model, (int)tc_context_threads_used(context), best, (long long)memory.constant_bytes,
      (long long)memory.arena_bytes, (long long)memory.scratch_bytes, (unsigned long long)io_bytes,
      peak_bytes());
  for (i = 0; i < input_count; ++i) free((void*)inputs[i].data);
  for (i = 0; i < output_count; ++i) free(outputs[i].data);
  tc_context_destroy(context);
  tc_model_close(model);
  return 0;
}
