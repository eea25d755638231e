// What the runtime needs from the processor and the system: features, number of cores, clock, floating-point
// mode.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tc::runtime {

// Name of this machine's processor family, spelt as in targets: "x86-64", "riscv64", "aarch64".
const char* architecture_name();

// The ELF machine number of this processor; and the name of any such number (null for an unknown one).
int elf_machine();
const char* elf_machine_name(int machine);

// Checks a list of CPU features separated by spaces ("avx2 fma", "v zvl256b"). Returns true where this
// machine has all of them; else writes the first that it lacks, with the reason, into `missing`. Where a
// RISC-V system has no way to ask for an extension, the extension counts as present.
bool has_features(const char* features, char* missing, size_t missing_size);

// The names that has_features() knows, by index; null after the last one.
const char* known_feature(int index);

// Asks the system to permit what the features need (AMX tile registers). False where it refuses.
bool enable_features(const char* features);

// See tc_core_count().
int core_count();

inline void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__riscv)
  __asm__ volatile(".word 0x0100000f");
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Nanoseconds of the monotonic clock.
uint64_t now_nanoseconds();

// The counter that a program may read on its core. On RISC-V, this is the core's cycles (`rdcycle`) or, where
// the system forbids that (Linux since 6.6), the ticks of the system's clock (`rdtime`); on other processors,
// none. find_counter() finds out by trying, with its own handler for SIGILL in the meantime.
enum class Counter : uint8_t { None, Cycles, Ticks };
Counter find_counter();
uint64_t read_counter(Counter counter);
const char* counter_name(Counter counter);  // "cycles", "ticks"

// The floating-point control register. The default rounds to nearest, keeps denormals and has no traps.
using FloatMode = uint64_t;
inline FloatMode set_default_float_mode() {
#if defined(__x86_64__)
  const FloatMode old = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(0x1f80);
  return old;
#elif defined(__riscv)
  FloatMode old;
  __asm__ volatile("csrrwi %0, frm, 0" : "=r"(old));
  return old;
#elif defined(__aarch64__)
  FloatMode old;
  __asm__ volatile("mrs %0, fpcr" : "=r"(old));
  __asm__ volatile("msr fpcr, %0" : : "r"(FloatMode{0}));
  return old;
#else
  return 0;
#endif
}
inline void restore_float_mode(FloatMode mode) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(mode));
#elif defined(__riscv)
  __asm__ volatile("csrw frm, %0" : : "r"(mode));
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#else
  (void)mode;
#endif
}

}  // namespace tc::runtime
