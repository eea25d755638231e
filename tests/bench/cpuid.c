// Preloaded into a process: answers its CPUID instructions, and so decides which code libraries that
// choose at run time take. $TC_PEER_CPUID says what is changed:
//   avx2          no AVX-512 and no AMX
//   avx2-patched  the same, for copies of libraries that have 0F 0A in place of CPUID (peers.py makes them)
//   amx           the sizes of AMX tiles, where the processor has AMX and a hypervisor hides them (leaves
//                 1DH, 1EH)
// All but avx2-patched need a processor that can fault on CPUID (Linux: arch_prctl).
// Libraries that the program itself is linked with start before this one: only those that it opens later, as
// Python does, find it in place.
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

// From the kernel's asm/prctl.h.
#define ARCH_SET_CPUID 0x1012
#define BIT(number) (1u << (number))

typedef struct {
  unsigned a, b, c, d;
} Answer;

static struct sigaction before;
static int without_avx512, patched;

// Patched copies have no CPUID instruction that could fault: the one below is allowed all the time.
static int allow_cpuid(int allowed) {
  return patched ? 0 : (int)syscall(SYS_arch_prctl, ARCH_SET_CPUID, allowed);
}

// Intel's manual, volume 2, CPUID, has the bits.
static void hide_avx512(unsigned leaf, unsigned part, Answer* answer) {
  if (leaf == 7 && part == 0) {
    // AVX512F, DQ, IFMA, PF, ER, CD, BW, VL
    answer->b &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31));
    // VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ
    answer->c &= ~(BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14));
    // 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, FP16, AMX-TILE, AMX-INT8
    answer->d &= ~(BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25));
  }
  if (leaf == 7 && part == 1) {
    answer->a &= ~(BIT(5) | BIT(21));  // AVX512-BF16, AMX-FP16
    answer->d &= ~(BIT(8) | BIT(19));  // AMX-COMPLEX, AVX10
  }
}

// Palette 1, the only one: 8 tiles of 16 rows of 64 bytes; products of 16 rows and 64 columns.
static void tell_tiles(unsigned leaf, unsigned part, Answer* answer) {
  if (leaf == 0 && answer->a < 0x1e) answer->a = 0x1e;
  if (leaf == 0x1d && part == 0) *answer = (Answer){1, 0, 0, 0};
  if (leaf == 0x1d && part == 1) *answer = (Answer){8192 | 1024 << 16, 64 | 8 << 16, 16, 0};
  if (leaf == 0x1e && part == 0) *answer = (Answer){0, 16 | 64 << 8, 0, 0};
}

// Answers a CPUID instruction or what stands in its place; any other fault is the process's own.
static void on_fault(int signal_number, siginfo_t* info, void* context) {
  (void)info;
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* instruction = (const unsigned char*)registers[REG_RIP];
  if (instruction[0] != 0x0f || instruction[1] != (patched ? 0x0a : 0xa2)) {
    sigaction(signal_number, &before, NULL);
    return;
  }
  unsigned leaf = (unsigned)registers[REG_RAX], part = (unsigned)registers[REG_RCX];
  Answer answer;
  allow_cpuid(1);
  __cpuid_count(leaf, part, answer.a, answer.b, answer.c, answer.d);
  allow_cpuid(0);
  (without_avx512 ? hide_avx512 : tell_tiles)(leaf, part, &answer);
  registers[REG_RAX] = answer.a;
  registers[REG_RBX] = answer.b;
  registers[REG_RCX] = answer.c;
  registers[REG_RDX] = answer.d;
  registers[REG_RIP] += 2;
}

// Whether the processor has AMX and does not say how large its tiles are.
static int tiles_are_hidden(void) {
  Answer features;
  __cpuid_count(7, 0, features.a, features.b, features.c, features.d);
  return features.d & BIT(24) && __get_cpuid_max(0, NULL) < 0x1d;
}

__attribute__((constructor)) static void start(void) {
  const char* change = getenv("TC_PEER_CPUID");
  patched = change && strcmp(change, "avx2-patched") == 0;
  without_avx512 = patched || (change && strcmp(change, "avx2") == 0);
  if (!without_avx512 && !tiles_are_hidden()) return;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(patched ? SIGILL : SIGSEGV, &action, &before);
  if (allow_cpuid(0) != 0) {
    fprintf(stderr, "CPUID cannot be answered here: %s%s\n", strerror(errno),
            without_avx512 ? "; objdump would help: install binutils" : "");
    _exit(3);
  }
}
