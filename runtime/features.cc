// Whether this machine has the CPU features that an artefact names, one table per processor family.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machine.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__riscv) || defined(__aarch64__)
#include <setjmp.h>
#include <signal.h>
#include <sys/auxv.h>
#endif

namespace tc::runtime {
namespace {

enum class Answer { Yes, No, Unknown };

#if defined(__x86_64__)

// Registers that the operating system must save for a feature (bits of XCR0).
constexpr uint64_t kNone = 0, kYmm = 0x6, kZmm = 0xe6, kTile = 0x60000;

struct Feature {
  const char* name;
  uint32_t leaf, subleaf;
  char reg;  // 'a'..'d'
  int bit;
  uint64_t state;
};

// clang-format off
constexpr Feature kFeatures[] = {
    {"fxsr", 1, 0, 'd', 24, kNone},        {"mmx", 1, 0, 'd', 23, kNone},
    {"cx8", 1, 0, 'd', 8, kNone},          {"cmov", 1, 0, 'd', 15, kNone},
    {"sse", 1, 0, 'd', 25, kNone},         {"sse2", 1, 0, 'd', 26, kNone},
    {"sse3", 1, 0, 'c', 0, kNone},         {"pclmul", 1, 0, 'c', 1, kNone},
    {"ssse3", 1, 0, 'c', 9, kNone},        {"fma", 1, 0, 'c', 12, kYmm},
    {"cx16", 1, 0, 'c', 13, kNone},        {"sse4.1", 1, 0, 'c', 19, kNone},
    {"sse4.2", 1, 0, 'c', 20, kNone},      {"movbe", 1, 0, 'c', 22, kNone},
    {"crc32", 1, 0, 'c', 20, kNone},       {"popcnt", 1, 0, 'c', 23, kNone},
    {"aes", 1, 0, 'c', 25, kNone},         {"xsave", 1, 0, 'c', 26, kNone},
    {"avx", 1, 0, 'c', 28, kYmm},          {"f16c", 1, 0, 'c', 29, kYmm},
    {"rdrnd", 1, 0, 'c', 30, kNone},       {"fsgsbase", 7, 0, 'b', 0, kNone},
    {"bmi", 7, 0, 'b', 3, kNone},          {"avx2", 7, 0, 'b', 5, kYmm},
    {"bmi2", 7, 0, 'b', 8, kNone},         {"avx512f", 7, 0, 'b', 16, kZmm},
    {"avx512dq", 7, 0, 'b', 17, kZmm},     {"rdseed", 7, 0, 'b', 18, kNone},
    {"adx", 7, 0, 'b', 19, kNone},         {"avx512ifma", 7, 0, 'b', 21, kZmm},
    {"clflushopt", 7, 0, 'b', 23, kNone},  {"clwb", 7, 0, 'b', 24, kNone},
    {"avx512cd", 7, 0, 'b', 28, kZmm},     {"sha", 7, 0, 'b', 29, kNone},
    {"avx512bw", 7, 0, 'b', 30, kZmm},     {"avx512vl", 7, 0, 'b', 31, kZmm},
    {"avx512vbmi", 7, 0, 'c', 1, kZmm},    {"avx512vbmi2", 7, 0, 'c', 6, kZmm},
    {"gfni", 7, 0, 'c', 8, kNone},         {"vaes", 7, 0, 'c', 9, kYmm},
    {"vpclmulqdq", 7, 0, 'c', 10, kYmm},   {"avx512vnni", 7, 0, 'c', 11, kZmm},
    {"avx512bitalg", 7, 0, 'c', 12, kZmm}, {"avx512vpopcntdq", 7, 0, 'c', 14, kZmm},
    {"rdpid", 7, 0, 'c', 22, kNone},       {"amx-bf16", 7, 0, 'd', 22, kTile},
    {"avx512fp16", 7, 0, 'd', 23, kZmm},   {"amx-tile", 7, 0, 'd', 24, kTile},
    {"amx-int8", 7, 0, 'd', 25, kTile},    {"avxvnni", 7, 1, 'a', 4, kYmm},
    {"avx512bf16", 7, 1, 'a', 5, kZmm},    {"amx-fp16", 7, 1, 'a', 21, kTile},
    {"avxifma", 7, 1, 'a', 23, kYmm},      {"avxvnniint8", 7, 1, 'd', 4, kYmm},
    {"sahf", 0x80000001, 0, 'c', 0, kNone}, {"lzcnt", 0x80000001, 0, 'c', 5, kNone},
    {"prfchw", 0x80000001, 0, 'c', 8, kNone}, {"64bit", 0x80000001, 0, 'd', 29, kNone},
};
// clang-format on

// The XCR0 register; 0 where the operating system does not save extended registers at all.
uint64_t saved_state() {
  uint32_t a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c >> 27 & 1) == 0) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

Answer has_feature(const char* name) {
  for (const Feature& feature : kFeatures) {
    if (strcmp(feature.name, name) != 0) continue;
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(feature.leaf, feature.subleaf, &a, &b, &c, &d) == 0) return Answer::No;
    // Subleaf 0 of leaf 7 gives the number of its last subleaf.
    if (feature.leaf == 7 && feature.subleaf > 0) {
      uint32_t parts = 0, ignored;
      __get_cpuid_count(7, 0, &parts, &ignored, &ignored, &ignored);
      if (parts < feature.subleaf) return Answer::No;
    }
    const uint32_t value = feature.reg == 'a' ? a : feature.reg == 'b' ? b : feature.reg == 'c' ? c : d;
    if ((value >> feature.bit & 1) == 0) return Answer::No;
    if ((saved_state() & feature.state) != feature.state) return Answer::No;
    return Answer::Yes;
  }
  return Answer::Unknown;
}

const char* feature_name(int index) {
  constexpr int kCount = sizeof kFeatures / sizeof kFeatures[0];
  return index < kCount ? kFeatures[index].name : nullptr;
}

#elif defined(__riscv)

// Bits of the system call riscv_hwprobe, key 4 (RISCV_HWPROBE_KEY_IMA_EXT_0).
struct Probe {
  const char* name;
  int bit;
};
// clang-format off
constexpr Probe kProbes[] = {
    {"zba", 3}, {"zbb", 4}, {"zbs", 5}, {"zicboz", 6}, {"zbc", 7}, {"zfh", 27}, {"zfhmin", 28},
    {"zvbb", 17}, {"zvbc", 18}, {"zvfh", 30}, {"zvfhmin", 31}, {"zfa", 32}, {"zicond", 35},
};
// clang-format on

// Extensions that every machine with the extensions of one letter (i, m, a, f, d, c) has.
constexpr const char* kImplied[] = {"zicsr", "zifencei", "zmmul", "zaamo", "zalrsc", "zca", "zcd"};

bool listed_in_cpuinfo(const char* name, bool* known) {
  *known = false;
  FILE* file = fopen("/proc/cpuinfo", "re");
  if (file == nullptr) return false;
  char line[1024];
  bool found = false;
  while (!*known && fgets(line, sizeof line, file) != nullptr) {
    if (strncmp(line, "isa", 3) != 0) continue;
    *known = true;
    char* rest = nullptr;
    for (char* word = strtok_r(line, "_ \t\n:", &rest); word != nullptr;
         word = strtok_r(nullptr, "_ \t\n:", &rest))
      if (strcmp(word, name) == 0) found = true;
  }
  fclose(file);
  return found;
}

// Whether SpacemiT's matrix instruction runs here, by executing it. Linux does not list the extension; of a
// machine with several kinds of cores the answer is that of the core that this runs on.
sigjmp_buf after_trial;

void on_illegal(int) { siglongjmp(after_trial, 1); }

bool runs_matrix_instruction() {
  struct sigaction trial = {}, before = {};
  trial.sa_handler = on_illegal;
  sigaction(SIGILL, &trial, &before);
  volatile bool runs = false;
  if (sigsetjmp(after_trial, 1) == 0) {
    // smt.vmadot v0, v2, v3
    __asm__ volatile(
        ".option push\n.option arch, +v\nvsetvli zero, %0, e8, m1, ta, ma\n.insn r 0x2b, 3, 0x71, x0, x2, x3\n"
        ".option pop" ::"r"(32L)
        : "memory");
    runs = true;
  }
  sigaction(SIGILL, &before, nullptr);
  return runs;
}

bool has_letter(char letter) { return (getauxval(AT_HWCAP) >> (letter - 'a') & 1) != 0; }

// Length of a vector register in bits; 0 without the vector extension.
unsigned long vector_bits() {
  if (!has_letter('v')) return 0;
  unsigned long bytes;
  __asm__ volatile(".option push\n.option arch, +v\ncsrr %0, vlenb\n.option pop" : "=r"(bytes));
  return bytes * 8;
}

Answer has_feature(const char* name) {
  if (strcmp(name, "64bit") == 0) return Answer::Yes;
  if (name[0] != 0 && name[1] == 0) {
    if (strchr("imafdcv", name[0]) == nullptr) return Answer::Unknown;
    return has_letter(name[0]) ? Answer::Yes : Answer::No;
  }
  unsigned long bits = 0;
  int used = 0;
  if (sscanf(name, "zvl%lub%n", &bits, &used) == 1 && name[used] == 0)
    return vector_bits() >= bits ? Answer::Yes : Answer::No;
  if (strcmp(name, "xsmtvdot") == 0)
    return vector_bits() == 256 && runs_matrix_instruction() ? Answer::Yes : Answer::No;
  if (strncmp(name, "zve", 3) == 0) return has_letter('v') ? Answer::Yes : Answer::No;
  for (const char* implied : kImplied)
    if (strcmp(name, implied) == 0) return Answer::Yes;
  for (const Probe& probe : kProbes) {
    if (strcmp(probe.name, name) != 0) continue;
    struct {
      int64_t key;
      uint64_t value;
    } pair = {4, 0};
    constexpr long kHwprobe = 258;
    if (syscall(kHwprobe, &pair, 1L, 0L, nullptr, 0L) == 0 && pair.key == 4)
      return (pair.value >> probe.bit & 1) != 0 ? Answer::Yes : Answer::No;
  }
  bool known;
  const bool listed = listed_in_cpuinfo(name, &known);
  return !known || listed ? Answer::Yes : Answer::No;
}

// All other names of features that artefacts use.
constexpr const char* kOthers[] = {"64bit",  "i",       "m",       "a",       "f",        "d",       "c",
                                   "v",      "zve32x",  "zve32f",  "zve64x",  "zve64f",   "zve64d",  "zvl32b",
                                   "zvl64b", "zvl128b", "zvl256b", "zvl512b", "zvl1024b", "xsmtvdot"};

const char* feature_name(int index) {
  constexpr int kOther = sizeof kOthers / sizeof kOthers[0];
  constexpr int kImplying = sizeof kImplied / sizeof kImplied[0];
  constexpr int kProbed = sizeof kProbes / sizeof kProbes[0];
  if (index < kOther) return kOthers[index];
  index -= kOther;
  if (index < kImplying) return kImplied[index];
  index -= kImplying;
  return index < kProbed ? kProbes[index].name : nullptr;
}

#else

struct Bit {
  const char* name;
  int word;  // 1: AT_HWCAP, 2: AT_HWCAP2
  int bit;
};
// clang-format off
constexpr Bit kBits[] = {
    {"neon", 1, 1},  {"fp-armv8", 1, 0}, {"aes", 1, 3},   {"crc", 1, 7},      {"lse", 1, 8},
    {"fullfp16", 1, 10}, {"dotprod", 1, 20}, {"sve", 1, 22}, {"sve2", 2, 1}, {"i8mm", 2, 13},
    {"bf16", 2, 14},
};
// clang-format on

Answer has_feature(const char* name) {
  for (const Bit& bit : kBits)
    if (strcmp(bit.name, name) == 0)
      return (getauxval(bit.word == 1 ? AT_HWCAP : AT_HWCAP2) >> bit.bit & 1) != 0 ? Answer::Yes : Answer::No;
  return Answer::Unknown;
}

const char* feature_name(int index) {
  constexpr int kCount = sizeof kBits / sizeof kBits[0];
  return index < kCount ? kBits[index].name : nullptr;
}

#endif

// Copies the next word of the list into `word`; false at the end of the list. A word that is too long is cut
// off, and then matches no known feature.
bool next_word(const char** list, char* word, size_t size) {
  const char* start = *list + strspn(*list, " ");
  const size_t length = strcspn(start, " ");
  if (length == 0) return false;
  const size_t kept = length < size ? length : size - 1;
  memcpy(word, start, kept);
  word[kept] = 0;
  *list = start + length;
  return true;
}

}  // namespace

const char* known_feature(int index) { return index < 0 ? nullptr : feature_name(index); }

bool has_features(const char* features, char* missing, size_t missing_size) {
  char word[64];
  while (next_word(&features, word, sizeof word)) {
    const Answer answer = has_feature(word);
    if (answer == Answer::Yes) continue;
    if (answer == Answer::Unknown) {
      snprintf(missing, missing_size, "'%s', which this version of the runtime does not know", word);
      return false;
    }
#if defined(__riscv)
    if (strncmp(word, "zvl", 3) == 0) {
      snprintf(missing, missing_size, "'%s', and this machine's vector registers have %lu bits", word,
               vector_bits());
      return false;
    }
#endif
    snprintf(missing, missing_size, "'%s', which this machine lacks", word);
    return false;
  }
  return true;
}

bool enable_features(const char* features) {
#if defined(__x86_64__)
  char word[64];
  while (next_word(&features, word, sizeof word)) {
    if (strncmp(word, "amx-", 4) != 0) continue;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }
#else
  (void)features;
#endif
  return true;
}

}  // namespace tc::runtime
