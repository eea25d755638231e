#include "tuner/least_time.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/traffic.h"

namespace tc {
namespace {

constexpr double kClockHz = 8e9;        // faster than any processor
constexpr double kBytesPerCycle = 128;  // of a core's loads and stores together
constexpr double kMinSeconds = 1e-9;
// Factors on the rate of the target's vector units: a machine may have other units for narrow types, and a
// later one longer vectors.
constexpr double kFloatUnits = 2, kNarrowUnits = 64;
// The factor by which an algorithm may reduce the multiplications: the largest Winograd tiles reduce them by
// a factor of five.
constexpr double kAlgorithm = 8;

bool is_wide(const Kernel& kernel) {
  return std::all_of(kernel.buffers.begin(), kernel.buffers.end(), [](const Buffer& buffer) {
    return buffer.dtype == DType::F32 || buffer.dtype == DType::F64;
  });
}

}  // namespace

double least_of_unit(const std::string& unit) { return unit == "seconds" ? kMinSeconds : 1; }

double least_time(const KernelTask& task, const std::string& unit) {
  const double units = is_wide(task.kernel) ? kFloatUnits : kNarrowUnits;
  const double operations_per_cycle =
      2 * std::max(1, task.target.lanes(DType::F32)) * std::max(1.0, task.target.multiply_adds) * units;
  const Traffic traffic = traffic_of(task.kernel, {});
  // Only writes count: a kernel writes its whole outputs in every call, but may read less than its whole
  // inputs.
  const double cycles = std::max(traffic.written / kBytesPerCycle,
                                 flop_count(task.kernel, {}) / kAlgorithm / operations_per_cycle) /
                        std::max(1, task.threads);
  return std::max(least_of_unit(unit), unit == "seconds" ? cycles / kClockHz : cycles);
}

double peak_cycles(const KernelTask& task) {
  const double operations_per_cycle =
      2.0 * std::max(1, task.target.lanes(DType::F32)) * task.target.multiply_adds;
  return flop_count(task.kernel, {}) / operations_per_cycle / std::max(1, task.threads);
}

double roof_cycles(const KernelTask& task, const std::string& device_key) {
  const bool is_its_core =
      !task.target.core.empty() && device_key.find(task.target.core) != std::string::npos;
  // An algorithm makes do with fewer multiplications.
  const bool only_vectors =
      is_wide(task.kernel) && task.algorithms.empty() && task.target.matrix.registers == 0;
  return is_its_core && only_vectors ? peak_cycles(task) : 0;
}

Measurement believed(const Measurement& measurement, double least, const std::string& unit) {
  if (measurement.outcome != Outcome::Ok || measurement.time.minimum >= least) return measurement;
  Measurement refused;
  refused.outcome = Outcome::WrongResult;
  refused.detail =
      text("a time of ", measurement.time.minimum, " ", unit, " is not believed: no machine needs less than ",
           least, " for its operations and bytes; the device is in error, or does not tell the truth");
  return refused;
}

}  // namespace tc
