/* What the programs that measure a run share: seeded data, times and peak memory. Strict C99.
 * PROGRAM is the including program's name, for its error texts. */
#ifndef TC_TESTS_RUNTIME_MEASURE_H_
#define TC_TESTS_RUNTIME_MEASURE_H_

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_PORTS 64

static void stop(const char* text) {
  fprintf(stderr, PROGRAM ": %s\n", text);
  exit(1);
}

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

/* Largest resident size of this program in bytes: its own memory and the pages of files that it has
 * mapped and touched. (getrusage's would begin with that of the program that started this one.) */
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

/* The value of SYMBOL=VALUE among the arguments after the model. */
static int64_t symbol_value(const char* symbol, int count, char** arguments) {
  const size_t length = strlen(symbol);
  int i;
  for (i = 2; i < count; ++i)
    if (strncmp(arguments[i], symbol, length) == 0 && arguments[i][length] == '=')
      return atoll(arguments[i] + length + 1);
  fprintf(stderr, PROGRAM ": give %s=VALUE\n", symbol);
  exit(1);
}

/* The value of `--name VALUE` among the arguments after the model, or 1. */
static int32_t option_value(const char* name, int count, char** arguments) {
  int i;
  for (i = 2; i + 1 < count; ++i)
    if (strcmp(arguments[i], name) == 0) return atoi(arguments[i + 1]);
  return 1;
}

enum element_kind { FLOATS, INTEGERS };

/* Memory of the caller for an input, filled with small numbers with a spread, the same each time; 0
 * and 1 for integers, zeros for floats of two bytes. `size` is an element's. */
static void* seeded_data(uint64_t bytes, uint64_t size, enum element_kind kind) {
  uint32_t state = 12345;
  uint64_t i;
  void* data = calloc((size_t)bytes + 1, 1);
  if (data == NULL) stop("out of memory");
  for (i = 0; i < bytes / size; ++i) {
    state = state * 1664525u + 1013904223u;
    if (kind == INTEGERS) ((uint8_t*)data)[i * size] = (uint8_t)(state >> 31);
    else if (size == 4) ((float*)data)[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    else if (size == 8) ((double*)data)[i] = (double)(state >> 8) / 8388608.0 - 1.0;
  }
  return data;
}

#endif
