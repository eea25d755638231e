// Checks that a candidate made all runs of its samples, by comparing their time with that of single runs on
// inputs that it has never seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tc::agent {

// A single run on new inputs, measured by clocks that do not depend on how busy the machine is.
struct OneProcessorRun {
  double processor = 0;     // processor seconds of all threads of the candidate
  double busiest = 0;       // processor seconds of the busiest thread; 0 where unknown
  double agent = 0;         // processor seconds of the agent's thread for waking, awaiting and stopping it
  int switches = 0;         // how often a thread was scheduled on a processor: the largest of all threads
  bool beside = false;      // agent and candidate shared one processor
  bool goes_first = false;  // and the agent had priority on it over idle threads
};

// A single run on new inputs, on all of the candidate's processors, measured by the wall clock.
struct AllProcessorsRun {
  double seconds = 0;
  double wake = 0;   // seconds of a command with no run, just before
  double agent = 0;  // processor seconds of the agent's thread, as above
};

class Effort {
 public:
  // For a candidate with that many threads, and that many bytes of inputs and outputs together.
  Effort(int threads, double bytes) : threads_(threads), bytes_(bytes) {}

  // How many single runs each candidate makes, and how many one makes whose single runs contradict its
  // samples.
  static constexpr size_t kSingleRuns = 3, kMaxSingleRuns = 15;
  bool needs_one_processor() const { return one_processor_.size() < kSingleRuns; }
  bool needs_more() const { return one_processor_.size() < kMaxSingleRuns && is_doubtful(); }
  void add_one_processor(const OneProcessorRun& single) { one_processor_.push_back(single); }
  // Processor time alone cannot distinguish threads that work in parallel from a thread that hands its work
  // on to the next one, or from two runs that overlap. So a candidate whose samples are faster than one
  // thread could be makes runs on all processors, which show how long a run takes while no other is under
  // way.
  static constexpr size_t kMaxAllProcessorsRuns = 6;
  bool needs_all_processors() const;
  void add_all_processors(const AllProcessorsRun& run) { all_processors_.push_back(run); }
  // Adds a sample: mean seconds of one run by the clock, and in processor time.
  void add_sample(double seconds, double processor_seconds);

  // The least seconds that a run can take, whatever the samples say; 0 where nothing is known.
  double least_seconds() const;
  // Empty, or a text which says that the samples took too little time for all their runs. `runs` is used in
  // the message only.
  std::string problem(uint32_t runs) const;

 private:
  struct Work {
    double processor = 0, busiest = 0;  // seconds
  };
  // The time that one run takes at least, by the single run that is most favourable to the candidate, or by
  // the one after so many that are more favourable, where there are three or more.
  Work sure_work(bool is_generous, size_t rank) const;
  // The same as seconds of a run, by processor time alone.
  double seconds_of_work() const;
  // The wall-clock time that one run takes at least, by the run on all processors that is most favourable to
  // the candidate.
  double sure_latency() const;
  bool is_doubtful() const;

  const int threads_;
  const double bytes_;
  std::vector<OneProcessorRun> one_processor_;
  std::vector<AllProcessorsRun> all_processors_;
  std::vector<double> seconds_, processor_seconds_;  // by sample
};

}  // namespace tc::agent
