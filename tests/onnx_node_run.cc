// Runs one of the node tests that the ONNX project publishes and compares with its outputs.
#include "tests/onnx_node_run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "frontend/import/import.h"
#include "frontend/import/onnx/onnx.pb.h"
#include "frontend/import/onnx/outputs.h"
#include "frontend/pipeline/compile.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/ops/depends_on_data.h"
#include "ir/ops/op.h"
#include "ir/passes/pass.h"
#include "runtime/tc_runtime.h"
#include "tests/onnx_node_data.h"

namespace tc {
namespace {

namespace fs = std::filesystem;
using Outcome = NodeTestResult::Outcome;
using Tensors = std::map<std::string, Tensor>;

// A mismatch in words, or nothing.
std::string difference(const Tensor& found, const Tensor& expected) {
  if (found.dtype != expected.dtype)
    return text("type ", name_of(found.dtype), " for ", name_of(expected.dtype));
  if (found.shape != expected.shape)
    return text("shape ", str(shape_of(found.shape)), " for ", str(shape_of(expected.shape)));
  const bool half = expected.dtype == DType::F16 || expected.dtype == DType::BF16;
  // For bfloat16, two units in the last place: the vectors' operators each round, and what lies between casts
  // does not here.
  const double relative = expected.dtype == DType::BF16 ? 0x1p-6
                          : half                        ? 1e-2
                                                        : 1e-3,
               absolute = half ? 1e-3 : 1e-5;
  for (int64_t i = 0; i < expected.count(); ++i) {
    if (!is_float(expected.dtype)) {
      // Quantised values may fall on the other side of a tie.
      const int64_t slack = expected.dtype == DType::U8 || expected.dtype == DType::I8 ? 1 : 0;
      if (std::llabs(found.as_int(i) - expected.as_int(i)) > slack) {
        return text("element ", i, " is ", found.as_int(i), " for ", expected.as_int(i));
      }
      continue;
    }
    const double a = found.as_double(i), b = expected.as_double(i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b) continue;
    if (!(std::abs(a - b) <= absolute + relative * std::abs(b)))
      return text("element ", i, " is ", a, " for ", b);
  }
  return "";
}

void collect_rows(const Graph& graph, std::set<std::string>& rows) {
  for (const Node& node : graph.nodes) {
    rows.insert(node.op->name);
    for (const auto& [name, attribute] : node.attributes) {
      if (const GraphPtr* body = std::get_if<GraphPtr>(&attribute)) collect_rows(**body, rows);
    }
  }
}

// Rows and forms of the file's own nodes, of which the import may have computed some.
void collect_rows(const tc_onnx::GraphProto& graph, const std::map<std::string, int>& opsets,
                  std::set<std::string>& rows) {
  for (const tc_onnx::NodeProto& node : graph.node()) {
    const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
    const auto opset = opsets.find(domain);
    const OnnxName* form = nullptr;
    const OpRow* row = find_onnx_op(domain, node.op_type(), opset == opsets.end() ? 1 : opset->second, &form);
    if (row) rows.insert(str(*row, *form));
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) collect_rows(attribute.g(), opsets, rows);
    }
  }
}

std::set<std::string> rows_of(const tc_onnx::ModelProto& model) {
  std::map<std::string, int> opsets;
  for (const auto& import : model.opset_import()) {
    opsets[import.domain() == "ai.onnx" ? "" : import.domain()] = static_cast<int>(import.version());
  }
  std::set<std::string> rows;
  collect_rows(model.graph(), opsets, rows);
  return rows;
}

[[noreturn]] void broken(const char* what) { fail(ErrorKind::Internal, what, ": ", tc_last_error()); }

// A compiled model, linked, opened by the runtime and bound to the inputs' shapes. All threads of
// the run write the same outputs whatever their number.
class NativeModel {
 public:
  NativeModel(const CompiledModel& compiled, const fs::path& folder) {
    const std::string path = folder / "model.so";
    export_model(compiled, "shared", path, "");
    tc_model* model = nullptr;
    if (tc_model_open(path.c_str(), &model) != TC_OK) broken("open");
    model_.reset(model);
  }

  Tensors run(const Tensors& given, int threads) {
    tc_context* created = nullptr;
    if (tc_context_create(model_.get(), threads, &created) != TC_OK) broken("create");
    const std::unique_ptr<tc_context, decltype(&tc_context_destroy)> context(created, tc_context_destroy);
    std::vector<const Tensor*> inputs;
    std::vector<tc_shape> shapes;
    for (int32_t i = 0; i < tc_model_input_count(model_.get()); ++i) {
      inputs.push_back(&given.at(port(i, true).name));
      shapes.push_back({inputs.back()->shape.data(), static_cast<int32_t>(inputs.back()->shape.size()), 0});
    }
    if (tc_context_bind(context.get(), shapes.data(), static_cast<int32_t>(shapes.size())) != TC_OK)
      broken("bind");
    std::vector<Tensor> results;
    std::vector<std::string> names;
    std::vector<bool> unbounded;
    for (int32_t i = 0; i < tc_model_output_count(model_.get()); ++i) {
      const tc_port_info info = port(i, false);
      std::vector<int64_t> dims(TC_MAX_RANK);
      int32_t rank = 0;
      if (tc_context_output_shape(context.get(), i, dims.data(), &rank, nullptr) != TC_OK) broken("shape");
      dims.resize(static_cast<size_t>(rank));
      unbounded.push_back(std::find(dims.begin(), dims.end(), -1) != dims.end());
      if (unbounded.back()) dims.assign(dims.size(), 0);
      results.emplace_back(static_cast<DType>(info.dtype), dims);
      // What is not written shows.
      std::fill(results.back().bytes.begin(), results.back().bytes.end(), uint8_t{0xa5});
      names.push_back(info.name);
    }
    std::vector<tc_input_buffer> in;
    for (const Tensor* tensor : inputs) in.push_back({tensor->bytes.data(), tensor->bytes.size()});
    std::vector<tc_output_buffer> out;
    for (size_t i = 0; i < results.size(); ++i) {
      out.push_back(unbounded[i] ? tc_output_buffer{nullptr, 0}
                                 : tc_output_buffer{results[i].bytes.data(), results[i].bytes.size()});
    }
    if (tc_context_run(context.get(), in.data(), static_cast<int32_t>(in.size()), out.data(),
                       static_cast<int32_t>(out.size())) != TC_OK) {
      broken("run");
    }
    Tensors outputs;
    for (size_t i = 0; i < results.size(); ++i) {
      // What the run computes may be smaller than its room.
      int32_t rank = 0;
      uint64_t bytes = 0;
      if (tc_context_result_shape(context.get(), static_cast<int32_t>(i), results[i].shape.data(), &rank,
                                  &bytes) != TC_OK)
        broken("result");
      results[i].bytes.resize(bytes);
      const void* data = nullptr;
      if (unbounded[i] && tc_context_result_data(context.get(), static_cast<int32_t>(i), &data) != TC_OK)
        broken("data");
      if (unbounded[i] && bytes > 0) std::memcpy(results[i].bytes.data(), data, bytes);
      outputs[names[i]] = std::move(results[i]);
    }
    return outputs;
  }

 private:
  tc_port_info port(int32_t index, bool input) const {
    tc_port_info info = {};
    info.struct_size = sizeof info;
    if ((input ? tc_model_input_info : tc_model_output_info)(model_.get(), index, &info) != TC_OK)
      broken("port");
    return info;
  }

  std::unique_ptr<tc_model, decltype(&tc_model_close)> model_{nullptr, tc_model_close};
};

}  // namespace

Tensors run_native(Graph graph, const Tensors& inputs) {
  CompileOptions options;
  options.build_threads = 1;
  options.threads = 2;
  const CompiledModel compiled = compile_graph(std::move(graph), options);
  char folder[] = "/tmp/tc-test-XXXXXX";
  TC_CHECK(mkdtemp(folder) != nullptr);
  const std::shared_ptr<void> remove(nullptr, [&](void*) { fs::remove_all(folder); });
  NativeModel model(compiled, folder);
  Tensors outputs = model.run(inputs, 1);
  for (const auto& [name, tensor] : model.run(inputs, 2)) {
    TC_CHECK(tensor.bytes == outputs.at(name).bytes, "'", name, "' depends on the number of threads");
  }
  return outputs;
}

namespace {

fs::path data_of(const fs::path& folder, const char* kind, int number) {
  return folder / "test_data_set_0" / text(kind, "_", number, ".pb");
}

// The test's data for an input of its model; null where the model has no such input.
std::optional<NodeTestValue> data_of_input(const tc_onnx::ModelProto& model, const fs::path& folder,
                                           const std::string& name) {
  for (int i = 0; i < model.graph().input_size(); ++i) {
    const auto& input = model.graph().input(i);
    if (input.name() == name) return read_value_file(data_of(folder, "input", i), input.type());
  }
  return std::nullopt;
}

// The graph for these inputs: where their values decide its structure they are constants of it, and where
// they are no tensors they have their form, as in the versions that tc.Module compiles.
Graph import_version(const std::string& bytes, const tc_onnx::ModelProto& model, const fs::path& folder,
                     std::vector<OutputForm>& outputs) {
  ImportOptions options;
  options.output_forms = &outputs;
  for (;;) {
    try {
      return import_model({bytes, "model.onnx", folder.string()}, options);
    } catch (const DependsOnData& error) {
      if (error.inputs().empty()) throw;
      for (const std::string& name : error.inputs()) {
        options.constants[name] =
            std::make_shared<Tensor>(data_of_input(model, folder, name).value().tensors.at(0));
      }
    } catch (const NeedsForms& error) {
      for (const std::string& name : error.inputs()) {
        const NodeTestValue value = data_of_input(model, folder, name).value();
        options.forms[name].present = value.present;
        for (const Tensor& tensor : value.tensors) options.forms[name].shapes.push_back(tensor.shape);
      }
    }
  }
}

// The tensors of the test's data, by the names that they have in a graph.
Tensors inputs_of(const tc_onnx::ModelProto& model, const fs::path& folder) {
  Tensors inputs;
  for (int i = 0; i < model.graph().input_size(); ++i) {
    const auto& input = model.graph().input(i);
    if (!fs::exists(data_of(folder, "input", i))) continue;
    const NodeTestValue value = read_value_file(data_of(folder, "input", i), input.type());
    const std::vector<std::string> names =
        value_names({input.name(), value.kind, true, static_cast<int64_t>(value.tensors.size())});
    for (size_t k = 0; k < names.size(); ++k) inputs[names[k]] = value.tensors[k];
  }
  return inputs;
}

// How an output differs from what is expected of it, or nothing.
std::string difference(const OutputForm& form, const std::string* names, const Tensors& found,
                       const NodeTestValue& expected) {
  const int64_t tensors = static_cast<int64_t>(expected.tensors.size());
  if (form.kind != expected.kind) return text(name_of(form.kind), " for ", name_of(expected.kind));
  if (form.present != expected.present || form.tensors != tensors)
    return text(form.tensors, " tensors for ", tensors);
  for (size_t i = 0; i < expected.tensors.size(); ++i) {
    const std::string wrong = difference(found.at(names[i]), expected.tensors[i]);
    if (!wrong.empty()) return text(names[i], ": ", wrong);
  }
  return "";
}

NodeTestResult run_model(const std::string& bytes, const fs::path& folder, NodeTestWay way) {
  NodeTestResult result;
  try {
    tc_onnx::ModelProto model;
    model.ParseFromString(bytes);
    std::vector<OutputForm> forms;
    Graph graph = import_version(bytes, model, folder, forms);
    if (way != NodeTestWay::AsImported) run_passes(graph);
    result.rows = rows_of(model);
    collect_rows(graph, result.rows);
    const Tensors inputs = inputs_of(model, folder);
    std::vector<std::string> names;
    for (ValueId id : graph.outputs) {
      if (forms.size() < static_cast<size_t>(model.graph().output_size())) forms.push_back({graph[id].name});
      names.push_back(graph[id].name);
    }
    EvaluateOptions options;
    options.copy_views = true;
    const Tensors found =
        way == NodeTestWay::Native ? run_native(std::move(graph), inputs) : evaluate(graph, inputs, options);
    size_t value = 0;
    for (size_t i = 0; i < forms.size(); ++i) {
      const fs::path file = data_of(folder, "output", static_cast<int>(i));
      const std::string* first = names.data() + value;
      value += static_cast<size_t>(forms[i].tensors);
      if (!fs::exists(file)) continue;
      const std::string wrong = difference(
          forms[i], first, found, read_value_file(file, model.graph().output(static_cast<int>(i)).type()));
      if (!wrong.empty()) {
        result.reason = text("output ", i, ": ", wrong);
        return result;
      }
    }
    result.outcome = Outcome::Pass;
  } catch (const Error& error) {
    result.outcome = error.kind() == ErrorKind::Unsupported ? Outcome::Refused : Outcome::Fail;
    result.reason = error.what();
  } catch (const std::exception& error) {
    result.reason = text("exception: ", error.what());
  }
  return result;
}

}  // namespace

std::string str(const OpRow& row, const OnnxName& form) {
  return text(row.name, " as ", form.domain, form.domain.empty() ? "" : "::", form.name, " ", form.since);
}

NodeTestResult run_node_test(const fs::path& folder, NodeTestWay way) {
  return run_model(read_whole_file(folder / "model.onnx"), folder, way);
}

}  // namespace tc
