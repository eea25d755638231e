#include "runtime/agent/effort.h"

#include <algorithm>
#include <cmath>

namespace tc::agent {
namespace {

// A run of a sample takes at least this part of a single one's processor time, less the overhead of waking and
// stopping a process and of fetching new inputs and poisoned outputs into caches.
constexpr double kLeastEffort = 0.7;
constexpr double kFetchedBytesPerSecond = 4e9;
// Waking and stopping a process takes 25 to 450 us of its processor time on one virtual machine, as the second goes.
// The agent's time for the same wake and stop rises and falls with it: the candidate's was more than twice as much
// in one of 600 single runs. It is capped, in case a candidate finds a way to make the agent work.
constexpr double kOverheadPerThread = 150e-6;
constexpr double kOverheadPerAgentSecond = 2;
constexpr double kMostOverheadByAgent = 1e-3;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

// Short ones with two digits behind the point: runs take fractions of a microsecond, too.
std::string microseconds(double seconds) {
  const double hundredths = std::round(seconds * 1e8);
  const std::string text = std::to_string(hundredths / 100);
  return hundredths < 1000 ? text.substr(0, text.find('.') + 3) : std::to_string(std::lround(seconds * 1e6));
}

}  // namespace

void Effort::add_single(double processor_seconds, double agent_seconds) {
  const double by_agent = std::min(kOverheadPerAgentSecond * agent_seconds, kMostOverheadByAgent);
  singles_.push_back({processor_seconds, kOverheadPerThread * threads_ + by_agent});
}

std::string Effort::problem(uint32_t runs) const {
  if (singles_.empty() || samples_.empty()) return "";
  // The single run that speaks most for the candidate, since the overhead of a few is underestimated.
  const Single& single = *std::min_element(singles_.begin(), singles_.end(), [](const Single& a, const Single& b) {
    return a.processor - a.overhead < b.processor - b.overhead;
  });
  const double overhead = single.overhead + bytes_ / kFetchedBytesPerSecond;
  const double sample = median(samples_);
  if (sample >= kLeastEffort * (single.processor - overhead)) return "";
  return "does not run as often as it is told: one run takes " + microseconds(single.processor) +
         " us of processor time, of which waking it and fetching its data may have taken " + microseconds(overhead) +
         " us; each of " + std::to_string(runs) + " takes " + microseconds(sample) + " us";
}

}  // namespace tc::agent
