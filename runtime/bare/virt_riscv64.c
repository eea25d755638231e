/* The functions of board.h for `qemu-system-riscv64 -machine virt`, and that of `qemu-system-riscv32`: its
 * serial line, and its device that ends the emulation. */
#include "board.h"

#define SERIAL ((volatile unsigned char*)0x10000000) /* an NS16550A; qemu's needs no speed set */
#define SERIAL_STATUS 5
#define SERIAL_READY 0x20
#define FINISHER ((volatile unsigned int*)0x100000)
#define FINISHER_PASS 0x5555u
#define FINISHER_FAIL 0x13333u /* the exit code 1 */

void board_write(const char* text) {
  for (; *text; ++text) {
    while (!(SERIAL[SERIAL_STATUS] & SERIAL_READY)) {}
    *SERIAL = (unsigned char)*text;
  }
}

_Noreturn void board_finish(int failed) {
  *FINISHER = failed ? FINISHER_FAIL : FINISHER_PASS;
  for (;;) {}
}

static void write_hex(unsigned long number) {
  for (int shift = 8 * (int)sizeof number - 4; shift >= 0; shift -= 4) {
    const char digit[2] = {"0123456789abcdef"[number >> shift & 15], 0};
    board_write(digit);
  }
}

/* Called by virt_riscv64.S for every exception. */
void board_trap(unsigned long cause, unsigned long address) {
  board_write("trap: mcause ");
  write_hex(cause);
  board_write(" at ");
  write_hex(address);
  board_write("\n");
  board_finish(1);
}
