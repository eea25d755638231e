// The node tests that the ONNX project publishes: imports each model, lowers every node, runs the
// interpreter and compares with the expected outputs. The data are those of the Python package
// `onnx`; TC_ONNX_NODE_TESTS names their folder, TC_ONNX_NODE_FILTER selects tests by a part of
// their names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/onnx.pb.h"
#include "frontend/onnx/tensor_reader.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/passes/pass.h"

namespace tc {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Tensor read_tensor_file(const fs::path& path) {
  tc_onnx::TensorProto message;
  if (!message.ParseFromString(read_file(path))) fail(ErrorKind::Unsupported, path.string(), " is no tensor");
  return *read_tensor(message, "", path.filename().string());
}

// The folder of the node tests, or empty: the one named, or that of the Python package.
fs::path data_folder() {
  if (const char* named = std::getenv("TC_ONNX_NODE_TESTS")) return named;
  FILE* python = popen("python3 -c 'import onnx, os; print(os.path.dirname(onnx.__file__), end=\"\")' 2>/dev/null", "r");
  if (!python) return {};
  std::string package;
  char part[256];
  while (size_t count = fread(part, 1, sizeof(part), python)) package.append(part, count);
  pclose(python);
  const fs::path folder = fs::path(package) / "backend/test/data/node";
  return !package.empty() && fs::is_directory(folder) ? folder : fs::path();
}

// A mismatch in words, or nothing.
std::string difference(const Tensor& found, const Tensor& expected) {
  if (found.dtype != expected.dtype) return text("type ", name_of(found.dtype), " for ", name_of(expected.dtype));
  if (found.shape != expected.shape) return text("shape ", str(shape_of(found.shape)), " for ", str(shape_of(expected.shape)));
  const bool half = expected.dtype == DType::F16 || expected.dtype == DType::BF16;
  const double relative = half ? 1e-2 : 1e-3, absolute = half ? 1e-3 : 1e-5;
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
    if (!(std::abs(a - b) <= absolute + relative * std::abs(b))) return text("element ", i, " is ", a, " for ", b);
  }
  return "";
}

// Vectors that contradict the text of their operator: these wrap where QuantizeLinear saturates.
const std::set<std::string> kWrongVectors = {
    "test_qlinearmatmul_2D_int8_float16", "test_qlinearmatmul_2D_int8_float32",
    "test_qlinearmatmul_3D_int8_float16", "test_qlinearmatmul_3D_int8_float32"};

enum class Outcome { Pass, Unsupported, Fail };

// The model with inputs turned into initializers: all of type i64, i32 or bool and rank <= 1 (or
// `all`: every one), as models have axes, sizes and scales.
std::string with_constants(const std::string& bytes, const fs::path& data, bool all) {
  tc_onnx::ModelProto model;
  if (!model.ParseFromString(bytes)) return bytes;
  for (int i = 0; i < model.graph().input_size(); ++i) {
    if (!model.graph().input(i).type().has_tensor_type()) continue;
    tc_onnx::TensorProto tensor;
    if (!tensor.ParseFromString(read_file(data / text("input_", i, ".pb")))) continue;
    const int type = tensor.data_type();
    const bool shape_like = (type == 6 || type == 7 || type == 9) && tensor.dims_size() <= 1;
    if (!all && !shape_like) continue;
    tensor.set_name(model.graph().input(i).name());
    *model.mutable_graph()->add_initializer() = tensor;
  }
  return model.SerializeAsString();
}

std::pair<Outcome, std::string> run_model(const std::string& bytes, const fs::path& folder, bool passes) {
  try {
    Graph graph = import_onnx(bytes, "model.onnx", folder.string(), {});
    if (passes) run_passes(graph);
    const fs::path data = folder / "test_data_set_0";
    tc_onnx::ModelProto model;
    model.ParseFromString(bytes);
    std::map<std::string, Tensor> inputs;
    for (ValueId id : graph.inputs) {
      for (int i = 0; i < model.graph().input_size(); ++i) {
        if (model.graph().input(i).name() != graph[id].name) continue;
        inputs[graph[id].name] = read_tensor_file(data / text("input_", i, ".pb"));
      }
    }
    EvaluateOptions options;
    options.copy_views = true;
    const std::map<std::string, Tensor> outputs = evaluate(graph, inputs, options);
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      const fs::path file = data / text("output_", i, ".pb");
      if (!fs::exists(file)) continue;
      const Tensor expected = read_tensor_file(file);
      const std::string wrong = difference(outputs.at(graph[graph.outputs[i]].name), expected);
      if (!wrong.empty()) return {Outcome::Fail, text("output ", i, ": ", wrong)};
    }
    return {Outcome::Pass, ""};
  } catch (const Error& error) {
    const bool refused = error.kind() == ErrorKind::Unsupported;
    return {refused ? Outcome::Unsupported : Outcome::Fail, error.what()};
  } catch (const std::exception& error) {
    return {Outcome::Fail, text("exception: ", error.what())};
  }
}

// What cannot be compiled for run-time operands is tried with constant ones.
std::pair<Outcome, std::string> run_test(const fs::path& folder, bool passes) {
  const std::string bytes = read_file(folder / "model.onnx");
  std::pair<Outcome, std::string> result = run_model(bytes, folder, passes);
  for (bool all : {false, true}) {
    if (result.first != Outcome::Unsupported) break;
    auto again = run_model(with_constants(bytes, folder / "test_data_set_0", all), folder, passes);
    if (again.first != Outcome::Unsupported) result = again;
  }
  return result;
}

class NodeTests : public testing::TestWithParam<bool> {};

TEST_P(NodeTests, MatchTheExpectedOutputs) {
  const fs::path folder = data_folder();
  if (folder.empty()) GTEST_SKIP() << "no ONNX node tests here; set TC_ONNX_NODE_TESTS to their folder";
  const char* filter = std::getenv("TC_ONNX_NODE_FILTER");
  std::vector<fs::path> tests;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (filter && entry.path().filename().string().find(filter) == std::string::npos) continue;
    if (fs::exists(entry.path() / "model.onnx")) tests.push_back(entry.path());
  }
  std::sort(tests.begin(), tests.end());
  std::map<Outcome, int> counts;
  for (const fs::path& test : tests) {
    if (kWrongVectors.count(test.filename().string())) continue;
    const auto [outcome, why] = run_test(test, GetParam());
    ++counts[outcome];
    if (outcome == Outcome::Fail) ADD_FAILURE() << test.filename().string() << ": " << why;
    if (outcome == Outcome::Unsupported && std::getenv("TC_ONNX_NODE_UNSUPPORTED")) {
      std::cout << "unsupported " << test.filename().string() << ": " << why << "\n";
    }
  }
  std::cout << (GetParam() ? "after all passes" : "as imported") << ": " << counts[Outcome::Pass] << " pass, "
            << counts[Outcome::Unsupported] << " unsupported, " << counts[Outcome::Fail] << " fail\n";
  EXPECT_GT(counts[Outcome::Pass], 0);
}

INSTANTIATE_TEST_SUITE_P(Onnx, NodeTests, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "AfterPasses" : "AsImported"; });

}  // namespace
}  // namespace tc
