// Whether a sample's runs were all made: what they take is held against single runs, by processor time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tc::agent {

class Effort {
 public:
  // A candidate with so many threads and so many bytes of inputs and outputs together.
  Effort(int threads, double bytes) : threads_(threads), bytes_(bytes) {}

  // Single runs that are made of each candidate.
  static constexpr size_t kSingleRuns = 3;
  bool needs_single() const { return singles_.size() < kSingleRuns; }
  // A command of one run, on inputs never seen before: processor seconds of the candidate, and those that the agent's
  // own thread needed to wake the process, to wait for it and to stop it.
  void add_single(double processor_seconds, double agent_seconds);
  // Mean processor seconds of one run of a sample.
  void add_sample(double processor_seconds) { samples_.push_back(processor_seconds); }

  // Empty, or that samples took too little for all their runs. How many those were is for the message alone.
  std::string problem(uint32_t runs) const;

 private:
  // Processor seconds of a single run, and those of them that may have gone into waking and stopping the process.
  struct Single {
    double processor = 0, overhead = 0;
  };

  const int threads_;
  const double bytes_;
  std::vector<Single> singles_;
  std::vector<double> samples_;
};

}  // namespace tc::agent
