/* The board of the example (runtime/bare) as a process of Linux that links no library: for emulators of
 * programs. */
#include "runtime/bare/board.h"

#define STRING(value) #value
#define TEXT(value) STRING(value)
#define STACK_BYTES 65536

__asm__(".bss\n.balign 64\n.globl stack_begin\nstack_begin: .zero " TEXT(STACK_BYTES) "\n.globl stack_end\nstack_end: .zero 64\n.text\n.globl _start\n_start:\n"
#if defined(__riscv)
        ".option push\n.option norelax\nla gp, __global_pointer$\n.option pop\nla sp, stack_end\ncall begin\n");
#elif defined(__arm__)
        ".type _start, %function\nldr r0, =stack_end\nmov sp, r0\nbl begin\n.ltorg\n");
#elif defined(__aarch64__)
        "adrp x0, stack_end\nadd sp, x0, :lo12:stack_end\nbl begin\n");
#elif defined(__x86_64__)
        "lea stack_end(%rip), %rsp\ncall begin\n");
#endif

enum {
#if defined(__x86_64__)
  kWrite = 1,
  kExit = 60
#elif defined(__arm__)
  kWrite = 4,
  kExit = 1
#else
  kWrite = 64,
  kExit = 93
#endif
};

static long call_system(long number, long first, long second, long third) {
#if defined(__riscv)
  register long a0 __asm__("a0") = first;
  register long a1 __asm__("a1") = second;
  register long a2 __asm__("a2") = third;
  register long a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
  return a0;
#elif defined(__arm__)
  register long r0 __asm__("r0") = first;
  register long r1 __asm__("r1") = second;
  register long r2 __asm__("r2") = third;
  /* r7, which has the number, may be the frame pointer. */
  __asm__ volatile("mov r12, r7\nmov r7, %3\nsvc 0\nmov r7, r12"
                   : "+r"(r0)
                   : "r"(r1), "r"(r2), "r"(number)
                   : "memory", "r12");
  return r0;
#elif defined(__aarch64__)
  register long x0 __asm__("x0") = first;
  register long x1 __asm__("x1") = second;
  register long x2 __asm__("x2") = third;
  register long x8 __asm__("x8") = number;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x8) : "memory");
  return x0;
#else
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(first), "S"(second), "d"(third)
                   : "rcx", "r11", "memory");
  return result;
#endif
}

void board_write(const char* text) {
  long size = 0;
  while (text[size]) ++size;
  call_system(kWrite, 1, (long)text, size);
}

_Noreturn void board_finish(int failed) {
  for (;;) call_system(kExit, failed != 0, 0, 0);
}

_Noreturn void begin(void);
_Noreturn void begin(void) {
  unsigned char* here = __builtin_frame_address(0);
  for (volatile unsigned int* at = (unsigned int*)stack_begin; (unsigned char*)at < here - 256; ++at)
    *at = (unsigned int)STACK_FILL;
  board_finish(example_main());
}
