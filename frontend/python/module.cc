// The extension module tc._tc: the compiler as Python sees it. The package's Python files build the user's
// interface on it and on tc._runtime, which runs models.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "codegen/backend/table.h"
#include "frontend/import/import.h"
#include "frontend/import/onnx/strings.h"
#include "frontend/pipeline/compile.h"
#include "frontend/pipeline/kernel_module.h"
#include "frontend/pipeline/plan_builder.h"
#include "frontend/python/accelerators.h"
#include "frontend/python/description.h"
#include "frontend/python/errors.h"
#include "frontend/python/fleet.h"
#include "frontend/python/graph.h"
#include "frontend/python/interruption.h"
#include "frontend/python/onnx_file.h"
#include "frontend/python/roof.h"
#include "frontend/python/strings.h"
#include "frontend/python/tune.h"
#include "frontend/python/weights.h"
#include "ir/error.h"
#include "ir/interrupt.h"
#include "ir/loop.h"
#include "ir/ops/depends_on_data.h"
#include "ir/passes/arithmetic_notes.h"
#include "ir/plan.h"
#include "ir/scratch.h"
#include "ir/target/target.h"
#include "scheduler/scheduler.h"
#include "tuner/record_store.h"

namespace py = pybind11;

namespace tc {
namespace {

constexpr int64_t kMaxModelBytes = (int64_t{1} << 31) - 1;  // protobuf's limit

Source read_source(const std::string& path, const std::string& known_files) {
  Source source;
  source.known_files = known_files;
  source.name = printable(std::filesystem::path(path).filename().string());
  source.folder = std::filesystem::path(path).parent_path().string();
  if (source.folder.empty()) source.folder = ".";
  std::error_code code;
  // Checked before it is opened, since opening a pipe would wait for a writer.
  if (std::filesystem::exists(path, code) && !std::filesystem::is_regular_file(path, code))
    fail(ErrorKind::Model, path, ": cannot be read: it is no regular file");
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) fail(ErrorKind::Model, path, ": cannot be read: ", std::strerror(errno));
  const int64_t size = static_cast<int64_t>(std::filesystem::file_size(path, code));
  if (code) fail(ErrorKind::Model, path, ": cannot be read: ", code.message());
  if (size > kMaxModelBytes)
    fail(ErrorKind::Model, path, ": the file has ", size, " bytes; a model file has at most ", kMaxModelBytes,
         " (keep weights in external data files)");
  source.bytes.resize(static_cast<size_t>(size));
  if (std::fread(source.bytes.data(), 1, source.bytes.size(), file.get()) != source.bytes.size())
    fail(ErrorKind::Model, path, ": cannot be read: ", std::strerror(errno));
  return source;
}

// (name, element type, sizes) of a port; a size is a number or an expression of symbols.
py::tuple port_tuple(const PortInfo& port) {
  py::list dims;
  for (const Dim& dim : port.shape) {
    if (dim.is_constant()) dims.append(dim.constant());
    else dims.append(dim.str());
  }
  return py::make_tuple(port.name, name_of(port.dtype), py::tuple(dims));
}

py::list port_tuples(const std::vector<PortInfo>& ports) {
  py::list result;
  for (const PortInfo& port : ports) result.append(port_tuple(port));
  return result;
}

// The same for what a file declares, with the kind of the port; sizes are None where it declares no shape.
py::list declared_ports(const std::vector<DeclaredPort>& ports) {
  py::list result;
  for (const DeclaredPort& port : ports) {
    const py::tuple known = port_tuple({port.name, port.dtype, port.shape.value_or(Shape())});
    result.append(py::make_tuple(known[0], known[1], port.shape ? py::object(known[2]) : py::none(),
                                 name_of(port.kind)));
  }
  return result;
}

// Makes an input a constant: its element type by the compiler's name, its sizes and its bytes in row-major
// order.
void set_value(CompileOptions& options, const std::string& input, const std::string& dtype,
               const std::vector<int64_t>& shape, const std::string& bytes) {
  auto tensor = std::make_shared<Tensor>(dtype_from_name(dtype), shape);
  TC_CHECK(tensor->bytes.size() == bytes.size(), "of input ", input);
  std::memcpy(tensor->bytes.data(), bytes.data(), bytes.size());
  options.values[input] = tensor;
}

// Adds a state: names of it, of the input and of the output that are its value before and after a run, and
// its bytes before the first run; none are zeros.
void add_state(CompileOptions& options, const std::string& name, const std::string& input,
               const std::string& output, const std::string& initial) {
  options.states.push_back({name, input, output, {initial.begin(), initial.end()}});
}

// Sets the shapes of the tensors in a sequence or an optional; `present` tells whether an optional has a
// value.
void set_form(CompileOptions& options, const std::string& input, bool present,
              const std::vector<std::vector<int64_t>>& shapes) {
  options.forms[input] = {present, shapes};
}

// {input: (element type, sizes, bytes)} of those that have a value in the file.
py::dict defaults(const CompiledModel& model) {
  py::dict result;
  for (const auto& [name, tensor] : model.defaults) {
    const py::bytes bytes(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size());
    result[python_text(name)] =
        py::make_tuple(name_of(tensor->dtype), py::tuple(py::cast(tensor->shape)), bytes);
  }
  return result;
}

// (name, kind, present, number of tensors) of each output, if at least one is no tensor; else an empty list.
py::list output_forms(const CompiledModel& model) {
  py::list result;
  for (const OutputForm& form : model.output_forms) {
    result.append(py::make_tuple(python_text(form.name), name_of(form.kind), form.present, form.tensors));
  }
  return result;
}

// How each node of a quantised network is computed.
py::list arithmetic_rows(const std::vector<ArithmeticNote>& notes) {
  py::list result;
  for (const ArithmeticNote& note : notes) {
    py::dict row;
    row["node"] = python_text(note.node);
    row["operator"] = python_text(note.op);
    row["kind"] = note.kind == ArithmeticNote::Kind::Integers ? "integers"
                  : note.kind == ArithmeticNote::Kind::Bytes  ? "bytes"
                                                              : "floats";
    row["region"] = note.region < 0 ? py::object(py::none()) : py::object(py::int_(note.region + 1));
    row["fixed_point"] = note.fixed_point;
    row["reason"] = python_text(note.reason);
    result.append(row);
  }
  return result;
}

py::object number_or_none(const Dim& dim) {
  if (dim.is_constant()) return py::int_(dim.constant());
  return py::none();
}

py::dict report_dict(const KernelReport& report) {
  py::dict result;
  result["label"] = report.label;
  result["kernel"] = report.kernel;
  result["layout_lines"] = report.layout_lines;
  result["workload"] = report.workload;
  result["tuned"] = report.tuned;
  result["trace"] = python_texts(report.trace);
  result["algorithm"] = report.algorithm;
  result["statements"] = report.statements;
  result["tolerance"] = report.tolerance;
  result["flops"] = report.flops;
  result["multiply_adds"] = report.multiply_adds;
  result["predicted_seconds"] = report.predicted_seconds;
  return result;
}

py::list report_list(const std::vector<KernelReport>& reports) {
  py::list result;
  for (const KernelReport& report : reports) result.append(report_dict(report));
  return result;
}

void add_compiled(py::module_& module) {
  py::class_<CompiledModel>(module, "Compiled")
      .def_property_readonly("target", [](const CompiledModel& m) { return m.target.name; })
      .def_property_readonly("model", [](const CompiledModel& m) { return m.plan.model; })
      .def_property_readonly("provenance", [](const CompiledModel& m) { return m.plan.provenance; })
      .def_property_readonly("symbols", [](const CompiledModel& m) { return m.plan.symbols; })
      .def_property_readonly("inputs", [](const CompiledModel& m) { return port_tuples(m.plan.inputs); })
      .def_property_readonly("outputs", [](const CompiledModel& m) { return port_tuples(m.plan.outputs); })
      .def_property_readonly("output_forms", &output_forms)
      .def_property_readonly("defaults", &defaults)
      .def_property_readonly("reports", [](const CompiledModel& m) { return report_list(m.reports); })
      .def_readonly("tuned_kernels", &CompiledModel::tuned_kernels)
      .def_property_readonly("notes", [](const CompiledModel& m) { return python_texts(m.notes); })
      .def_property_readonly("quantised", [](const CompiledModel& m) { return m.quantised; })
      .def_property_readonly("arithmetic",
                             [](const CompiledModel& m) { return arithmetic_rows(m.arithmetic); })
      .def_property_readonly(
          "arithmetic_lines",
          [](const CompiledModel& m) { return python_texts(arithmetic_lines(m.arithmetic)); })
      .def_property_readonly("dump", [](const CompiledModel& m) { return m.dump; })
      .def_property_readonly("phases", [](const CompiledModel& m) { return m.phases; })
      .def_property_readonly("plan", [](const CompiledModel& m) { return str(m.plan); })
      .def_property_readonly("constant_bytes",
                             [](const CompiledModel& m) {
                               int64_t bytes = 0;
                               for (const PlanConstant& constant : m.plan.constants)
                                 bytes += constant.byte_count();
                               return bytes;
                             })
      .def_property_readonly("arena_bytes",
                             [](const CompiledModel& m) { return number_or_none(m.plan.arena_bytes); })
      .def_property_readonly("scratch_bytes",
                             [](const CompiledModel& m) {
                               return number_or_none(max(m.plan.sized_scratch, first_scratch_bytes(m.plan)));
                             })
      .def_property_readonly("weights", [](const CompiledModel& m) { return m.weights; })
      .def("export", [](const CompiledModel& m, const std::string& kind, const std::string& path,
                        const std::string& library_folder, const std::string& weights_folder) {
        const auto sizes = [&] {
          py::gil_scoped_release release;
          return export_model(m, kind, path, library_folder, weights_folder);
        }();
        py::dict result;
        if (!sizes) return result;
        result["constants"] = sizes->constants;
        result["code"] = sizes->code;
        result["arena"] = sizes->arena;
        result["zeros"] = sizes->zeros;
        result["stack"] = sizes->stack;
        return result;
      });
}

py::dict dict_of(const PrimitiveRow& row) {
  py::dict result;
  result["name"] = row.name;
  result["kind"] = name_of(row.kind);
  result["verb"] = row.first_word();
  result["signature"] = row.signature();
  result["doc"] = row.doc;
  py::list arguments;
  for (const Argument& argument : row.form) {
    py::dict each;
    each["kind"] = name_of(argument.kind);
    each["name"] = argument.name;
    each["description"] = description(argument);
    each["least"] = argument.least;
    each["most"] = argument.is_list() ? py::none() : py::object(py::int_(argument.most));
    arguments.append(each);
  }
  result["arguments"] = arguments;
  return result;
}

void add_schedule(py::module_& module) {
  const auto kernel_name = [](const Schedule& s) { return s.kernel().name; };
  py::class_<Schedule>(module, "Schedule")
      .def(py::init([](const std::string& kernel, const std::string& target) {
        return Schedule(parse_kernel(kernel), parse_target(target));
      }))
      .def("copy", [](const Schedule& s) { return Schedule(s); })
      .def("apply", &Schedule::apply)
      .def("check", &Schedule::check)
      .def("tree", &Schedule::tree)
      .def_property_readonly("trace", &Schedule::trace)
      .def_property_readonly("target", [](const Schedule& s) { return s.target().name; })
      .def_property_readonly("name", kernel_name)
      .def("statements", [](const Schedule& s) { return str(s.kernel()); })
      .def("loops", [](const Schedule& s) { return str(s.finish()); })
      .def("code_text",
           [](const Schedule& s, const std::string& name) { return code_text(s.finish(), s.target(), name); })
      .def("flops", [](const Schedule& s) { return flop_count(s.kernel(), {}); })
      .def("predicted_seconds",
           [](const Schedule& s, int threads) { return predicted_seconds(s.finish(), s.target(), threads); })
      .def("default_trace", [](const Schedule& s, int threads) { return default_trace(s, threads); })
      // The report as text, and one dict per strategy.
      .def("default_report",
           [](const Schedule& s, int threads, double tolerance) {
             const std::vector<StrategyReport> report = default_report(s, threads, tolerance);
             py::list rows;
             for (const StrategyReport& each : report) {
               py::dict row;
               row["strategy"] = each.name;
               row["taken"] = each.taken;
               row["cycles"] = each.cycles;
               row["plain_cycles"] = each.plain;
               row["cycles_on_core"] = each.on_core;
               row["plan"] = each.plan;
               row["rejected"] = each.rejected;
               rows.append(row);
             }
             return py::make_tuple(str(report), rows);
           })
      .def("compile", [](const Schedule& s, int threads) {
        py::gil_scoped_release release;
        return compile_kernel(s.finish(), s.target(), threads);
      });
  module.def("primitives", [] {
    py::list rows;
    for (const PrimitiveRow& row : primitive_table()) rows.append(dict_of(row));
    return rows;
  });
}

CompiledModel plan_of(Source& source, const CompileOptions& options) {
  py::gil_scoped_release release;
  return plan_model(std::move(source), options);
}

// The simplified graph that is compiled, made within the time that the options allow.
Graph simplified(Source& source, const CompileOptions& options, std::string* dump) {
  py::gil_scoped_release release;
  Graph graph;
  const std::string name = source.name;
  within_time(options, name, [&] { graph = import_and_simplify(std::move(source), options, dump); });
  return graph;
}

void raise_unsupported(const Error& error, const char* attribute, const py::object& value) {
  const py::object raised =
      py::module_::import("tc.errors").attr("UnsupportedError")(python_text(error.what()), true);
  raised.attr(attribute) = value;
  PyErr_SetObject(py::type::of(raised).ptr(), raised.ptr());
}

// Translates those Unsupported errors that say how the model could be compiled: with the values of some
// inputs, or with a part of it running on the host.
void translate_unsupported(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const DependsOnData& error) {
    raise_unsupported(error, "inputs", py::tuple(python_texts(error.inputs())));
  } catch (const NeedsForms& error) {
    raise_unsupported(error, "inputs", py::tuple(python_texts(error.inputs())));
  } catch (const HasStrings& error) {
    raise_unsupported(error, "strings", py::bool_(true));
  }
}

void add_options(py::module_& module) {
  py::class_<Source>(module, "Source")
      .def(py::init([](const py::bytes& bytes, const std::string& name) {
        return Source{std::string(bytes), printable(name), ""};
      }))
      .def_static("read", &read_source, py::arg("path"), py::arg("known_files") = "")
      .def("copy", [](const Source& source) { return Source(source); })
      .def_property_readonly("name", [](const Source& source) { return python_text(source.name); });
  py::class_<CompileOptions>(module, "Options")
      .def(py::init<>())
      .def_readwrite("target", &CompileOptions::target)
      .def_readwrite("input_shapes", &CompileOptions::input_shapes)
      .def_readwrite("symbols", &CompileOptions::symbols)
      .def_readwrite("size_versions", &CompileOptions::size_versions)
      .def_readwrite("threads", &CompileOptions::threads)
      .def_readwrite("build_threads", &CompileOptions::build_threads)
      .def_readwrite("tolerance", &CompileOptions::tolerance)
      .def_readwrite("quantised", &CompileOptions::quantised)
      .def_readwrite("rounding", &CompileOptions::rounding)
      .def_readwrite("weights", &CompileOptions::weights)
      .def_readwrite("places", &CompileOptions::places)
      .def_readwrite("seed", &CompileOptions::seed)
      .def_readwrite("dump", &CompileOptions::dump)
      .def_readwrite("kind", &CompileOptions::kind)
      .def_property(
          "log", py::cpp_function(),
          [](CompileOptions& options, std::shared_ptr<RecordStore> log) { options.log = std::move(log); })
      .def_readwrite("max_ram", &CompileOptions::max_ram)
      .def_readwrite("max_flash", &CompileOptions::max_flash)
      .def_readwrite("max_nodes", &CompileOptions::max_nodes)
      .def_readwrite("compile_time_limit", &CompileOptions::compile_time_limit)
      .def_readwrite("build", &CompileOptions::build)
      .def_readwrite("open_initializers", &CompileOptions::open_initializers)
      .def_readwrite("data_folders", &CompileOptions::data_folders)
      .def("set_value", &set_value)
      .def("set_form", &set_form)
      .def("add_state", &add_state)
      .def_property_readonly("forms", [](const CompileOptions& options) {
        py::dict forms;
        for (const auto& [name, form] : options.forms)
          forms[python_text(name)] = py::make_tuple(form.present, form.shapes);
        return forms;
      });
}

// The formats that the compiler reads, as rows of tc/formats.py.
py::list importer_rows() {
  py::list rows;
  for (const Importer& importer : importers()) {
    py::dict row;
    row["name"] = importer.format;
    row["suffixes"] = importer.suffixes;
    row["offset"] = importer.offset;
    row["begin"] = py::bytes(importer.begin);
    row["options"] = importer.options;
    rows.append(row);
  }
  return rows;
}

// Kinds of artefacts as dicts.
py::list kind_list(const std::vector<BackendAndKind>& kinds) {
  py::list rows;
  for (const BackendAndKind& each : kinds) {
    py::dict row;
    row["name"] = each.kind->name;
    row["suffix"] = each.kind->suffix;
    row["doc"] = each.kind->doc;
    row["one_thread"] = each.kind->one_thread;
    row["constants_in_flash"] = each.kind->constants_in_flash;
    row["backend"] = each.backend->name();
    rows.append(row);
  }
  return rows;
}

void add_backends(py::module_& module) {
  // The texts of a kernel's code that can be printed: (name, what makes it, for which targets, and, for code
  // after a pass, what that pass runs over).
  module.def("code_texts", [] {
    py::list rows;
    for (const Backend* backend : backends()) {
      for (const CodeText& each : backend->texts())
        rows.append(py::make_tuple(each.name, each.doc, each.when, each.stage));
    }
    return rows;
  });
  module.def("kinds", [] { return kind_list(all_kinds()); });
  // The kinds of artefacts that exist for the target.
  module.def("kinds_for", [](const std::string& name) {
    const Target target = parse_target(name);
    std::vector<BackendAndKind> found;
    for (const BackendAndKind& each : all_kinds()) {
      if (!each.backend->refusal(*each.kind, target)) found.push_back(each);
    }
    return kind_list(found);
  });
  // Whether an artefact of that kind needs another plan than the model has, because another back end makes
  // its code, which may not use all features of the target, or whose code max_flash bounds by an estimate.
  module.def("needs_own_plan", [](const CompiledModel& model, const std::string& kind) {
    const BackendAndKind wanted = artefact_kind(kind);
    const bool estimates = model.max_flash > 0 && wanted.backend->code_estimate() != nullptr;
    return wanted.backend != model.backend &&
           (estimates || !plan_alike(*wanted.backend, *model.backend, model.target));
  });
}

void add_compile(py::module_& module) {
  module.def("compile", [](Source& source, const CompileOptions& options) {
    py::gil_scoped_release release;
    return compile_model(std::move(source), options);
  });
  // The simplified graph as text, and the dump that the options ask for.
  module.def("import_model", [](Source& source, const CompileOptions& options) {
    std::string dump;
    const Graph graph = simplified(source, options, &dump);
    return std::make_pair(str(graph), dump);
  });
  // One report per call of a kernel, in the plan's order, without generating code.
  module.def("plan_kernels", [](Source& source, const CompileOptions& options) {
    return report_list(plan_of(source, options).reports);
  });
  // How each node of a quantised network is computed, as rows and as lines of a report; both empty for other
  // networks.
  module.def("arithmetic", [](Source& source, const CompileOptions& options) {
    std::string dump;
    const std::vector<ArithmeticNote> notes = all_arithmetic(simplified(source, options, &dump));
    return py::make_tuple(arithmetic_rows(notes), python_texts(arithmetic_lines(notes)));
  });
  // The plan as text, without generating code.
  module.def("plan_text", [](Source& source, const CompileOptions& options) {
    return str(plan_of(source, options).plan);
  });
  module.def("unsupported", [](const Source& source, const CompileOptions& options) {
    std::vector<ImportProblem> problems;
    {
      py::gil_scoped_release release;
      work_progress() = {"reading"};
      within_time(options, source.name, [&] { problems = check_model(source, import_options(options)); });
    }
    py::list result;
    for (const ImportProblem& problem : problems) {
      // Some texts already begin with the node.
      const bool named = problem.op_type.empty() || problem.reason.rfind("node '", 0) == 0;
      py::dict row;
      row["node"] = python_text(problem.node);
      row["operator"] = python_text(problem.op_type);
      row["opset"] = problem.opset;
      row["text"] = python_text(named ? problem.reason
                                      : text("node '", problem.node, "' (", problem.op_type, ", opset ",
                                             problem.opset, "): ", problem.reason));
      result.append(row);
    }
    return result;
  });
  // Name of the model, inputs and outputs as its file declares them.
  module.def("signature", [](const Source& source, const CompileOptions& options) {
    const Signature signature = [&] {
      py::gil_scoped_release release;
      return signature_of(source, import_options(options));
    }();
    return py::make_tuple(python_text(signature.model), declared_ports(signature.inputs),
                          declared_ports(signature.outputs));
  });
  module.def("targets", &known_targets);
  module.def("importers", &importer_rows);
  module.def("resolve_target", [](const std::string& target) {
    const Target parsed = parse_target(target);
    std::string why;
    const bool runs = runs_here(parsed, &why);
    // Multiply-adds of all lanes in one cycle, from which peak speed is computed.
    return py::make_tuple(parsed.name, runs, why, parsed.multiply_adds * parsed.lanes(DType::F32));
  });
}

}  // namespace
}  // namespace tc

PYBIND11_MODULE(_tc, module) {
  module.doc() = "The native half of tc.";
  tc::add_errors();
  pybind11::register_local_exception_translator(&tc::translate_unsupported);
  tc::add_interruption(module);
  tc::add_accelerators(module);
  tc::add_fleet(module);
  tc::add_compiled(module);
  tc::add_schedule(module);
  tc::add_options(module);
  tc::add_backends(module);
  tc::add_compile(module);
  tc::add_description(module);
  tc::add_graph(module);
  tc::add_onnx_file(module);
  tc::add_strings(module);
  tc::add_tune(module);
  tc::add_roof(module);
  tc::add_weights(module);
}
