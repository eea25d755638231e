#include "runtime/agent/effort.h"

#include <algorithm>
#include <cmath>

namespace tc::agent {
namespace {

// Runs of samples take more than this part of the processor time of single ones, but for what the system needs to
// wake and stop a process, and for caches, which have to fetch new inputs and poisoned outputs.
constexpr double kLeastEffort = 0.7;
// The system's part differs tenfold from one second to the next on virtual machines (25 to 450 us were seen), and so
// does what the agent needs at the other ends of the same pipes: in one of 600 runs the candidate needed more than
// twice as much. No more than the most is allowed, or a candidate that keeps the agent busy could leave out long runs.
constexpr double kLeastLostSeconds = 150e-6, kMostLostSeconds = 1e-3, kLostPerAgentSecond = 2;
constexpr double kFetchedBytesPerSecond = 4e9;

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

std::string microseconds(double seconds) { return std::to_string(std::lround(seconds * 1e6)); }

}  // namespace

void Effort::add_single(double processor_seconds, double agent_seconds) {
  const double lost = std::clamp(kLostPerAgentSecond * agent_seconds, kLeastLostSeconds, kMostLostSeconds);
  singles_.push_back({processor_seconds, lost * threads_});
}

std::string Effort::problem(uint32_t runs) const {
  if (singles_.empty() || samples_.empty()) return "";
  const Single& least = *std::min_element(singles_.begin(), singles_.end(), [](const Single& a, const Single& b) {
    return a.processor - a.lost < b.processor - b.lost;
  });
  const double lost = least.lost + bytes_ / kFetchedBytesPerSecond;
  const double sample = middle(samples_);
  if (sample >= kLeastEffort * (least.processor - lost)) return "";
  return "does not run as often as it is told: one run takes " + microseconds(least.processor) +
         " us of processor time, of which its start and its data may have taken " + microseconds(lost) +
         " us; each of " + std::to_string(runs) + " takes " + microseconds(sample) + " us";
}

}  // namespace tc::agent
