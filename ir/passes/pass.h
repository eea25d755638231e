// Graph passes as a table of named rows; the driver runs, dumps, times and verifies them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace tc {

struct Pass {
  const char* name;
  const char* doc;      // one sentence
  void (*run)(Graph&);  // on one graph; the driver enters subgraphs
  // Always; only where quantised networks are computed fast; only where the result of every operator is
  // rounded.
  enum class When : uint8_t { Always, Fast, RoundingEach };
  When when = When::Always;
};

// In the order in which they run.
const std::vector<Pass>& pass_table();

struct PassOptions {
  // Name of a pass, or "all": the graph after it is appended to `dump_text`, or "(unchanged)".
  // An unknown name throws a Model error that lists the passes.
  std::string dump;
  std::string* dump_text = nullptr;
  // Sums of a quantised network are brought to the result's scale in fixed point, at most one step from the
  // exact result.
  bool fast = false;
  // Results of operators of float16 and bfloat16 are rounded to their types, each of them.
  bool rounding_each = false;
  std::vector<std::pair<std::string, double>>* seconds = nullptr;  // per pass
};

// Whether the pass is one of those that the options ask for.
bool is_wanted(const Pass& pass, const PassOptions& options);

// Runs one pass on the graph's subgraphs, then on the graph, and infers shapes again.
void run_pass(const Pass& pass, Graph& graph);

// Runs all passes in order.
void run_passes(Graph& graph, const PassOptions& options = {});

}  // namespace tc
