// The search for one kernel's schedule: proposes traces, learns from what measuring them gave.
// Deterministic: the same task, options and answers give the same proposals.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tuner/measure.h"
#include "tuner/record.h"

namespace tc {

struct SearchOptions {
  uint64_t seed = 0;
  bool from_random = false;  // start at random legal schedules, not at the default (tests)
  std::vector<Trace> seeds;  // traces of the log worth a try first (other builds, near kernels)
};

class KernelSearch {
 public:
  KernelSearch(const KernelTask& task, const SearchOptions& options);

  // Up to `count` legal traces that were not proposed before; fewer, or none, where the space is
  // exhausted. The untuned trace is the first of all (unless from_random).
  std::vector<Trace> propose(int count);
  // What measuring them gave; of a trace measured again the result with more samples counts. Each
  // result's `ratio` is to the untuned: where the incumbent was another, the caller has multiplied by
  // the incumbent's. Traces that were not proposed (of a log, when a search is resumed) count as
  // proposed from then on.
  void learn(const std::vector<Trace>& traces, const std::vector<Measurement>& results);

  // The fastest verified so far by ratio to the untuned; the untuned itself before anything is known.
  const Trace& best() const;
  // Its time / the untuned's; 1 at the start.
  double best_ratio() const;
  // The `count` fastest, fastest first.
  std::vector<Trace> fastest(int count) const;
  int proposed() const;
  // Requests of the search that were refused as illegal, with one example.
  int refused() const;
  const std::string& refusal() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tc
