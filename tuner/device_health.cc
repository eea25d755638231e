#include "tuner/device_health.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/error.h"
#include "tuner/median.h"

namespace tc {
namespace {

constexpr int kFewestFailures = 3;
constexpr double kFailingShare = 0.03;  // of all runs; of a board that fails 5 % one sees less at times
constexpr size_t kFewestPrograms = 5;
constexpr double kSlowDevice = 1.2;
constexpr int kFewestSlowCalls = 2;
constexpr size_t kMostPrograms = 4096;

}  // namespace

void DeviceHealth::add_run(const std::string& device, const std::string& program, double seconds) {
  ++runs_[device];
  if (least_.size() >= kMostPrograms && least_.count(program) == 0) return;
  const auto [found, is_new] = least_[program].try_emplace(device, seconds);
  if (!is_new) found->second = std::min(found->second, seconds);
}

void DeviceHealth::add_failure(const std::string& device, const std::string& program) {
  ++runs_[device];
  ++failed_[device][program];
}

std::string DeviceHealth::failures_of(const std::string& device) const {
  const auto found = failed_.find(device);
  if (found == failed_.end()) return "";
  int failures = 0;
  for (const auto& [program, count] : found->second) {
    const auto right = least_.find(program);
    if (right == least_.end()) continue;
    const bool another = std::any_of(right->second.begin(), right->second.end(),
                                     [&](const auto& run) { return run.first != device; });
    if (another) failures += count;
  }
  const int runs = runs_.at(device);
  if (failures < kFewestFailures || failures < kFailingShare * runs) return "";
  return text("failed in ", failures, " of ", runs,
              " runs, whose programs run rightly on others of its kind");
}

std::string DeviceHealth::slowness_of(const std::string& device) const {
  std::vector<double> ratios;
  for (const auto& [program, runs] : least_) {
    const auto own = runs.find(device);
    if (own == runs.end() || runs.size() < 2) continue;
    std::vector<double> others;
    for (const auto& [other, seconds] : runs)
      if (other != device) others.push_back(seconds);
    ratios.push_back(own->second / median(others));
  }
  if (ratios.size() < kFewestPrograms) return "";
  const double ratio = median(ratios);
  if (ratio < kSlowDevice) return "";
  return text("takes ", std::lround(100 * (ratio - 1)), " % longer for ", ratios.size(),
              " programs than others of its kind");
}

std::string DeviceHealth::problem(const std::string& device) {
  if (std::string failures = failures_of(device); !failures.empty()) return failures;
  std::string slowness = slowness_of(device);
  int& in_a_row = slow_in_a_row_[device];
  in_a_row = slowness.empty() ? 0 : in_a_row + 1;
  return in_a_row < kFewestSlowCalls ? "" : slowness;
}

}  // namespace tc
