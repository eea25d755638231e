// From a simplified graph to a plan: fusion, layouts, schedules, memory, steps.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/plan.h"
#include "ir/target/target.h"

namespace tc {

// What the compiler decided for one kernel of the plan, for inspect, explain and the tests.
struct KernelReport {
  std::string label;               // the nodes it computes
  int kernel = -1;                 // index into Plan::kernels
  std::vector<std::string> trace;  // layout lines, then the schedule's
  std::string statements;          // the kernel before scheduling
  double flops = 0;
  double predicted_seconds = 0;
  double multiply_adds = 0;
};

struct BuildOptions {
  Target target;
  int threads = 1;
  // Looks up a trace for a kernel (workload key, layout lines); an empty answer takes the default.
  std::function<std::vector<std::string>(const std::string& key, const std::vector<std::string>&)> trace;
};

struct BuiltPlan {
  Plan plan;
  std::vector<KernelReport> reports;   // one per call, in plan order
};

// The graph is simplified, shapes are inferred; it is consumed (layout choice inserts nodes).
BuiltPlan build_plan(Graph graph, const BuildOptions& options);

}  // namespace tc
