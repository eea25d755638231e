#include "frontend/python/graph.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>

#include "frontend/import/import.h"
#include "frontend/pipeline/compile.h"
#include "frontend/python/errors.h"
#include "frontend/python/tensor.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/interrupt.h"
#include "ir/ops/op.h"
#include "ir/passes/pass.h"

namespace py = pybind11;

namespace tc {
namespace {

// (name, element type, sizes, bytes)
using Given = std::tuple<std::string, std::string, std::vector<int64_t>, py::buffer>;

py::tuple python_tensor(const Tensor& tensor) {
  return py::make_tuple(name_of(tensor.dtype), tensor.shape,
                        py::bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()));
}

Tensor converted(const Tensor& tensor, DType dtype) {
  Tensor result(dtype, tensor.shape);
  for (int64_t i = 0; i < result.count(); ++i) {
    if (is_float(tensor.dtype)) result.set(i, tensor.as_double(i));
    else result.set_int(i, tensor.as_int(i));
  }
  return result;
}

// Float types that become float64 in a widened graph. Floats with fewer bits stay: a model rounds to these on
// purpose.
bool is_widened(DType dtype) { return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16; }

void widen_attributes(Node& node);

// Whether the node is a cast by which the model rounds on purpose: its effect is not a rounding error.
bool is_narrowing(const Graph& graph, const Node& node) {
  if (node.op != find_op("Cast") && node.op != find_op("CastLike")) return false;
  const DType from = graph[node.inputs[0]].dtype, to = graph[node.outputs[0]].dtype;
  return is_widened(to) && (to != DType::F32 || from == DType::F64);
}

// Nodes that compute `back`, but `x` where `back` is infinite: values that overflow the type stay finite in
// this reference, so that comparing with it shows the overflow.
std::vector<Node> unless_infinite(Graph& graph, const Node& cast, ValueId x, ValueId back, ValueId result) {
  const ValueId infinite =
      graph.fresh_value(graph[result].name + "_infinite", DType::Bool, graph[result].shape);
  Node test, choice;
  test.op = find_op("IsInf");
  test.inputs = {back};
  test.outputs = {infinite};
  choice.op = find_op("Where");
  choice.inputs = {infinite, x, back};
  choice.outputs = {result};
  test.origin = choice.origin = cast.origin;
  return {test, choice};
}

// Lets each cast that rounds keep its type, and casts its result back to the type that its readers take.
// Returns the rounded values.
std::set<ValueId> keep_roundings(Graph& graph) {
  std::set<ValueId> rounded;
  std::vector<Node> nodes;
  for (Node& node : std::vector<Node>(std::move(graph.nodes))) {
    if (!is_narrowing(graph, node)) {
      nodes.push_back(std::move(node));
      continue;
    }
    const ValueId from = node.inputs[0], id = node.outputs[0];
    const DType type = graph[id].dtype;
    const bool wide = graph[from].dtype == DType::F64 || is_widened(graph[from].dtype);
    const ValueId kept = graph.fresh_value(graph[id].name + "_rounded", type, graph[id].shape);
    const ValueId back = wide ? graph.fresh_value(graph[id].name + "_back", type, graph[id].shape) : id;
    rounded.insert(kept);
    node.op = find_op("Cast");
    node.inputs.resize(1);
    node.attributes["to"] = std::string(name_of(type));
    node.outputs = {kept};
    nodes.push_back(node);
    node.inputs = {kept};
    node.outputs = {back};
    nodes.push_back(node);
    if (wide) {
      for (Node& each : unless_infinite(graph, node, from, back, id)) nodes.push_back(std::move(each));
    }
  }
  graph.nodes = std::move(nodes);
  return rounded;
}

// Makes every float of a graph and of its subgraphs a float64, so that evaluation rounds only where the model
// casts. Types and shapes have to be inferred again.
void widen(Graph& graph) {
  const std::set<ValueId> rounded = keep_roundings(graph);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    Value& value = graph.values[i];
    if (!is_widened(value.dtype) || rounded.count(static_cast<ValueId>(i))) continue;
    value.dtype = DType::F64;
    if (value.constant)
      value.constant = std::make_shared<const Tensor>(converted(*value.constant, DType::F64));
  }
  for (Node& node : graph.nodes) {
    if (node.outputs.empty() || !rounded.count(node.outputs[0])) widen_attributes(node);
  }
}

void widen_attributes(Node& node) {
  for (auto& [name, attribute] : node.attributes) {
    if (auto* type = std::get_if<std::string>(&attribute);
        type && (*type == "f32" || *type == "f16" || *type == "bf16"))
      *type = "f64";
    if (auto* tensor = std::get_if<TensorPtr>(&attribute);
        tensor && *tensor && is_widened((*tensor)->dtype)) {
      *tensor = std::make_shared<const Tensor>(converted(**tensor, DType::F64));
    }
    if (auto* body = std::get_if<GraphPtr>(&attribute); body && *body) {
      auto copy = std::make_shared<Graph>(**body);
      widen(*copy);
      *body = copy;
    }
  }
}

// A graph at some stage of the compilation, and the options to compile it from there.
struct Stage {
  Graph graph;
  CompileOptions options;
  std::string file;    // the model's file, as errors name it
  double seconds = 0;  // spent up to this stage: they count for compile_time_limit
};

// Calls work() within the compile_time_limit of the stage's compilation, and adds its time to the stage's.
void timed(Stage& stage, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  within_time(stage.options, stage.file, work, stage.seconds);
  stage.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Stage imported(Source& source, const CompileOptions& options) {
  py::gil_scoped_release release;
  Stage stage{Graph(), options, source.name};
  work_progress() = {"reading"};
  timed(stage, [&] { stage.graph = import_model(std::move(source), import_options(options)); });
  return stage;
}

Stage after_pass(const Stage& stage, const std::string& name) {
  py::gil_scoped_release release;
  for (const Pass& pass : pass_table()) {
    if (name != pass.name) continue;
    Stage result = stage;
    timed(result, [&] { run_pass(pass, result.graph); });
    return result;
  }
  fail(ErrorKind::Model, "there is no pass '", name, "'; docs/passes.md lists them");
}

// The graph that the text describes. Constants that the text does not spell out are taken, by name, from this
// graph.
Stage edited(const Stage& stage, const std::string& words) {
  Stage result{parse_graph(words), stage.options, stage.file, stage.seconds};
  for (Value& value : result.graph.values) {
    const ValueId known = stage.graph.find(value.name);
    if (!value.constant || value.constant->count() <= 16 || known == kNoValue || !stage.graph[known].constant)
      continue;
    if (stage.graph[known].constant->shape == value.constant->shape)
      value.constant = stage.graph[known].constant;
  }
  infer_shapes(result.graph);
  return result;
}

// The graph with these values as additional outputs.
Stage giving(const Stage& stage, const std::vector<std::string>& names) {
  Stage result = stage;
  for (const std::string& name : names) {
    const ValueId id = result.graph.find(name);
    if (id == kNoValue) fail(ErrorKind::Model, "graph '", result.graph.name, "' has no value '", name, "'");
    if (std::find(result.graph.outputs.begin(), result.graph.outputs.end(), id) == result.graph.outputs.end())
      result.graph.outputs.push_back(id);
  }
  return result;
}

py::list nodes_of(const Stage& stage) {
  const auto names = [&](const std::vector<ValueId>& ids) {
    std::vector<std::string> result;
    for (ValueId id : ids) result.push_back(id == kNoValue ? "" : stage.graph[id].name);
    return python_texts(result);
  };
  py::list result;
  for (const Node& node : stage.graph.nodes) {
    py::dict row;
    row["name"] = python_text(node.origin.node);
    row["op_type"] = python_text(node.origin.op_type);
    row["opset"] = node.origin.opset;
    row["op"] = node.op->name;
    row["inputs"] = names(node.inputs);
    row["outputs"] = names(node.outputs);
    result.append(row);
  }
  return result;
}

// {value: element type} of all results of nodes.
py::dict made_by_nodes(const Stage& stage) {
  py::dict result;
  for (const Node& node : stage.graph.nodes) {
    for (ValueId id : node.outputs) {
      if (id != kNoValue) result[python_text(stage.graph[id].name)] = name_of(stage.graph[id].dtype);
    }
  }
  return result;
}

// The values with these names, computed by the interpreter; throughout in float64 where `wide`.
py::dict evaluated(const Stage& stage, const std::vector<Given>& given,
                   const std::vector<std::string>& wanted, bool wide) {
  std::map<std::string, Tensor> inputs, results;
  for (const auto& [name, dtype, shape, bytes] : given) {
    Tensor tensor = tensor_of(dtype, shape, bytes);
    inputs[name] = wide && is_widened(tensor.dtype) ? converted(tensor, DType::F64) : std::move(tensor);
  }
  {
    py::gil_scoped_release release;
    Graph graph = stage.graph;
    graph.outputs.clear();
    for (const std::string& name : wanted) {
      const ValueId id = graph.find(name);
      if (id == kNoValue) fail(ErrorKind::Model, "graph '", graph.name, "' has no value '", name, "'");
      graph.outputs.push_back(id);
    }
    if (wide) {
      widen(graph);
      infer_shapes(graph);
    }
    results = evaluate(graph, inputs);
  }
  py::dict result;
  for (const auto& [name, tensor] : results) result[python_text(name)] = python_tensor(tensor);
  return result;
}

// Schedules by workload, used instead of those of the log.
using Traces = std::map<std::string, std::vector<std::string>>;

CompiledModel compiled(const Stage& stage, const Traces& traces) {
  py::gil_scoped_release release;
  CompileOptions options = stage.options;
  if (!traces.empty()) {
    options.log.reset();
    options.traces = [traces](const std::string& workload) {
      const auto found = traces.find(workload);
      return found == traces.end() ? std::vector<std::vector<std::string>>()
                                   : std::vector<std::vector<std::string>>{found->second};
    };
  }
  CompiledModel model;
  within_time(options, stage.file, [&] { model = compile_graph(stage.graph, options); }, stage.seconds);
  return model;
}

}  // namespace

void add_graph(py::module_& module) {
  py::class_<Stage>(module, "Graph")
      .def_static("imported", &imported)
      .def_property_readonly("text", [](const Stage& stage) { return python_text(str(stage.graph)); })
      .def_property_readonly("nodes", &nodes_of)
      .def_property_readonly("made", &made_by_nodes)
      .def("after", &after_pass)
      .def("edited", &edited)
      .def("giving", &giving)
      .def("evaluate", &evaluated)
      .def("compile", &compiled);
  // (name, what it does) of the graph passes, in their order. The arguments add the passes that only
  // quantised="fast" or rounding="each" have.
  module.def(
      "passes",
      [](bool fast, bool rounding_each) {
        PassOptions options;
        options.fast = fast;
        options.rounding_each = rounding_each;
        py::list rows;
        for (const Pass& pass : pass_table()) {
          if (is_wanted(pass, options)) rows.append(py::make_tuple(pass.name, pass.doc));
        }
        return rows;
      },
      py::arg("fast") = false, py::arg("rounding_each") = false);
  // The bytes of a tensor converted to another element type, each number rounded once.
  module.def("stored", [](const std::string& from, const std::vector<int64_t>& shape, const py::buffer& bytes,
                          const std::string& to) {
    const Tensor tensor = converted(tensor_of(from, shape, bytes), dtype_from_name(to));
    return py::bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  });
}

}  // namespace tc
