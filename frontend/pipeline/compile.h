// The compiler as one function: a model's bytes in, a compiled model out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/backend/backend.h"
#include "frontend/import/import.h"
#include "frontend/pipeline/plan_builder.h"
#include "ir/graph.h"
#include "ir/plan.h"
#include "ir/target/target.h"

namespace tc {

class RecordStore;

struct CompileOptions {
  std::string target = "native";
  // Shapes of inputs by name; -1 leaves a dimension as it is.
  std::map<std::string, std::vector<int64_t>> input_shapes;
  std::map<std::string, int64_t> symbols;
  // Numbers of open symbols for which the plan has steps of their own; a run takes those of the first that it
  // has (frontend/pipeline/size_versions.h).
  std::vector<std::map<std::string, int64_t>> size_versions;
  // Inputs that are constants of the compiled model.
  std::map<std::string, TensorPtr> values;
  // Of inputs that are sequences or optionals (ImportOptions::forms).
  std::map<std::string, InputForm> forms;
  // ImportOptions has them too.
  std::set<std::string> open_initializers;
  std::vector<std::string> data_folders;
  int threads = 0;        // of the compiled model's default; 0: all cores
  int build_threads = 0;  // of the compiler; 0: all cores
  double tolerance = 1e-4;
  int64_t max_ram = 0;  // bytes that the model may use; 0: half of this machine's memory
  // Bytes of read-only memory of their own for constants and code; 0: constants are part of max_ram.
  int64_t max_flash = 0;
  int64_t max_nodes = kDefaultMaxNodes;  // ImportOptions has it too
  double compile_time_limit = 0;         // seconds from the model's bytes to its code; 0: any
  // "exact": quantised networks compute what their unfused evaluation in floats gives; "fast": their sums are
  // scaled in fixed point, at most one step from that.
  std::string quantised = "exact";
  // Of float16 and bfloat16: "stored" rounds what is stored and what the model casts, "each" the result of
  // every operator.
  std::string rounding = "stored";
  uint64_t seed = 0;
  // The kind of artefact whose back end makes code of the plan. Others can be exported too if they need no
  // code of it.
  std::string kind = "shared";
  // A store of measured schedules (tuner/record_store.h) to take from; null: none.
  std::shared_ptr<const RecordStore> log;
  std::string build;  // of this compiler, as the log's records name it
  // In place of the log: traces to try for a workload, best first.
  std::function<std::vector<std::vector<std::string>>(const std::string& workload)> traces;
  // Name of a graph pass, or "all": its result is appended to `CompiledModel::dump`.
  std::string dump;
};

struct CompiledModel {
  Target target;
  Plan plan;
  std::vector<KernelReport> reports;
  const Backend* backend = nullptr;
  ModelObjects objects;  // of the back end; the plan's constants are released: their bytes are here
  std::string dump;
  int tuned_kernels = 0;  // that run a schedule of the log
  // In sentences: what was changed in reading the model, records that were refused, and why.
  std::vector<std::string> notes;
  std::string quantised;  // of the options
  int64_t max_flash = 0;  // of the options
  // Of a quantised network: how each node is computed, and why some stayed floats.
  std::vector<ArithmeticNote> arithmetic;
  // Where an output is a sequence or an optional: what each of the model's outputs has of the plan's, in
  // order.
  std::vector<OutputForm> output_forms;
  std::map<std::string, TensorPtr> defaults;  // of inputs that are initializers of the file
  // Seconds per phase, in order: import, passes, plan, code.
  std::vector<std::pair<std::string, double>> phases;
};

// Threads for a wish of 0: all cores.
int worker_count(int wanted);

// What plans are made for: the options' target, limits of memory and threads, and what the options' back end
// has code for.
BuildOptions build_options(const CompileOptions& options);

// What the import takes of the options.
ImportOptions import_options(const CompileOptions& options);

// Whether the options ask for the meaning "fast"; an error that names both where they ask for another.
bool wants_fast(const CompileOptions& options);
// Likewise whether they ask to round the result of every operator.
bool rounds_each(const CompileOptions& options);

// Calls work() within the options' compile_time_limit, of which earlier parts of the same compilation have
// spent so many seconds; an Unsupported error that names the model's file where it is over.
void within_time(const CompileOptions& options, const std::string& name, const std::function<void()>& work,
                 double spent = 0);

// Imports and simplifies: the graph that compile works on. Errors name file and node. Here and below the
// model's bytes are let go as soon as they are parsed, where the caller moves them in.
// `model` gets what the import tells beside the graph: forms of outputs, notes, defaults.
Graph import_and_simplify(Source source, const CompileOptions& options, std::string* dump,
                          CompiledModel* model = nullptr);

// A model of any format that frontend/import knows. Everything but code is decided by build_plan; the result
// depends only on the arguments, never on time, folder or thread count.
CompiledModel compile_model(Source source, const CompileOptions& options);
// The same without code: plan and reports.
CompiledModel plan_model(Source source, const CompileOptions& options);
CompiledModel compile_graph(Graph graph, const CompileOptions& options);

// Writes the artefact, of a kind of codegen/backend/table.h. What it declares is called after the file
// (codegen/backend/artefact_names.h). `library_folder` holds the runtime and C library per architecture, for
// static and executable. Unknown kinds, those that the target or the model's back end does not have, and
// folders that cannot be written are errors that say so, and leave no file. The sizes are of kind "bare".
std::optional<ExportedSizes> export_model(const CompiledModel& model, const std::string& kind,
                                          const std::string& path, const std::string& library_folder);

}  // namespace tc
