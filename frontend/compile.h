// The compiler as one function: a model's bytes in, a compiled model out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "frontend/plan_builder.h"
#include "ir/graph.h"
#include "ir/plan.h"
#include "ir/target/target.h"

namespace tc {

struct CompileOptions {
  std::string target = "native";
  // Shapes of inputs by name; -1 leaves a dimension as it is.
  std::map<std::string, std::vector<int64_t>> input_shapes;
  std::map<std::string, int64_t> symbols;
  int threads = 0;                 // of the compiled model's default; 0: all cores
  int build_threads = 0;           // of the compiler; 0: all cores
  double tolerance = 1e-4;
  uint64_t seed = 0;
  // Name of a graph pass, or "all": its result is appended to `CompiledModel::dump`.
  std::string dump;
};

struct CompiledModel {
  Target target;
  Plan plan;
  std::vector<KernelReport> reports;
  std::vector<Bytes> objects;
  std::string dump;
  // Seconds per phase, in order: import, passes, plan, code.
  std::vector<std::pair<std::string, double>> phases;
};

// Imports and simplifies: the graph that compile works on. Errors name file and node.
Graph import_and_simplify(const std::string& bytes, const std::string& file_name,
                          const std::string& folder, const CompileOptions& options, std::string* dump);

// `folder` is where external data may lie (empty: none). Everything but code is decided by
// build_plan; the result depends only on the arguments, never on time, folder or thread count.
CompiledModel compile_onnx(const std::string& bytes, const std::string& file_name,
                           const std::string& folder, const CompileOptions& options);
CompiledModel compile_graph(Graph graph, const CompileOptions& options);

// Writes the artefact. kind: "shared" (.so), "static" (.a, and a .h beside it), "executable",
// "object" (one relocatable file). `library_folder` holds the runtime and C library per
// architecture, for static and executable. Unknown kinds and folders that cannot be written are
// errors that say so.
void export_model(const CompiledModel& model, const std::string& kind, const std::string& path,
                  const std::string& library_folder);

}  // namespace tc
