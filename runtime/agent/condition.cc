#include "runtime/agent/condition.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

namespace tc::agent {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFiles = 256;  // of each kind
// Sensors that are not connected give nonsense.
constexpr double kColdest = 1, kWarmest = 150, kMostGigahertz = 100;

std::optional<double> number_in(const fs::path& path) {
  std::ifstream file(path);
  double value = 0;
  if (!(file >> value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

// The largest number in the files `below` of all folders of `parent` whose names begin with `prefix`, times
// `scale`, of those between `least` and `most`.
std::optional<double> largest(const fs::path& parent, const std::string& prefix, const fs::path& below,
                              double scale, double least, double most) {
  std::optional<double> result;
  std::error_code error;
  int count = 0;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().rfind(prefix, 0) != 0) continue;
    if (++count > kMostFiles) break;
    const std::optional<double> value = number_in(entry->path() / below);
    if (!value || *value * scale < least || *value * scale > most) continue;
    result = std::max(result.value_or(0), *value * scale);
  }
  return result;
}

}  // namespace

rpc::Condition condition_of_machine(const std::string& root) {
  const fs::path base(root);
  rpc::Condition condition;
  if (const auto load = number_in(base / "proc/loadavg"); load && *load >= 0) condition.set_load(*load);
  if (const auto celsius =
          largest(base / "sys/class/thermal", "thermal_zone", "temp", 1e-3, kColdest, kWarmest))
    condition.set_celsius(*celsius);
  if (const auto gigahertz = largest(base / "sys/devices/system/cpu", "cpu", "cpufreq/scaling_cur_freq", 1e-6,
                                     0, kMostGigahertz))
    condition.set_gigahertz(*gigahertz);
  return condition;
}

}  // namespace tc::agent
