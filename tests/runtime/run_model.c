/* A plain C program on a shared artefact: opens it, binds its shapes, runs it on seeded data and
 * prints one line of JSON with times and peak memory. It is compiled as strict C99, and shows what
 * a user of tc_runtime.h writes.
 *
 *   run_model MODEL.so [--threads N] [--repeat N] [SYMBOL=VALUE ...] */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/tc_runtime.h"

#define MAX_PORTS 64

static void stop(const char* text) {
  fprintf(stderr, "run_model: %s\n", text);
  exit(1);
}

static void check(tc_status status) {
  if (status != TC_OK) stop(tc_last_error());
}

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

/* Largest resident size of this program in bytes. (getrusage's would begin with that of the program
 * that started this one.) */
static long long peak_bytes(void) {
  char line[256];
  long long kilobytes = -1;
  FILE* file = fopen("/proc/self/status", "r");
  if (file == NULL) stop("/proc/self/status cannot be read");
  while (fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "VmHWM: %lld kB", &kilobytes) == 1) break;
  fclose(file);
  return kilobytes * 1024;
}

/* The value of SYMBOL=VALUE among the arguments. */
static int64_t symbol_value(const char* symbol, int count, char** arguments) {
  const size_t length = strlen(symbol);
  int i;
  for (i = 2; i < count; ++i)
    if (strncmp(arguments[i], symbol, length) == 0 && arguments[i][length] == '=')
      return atoll(arguments[i] + length + 1);
  fprintf(stderr, "run_model: give %s=VALUE\n", symbol);
  exit(1);
}

/* Small numbers with a spread, the same each time; 0 and 1 for integers. */
static void fill(void* data, uint64_t bytes, int32_t dtype) {
  uint32_t state = 12345;
  uint64_t i;
  const uint64_t size = (uint64_t)tc_dtype_size(dtype);
  memset(data, 0, (size_t)bytes);
  for (i = 0; i < bytes / size; ++i) {
    state = state * 1664525u + 1013904223u;
    if (dtype == TC_F32) ((float*)data)[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    else if (dtype == TC_F64) ((double*)data)[i] = (double)(state >> 8) / 8388608.0 - 1.0;
    else if (dtype != TC_F16 && dtype != TC_BF16) ((uint8_t*)data)[i * size] = (uint8_t)(state >> 31);
  }
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
  int32_t threads = 1, repeat = 1, input_count, output_count, i, axis;
  uint64_t io_bytes = 0;
  double best = 1e300;

  if (count < 2) stop("usage: run_model MODEL.so [--threads N] [--repeat N] [SYMBOL=VALUE ...]");
  for (i = 2; i + 1 < count; ++i) {
    if (strcmp(arguments[i], "--threads") == 0) threads = atoi(arguments[i + 1]);
    if (strcmp(arguments[i], "--repeat") == 0) repeat = atoi(arguments[i + 1]);
  }
  check(tc_model_open(arguments[1], &model));
  check(tc_model_get_info(model, &info));
  input_count = tc_model_input_count(model);
  output_count = tc_model_output_count(model);
  if (input_count > MAX_PORTS || output_count > MAX_PORTS) stop("too many ports");
  check(tc_context_create(model, threads, &context));

  port.struct_size = sizeof port;
  for (i = 0; i < input_count; ++i) {
    check(tc_model_input_info(model, i, &port));
    for (axis = 0; axis < port.rank; ++axis)
      dims[i][axis] = port.dims[axis] >= 0
                          ? port.dims[axis]
                          : symbol_value(port.symbols[axis], count, arguments);
    shapes[i].dims = dims[i];
    shapes[i].rank = port.rank;
  }
  check(tc_context_bind(context, shapes, input_count));

  for (i = 0; i < input_count; ++i) {
    void* data;
    check(tc_model_input_info(model, i, &port));
    check(tc_context_input_shape(context, i, NULL, NULL, &inputs[i].bytes));
    io_bytes += inputs[i].bytes;
    data = malloc((size_t)inputs[i].bytes + 1);
    if (data == NULL) stop("out of memory");
    fill(data, inputs[i].bytes, port.dtype);
    inputs[i].data = data;
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
  printf("{\"model\": \"%s\", \"threads\": %d, \"min_ms\": %.6f, \"constants\": %lld, "
         "\"arena\": %lld, \"scratch\": %lld, \"inputs_outputs\": %llu, \"peak\": %lld}\n",
         info.model, (int)tc_context_threads_used(context), best, (long long)memory.constant_bytes,
         (long long)memory.arena_bytes, (long long)memory.scratch_bytes,
         (unsigned long long)io_bytes, peak_bytes());
  for (i = 0; i < input_count; ++i) free((void*)inputs[i].data);
  for (i = 0; i < output_count; ++i) free(outputs[i].data);
  tc_context_destroy(context);
  tc_model_close(model);
  return 0;
}
