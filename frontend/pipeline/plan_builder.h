// From a simplified graph to a plan: fusion, layouts, schedules, memory, steps.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "frontend/pipeline/constant_store.h"
#include "frontend/pipeline/memory_limit.h"
#include "ir/graph.h"
#include "ir/plan.h"
#include "ir/scheduled.h"
#include "ir/target/target.h"
#include "scheduler/placement.h"

namespace tc {

// What the compiler decided for one kernel of the plan, for inspect, explain and the tests.
struct KernelReport {
  std::string label;     // the nodes it computes
  int kernel = -1;       // index into Plan::kernels
  std::string workload;  // the tuning log's key: semantics and layout lines
  std::vector<std::string> layout_lines;
  std::vector<std::string> trace;  // layout lines, then the schedule's
  std::string algorithm;           // "winograd F(4, 3)"; empty for the statements themselves
  bool tuned = false;              // the trace is not the analytic default's
  bool single_thread = false;      // too small to divide
  double tolerance = 0;    // that its schedules may use: the model's, or less if all weights are equal
  std::string statements;  // the kernel before scheduling
  double flops = 0;
  double predicted_seconds = 0;
  double multiply_adds = 0;
};

// A value that the model keeps from one run to the next, by the names of the graph's input and output that
// are its value before and after a run.
struct StateOption {
  std::string name, input, output;
  std::vector<uint8_t> initial;  // empty: zeros
};

struct BuildOptions {
  Target target;
  int threads = 1;
  double tolerance = 0;                         // error of the outputs that default schedules may cause
  int64_t memory_limit = machine_memory() / 2;  // bytes that the model may use
  // Bytes of a separate memory for constants, which then do not count for memory_limit; 0: there is none.
  int64_t constants_limit = 0;
  // Where code counts for that limit, too, a kernel's bytes by estimate; else null.
  std::function<int64_t(const ScheduledKernel&)> code_estimate;
  int64_t segment_limit =
      0;  // bytes that a run may allocate, where the user set memory_limit; 0: the running machine's limit
  // Traces to try for a workload, best first (layout lines included); the first legal one is taken,
  // the default where there is none.
  std::function<std::vector<std::vector<std::string>>(const std::string& workload)> traces;
  // Called with a kernel that such a trace has scheduled; throws where no code can be written for it. Null:
  // code can always be written.
  std::function<void(const ScheduledKernel&)> check_kernel;
  // By label: where kernels run, which otherwise the predicted cycles decide.
  std::map<std::string, Placement> placements;
  std::vector<StateOption> states;  // the plan has them as Plan::states
  // The constants of another plan of the same artefact. The new plan has them too, with the same numbers, and
  // its own after them. Null: there is no other plan.
  const ConstantStore* known_constants = nullptr;
};

struct BuiltPlan {
  Plan plan;
  std::vector<KernelReport> reports;        // one per call, in plan order
  std::vector<std::string> notes;           // sentences about traces that were refused, and why
  ConstantStore constants;                  // of the plan
  std::vector<std::string> constant_names;  // of these constants; empty for those that no step reads
};

// The graph has to be simplified and its shapes inferred. Where the memory that the user allows is not
// enough, the plan gives up as much speed as is needed to fit, and a note says what it gave up. Where nothing
// helps, an Unsupported error lists what does not fit.
BuiltPlan build_plan(Graph graph, const BuildOptions& options);

}  // namespace tc
