/* Runs a model of C source on the simulator Spike, without an operating system: an input that is compiled
 * into the program (input.inc, its bytes), and its output as bytes on the console. MODEL_OUTPUT_BYTES says
 * how many these are. The exit status is 0, 1 where the model refuses its arguments, or 2 at a trap, whose
 * cause and value are the output then. */
#include <stddef.h>
#include <stdint.h>

#include "model.h"

volatile uint64_t tohost __attribute__((section(".tohost"), aligned(64)));
volatile uint64_t fromhost __attribute__((section(".tohost"), aligned(64)));

static void write_bytes(const void* bytes, uint64_t count) {
  static volatile uint64_t call[8] __attribute__((aligned(64)));
  call[0] = 64;
  call[1] = 1;
  call[2] = (uint64_t)(uintptr_t)bytes;
  call[3] = count;
  __sync_synchronize();
  tohost = (uint64_t)(uintptr_t)call;
  while (!fromhost) {}
  fromhost = 0;
}

static _Noreturn void finish(int status) {
  for (;;) tohost = (uint64_t)status << 1 | 1;
}

/* A compiler may make calls of these. */
void* memcpy(void* to, const void* from, size_t count) {
  for (size_t i = 0; i < count; ++i) ((uint8_t*)to)[i] = ((const uint8_t*)from)[i];
  return to;
}
void* memset(void* to, int value, size_t count) {
  for (size_t i = 0; i < count; ++i) ((uint8_t*)to)[i] = (uint8_t)value;
  return to;
}
void* memmove(void* to, const void* from, size_t count) {
  if ((uintptr_t)to < (uintptr_t)from) return memcpy(to, from, count);
  for (size_t i = count; i-- > 0;) ((uint8_t*)to)[i] = ((const uint8_t*)from)[i];
  return to;
}

static const uint8_t input[] __attribute__((aligned(64))) = {
#include "input.inc"
};
static uint8_t output[MODEL_OUTPUT_BYTES] __attribute__((aligned(64)));
static uint8_t arena[MODEL_ARENA_BYTES + 64] __attribute__((aligned(64)));

__attribute__((used)) void start(void) {
  const int status = model_run((const void*)input, (void*)output, arena);
  write_bytes(output, sizeof output);
  finish(status != 0);
}

/* mtvec takes addresses that are multiples of 4. */
__attribute__((aligned(4))) _Noreturn void trapped(void) {
  static uint64_t trap[2];
  __asm__ volatile("csrr %0, mcause\n csrr %1, mtval" : "=r"(trap[0]), "=r"(trap[1]));
  write_bytes(trap, sizeof trap);
  finish(2);
}

/* The state of floats and of vectors (where there are any) is on. */
__attribute__((naked, section(".text.begin"), used)) void begin(void) {
  __asm__ volatile(
      "la t0, trapped\n csrw mtvec, t0\n li t0, 0x2200\n csrs mstatus, t0\n csrw fcsr, zero\n"
      "la sp, stack_end\n call start");
}
