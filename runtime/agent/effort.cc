#include "runtime/agent/effort.h"

#include <algorithm>
#include <climits>
#include <cmath>

namespace tc::agent {
namespace {

// A run within a sample takes at least this share of the time of a single run, after the single run's
// overhead has been subtracted: waking and stopping the process, and fetching new inputs and poisoned outputs
// into caches. A shorter time is not believed, and is raised to that share.
constexpr double kMinTime = 0.8;
// Below these shares the candidate is rejected: the first share is for runs far longer than the overhead, the
// second for shorter ones. Kernels that branch on their data take longer on new data than on repeated data,
// up to twice as long where the branch predictor remembers all branches.
constexpr double kMinEffort = 0.7, kMinShortEffort = 0.3;
constexpr double kFetchedBytesPerSecond = 4e9;

// Where both share a processor, the agent spends twice as much time as the candidate on waking and stopping
// it, whatever the machine does. The estimate is capped, in case a candidate finds a way to make the agent
// work.
constexpr double kBesidePerAgentSecond = 0.5, kMaxBeside = 30e-6;
// Threads that wait for each other on one processor poll for a while before they yield it, which takes more
// time than with a processor each. The candidate decides how often they do so, so the allowance for it is
// limited. After their last run they wait for more work until the agent stops them: immediately where the
// agent has priority, else once they sleep.
// How often a thread that waits for no other is scheduled: for its run, and for its stop after the agent's.
constexpr int kOwnSwitches = 2;
constexpr double kWaitPerSwitch = 3e-6, kMaxWait = 50e-6, kMaxWaitShare = 0.3, kLastWait = 110e-6;
constexpr double kBesidePerThread = 100e-6;  // further allowance before a candidate is rejected
constexpr double kShortBeside = 10e-6;       // allowance before one with short runs is rejected
// Single runs in which the agent needed more than this many times its median time are not used: what held it
// up, an interrupt for one, need not have held up the candidate, and half of it would be taken off the
// candidate's time. On an idle machine 9 in 10 of the agent's times lie within a fifth of the median.
constexpr double kUsualSingles = 1.25;
// Where agent and candidate run on different processors, waking and stopping took 25 to 450 us on one virtual
// machine, changing from one second to the next. The agent's time rises and falls with it: the candidate's
// time was more than twice the agent's in one of 600 single runs.
constexpr double kAwayPerThread = 150e-6, kAwayPerAgentSecond = 2, kMaxAway = 1e-3;

// For runs on all processors: threads are woken one by one, and each takes as long as the first one took in a
// command with no run, or longer.
constexpr double kWakes = 2, kAllProcessorsBeside = 10e-6;
// Samples are faster than one thread could be where they take less than this share of a run's processor time.
constexpr double kSerial = 0.8;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

// The value that has `rank` smaller ones, or the least where there are fewer than three values; 0 where there
// are none.
double ranked(std::vector<double> values, size_t rank) {
  std::sort(values.begin(), values.end());
  if (values.empty()) return 0;
  return values[values.size() < 3 ? 0 : rank];
}

// The seconds of a single run that waking and stopping the process may have taken.
double overhead_of(const OneProcessorRun& single, int threads, bool is_generous) {
  if (!single.beside)
    return kAwayPerThread * threads + std::min(kAwayPerAgentSecond * single.agent, kMaxAway);
  const double sure = std::min(kBesidePerAgentSecond * single.agent, kMaxBeside);
  return is_generous ? sure + kBesidePerThread * threads : sure;
}

// The seconds that a thread may have spent in a single run waiting for other threads.
double waits_of(const OneProcessorRun& single) {
  const double between = kWaitPerSwitch * std::max(single.switches - kOwnSwitches, 0);
  const double most = std::max(kMaxWait, kMaxWaitShare * single.busiest);
  return std::min(between, most) + (single.goes_first ? 0 : kLastWait);
}

// Short times get two decimal places, since runs may take fractions of a microsecond.
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

Effort::Work Effort::sure_work(bool is_generous, size_t rank) const {
  if (one_processor_.empty()) return {};
  std::vector<double> agents;
  int switches = INT_MAX;
  for (const OneProcessorRun& single : one_processor_) {
    agents.push_back(single.agent);
    switches = std::min(switches, single.switches);
  }
  const double most = kUsualSingles * median(agents);
  std::vector<double> processor, busiest;
  for (const OneProcessorRun& single : one_processor_) {
    // Skips runs in which the agent needed unusually long, and those in which threads waited for each other,
    // or were interrupted, more often than in others.
    if (single.beside && (single.agent > most || (threads_ > 1 && single.switches > switches))) continue;
    const double overhead = overhead_of(single, threads_, is_generous) + bytes_ / kFetchedBytesPerSecond;
    const double waits = threads_ > 1 && single.beside ? waits_of(single) : 0;
    processor.push_back(single.processor - overhead - threads_ * waits);
    busiest.push_back(single.busiest - overhead - waits);
  }
  return {std::max(ranked(processor, rank), 0.0), std::max(ranked(busiest, rank), 0.0)};
}

double Effort::seconds_of_work() const {
  // Not the least: by chance, the overhead of one run may be overestimated, or a virtual machine's clock of
  // processor time may have stood still for a while.
  const Work work = sure_work(false, 1);
  return std::max(work.processor / threads_, work.busiest);
}

double Effort::sure_latency() const {
  double least = INFINITY;
  for (const AllProcessorsRun& run : all_processors_) {
    const double most = kAwayPerThread * threads_ + std::min(kAwayPerAgentSecond * run.agent, kMaxAway);
    const double overhead = std::min(kWakes * threads_ * run.wake + kAllProcessorsBeside, most);
    least = std::min(least, run.seconds - overhead - bytes_ / kFetchedBytesPerSecond);
  }
  return all_processors_.empty() ? 0 : std::max(least, 0.0);
}

double Effort::least_seconds() const { return kMinTime * std::max(seconds_of_work(), sure_latency()); }

bool Effort::needs_all_processors() const {
  if (threads_ < 2 || seconds_.empty() || all_processors_.size() >= kMaxAllProcessorsRuns) return false;
  double processor = one_processor_.empty() ? 0 : INFINITY;
  for (const OneProcessorRun& single : one_processor_) processor = std::min(processor, single.processor);
  // No overhead is subtracted here: another run on all processors costs little.
  return median(seconds_) < (all_processors_.empty() ? kSerial * processor : kMinTime * sure_latency());
}

bool Effort::is_doubtful() const {
  return !seconds_.empty() && (median(seconds_) < kMinTime * seconds_of_work() || !problem(1).empty());
}

std::string Effort::problem(uint32_t runs) const {
  if (one_processor_.empty() || seconds_.empty()) return "";
  const double seconds = median(seconds_), processor = median(processor_seconds_);
  const Work sure = sure_work(false, 0), generous = sure_work(true, 0);
  const auto is_short_of = [&](double least, const Work& work) {
    return processor < least * work.processor || seconds < least * work.busiest;
  };
  const Work almost = {sure.processor - kShortBeside, sure.busiest - kShortBeside};
  if (!is_short_of(kMinEffort, generous) && !is_short_of(kMinShortEffort, almost)) return "";
  const bool by_processor = processor < kMinEffort * sure.processor;
  return "does not run as often as it is told: one run takes " +
         microseconds(by_processor ? sure.processor : sure.busiest) + " us of processor time" +
         (by_processor ? "" : " on one thread") + ", without waking it and fetching its data; each of " +
         std::to_string(runs) + " takes " + microseconds(by_processor ? processor : seconds) + " us" +
         (by_processor ? "" : " by the clock");
}

}  // namespace tc::agent
