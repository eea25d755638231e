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

  // As many single runs as are needed to tell.
  static constexpr size_t kSingleRuns = 3;
  bool needs_single() const { return singles_.size() < kSingleRuns; }
  // A command of one run, on inputs never seen before: processor seconds of the candidate, and those that the agent
  // itself needed to start the process and to stop it.
  void add_single(double processor_seconds, double agent_seconds);
  // Processor seconds of a run of a sample.
  void add_sample(double seconds) { samples_.push_back(seconds); }

  // Empty, or that samples of so many runs each took too little for them.
  std::string problem(uint32_t runs) const;

 private:
  // Processor seconds of a single run, and those of them that its start and stop may have taken.
  struct Single {
    double processor = 0, lost = 0;
  };

  const int threads_;
  const double bytes_;
  std::vector<Single> singles_;
  std::vector<double> samples_;
};

}  // namespace tc::agent
