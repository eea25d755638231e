// The compiler as one function: a model's bytes in, a compiled model out.
#include "frontend/pipeline/compile.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <set>
#include <thread>

#include "codegen/backend/table.h"
#include "frontend/pipeline/size_versions.h"
#include "ir/accelerator.h"
#include "ir/error.h"
#include "ir/held_constants.h"
#include "ir/interrupt.h"
#include "ir/passes/arithmetic_notes.h"
#include "ir/passes/pass.h"
#include "ir/target/weight_pairs.h"
#include "runtime/abi.h"
#include "runtime/new_file.h"
#include "tuner/record_store.h"

namespace tc {
namespace {

constexpr size_t kMaxTraces = 8;       // of a workload that are tried before the default
constexpr const char* kCore = "core";  // the place of kernels that no accelerator executes

class Stopwatch {
 public:
  explicit Stopwatch(std::vector<std::pair<std::string, double>>& phases) : phases_(phases) {}
  void lap(const std::string& name) {
    const auto now = std::chrono::steady_clock::now();
    phases_.emplace_back(name, std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }

 private:
  std::vector<std::pair<std::string, double>>& phases_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Calls write(part) with a path for what is to become the file at `path`; what is in use is replaced, never
// overwritten.
void written_apart(const std::string& path, const std::function<void(const std::string&)>& write) {
  runtime::NewFile file;
  const auto check = [&](bool done) {
    if (!done) fail(ErrorKind::Device, "cannot write '", path, "': ", file.why());
  };
  check(file.open(path.c_str()));
  if (file.is_in_place())
    fail(ErrorKind::Device, "cannot write '", path, "': linkers write regular files alone");
  try {
    write(file.path());
  } catch (const Error& error) {
    std::string said = error.what();
    const size_t at = said.find(file.path());
    if (at == std::string::npos) throw;
    throw Error(error.kind(), said.replace(at, std::strlen(file.path()), path));  // as users know the file
  }
  check(file.finish());
}

}  // namespace

int worker_count(int wanted) {
  return wanted > 0 ? wanted : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

BuildOptions build_options(const CompileOptions& options) {
  const BackendAndKind kind = artefact_kind(options.kind);
  const Target target = parse_target(options.target);
  BuildOptions build;
  build.target = kind.backend->usable(target);
  const bool one_thread = kind.kind->one_thread || target.parallel == ParallelLoops::None;
  build.threads = one_thread ? 1 : worker_count(options.threads);
  build.tolerance = options.tolerance;
  build.states = options.states;
  const bool in_flash = options.max_ram > 0 && target.constants == ConstantMemory::Flash;
  if (options.max_ram > 0) build.memory_limit = build.segment_limit = options.max_ram;
  if (options.max_flash > 0 || in_flash)
    build.constants_limit = options.max_flash > 0 ? options.max_flash : INT64_MAX;
  if (options.max_flash > 0) build.code_estimate = kind.backend->code_estimate();
  for (const auto& [label, unit] : options.places) {
    if (build.target.accelerator != nullptr)
      build.placements[label] = unit == kCore ? Placement::Core : Placement::Accelerator;
  }
  build.check_kernel = [kind, target = build.target](const ScheduledKernel& kernel) {
    kind.backend->check_kernel(kernel, target);
  };
  return build;
}

namespace {

// Every kernel that is placed is placed on the core or on the target's accelerator.
void check_places(const CompileOptions& options) {
  const Target target = parse_target(options.target);
  for (const auto& [label, unit] : options.places) {
    if (target.accelerator == nullptr) {
      fail(ErrorKind::Target, "place: target '", options.target, "' has no accelerator, so that kernel '",
           label, "' can only run on the core; name one (", options.target, "+accel:NAME)");
    }
    if (unit != kCore && unit != target.accelerator->name) {
      fail(ErrorKind::Target, "place: kernel '", label, "' is placed on '", unit, "'; target '",
           options.target, "' has 'core' and '", target.accelerator->name, "'");
    }
  }
}

}  // namespace

bool wants_fast(const CompileOptions& options) {
  if (options.quantised == "exact" || options.quantised == "fast") return options.quantised == "fast";
  fail(ErrorKind::Model, "quantised is '", options.quantised,
       "'; give 'exact' (what the unfused evaluation in floats gives) or 'fast' (fixed point, at "
       "most one step from it)");
}

bool rounds_each(const CompileOptions& options) {
  if (options.rounding == "stored" || options.rounding == "each") return options.rounding == "each";
  fail(ErrorKind::Model, "rounding is '", options.rounding,
       "'; give 'stored' (float16 and bfloat16 are rounded where they are stored or cast) or 'each' "
       "(the result of every operator is rounded)");
}

ImportOptions import_options(const CompileOptions& options) {
  ImportOptions result{options.input_shapes, options.symbols, options.values, options.forms};
  result.open_initializers = options.open_initializers;
  result.data_folders = options.data_folders;
  result.max_nodes = options.max_nodes;
  return result;
}

void within_time(const CompileOptions& options, const std::string& name, const std::function<void()>& work,
                 double spent) {
  constexpr double kLeast = 1e-9;  // 0 is no limit
  const bool limited = options.compile_time_limit > 0;
  const TimeLimit limit(limited ? std::max(kLeast, options.compile_time_limit - spent) : 0);
  try {
    work();
  } catch (const Interrupted&) {
    if (!limit.is_over()) throw;
    const WorkProgress& progress = work_progress();
    fail(ErrorKind::Unsupported, "'", name,
         "' takes longer to compile than compile_time_limit=", options.compile_time_limit,
         " allows: after so many seconds it was at ", progress.phase,
         progress.total > 0 ? text(", part ", progress.done, " of ", progress.total) : "",
         "; give it more time, or compile a smaller model");
  }
}

Graph import_and_simplify(Source source, const CompileOptions& options, std::string* dump,
                          CompiledModel* model) {
  const HeldConstants counting(static_cast<int64_t>(source.bytes.size()));
  ImportOptions importing = import_options(options);
  work_progress() = {"reading"};
  if (model) {
    importing.output_forms = &model->output_forms;
    importing.defaults = &model->defaults;
    importing.notes = &model->notes;
  }
  Graph graph = import_model(std::move(source), importing);
  PassOptions passes;
  passes.fast = wants_fast(options);
  passes.rounding_each = rounds_each(options);
  const Target target = parse_target(options.target);
  if (target.accelerator != nullptr) {
    if (multiplies_signed(*target.accelerator)) passes.bytes = Pass::When::SignedBytes;
  } else if (pairs_weights(target)) {
    passes.bytes = Pass::When::PaddedBytes;
  }
  passes.dump = options.dump;
  passes.dump_text = dump;
  run_passes(graph, passes);
  return graph;
}

namespace {

// Every symbol of an input has a range.
void check_symbols(const Graph& graph) {
  std::set<std::string> names;
  for (ValueId id : graph.inputs) {
    for (const Dim& dim : graph[id].shape.value()) dim.collect_symbols(names);
  }
  for (const std::string& name : names) {
    if (!graph.symbols.count(name))
      fail(ErrorKind::Model, "symbol '", name, "' of graph '", graph.name, "' has no range");
  }
}

// Each state is an input and an output of one type and size.
void check_states(const Graph& graph, const std::vector<StateOption>& states) {
  const auto value_of = [&](const std::vector<ValueId>& ports, const std::string& name, const char* what) {
    std::string names;
    for (ValueId id : ports) {
      if (graph[id].name == name) return &graph[id];
      names += (names.empty() ? "" : ", ") + graph[id].name;
    }
    fail(ErrorKind::Model, "states: model '", graph.name, "' has no ", what, " '", name, "'; it has ", names);
  };
  std::set<std::string> taken;
  for (const StateOption& state : states) {
    const Value &before = *value_of(graph.inputs, state.input, "input"),
                &behind = *value_of(graph.outputs, state.output, "output");
    if (!taken.insert("input " + state.input).second || !taken.insert("output " + state.output).second)
      fail(ErrorKind::Model, "states: '", state.input, "' or '", state.output, "' is given twice");
    const Dim count = element_count(*before.shape);
    const auto bytes = count.is_constant() ? count.constant() * size_of(before.dtype) : 0;
    if (!state.initial.empty() && static_cast<int64_t>(state.initial.size()) != bytes)
      fail(ErrorKind::Model, "states: the first value of '", state.input, "' of model '", graph.name,
           "' has ", state.initial.size(), " bytes; ", name_of(before.dtype), str(*before.shape), " has ",
           bytes);
    if (before.dtype == behind.dtype && *before.shape == *behind.shape) continue;
    fail(ErrorKind::Model, "states: output '", state.output, "' of model '", graph.name, "' is ",
         name_of(behind.dtype), str(*behind.shape), ", and input '", state.input, "' ", name_of(before.dtype),
         str(*before.shape), "; a state has one type and shape");
  }
}

void check_ports(const Graph& graph) {
  const auto check = [&](size_t count, const char* what) {
    if (count > TC_MOST_PORTS)
      fail(ErrorKind::Unsupported, "graph '", graph.name, "' has ", count, " ", what,
           "; a compiled model has at most ", TC_MOST_PORTS,
           ": join some of them (Concat), or compile parts of the model");
  };
  check(graph.inputs.size(), "inputs");
  check(graph.outputs.size(), "outputs");
}

// The graphs of the options' versions by size, of the model whose graph is given.
std::vector<SizedGraph> import_versions(Graph& graph, Source source, const CompileOptions& options) {
  check_size_versions(options.size_versions, graph.symbols, source.name);
  std::vector<SizedGraph> versions;
  SharedTensors tensors;
  if (!options.size_versions.empty()) tensors.share(graph);
  for (const Sizes& sizes : options.size_versions) {
    CompileOptions own = options;
    own.symbols.insert(sizes.begin(), sizes.end());
    own.dump.clear();
    const bool last = versions.size() + 1 == options.size_versions.size();
    versions.push_back({sizes, import_and_simplify(last ? std::move(source) : source, own, nullptr)});
    tensors.share(versions.back().graph);
  }
  return versions;
}

bool has_commands(const KernelReport& report) {
  return std::any_of(report.trace.begin(), report.trace.end(),
                     [](const std::string& line) { return line.rfind("command ", 0) == 0; });
}

// Throws, with the reason, where a label is placed on the accelerator and it executes no kernel of that
// label.
void check_placed(const std::vector<KernelReport>& reports, const BuildOptions& build) {
  for (const auto& [label, placement] : build.placements) {
    if (placement != Placement::Accelerator) continue;
    const KernelReport* most = nullptr;
    bool executes = false;
    for (const KernelReport& each : reports) {
      if (each.label != label) continue;
      executes = executes || has_commands(each);
      if (most == nullptr || each.multiply_adds > most->multiply_adds) most = &each;
    }
    if (executes || most == nullptr) continue;
    placed_schedule(parse_kernel(most->statements), build.target, build.threads, most->layout_lines,
                    most->tolerance, placement);
  }
}

// The plan of a graph and of its versions by size; code is still to come.
CompiledModel plan_graph(Graph graph, std::vector<SizedGraph> versions, const CompileOptions& options,
                         Stopwatch& watch) {
  CompiledModel model;
  BuildOptions build = build_options(options);
  model.target = build.target;
  // Another back end may have commands for it, where this one's plan has none.
  model.target.accelerator = parse_target(options.target).accelerator;
  model.backend = artefact_kind(options.kind).backend;
  build.traces = options.traces;
  std::vector<std::string> notes;
  std::string device;
  if (!build.traces && options.log) {
    device = options.log->usual_device(model.target.name, build.threads);
    build.traces = [&](const std::string& workload) {
      std::vector<std::vector<std::string>> traces;
      for (Record& record :
           options.log->best(workload, model.target.name, device, build.threads, options.build, &notes)) {
        traces.push_back(std::move(record.trace));
        if (traces.size() == kMaxTraces) break;
      }
      return traces;
    };
  }
  check_symbols(graph);
  check_ports(graph);
  check_states(graph, options.states);
  for (const SizedGraph& version : versions) check_symbols(version.graph);
  model.arithmetic = all_arithmetic(graph);
  model.quantised = options.quantised;
  model.max_flash = options.max_flash;
  model.max_ram = build.constants_limit > 0 ? options.max_ram : 0;
  model.weights = options.weights;
  BuiltPlan built = build_plan_with_versions(std::move(graph), std::move(versions), build);
  model.plan = std::move(built.plan);
  model.reports = std::move(built.reports);
  check_placed(model.reports, build);
  model.notes = std::move(notes);
  model.notes.insert(model.notes.end(), built.notes.begin(), built.notes.end());
  std::set<int> tuned;
  for (const KernelReport& report : model.reports) {
    if (report.tuned) tuned.insert(report.kernel);
  }
  model.tuned_kernels = static_cast<int>(tuned.size());
  model.plan.provenance = text("tc target=", model.target.name, " tolerance=", options.tolerance,
                               model.arithmetic.empty() ? "" : " quantised=" + options.quantised);
  for (const auto& [label, unit] : options.places) model.plan.provenance += text(" place=", label, "=", unit);
  watch.lap("plan");
  return model;
}

void generate_code(CompiledModel& model, const CompileOptions& options, Stopwatch& watch) {
  model.objects = model.backend->compile(model.plan, model.target, worker_count(options.build_threads));
  // They are in their file now.
  for (PlanConstant& constant : model.plan.constants) constant.release();
  watch.lap("code");
}

}  // namespace

CompiledModel compile_graph(Graph graph, const CompileOptions& options) {
  std::vector<std::pair<std::string, double>> phases;
  Stopwatch watch(phases);
  CompiledModel model = plan_graph(std::move(graph), {}, options, watch);
  generate_code(model, options, watch);
  model.phases = std::move(phases);
  return model;
}

namespace {

CompiledModel timed_from_source(Source source, const CompileOptions& options, bool code) {
  std::vector<std::pair<std::string, double>> phases;
  Stopwatch watch(phases);
  check_places(options);  // an unknown target is told before the work, and so are places
  wants_fast(options);    // an unknown meaning
  rounds_each(options);   // and rounding
  std::string dump;
  CompiledModel told;
  const HeldConstants counting(static_cast<int64_t>(source.bytes.size()));
  // The bytes are let go as soon as nobody reads them again.
  Source again = options.size_versions.empty() ? Source() : source;
  Graph graph = import_and_simplify(std::move(source), options, &dump, &told);
  std::vector<SizedGraph> versions = import_versions(graph, std::move(again), options);
  watch.lap("import");
  CompiledModel model = plan_graph(std::move(graph), std::move(versions), options, watch);
  if (code) generate_code(model, options, watch);
  model.phases = std::move(phases);
  model.dump = std::move(dump);
  model.output_forms = std::move(told.output_forms);
  model.defaults = std::move(told.defaults);
  model.notes.insert(model.notes.begin(), told.notes.begin(), told.notes.end());
  return model;
}

CompiledModel from_source(Source source, const CompileOptions& options, bool code) {
  const std::string name = source.name;
  CompiledModel model;
  within_time(options, name, [&] { model = timed_from_source(std::move(source), options, code); });
  return model;
}

}  // namespace

CompiledModel plan_model(Source source, const CompileOptions& options) {
  return from_source(std::move(source), options, false);
}

CompiledModel compile_model(Source source, const CompileOptions& options) {
  return from_source(std::move(source), options, true);
}

std::optional<ExportedSizes> export_model(const CompiledModel& model, const std::string& kind,
                                          const std::string& path, const std::string& library_folder,
                                          const std::string& weights_folder) {
  const BackendAndKind wanted = artefact_kind(kind);
  refuse_kind(wanted, model.target);
  if (!weights_folder.empty()) refuse_weights_beside(wanted, model.target);
  if (wanted.backend != model.backend && model.objects.code.empty()) {
    fail(ErrorKind::Unsupported, "model '", model.plan.model, "' was compiled by the back end '",
         model.backend->name(), "', which makes no artefact of kind '", kind,
         "'; compile it again for that kind");
  }
  std::optional<ExportedSizes> sizes;
  written_apart(path, [&](const std::string& part) {
    sizes = wanted.backend->write(*wanted.kind,
                                  {model.plan, model.target, model.objects, model.max_flash, model.max_ram},
                                  {path, part, library_folder, weights_folder});
  });
  return sizes;
}

}  // namespace tc
