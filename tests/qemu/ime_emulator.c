// SpacemiT's matrix instruction for programs under qemu-user, which does not know it: a handler of SIGILL
// that computes it, to be linked into the program. The meaning is that of the specification ("RISC-V
// Integrated Matrix Extension", SpacemiT, program model and instructions) at a vector length of 256 bits.
// Compile it for rv64gc: the program's vector registers must stay as they are.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define SECTION __attribute__((section(".text.tc_emulator"), used))

enum { kRegisterBytes = 32, kSums = 4, kDepth = 8 };
static uint8_t registers[32 * kRegisterBytes] __attribute__((aligned(64)));

// Under qemu 7.2 the vector registers are not in the signal's frame, but those of the program.
SECTION static void move_registers(int store) {
#define MOVE(op, first) op " v" #first ", (%0)\n add %0, %0, %1\n"
  uint8_t* at = registers;
  if (store)
    __asm__ volatile(".option push\n.option arch, +v\n" MOVE("vs8r.v", 0) MOVE("vs8r.v", 8) MOVE("vs8r.v", 16)
                         MOVE("vs8r.v", 24) ".option pop"
                     : "+r"(at)
                     : "r"(8L * kRegisterBytes)
                     : "memory");
  else
    __asm__ volatile(".option push\n.option arch, +v\n" MOVE("vl8re8.v", 0) MOVE("vl8re8.v", 8)
                         MOVE("vl8re8.v", 16) MOVE("vl8re8.v", 24) ".option pop"
                     : "+r"(at)
                     : "r"(8L * kRegisterBytes)
                     : "memory");
}

SECTION static long vector_state(int which) {
  long vl, type, bytes;
  __asm__ volatile(".option push\n.option arch, +v\ncsrr %0, vl\ncsrr %1, vtype\ncsrr %2, vlenb\n.option pop"
                   : "=r"(vl), "=r"(type), "=r"(bytes));
  return which == 0 ? vl : which == 1 ? type : bytes;
}

// vmadot: opcode custom-1, funct7 1110001, bit 14 clear, an even vd; bits 13:12 are the signs of vs1 and vs2.
SECTION static int multiply(uint32_t word) {
  const unsigned vd = word >> 7 & 31, vs1 = word >> 15 & 31, vs2 = word >> 20 & 31, sign = word >> 12 & 3;
  if ((word & 0xfe0040ff) != 0xe200002b) return 0;
  // SEW 8, LMUL 1, not vill; 256 bits.
  if (vector_state(0) != 32 || (vector_state(1) & ~0xc0L) != 0 || vector_state(2) != kRegisterBytes) return 0;
  if (vs1 == vd || vs1 == vd + 1 || vs2 == vd || vs2 == vd + 1) return 0;
  move_registers(1);
  const uint8_t *a = registers + vs1 * kRegisterBytes, *b = registers + vs2 * kRegisterBytes;
  uint32_t sums[kSums * kSums];
  memcpy(sums, registers + vd * kRegisterBytes, sizeof sums);
  for (int i = 0; i < kSums; ++i)
    for (int j = 0; j < kSums; ++j)
      for (int k = 0; k < kDepth; ++k) {
        const int left = sign & 2 ? (int8_t)a[i * kDepth + k] : a[i * kDepth + k];
        const int right = sign & 1 ? (int8_t)b[j * kDepth + k] : b[j * kDepth + k];
        sums[i * kSums + j] += (uint32_t)(left * right);
      }
  memcpy(registers + vd * kRegisterBytes, sums, sizeof sums);
  move_registers(0);
  return 1;
}

struct kernel_action {
  void (*handler)(int, siginfo_t*, void*);
  unsigned long flags;
  unsigned long mask;
};

SECTION static void on_illegal(int number, siginfo_t* info, void* context) {
  (void)info;
  unsigned long* pc = &((ucontext_t*)context)->uc_mcontext.__gregs[0];
  uint32_t word;
  memcpy(&word, (const void*)*pc, sizeof word);
  if (multiply(word)) {
    *pc += 4;
    return;
  }
  const struct kernel_action none = {0, 0, 0};
  syscall(SYS_rt_sigaction, number, &none, 0, 8);
}

__attribute__((constructor)) static void emulate(void) {
  const struct kernel_action action = {on_illegal, SA_SIGINFO, 0};
  syscall(SYS_rt_sigaction, SIGILL, &action, 0, 8);
}

// The runtime asks whether the instruction exists by a handler of its own: here it does.
int sigaction(int number, const struct sigaction* new_action, struct sigaction* old_action) {
  struct kernel_action given = {0, 0, 0}, before = {0, 0, 0};
  if (old_action != 0) memset(old_action, 0, sizeof *old_action);
  if (number == SIGILL) return 0;
  if (new_action != 0) {
    given.handler = (void (*)(int, siginfo_t*, void*))new_action->sa_sigaction;
    given.flags = (unsigned long)new_action->sa_flags;
    memcpy(&given.mask, &new_action->sa_mask, sizeof given.mask);
  }
  const long failed = syscall(SYS_rt_sigaction, number, new_action != 0 ? &given : 0, &before, 8);
  if (old_action != 0) {
    old_action->sa_sigaction = before.handler;
    old_action->sa_flags = (int)before.flags;
    memcpy(&old_action->sa_mask, &before.mask, sizeof before.mask);
  }
  return failed != 0 ? -1 : 0;
}
