#include "runtime/agent/device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/agent/isolation.h"
#include "runtime/machine.h"
#include "runtime/rpc/fields.h"
#include "runtime/rpc/version.h"
#include "runtime/tc_runtime.h"

namespace tc::agent {
namespace {

std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line, '\n');
  return line.substr(0, line.find('\0'));
}

// The value of the first line "KEY : VALUE" of /proc/cpuinfo; empty if there is none.
std::string processor_field(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t end = line.find_last_not_of(" \t", colon - 1);
    if (line.compare(0, end + 1, key) != 0 || end + 1 != key.size()) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string processor_name() {
  for (const char* key : {"model name", "uarch", "Processor", "CPU part"})
    if (const std::string name = processor_field(key); !name.empty()) return name;
  if (const std::string board = first_line_of("/proc/device-tree/model"); !board.empty()) return board;
  return runtime::architecture_name();
}

// Bytes of this processor's data cache of that level, 0 where unknown.
int64_t cache_bytes(int level) {
  const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index";
  for (int index = 0; index < 8; ++index) {
    const std::string entry = folder + std::to_string(index);
    if (first_line_of(entry + "/level") != std::to_string(level)) continue;
    if (first_line_of(entry + "/type") == "Instruction") continue;
    const std::string text = first_line_of(entry + "/size");
    char* unit = nullptr;
    const int64_t size = std::strtoll(text.c_str(), &unit, 10);
    return *unit == 'K' ? size << 10 : *unit == 'M' ? size << 20 : size;
  }
  const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  return std::max(sysconf(names[level - 1]), 0L);
}

#if defined(__x86_64__)
// Measured, since a virtual machine only reports the nominal clock. On all cores with AVX2, an integer
// multiplication has a latency of three cycles (Agner Fog, instruction tables).
double clock_ghz() {
  constexpr int kMultiplications = 100'000, kRounds = 20;
  uint64_t least = UINT64_MAX;
  for (int round = 0; round < kRounds; ++round) {
    uint64_t product = 3;
    const uint64_t start = runtime::now_nanoseconds();
    for (int i = 0; i < kMultiplications; ++i) asm volatile("imulq %0, %0" : "+r"(product));
    least = std::min(least, runtime::now_nanoseconds() - start);
  }
  return 3.0 * kMultiplications / static_cast<double>(std::max<uint64_t>(least, 1));
}
#else
double clock_ghz() {
  const std::string most = first_line_of("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  if (!most.empty()) return std::strtod(most.c_str(), nullptr) * 1e-6;
  const std::string now = processor_field("cpu MHz");
  return now.empty() ? 0 : std::strtod(now.c_str(), nullptr) * 1e-3;
}
#endif

bool has(const char* feature) {
  char missing[128];
  return runtime::has_features(feature, missing, sizeof missing);
}

int vector_bits() {
#if defined(__x86_64__)
  return has("avx512f") ? 512 : has("avx") ? 256 : 128;
#elif defined(__riscv)
  for (int bits = 1024; bits >= 128; bits /= 2)
    if (has(("zvl" + std::to_string(bits) + "b").c_str())) return bits;
  return 0;
#else
  return 128;
#endif
}

}  // namespace

void set_key(rpc::DeviceInfo& device) {
  std::string key = device.architecture() + "/" + device.processor() + "/" + std::to_string(device.cores()) +
                    " cores/" + std::to_string(device.vector_bits()) + " bits/" + device.unit();
  for (char& c : key)
    if (!rpc::is_word(std::string(1, c), 1)) c = '_';
  device.set_key(key);
}

rpc::DeviceInfo describe_device(const Runner& runner) {
  rpc::DeviceInfo device;
  device.set_runner(runner.name());
  device.set_unit(runner.unit());
  for (const std::string& name : runner.isolation()) device.add_isolation(name);
  for (const std::string& name : isolation_lacks()) device.add_lacks(name);
  *device.mutable_version() = rpc::own_version();
  if (runner.simulate(device)) {
    set_key(device);
    return device;
  }
  device.set_architecture(runtime::architecture_name());
  for (int i = 0; const char* name = runtime::known_feature(i); ++i)
    if (has(name)) device.add_features(name);
  device.set_processor(rpc::printable(processor_name(), 128));
  device.set_cores(tc_core_count());
  device.set_vector_bits(vector_bits());
  device.set_l1_bytes(cache_bytes(1));
  device.set_l2_bytes(cache_bytes(2));
  device.set_l3_bytes(cache_bytes(3));
  device.set_clock_ghz(clock_ghz());
  device.set_memory_bytes(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
  set_key(device);
  return device;
}

}  // namespace tc::agent
