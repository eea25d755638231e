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
  // Fast: only where PassOptions::fast is set. RoundingEach: only where PassOptions::rounding_each is set.
  // The others: only where PassOptions::bytes asks for it.
  enum class When : uint8_t { Always, Fast, RoundingEach, UnsignedBytes, SignedBytes, PaddedBytes };
  When when = When::Always;
};

// In the order in which they run.
const std::vector<Pass>& pass_table();

struct PassOptions {
  // Name of a pass, or "all": the graph after it is appended to `dump_text`, or "(unchanged)".
  // An unknown name throws a Model error that lists the passes.
  std::string dump;
  std::string* dump_text = nullptr;
  // Sums of a quantised network are brought to the result's scale in fixed point, which may differ from the
  // exact result by one step.
  bool fast = false;
  // The result of every operator of float16 or bfloat16 is rounded to its type.
  bool rounding_each = false;
  // The activations that the target multiplies: unsigned bytes, signed ones, or signed ones except where they
  // are padded.
  Pass::When bytes = Pass::When::UnsignedBytes;
  std::vector<std::pair<std::string, double>>* seconds = nullptr;  // per pass
};

// Whether the options request the pass.
bool is_wanted(const Pass& pass, const PassOptions& options);

// Runs one pass on the graph's subgraphs, then on the graph, and infers shapes again.
void run_pass(const Pass& pass, Graph& graph);

// Runs all passes in order.
void run_passes(Graph& graph, const PassOptions& options = {});

}  // namespace tc
