// The search for one kernel's schedule: proposes traces, and learns from their measurements. Deterministic:
// the same task, options and measurements give the same proposals.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tuner/cost_model.h"
#include "tuner/measure.h"
#include "tuner/record.h"

namespace tc {

struct SearchOptions {
  uint64_t seed = 0;
  bool from_random = false;  // start at random legal schedules, not at the default (tests)
  std::vector<Trace> seeds;  // traces to try first: of algorithms, and of the log
  // Trained on other kernels; lives as long as the search. Null: there is none.
  const CostModel* model = nullptr;
};

class KernelSearch {
 public:
  KernelSearch(const KernelTask& task, const SearchOptions& options);

  // Up to `count` legal traces that were not proposed before; fewer, or none, where the space is exhausted.
  // Unless from_random is set, the very first trace is the untuned one.
  std::vector<Trace> propose(int count);
  // Takes in the results of measuring the traces; for a trace that is measured again, the result with more
  // samples counts. Each result's `ratio` has to be relative to the untuned trace: where another trace was
  // the incumbent, the caller multiplies by that one's ratio. Traces that were not proposed (from a log, when
  // a search is resumed) count as proposed from then on.
  void learn(const std::vector<Trace>& traces, const std::vector<Measurement>& results);

  // The fastest verified trace so far, by its ratio to the untuned one; the untuned trace before anything has
  // been measured.
  const Trace& best() const;
  // The best trace's time divided by the untuned one's; 1 at the start.
  double best_ratio() const;
  // The `count` fastest verified traces, fastest first.
  std::vector<Trace> fastest(int count) const;
  int proposed() const;
  // How many schedules that the search tried were refused, and the reason for the first.
  int refused() const;
  const std::string& refusal() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tc
