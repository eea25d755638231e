// Detects the core, the features and the cache sizes of the machine that tc runs on.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "ir/target/tables.h"

#if defined(__riscv) || defined(__aarch64__)
#include <sys/auxv.h>
#else
#include <cpuid.h>
#endif

namespace tc::targets {
namespace {

#if defined(__x86_64__)
constexpr Arch kHere = Arch::X86_64;

// The name in x86_cores.h of this machine's core, where it can be recognised: Zen 4 is models 10h to 1Fh and
// from 60h on of AMD's family 19h, Zen 5 is family 1Ah (Processor Programming Reference, CPUID Fn0000_0001).
std::string this_core() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx || !__get_cpuid(1, &a, &b, &c, &d)) return "";
  const unsigned family = ((a >> 8) & 15) + ((a >> 20) & 255), sixteen = (a >> 16) & 15;
  if (family == 0x1a) return "znver5";
  return family == 0x19 && (sixteen == 1 || sixteen >= 6) ? "znver4" : "";
}

// The features by CPUID, provided that the operating system also saves the registers. (The built-in function
// takes only literals, hence the macro.)
std::vector<std::string> detect() {
  std::vector<std::string> found;
  __builtin_cpu_init();
#define TC_DETECT(name) \
  if (__builtin_cpu_supports(name)) found.push_back(name)
  TC_DETECT("avx");
  TC_DETECT("avx2");
  TC_DETECT("bmi");
  TC_DETECT("bmi2");
  TC_DETECT("f16c");
  TC_DETECT("fma");
  TC_DETECT("lzcnt");
  TC_DETECT("movbe");
  TC_DETECT("avx512f");
  TC_DETECT("avx512bw");
  TC_DETECT("avx512cd");
  TC_DETECT("avx512dq");
  TC_DETECT("avx512vl");
  TC_DETECT("avx512bf16");
  TC_DETECT("avx512bitalg");
  TC_DETECT("avx512fp16");
  TC_DETECT("avx512ifma");
  TC_DETECT("avx512vbmi");
  TC_DETECT("avx512vbmi2");
  TC_DETECT("avx512vnni");
  TC_DETECT("avx512vpopcntdq");
  TC_DETECT("avxvnni");
  TC_DETECT("amx-bf16");
  TC_DETECT("amx-int8");
  TC_DETECT("amx-tile");
  TC_DETECT("gfni");
  TC_DETECT("vaes");
  TC_DETECT("vpclmulqdq");
#undef TC_DETECT
  return found;
}
#elif defined(__riscv)
constexpr Arch kHere = Arch::RiscV64;

std::vector<std::string> detect() {
  std::vector<std::string> found;
  // The kernel's HWCAP has one bit per single-letter extension.
  if (!(getauxval(AT_HWCAP) & (1ul << ('v' - 'a')))) return found;
  found.push_back("v");
  unsigned long bytes = 0;
  asm volatile(".option push\n.option arch, +zicsr\ncsrr %0, 0xc22\n.option pop" : "=r"(bytes));
  for (unsigned long bits : {128ul, 256ul, 512ul, 1024ul}) {
    if (8 * bytes >= bits) found.push_back("zvl" + std::to_string(bits) + "b");
  }
  return found;
}
#elif defined(__aarch64__)
constexpr Arch kHere = Arch::AArch64;

std::vector<std::string> detect() { return arm_features(getauxval(AT_HWCAP), getauxval(AT_HWCAP2)); }
#else
#error "tc runs on x86-64, 64-bit RISC-V and 64-bit Arm"
#endif

#if !defined(__x86_64__)
std::string this_core() {
  std::ifstream file("/proc/cpuinfo");
  return core_of_cpuinfo(kHere, {std::istreambuf_iterator<char>(file), {}});
}
#endif

// The clock of the first core: the highest that the governor allows, else what the kernel measured at start;
// 0 where neither is known.
double clock_ghz() {
  std::ifstream highest("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  if (double kilohertz = 0; highest >> kilohertz) return kilohertz * 1e-6;
  std::ifstream cores("/proc/cpuinfo");
  for (std::string line; std::getline(cores, line);) {
    const size_t colon = line.find(':');
    if (line.rfind("cpu MHz", 0) == 0 && colon != std::string::npos)
      return std::atof(line.c_str() + colon + 1) * 1e-3;
  }
  return 0;
}

}  // namespace

std::vector<std::string> detected_features(Arch arch) {
  return arch == kHere ? detect() : std::vector<std::string>{};
}

bool is_this_machine(Arch arch) { return arch == kHere; }

std::string core_of_cpuinfo(Arch arch, const std::string& text) {
  struct Line {
    Arch arch;
    const char *key, *value, *core;
  };
  // Arm: part numbers in MIDR_EL1 where the implementer is Arm. RISC-V: the core's name in device trees.
  constexpr Line kLines[] = {{Arch::AArch64, "CPU part", "0xd03", "cortex-a53"},
                             {Arch::AArch64, "CPU part", "0xd05", "cortex-a55"},
                             {Arch::AArch64, "CPU part", "0xd0b", "cortex-a76"},
                             {Arch::AArch64, "CPU part", "0xd0c", "neoverse-n1"},
                             {Arch::RiscV64, "uarch", "spacemit,x60", "spacemit-x60"},
                             {Arch::RiscV64, "uarch", "spacemit,x100", "spacemit-x100"},
                             {Arch::RiscV64, "uarch", "sifive,p670", "sifive-p670"},
                             {Arch::RiscV64, "uarch", "sifive,x280", "sifive-x280"},
                             {Arch::RiscV64, "uarch", "thead,c908", "thead-c908"}};
  bool is_arms = true;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, std::min(colon, line.find_first_of("\t:")));
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin == std::string::npos) continue;
    const std::string value = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    if (key == "CPU implementer") is_arms = value == "0x41";
    for (const Line& each : kLines) {
      if (each.arch == arch && is_arms && key == each.key && value == each.value) return each.core;
    }
  }
  return "";
}

std::string native_name() {
  std::vector<std::string> found = detect();
  auto has = [&](const std::string& name) {
    return std::find(found.begin(), found.end(), name) != found.end();
  };
  std::string name = "aarch64";
  const auto add = [&](const char* extra) {
    name += (name.find('+') == std::string::npos ? "+" : ",+") + std::string(extra);
  };
  if (kHere == Arch::AArch64) {
    for (const std::string& extra : targets::product_features(kHere)) {
      if (extra != "neon" && has(extra)) add(extra.c_str());
    }
    return name;
  }
  if (kHere == Arch::RiscV64) {
    if (!has("v")) return "rv64gc";
    for (const char* length : {"zvl1024b", "zvl512b", "zvl256b"}) {
      if (has(length)) return std::string("rv64gcv_") + length;
    }
    return "rv64gcv";
  }
  bool level4 = has("avx512f") && has("avx512bw") && has("avx512cd") && has("avx512dq") && has("avx512vl");
  name = level4 ? "x86-64-v4" : "x86-64-v3";
  for (const char* extra :
       {"amx-bf16", "amx-int8", "amx-tile", "avx512bf16", "avx512fp16", "avx512vnni", "avxvnni"}) {
    bool is_level4 = std::string(extra) != "avxvnni";
    if (has(extra) && (level4 || !is_level4)) add(extra);
  }
  return name;
}

void describe_this_machine(Target& target, bool find_core) {
  // The target's name tells which code can run here, not for which core to plan it.
  if (const CoreRow* row = find_core ? core_of(kHere, this_core()) : nullptr) use_core(target, *row);
  long l1 = 0, l2 = 0, l3 = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  // Virtual machines and boards may report nothing, or nonsense.
  if (l1 >= 8 << 10 && l1 <= 1 << 20) target.l1_bytes = l1;
  if (l2 >= 64 << 10 && l2 <= 64 << 20) target.l2_bytes = l2;
  // Virtual machines report the whole host's cache: one that is larger than the row's is shared with others.
  if (l3 >= 1 << 20) target.l3_bytes = std::min<int64_t>(target.l3_bytes, l3);
  if (const double clock = clock_ghz(); clock >= 0.1 && clock <= 10) target.clock_ghz = clock;
  target.cores = std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace tc::targets
