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
  // Shapes of inputs by their names; -1 leaves a dimension as it is.
  std::map<std::string, std::vector<int64_t>> input_shapes;
  std::map<std::string, int64_t> symbols;
  // Sizes for which the plan has separate steps, each as numbers of open symbols. A run takes the steps of
  // the first entry whose sizes it has (frontend/pipeline/size_versions.h).
  std::vector<std::map<std::string, int64_t>> size_versions;
  // Inputs that are constants of the compiled model.
  std::map<std::string, TensorPtr> values;
  // How many tensors inputs have that are sequences or optionals, and their shapes (ImportOptions::forms).
  std::map<std::string, InputForm> forms;
  // What artefacts without a runtime keep from run to run.
  std::vector<StateOption> states;
  // See ImportOptions, which has both of these too.
  std::set<std::string> open_initializers;
  std::vector<std::string> data_folders;
  int threads = 0;        // that the compiled model runs on by default; 0: all cores
  int build_threads = 0;  // that the compiler runs on; 0: all cores
  double tolerance = 1e-4;
  int64_t max_ram = 0;  // bytes that the model may use; 0: half of this machine's memory
  // Bytes of separate read-only memory for constants and code; 0: constants count as part of max_ram.
  int64_t max_flash = 0;
  int64_t max_nodes = kDefaultMaxNodes;  // ImportOptions has it too
  double compile_time_limit = 0;         // seconds from the model's bytes to its code; 0: any
  // "exact": quantised networks give what evaluating each of their nodes in floats gives. "fast": their sums
  // are scaled in fixed point, and results may differ from that by one step.
  std::string quantised = "exact";
  // When values of float16 and bfloat16 are rounded: "stored" rounds what is stored and what the model casts,
  // "each" the result of every operator.
  std::string rounding = "stored";
  // By a kernel's label: "core", or the name of the target's accelerator. Of kernels that are not named, the
  // predicted cycles decide. Only plans that can have commands of an accelerator read it.
  std::map<std::string, std::string> places;
  // "inside": artefacts have the constants inside. "separate": in a file beside them.
  std::string weights = "inside";
  uint64_t seed = 0;
  // The kind of artefact whose back end makes code of the plan. Artefacts of another kind can be exported too
  // if they need none of this code.
  std::string kind = "shared";
  // A store of measured schedules (tuner/record_store.h) to take from; null: none.
  std::shared_ptr<const RecordStore> log;
  std::string build;  // which build of the compiler this is, as the log's records name it
  // If set, used instead of the log: the traces to try for a workload, best first.
  std::function<std::vector<std::vector<std::string>>(const std::string& workload)> traces;
  // Name of a graph pass, or "all": its result is appended to `CompiledModel::dump`.
  std::string dump;
};

struct CompiledModel {
  Target target;
  Plan plan;
  std::vector<KernelReport> reports;
  const Backend* backend = nullptr;
  ModelObjects objects;  // of the back end; also the constants' bytes, which the plan has released
  std::string dump;
  int tuned_kernels = 0;  // how many kernels have a schedule of the log
  // Sentences about what was changed in reading the model, and which records were refused and why.
  std::vector<std::string> notes;
  std::string quantised;  // of the options
  int64_t max_flash = 0;  // of the options
  int64_t max_ram = 0;    // of the options, where constants are in other memory; else 0
  std::string weights;    // of the options
  // How each node of a quantised network is computed, and why some stayed in floats.
  std::vector<ArithmeticNote> arithmetic;
  // Where an output is a sequence or an optional: which of the plan's outputs make up each of the model's, in
  // order.
  std::vector<OutputForm> output_forms;
  std::map<std::string, TensorPtr> defaults;  // of inputs that are initializers of the file
  // Seconds per phase, in order: import, passes, plan, code.
  std::vector<std::pair<std::string, double>> phases;
};

// The number of threads to use where `wanted` are asked for: 0 stands for all cores.
int worker_count(int wanted);

// How plans are built for these options: target, limits of memory, threads, and what the back end of the
// options' kind has code for.
BuildOptions build_options(const CompileOptions& options);

// The part of the options that the import needs.
ImportOptions import_options(const CompileOptions& options);

// Whether `quantised` is "fast"; an error that names both choices where it is neither.
bool wants_fast(const CompileOptions& options);
// Likewise whether `rounding` asks to round the result of every operator.
bool rounds_each(const CompileOptions& options);

// Calls work() within the options' compile_time_limit, of which earlier parts of the same compilation have
// already spent `spent` seconds. An Unsupported error that names the model's file where the time is over.
void within_time(const CompileOptions& options, const std::string& name, const std::function<void()>& work,
                 double spent = 0);

// Imports and simplifies the model: the graph that is compiled. Errors name file and node. Here and below the
// model's bytes are freed as soon as they are parsed if the caller moves them in. `model` receives what the
// import finds in addition to the graph: forms of outputs, notes, defaults.
Graph import_and_simplify(Source source, const CompileOptions& options, std::string* dump,
                          CompiledModel* model = nullptr);

// Compiles a model of any format that frontend/import knows. build_plan decides everything but the code; the
// result depends only on the arguments, never on time, folder or the number of build threads.
CompiledModel compile_model(Source source, const CompileOptions& options);
// The same without code: plan and reports.
CompiledModel plan_model(Source source, const CompileOptions& options);
CompiledModel compile_graph(Graph graph, const CompileOptions& options);

// Writes the artefact; `kind` is one of codegen/backend/table.h. The names that it declares are made from the
// name of the file (codegen/backend/artefact_files.h). `library_folder` holds the runtime and the C library
// for each architecture, which the kinds "static" and "executable" need. Unknown kinds, kinds that the target
// or the model's back end does not have, and folders that cannot be written are errors that say so, and leave
// no file. Only the kind "bare" returns sizes. Where `weights_folder` is not empty, the constants go to a file
// in that folder, which is to be that of the artefact; an error for kinds that have to have them inside.
std::optional<ExportedSizes> export_model(const CompiledModel& model, const std::string& kind,
                                          const std::string& path, const std::string& library_folder,
                                          const std::string& weights_folder = "");

}  // namespace tc
