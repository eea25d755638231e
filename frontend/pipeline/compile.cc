// The compiler as one function: a model's bytes in, a compiled model out.
#include "frontend/pipeline/compile.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "codegen/renamed.h"
#include "frontend/pipeline/artefact_names.h"
#include "frontend/pipeline/bare.h"
#include "ir/error.h"
#include "ir/interrupt.h"
#include "ir/passes/arithmetic_notes.h"
#include "ir/passes/pass.h"
#include "tuner/log.h"

namespace tc {
namespace {

constexpr size_t kMostTraces = 8;   // of a workload that are tried before the default

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

Bytes read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(ErrorKind::Target, "cannot read '", path, "', which this export links; reinstall tc");
  return Bytes(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

// The members of a Unix archive ("!<arch>" format, GNU and plain names), without its index.
std::vector<std::pair<std::string, Bytes>> archive_members(const std::string& path) {
  const Bytes bytes = read_file(path);
  std::vector<std::pair<std::string, Bytes>> members;
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TC_CHECK(all.substr(0, 8) == "!<arch>\n", "in '", path, "'");
  for (size_t at = 8; at + 60 <= all.size();) {
    const std::string name(all.substr(at, 16));
    const size_t size = std::stoull(std::string(all.substr(at + 48, 10)));
    TC_CHECK(at + 60 + size <= all.size(), "in '", path, "'");
    if (name.substr(0, 2) != "/ " && name.substr(0, 2) != "//") {
      const auto* begin = bytes.data() + at + 60;
      members.emplace_back(text("runtime_", members.size(), ".o"), Bytes(begin, begin + size));
    }
    at += 60 + size + size % 2;
  }
  return members;
}

std::string descriptor_symbol(const std::string& path) { return c_name(path) + "_descriptor"; }

// Of a model that the runtime opens.
void write_header_of_linked(const CompiledModel& model, const std::string& path) {
  const std::string symbol = descriptor_symbol(path);
  write_header(path, "model '" + harmless(model.plan.model) + "' for " + harmless(model.target.name) + ". Open it with tc_model_open_linked(&" + symbol +
                     ", &model).",
               "#include \"tc_runtime.h\"\n\n#ifdef __cplusplus\nextern \"C\"\n#else\nextern\n#endif\nconst struct tc_descriptor " + symbol + ";\n\n");
}

// Calls write(part) with a path for what is to become the file at `path`; what is in use is replaced, never overwritten.
void written_apart(const std::string& path, const std::function<void(const std::string&)>& write) {
  const std::string part = path + ".part";
  std::error_code ignored;
  try {
    write(part);
    std::filesystem::rename(part, path);
  } catch (const std::filesystem::filesystem_error& error) {
    std::filesystem::remove(part, ignored);
    fail(ErrorKind::Device, "cannot write '", path, "': ", error.code().message());
  } catch (...) {
    std::filesystem::remove(part, ignored);
    throw;
  }
}

}  // namespace

int worker_count(int wanted) {
  return wanted > 0 ? wanted : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void set_limits(BuildOptions& build, const CompileOptions& options) {
  // The kind of artefact of these targets keeps its constants in read-only memory.
  const bool apart = options.max_ram > 0 && build.target.arch == Arch::RiscV32;
  if (options.max_ram > 0) build.memory_limit = build.segment_limit = options.max_ram;
  if (options.max_flash > 0 || apart) build.constants_limit = options.max_flash > 0 ? options.max_flash : INT64_MAX;
}

bool wants_fast(const CompileOptions& options) {
  if (options.quantised == "exact" || options.quantised == "fast") return options.quantised == "fast";
  fail(ErrorKind::Model, "quantised is '", options.quantised, "'; give 'exact' (what the unfused evaluation in floats gives) or 'fast' (fixed point, at "
       "most one step from it)");
}

bool rounds_each(const CompileOptions& options) {
  if (options.rounding == "stored" || options.rounding == "each") return options.rounding == "each";
  fail(ErrorKind::Model, "rounding is '", options.rounding, "'; give 'stored' (float16 and bfloat16 are rounded where they are stored or cast) or 'each' "
       "(the result of every operator is rounded)");
}

ImportOptions import_options(const CompileOptions& options) {
  ImportOptions result{options.input_shapes, options.symbols, options.values, options.forms};
  result.open_initializers = options.open_initializers;
  result.data_folders = options.data_folders;
  return result;
}

Graph import_and_simplify(Source source, const CompileOptions& options, std::string* dump, CompiledModel* model) {
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
    if (!graph.symbols.count(name)) fail(ErrorKind::Model, "symbol '", name, "' of graph '", graph.name, "' has no range");
  }
}

// The plan of a graph; code is still to come.
CompiledModel plan_graph(Graph graph, const CompileOptions& options, Stopwatch& watch) {
  CompiledModel model;
  model.target = parse_target(options.target);
  BuildOptions build;
  build.target = model.target;
  // The one kind of artefact with addresses of 32 bits, `bare`, has one thread; and dividing work among threads would take a library's function.
  build.threads = model.target.arch == Arch::RiscV32 ? 1 : worker_count(options.threads);
  build.tolerance = options.tolerance;
  set_limits(build, options);
  build.traces = options.traces;
  std::vector<std::string> notes;
  std::optional<Log> log;
  std::string device;
  if (!build.traces && !options.log.empty()) {
    log.emplace(options.log, Log::Mode::Read);
    device = log->usual_device(model.target.name, build.threads);
    build.traces = [&](const std::string& workload) {
      std::vector<std::vector<std::string>> traces;
      for (Record& record : log->best(workload, model.target.name, device, build.threads, options.build, &notes)) {
        traces.push_back(std::move(record.trace));
        if (traces.size() == kMostTraces) break;
      }
      return traces;
    };
  }
  check_symbols(graph);
  model.arithmetic = all_arithmetic(graph);
  model.quantised = options.quantised;
  model.max_flash = options.max_flash;
  BuiltPlan built = build_plan(std::move(graph), build);
  model.plan = std::move(built.plan);
  model.reports = std::move(built.reports);
  model.notes = std::move(notes);
  model.notes.insert(model.notes.end(), built.notes.begin(), built.notes.end());
  std::set<int> tuned;
  for (const KernelReport& report : model.reports) {
    if (report.tuned) tuned.insert(report.kernel);
  }
  model.tuned_kernels = static_cast<int>(tuned.size());
  model.plan.provenance = text("tc target=", model.target.name, " tolerance=", options.tolerance, model.arithmetic.empty() ? "" : " quantised=" + options.quantised);
  watch.lap("plan");
  return model;
}

void generate_code(CompiledModel& model, const CompileOptions& options, Stopwatch& watch) {
  model.objects = model_objects(model.plan, model.target, kUnnamedDescriptor, worker_count(options.build_threads));
  // They are in their file now.
  for (PlanConstant& constant : model.plan.constants) constant.release();
  watch.lap("code");
}

}  // namespace

CompiledModel compile_graph(Graph graph, const CompileOptions& options) {
  std::vector<std::pair<std::string, double>> phases;
  Stopwatch watch(phases);
  CompiledModel model = plan_graph(std::move(graph), options, watch);
  generate_code(model, options, watch);
  model.phases = std::move(phases);
  return model;
}

namespace {

CompiledModel from_source(Source source, const CompileOptions& options, bool code) {
  std::vector<std::pair<std::string, double>> phases;
  Stopwatch watch(phases);
  parse_target(options.target);    // an unknown target is told before the work
  wants_fast(options);             // and so are an unknown meaning
  rounds_each(options);            // and rounding
  std::string dump;
  CompiledModel told;
  Graph graph = import_and_simplify(std::move(source), options, &dump, &told);
  watch.lap("import");
  CompiledModel model = plan_graph(std::move(graph), options, watch);
  if (code) generate_code(model, options, watch);
  model.phases = std::move(phases);
  model.dump = std::move(dump);
  model.output_forms = std::move(told.output_forms);
  model.defaults = std::move(told.defaults);
  model.notes.insert(model.notes.begin(), told.notes.begin(), told.notes.end());
  return model;
}

}  // namespace

CompiledModel plan_model(Source source, const CompileOptions& options) {
  return from_source(std::move(source), options, false);
}

CompiledModel compile_model(Source source, const CompileOptions& options) {
  return from_source(std::move(source), options, true);
}

std::optional<ExportedSizes> export_model(const CompiledModel& model, const std::string& kind, const std::string& path,
                                          const std::string& library_folder) {
  if (model.target.arch == Arch::RiscV32 && kind != "bare") {
    fail(ErrorKind::Unsupported, "cannot make an artefact of kind '", kind, "' for target ", model.target.name,
         ": there is no runtime for addresses of 32 bits; export kind 'bare', which needs none");
  }
  const std::string libraries = library_folder + "/" + library_folder_name(model.target.arch);
  const std::string symbol = descriptor_symbol(path);
  std::optional<ExportedSizes> sizes;
  written_apart(path, [&](const std::string& part) {
    if (kind == "shared") {
      link_shared(renamed(model.objects, kUnnamedDescriptor, symbol, Renamed::Descriptor), model.target, part);
    } else if (kind == "executable") {
      link_executable(model.objects, model.target, libraries, part);
    } else if (kind == "object") {
      link_object(renamed(model.objects, kUnnamedDescriptor, symbol, Renamed::All), model.target, part);
      write_header_of_linked(model, path);
    } else if (kind == "static") {
      write_archive(renamed(model.objects, kUnnamedDescriptor, symbol, Renamed::All), archive_members(libraries + "/libtc_runtime.a"), model.target, part);
      write_header_of_linked(model, path);
    } else if (kind == "bare") {
      sizes = export_bare(model, path, part);
    } else {
      fail(ErrorKind::Target, "unknown kind of artefact '", kind,
           "'; the kinds are shared, static, executable, object and bare");
    }
  });
  return sizes;
}

}  // namespace tc
