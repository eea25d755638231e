/* Start-up code and the functions of board.h for Arm's microcontrollers (Cortex-M), without a C library: the
 * table of vectors, memory before the example begins, and semihosting in place of a serial line, which an
 * emulator or a debugger does where the program executes `bkpt 0xab`. */
#include <stdint.h>

#include "board.h"

#define SYS_WRITE0 0x04
#define SYS_EXIT_EXTENDED 0x20
#define APPLICATION_EXIT 0x20026u
#define COPROCESSOR_ACCESS ((volatile uint32_t*)0xE000ED88) /* CPACR */
#define FULL_FLOATS (0xFu << 20)
#define FAULT_STATUS ((volatile uint32_t*)0xE000ED28) /* CFSR; 0 on cores without it */
#define EXCEPTIONS 16
#define OWN_STACK 256

extern uint32_t zero_begin[], zero_end[], data_begin[], data_end[];
extern const uint32_t data_source[];

static void semihost(uint32_t operation, const void* argument) {
  register uint32_t r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void board_write(const char* text) { semihost(SYS_WRITE0, text); }

_Noreturn void board_finish(int failed) {
  const uint32_t block[2] = {APPLICATION_EXIT, failed ? 1 : 0};
  for (;;) semihost(SYS_EXIT_EXTENDED, block);
}

static void write_hex(uint32_t number) {
  for (int shift = 28; shift >= 0; shift -= 4) {
    const char digit[2] = {"0123456789abcdef"[number >> shift & 15], 0};
    board_write(digit);
  }
}

/* Every exception; `frame` is what the core stored: r0-r3, r12, lr, the address, the status. */
__attribute__((used)) static void fault(const uint32_t* frame) {
  board_write("fault: CFSR ");
  write_hex(*FAULT_STATUS);
  board_write(" at ");
  write_hex(frame[6]);
  board_write("\n");
  board_finish(1);
}

__attribute__((naked)) static void on_exception(void) { __asm__ volatile("mov r0, sp\n bl fault"); }

__attribute__((used)) static void begin(void) {
  *COPROCESSOR_ACCESS |= FULL_FLOATS; /* floats and, on a Cortex-M55, vectors; else they fault */
  __asm__ volatile("dsb\n isb" ::: "memory");
  const uint32_t* from = data_source;
  for (uint32_t* to = data_begin; to < data_end;) *to++ = *from++;
  for (uint32_t* to = zero_begin; to < zero_end;) *to++ = 0;
  /* The stack is filled below this function's own part of it, so that what a run takes can be measured. */
  const unsigned char* here = (const unsigned char*)__builtin_frame_address(0) - OWN_STACK;
  for (volatile uint32_t* to = (volatile uint32_t*)stack_begin; (const unsigned char*)to < here; ++to)
    *to = STACK_FILL;
  board_finish(example_main());
}

/* The first instruction of the program. */
__attribute__((naked, noreturn)) void reset(void);
void reset(void) { __asm__ volatile("bl begin"); }

typedef void (*Handler)(void);
__attribute__((section(".vectors"), used)) static const Handler vectors[EXCEPTIONS] = {
    (Handler)stack_end, reset, on_exception, on_exception, on_exception, on_exception, on_exception};
