// Whether a sample's runs were all made: what they take is held against single runs on inputs never seen
// before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tc::agent {

// A command of one run on inputs never seen before, by clocks that do not depend on how busy the machine is.
struct SingleRun {
  double processor = 0;     // seconds of all threads of the candidate
  double busiest = 0;       // of the thread that used most; 0 where the system cannot say
  double agent = 0;         // of the agent's own thread, to wake the process, to wait for it and to stop it
  int turns = 0;            // most that a thread was given a processor in
  bool beside = false;      // agent and candidate shared one processor, and a run had gone ahead
  bool goes_first = false;  // there the agent did not wait for threads that had nothing left to do
};

// A command of one run on inputs never seen before, on all processors that the candidate has, by the wall's
// clock.
struct LoneRun {
  double seconds = 0;
  double wake = 0;   // of a command of no run, just before
  double agent = 0;  // processor seconds of the agent's own thread, as above
};

class Effort {
 public:
  // A candidate with so many threads and so many bytes of inputs and outputs together.
  Effort(int threads, double bytes) : threads_(threads), bytes_(bytes) {}

  // Single runs that are made of each candidate, and of one that they speak against.
  static constexpr size_t kSingleRuns = 3, kMostSingleRuns = 15;
  bool needs_single() const { return singles_.size() < kSingleRuns; }
  bool needs_more() const { return singles_.size() < kMostSingleRuns && is_doubtful(); }
  void add_single(const SingleRun& single) { singles_.push_back(single); }
  // Processor time does not tell threads that work at once from one that hands its work to the next, or from
  // two runs at once: a candidate that is faster than one thread shows how long a run takes that has none
  // beside it.
  static constexpr size_t kMostLoneRuns = 6;
  bool needs_lone() const;
  void add_lone(const LoneRun& lone) { lones_.push_back(lone); }
  // Mean seconds of one run of a sample: of the clock, and of its processors.
  void add_sample(double seconds, double processor_seconds);

  // No run of the schedule takes fewer seconds than this, whatever samples say; 0 where nothing is known.
  double least_seconds() const;
  // Empty, or that samples took too little for all their runs. How many those were is for the message alone.
  std::string problem(uint32_t runs) const;

 private:
  struct Work {
    double processor = 0, busiest = 0;  // seconds
  };
  // What one run is sure to take, by the single run that speaks most for the candidate.
  Work sure_work(bool is_generous) const;
  // The same by processor time alone, of a thread.
  double seconds_of_work() const;
  // How long one run is sure to take by the wall's clock, by the lone run that speaks most for the candidate.
  double sure_latency() const;
  bool is_doubtful() const;

  const int threads_;
  const double bytes_;
  std::vector<SingleRun> singles_;
  std::vector<LoneRun> lones_;
  std::vector<double> seconds_, processor_seconds_;  // by sample
};

}  // namespace tc::agent
