// The scheduler's interface: schedules as values, legality, the analytic default. No isl type here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/loop.h"
#include "ir/scheduled.h"
#include "ir/target/target.h"
#include "scheduler/primitive_row.h"

namespace tc {

// A schedule of one kernel: the trace of primitives applied so far and the state after them.
// Copyable value (copies share nothing mutable). A refused primitive changes nothing.
class Schedule {
 public:
  // The initial schedule: statements in order, one loop per iterator, named `STATEMENT_ITERATOR`.
  Schedule(Kernel kernel, const Target& target);
  Schedule(const Schedule&);
  Schedule(Schedule&&) noexcept;
  Schedule& operator=(Schedule);
  ~Schedule();

  // Applies one primitive in its text form ("split macc_x 14 as macc_xo macc_xi"). Returns nothing where it
  // is accepted, else why it is refused, in one sentence with the offending instances.
  std::optional<std::string> apply(const std::string& line);
  // Applies lines in order; stops at the first refusal, whose text begins with the line.
  std::optional<std::string> replay(const std::vector<std::string>& trace);

  const std::vector<std::string>& trace() const;
  const Kernel& kernel() const;  // after the rewrites so far
  const Target& target() const;
  // Whether this element of the buffer, after the rewrites so far, only fills up a block of a layout:
  // kernels may leave any finite value there.
  bool is_padding(const std::string& buffer, const std::vector<int64_t>& index) const;

  // Nothing where the current tree runs every dependence forwards and no loop carries a dependence that one
  // of its marks forbids; else the violated pair: "order …: macc[f=0,…] must run before …".
  std::optional<std::string> check() const;

  // The schedule tree as text (isl's block form) for people and golden tests.
  std::string tree() const;

  // Checks, then generates the loops. Throws a Schedule error where check() refuses.
  ScheduledKernel finish() const;

 private:
  friend struct ScheduleAccess;
  struct State;
  explicit Schedule(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// While alive, all questions that schedules of the calling thread ask isl share one budget of `operations`
// isl operations, instead of a limit for each question. When it is used up, primitives are refused and no
// loops are generated. Budgets do not nest.
class ReplayBudget {
 public:
  explicit ReplayBudget(unsigned long operations);
  ~ReplayBudget();
  ReplayBudget(const ReplayBudget&) = delete;
  ReplayBudget& operator=(const ReplayBudget&) = delete;
};

// The analytic default: the lines to append to a schedule on which only rewrites of layout have been applied
// so far (the graph's choice of layouts), with no measurement. Always legal. With a tolerance above 0 it may
// choose an algorithm whose error, added up over twenty layers, stays within it.
std::vector<std::string> default_trace(const Schedule& start, int threads, double tolerance = 0);
// What the default finds out about one of its strategies (scheduler/default/strategy.h) for a kernel.
struct StrategyReport {
  std::string name;      // "Winograd"
  bool taken = false;    // by the default: one at most
  double cycles = 0;     // predicted by its cost function; 0 where it does not apply
  double plain = 0;      // predicted for the same sums without the algorithm; 0 where it is no algorithm
  std::string plan;      // in words; empty where it does not apply
  std::string rejected;  // why it is not taken; empty where it is
  double on_core = 0;    // of `cycles`, those that the core takes beside an accelerator
};
// All strategies in the order of their table. Takes longer than the default, which does not examine
// strategies that cannot win.
std::vector<StrategyReport> default_report(const Schedule& start, int threads, double tolerance = 0);
// A line for each strategy, and one more where none is taken.
std::string str(const std::vector<StrategyReport>& report);
// Whole traces of the algorithms within the tolerance, whether the analytic cost model sees a gain or not:
// for those who measure.
std::vector<std::vector<std::string>> algorithm_traces(const Schedule& start, int threads, double tolerance);
// Replays the layout lines, then the default.
Schedule default_schedule(Kernel kernel, const Target& target, int threads,
                          const std::vector<std::string>& layout_lines = {}, double tolerance = 0);

// For a kernel that a loop of the plan runs again and again: the line to append to its schedule, by which the
// outermost loop over its largest constant alternates ("alternate LOOP"). None where that constant stays in
// the second cache, the loop's iterations depend on each other, or the loop has a mark that `alternate`
// cannot be combined with.
std::optional<std::string> alternation(const Schedule& schedule);

// What a trace computes instead of the kernel's own statements.
struct TraceAlgorithm {
  std::string text;  // "winograd F(4, 3)"; empty for the statements themselves
  double error = 0;  // of one layer, relative to its largest output: an estimate
  // Error of twenty such layers: default_trace() chooses the algorithm for at least this tolerance.
  double tolerance = 0;
};
TraceAlgorithm algorithm_of(const std::vector<std::string>& trace);

// Predicted cycles of the scheduled kernel on one thread by the analytic cost model: the larger of the cycles
// of its arithmetic at the target's peak and the cycles in which its arguments come from the caches. Symbolic
// sizes take the value `likely` where their range allows.
double predicted_cycles(const ScheduledKernel& scheduled, const Target& target, int64_t likely = 0);
// The same as seconds at the target's clock, divided by the number of threads: for reports.
double predicted_seconds(const ScheduledKernel& scheduled, const Target& target, int threads,
                         int64_t likely = 0);

}  // namespace tc
