// Cores, clock and ELF names of this machine.
#include "machine.h"

#include <elf.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifndef EM_RISCV
#define EM_RISCV 243
#endif

namespace tc::runtime {
namespace {

// First line of a small file of /sys or /proc; false where there is none.
bool read_line(const char* path, char* line, int size) {
  FILE* file = fopen(path, "re");
  if (file == nullptr) return false;
  const bool got = fgets(line, size, file) != nullptr;
  fclose(file);
  return got;
}

// Whether the list "0,4-6" names a processor of `mask` that is lower than `processor`.
bool has_lower_sibling(const char* list, int processor, const cpu_set_t& mask) {
  while (*list != 0) {
    char* end;
    const long first = strtol(list, &end, 10);
    if (end == list) break;
    long last = first;
    if (*end == '-') last = strtol(end + 1, &end, 10);
    for (long i = first; i <= last && i < processor; ++i)
      if (i >= 0 && i < CPU_SETSIZE && CPU_ISSET(i, &mask)) return true;
    if (*end != ',') break;
    list = end + 1;
  }
  return false;
}

// The processor time that the control group grants, in cores; 0 for no limit.
int quota_cores() {
  char line[64];
  long long quota = 0, period = 0;
  if (read_line("/sys/fs/cgroup/cpu.max", line, sizeof line)) {
    if (sscanf(line, "%lld %lld", &quota, &period) != 2) return 0;
  } else if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof line)) {
    quota = atoll(line);
    if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", line, sizeof line)) return 0;
    period = atoll(line);
  }
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>((quota + period - 1) / period);
}

}  // namespace

const char* architecture_name() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__riscv)
  return "riscv64";
#elif defined(__aarch64__)
  return "aarch64";
#else
#error "tc's runtime does not know this processor"
#endif
}

int elf_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__riscv)
  return EM_RISCV;
#else
  return EM_AARCH64;
#endif
}

const char* elf_machine_name(int machine) {
  switch (machine) {
    case EM_X86_64: return "x86-64";
    case EM_RISCV: return "riscv64";
    case EM_AARCH64: return "aarch64";
    case EM_386: return "x86 (32 bit)";
    case EM_ARM: return "arm (32 bit)";
    case EM_PPC64: return "ppc64";
    case EM_S390: return "s390x";
    default: return nullptr;
  }
}

int core_count() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
  int cores = 0;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &mask)) continue;
    char path[96], line[256];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", i);
    if (read_line(path, line, sizeof line) && has_lower_sibling(line, i, mask)) continue;
    ++cores;
  }
  const int quota = quota_cores();
  if (quota > 0 && quota < cores) cores = quota;
  return cores > 0 ? cores : 1;
}

uint64_t now_nanoseconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

#if defined(__riscv)
static sigjmp_buf behind_trap;
static void leave_trap(int) { siglongjmp(behind_trap, 1); }
#endif

Counter find_counter() {
#if defined(__riscv)
  struct sigaction trapped = {}, before = {};
  trapped.sa_handler = leave_trap;
  if (sigaction(SIGILL, &trapped, &before) != 0) return Counter::Ticks;
  Counter found = Counter::Ticks;
  if (sigsetjmp(behind_trap, 1) == 0) {
    read_counter(Counter::Cycles);
    found = Counter::Cycles;
  }
  sigaction(SIGILL, &before, nullptr);
  return found;
#else
  return Counter::None;
#endif
}

uint64_t read_counter(Counter counter) {
  uint64_t count = 0;
#if defined(__riscv)
  if (counter == Counter::Cycles) __asm__ volatile("rdcycle %0" : "=r"(count));
  if (counter == Counter::Ticks) __asm__ volatile("rdtime %0" : "=r"(count));
#else
  (void)counter;
#endif
  return count;
}

const char* counter_name(Counter counter) { return counter == Counter::Cycles ? "cycles" : "ticks"; }

}  // namespace tc::runtime
