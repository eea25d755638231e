#include "runtime/agent/effort.h"

#include <algorithm>
#include <climits>
#include <cmath>

namespace tc::agent {
namespace {

// A run of a sample takes at least this part of what a single one takes, less the overhead of waking and
// stopping a process and of fetching new inputs and poisoned outputs into caches. Less is no time: it is made
// that long.
constexpr double kLeastTime = 0.8;
// From these on it is a verdict: far beyond the overhead, and for shorter runs. Kernels that branch on their
// data take longer on new ones than on the same again and again, up to twice as long where all branches fit
// into the predictor.
constexpr double kLeastEffort = 0.7, kLeastShortEffort = 0.3;
constexpr double kFetchedBytesPerSecond = 4e9;

// On one processor, the agent's time for the same wake and stop is twice the candidate's, whatever the
// machine does. It is capped, in case a candidate finds a way to make the agent work.
constexpr double kBesidePerAgentSecond = 0.5, kMostBeside = 30e-6;
// Threads that wait for each other on one processor use it a while before they pass it on, more than where
// each has its own. How often they do is theirs to decide, so it does not excuse everything. Behind their
// last run they wait for more, until the agent stops them: at once, or when they sleep at last.
constexpr int kOwnTurns = 2;  // of a thread that waits for none: its run; and its stop, behind the agent
constexpr double kWaitPerTurn = 3e-6, kMostWait = 50e-6, kMostWaitShare = 0.3, kLastWait = 110e-6;
constexpr double kBesidePerThread = 100e-6;  // beyond that, for a verdict
constexpr double kShortBeside = 10e-6;       // a verdict on short runs leaves out this much
// Single runs say little in which the agent needed more than this much of what it needs as a rule.
constexpr double kUsualSingles = 2;
// From one processor to another, it is 25 to 450 us on one virtual machine, as the second goes. The agent's
// time rises and falls with it: the candidate's was more than twice as much in one of 600 single runs.
constexpr double kAwayPerThread = 150e-6, kAwayPerAgentSecond = 2, kMostAway = 1e-3;

// Of a lone run: threads are woken one by one, each as the candidate's first was for a command of no run, or
// slower.
constexpr double kWakes = 2, kLoneBeside = 10e-6;
// Samples are faster than one thread where they take less than this part of the processor time of a run.
constexpr double kSerial = 0.8;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

// Seconds of a single run that may have gone into waking and stopping the process.
double overhead_of(const SingleRun& single, int threads, bool is_generous) {
  if (!single.beside)
    return kAwayPerThread * threads + std::min(kAwayPerAgentSecond * single.agent, kMostAway);
  const double sure = std::min(kBesidePerAgentSecond * single.agent, kMostBeside);
  return is_generous ? sure + kBesidePerThread * threads : sure;
}

// Seconds of a thread in a single run that may have gone into waiting for others.
double waits_of(const SingleRun& single) {
  const double between = kWaitPerTurn * std::max(single.turns - kOwnTurns, 0);
  const double most = std::max(kMostWait, kMostWaitShare * single.busiest);
  return std::min(between, most) + (single.goes_first ? 0 : kLastWait);
}

// Short ones with two digits behind the point: runs take fractions of a microsecond, too.
std::string microseconds(double seconds) {
  const double hundredths = std::round(seconds * 1e8);
  const std::string text = std::to_string(hundredths / 100);
  return hundredths < 1000 ? text.substr(0, text.find('.') + 3) : std::to_string(std::lround(seconds * 1e6));
}

}  // namespace

void Effort::add_sample(double seconds, double processor_seconds) {
  seconds_.push_back(seconds);
  processor_seconds_.push_back(processor_seconds);
}

Effort::Work Effort::sure_work(bool is_generous) const {
  if (singles_.empty()) return {};
  std::vector<double> agents;
  int turns = INT_MAX;
  for (const SingleRun& single : singles_) {
    agents.push_back(single.agent);
    turns = std::min(turns, single.turns);
  }
  const double most = kUsualSingles * median(agents);
  Work least = {INFINITY, INFINITY};
  for (const SingleRun& single : singles_) {
    // Nor those in which threads waited for each other, or were interrupted, more often than in others.
    if (single.beside && (single.agent > most || (threads_ > 1 && single.turns > turns))) continue;
    const double overhead = overhead_of(single, threads_, is_generous) + bytes_ / kFetchedBytesPerSecond;
    const double waits = threads_ > 1 && single.beside ? waits_of(single) : 0;
    least.processor = std::min(least.processor, single.processor - overhead - threads_ * waits);
    least.busiest = std::min(least.busiest, single.busiest - overhead - waits);
  }
  if (std::isinf(least.processor)) return {};
  return {std::max(least.processor, 0.0), std::max(least.busiest, 0.0)};
}

double Effort::seconds_of_work() const {
  const Work work = sure_work(false);
  return std::max(work.processor / threads_, work.busiest);
}

double Effort::sure_latency() const {
  double least = INFINITY;
  for (const LoneRun& lone : lones_) {
    const double most = kAwayPerThread * threads_ + std::min(kAwayPerAgentSecond * lone.agent, kMostAway);
    const double overhead = std::min(kWakes * threads_ * lone.wake + kLoneBeside, most);
    least = std::min(least, lone.seconds - overhead - bytes_ / kFetchedBytesPerSecond);
  }
  return lones_.empty() ? 0 : std::max(least, 0.0);
}

double Effort::least_seconds() const { return kLeastTime * std::max(seconds_of_work(), sure_latency()); }

bool Effort::needs_lone() const {
  if (threads_ < 2 || seconds_.empty() || lones_.size() >= kMostLoneRuns) return false;
  double processor = singles_.empty() ? 0 : INFINITY;
  for (const SingleRun& single : singles_) processor = std::min(processor, single.processor);
  // Whatever a run may be excused for, and what waking took: asking costs little.
  return median(seconds_) < (lones_.empty() ? kSerial * processor : kLeastTime * sure_latency());
}

bool Effort::is_doubtful() const {
  return !seconds_.empty() && (median(seconds_) < kLeastTime * seconds_of_work() || !problem(1).empty());
}

std::string Effort::problem(uint32_t runs) const {
  if (singles_.empty() || seconds_.empty()) return "";
  const double seconds = median(seconds_), processor = median(processor_seconds_);
  const Work sure = sure_work(false), generous = sure_work(true);
  const auto is_short_of = [&](double least, const Work& work) {
    return processor < least * work.processor || seconds < least * work.busiest;
  };
  const Work almost = {sure.processor - kShortBeside, sure.busiest - kShortBeside};
  if (!is_short_of(kLeastEffort, generous) && !is_short_of(kLeastShortEffort, almost)) return "";
  const bool by_processor = processor < kLeastEffort * sure.processor;
  return "does not run as often as it is told: one run takes " +
         microseconds(by_processor ? sure.processor : sure.busiest) + " us of processor time" +
         (by_processor ? "" : " on one thread") + ", without waking it and fetching its data; each of " +
         std::to_string(runs) + " takes " + microseconds(by_processor ? processor : seconds) + " us" +
         (by_processor ? "" : " by the clock");
}

}  // namespace tc::agent
