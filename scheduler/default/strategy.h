// The strategies of the analytic default: one table, which the default, its report and the tuner's space
// read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/default/accelerator.h"
#include "scheduler/default/builder.h"
#include "scheduler/default/reduction.h"
#include "scheduler/default/row_bands.h"
#include "scheduler/placement.h"

namespace tc {

// The kernel that strategies examine. What several strategies need is computed once, when the first one asks.
class StrategyInput {
 public:
  // `start`: rewrites of layout only. With `all`, algorithms that cannot be the cheapest are examined too.
  StrategyInput(const ScheduleState& start, int threads, double tolerance, bool all = false,
                Placement placement = Placement::Predicted);

  TraceBuilder builder() const { return TraceBuilder(start_, threads_); }
  const Kernel& kernel() const { return start_.kernel->kernel; }
  const Target& target() const { return start_.target; }
  double tolerance() const { return tolerance_; }
  bool all() const { return all_; }
  Placement placement() const { return placement_; }

  // These throw NotApplicable with the reason where the kernel is not of that kind.
  const PreparedReduction& reduction() const;
  const AlgorithmChoices<WinogradKnobs>& winograd() const;
  const AlgorithmChoices<MatrixKnobs>& matrix() const;
  const BandChoice& bands() const;
  const AcceleratorChoice& accelerator() const;

 private:
  // A value that is computed once, or the reason why there is none.
  template <class Value>
  struct Once {
    std::optional<Value> value;
    std::optional<std::string> refusal;

    template <class Make>
    const Value& get(const Make& make);
  };

  ScheduleState start_;
  int threads_;
  double tolerance_;
  bool all_;
  Placement placement_;
  mutable Once<PreparedReduction> reduction_;
  mutable Once<AlgorithmChoices<WinogradKnobs>> winograd_;
  mutable Once<AlgorithmChoices<MatrixKnobs>> matrix_;
  mutable Once<BandChoice> bands_;
  mutable Once<AcceleratorChoice> accelerator_;
};

// The default takes the first kind of which some strategy applies and is legal, and of this kind the cheapest
// strategy.
enum class StrategyKind {
  Algorithm,     // computes other sums than the kernel's, within the tolerance
  RegisterTile,  // one reduction, with accumulators in registers: exactly one of them applies to a kernel
  General,       // any kernel, statement by statement
};

// Which of StrategyKnobs a strategy reads.
enum class KnobGroup { None, Matrix, Winograd, Reduction, Rows };

// What a strategy would do with a kernel.
struct Candidate {
  Prediction prediction;
  std::string plan;  // in words
};

struct Strategy {
  const char* name;
  StrategyKind kind;
  const char* doc;  // what it is for and what it does, in a line
  KnobGroup group;
  std::vector<std::string> choices;  // the names of its knobs, as the tuner's space has them
  // Throws NotApplicable with the reason where the strategy does not apply.
  Candidate (*examine)(const StrategyInput& input);
  // The schedule with all lines, where the strategy applies. Knobs that are 0 are chosen by the analytic cost
  // model. For a reduction, the number of the choice of iterators is written into the knobs, and `refused`
  // gets the cheaper choices that were refused, with the reasons.
  TraceBuilder (*apply)(const StrategyInput& input, StrategyKnobs& knobs, std::vector<std::string>* refused);
};
// Wherever strategies have numbers, these are their places in this table, from 1 on.
const std::vector<Strategy>& strategies();
const Strategy& strategy(int64_t number);

// apply(), and the check of the result; throws NotApplicable where it is not legal.
TraceBuilder apply_strategy(const Strategy& which, const StrategyInput& input, StrategyKnobs& knobs,
                            std::vector<std::string>* refused = nullptr);

// What the default decides.
struct Decision {
  int64_t taken = 0;                    // number of the strategy; 0: none is legal
  std::optional<TraceBuilder> result;   // of that strategy
  StrategyKnobs knobs;                  // from which the result was made
  std::vector<StrategyReport> reports;  // by strategy, as far as they were examined
};
// With input.all(), every strategy is examined; else only those that may be taken.
Decision decide(const StrategyInput& input);

// Whether the decision is that the accelerator executes the kernel, and if not, why.
bool is_for_accelerator(const Decision& decision);
std::string why_not_for_accelerator(const Decision& decision);

}  // namespace tc
