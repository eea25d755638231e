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
  double tolerance = 0;    // what its schedules may spend: the model's, or less where all weights are equal
  std::string statements;  // the kernel before scheduling
  double flops = 0;
  double predicted_seconds = 0;
  double multiply_adds = 0;
};

struct BuildOptions {
  Target target;
  int threads = 1;
  double tolerance = 0;                         // of the outputs' errors: what default schedules may spend
  int64_t memory_limit = machine_memory() / 2;  // bytes that the model may use
  // Bytes of memory of their own for constants, which are no part of memory_limit then; 0: they have none.
  int64_t constants_limit = 0;
  int64_t segment_limit =
      0;  // the same where it is no machine's, for memory that a run asks for; 0: the machine's
  // Traces to try for a workload, best first (layout lines included); the first legal one is taken,
  // the default where there is none.
  std::function<std::vector<std::vector<std::string>>(const std::string& workload)> traces;
  // Of a kernel that such a trace schedules: an error where no code can be written for it. Null: there always
  // can.
  std::function<void(const ScheduledKernel&)> check_kernel;
  // The constants of another plan of the same artefact: the plan has them too, with the same numbers, and its
  // own behind them. Null: there is none.
  const ConstantStore* known_constants = nullptr;
};

struct BuiltPlan {
  Plan plan;
  std::vector<KernelReport> reports;        // one per call, in plan order
  std::vector<std::string> notes;           // in sentences: traces that were refused, and why
  ConstantStore constants;                  // of the plan
  std::vector<std::string> constant_names;  // of the same; empty for those that no step reads
};

// The graph is simplified, shapes are inferred. Where the memory that the user gives is not enough, the model
// gives up speed for it as far as it has to, and a note tells what; where nothing helps an Unsupported error
// lists what does not fit.
BuiltPlan build_plan(Graph graph, const BuildOptions& options);

}  // namespace tc
