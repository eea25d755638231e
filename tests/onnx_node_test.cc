// The node tests that the ONNX project publishes: imports each model, lowers every node, runs the
// interpreter and compares with the expected outputs. The data are those of the Python package
// `onnx`; TC_ONNX_NODE_TESTS names their folder, TC_ONNX_NODE_FILTER selects tests by a part of
// their names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/onnx.pb.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/passes/pass.h"
#include "tests/onnx_node_data.h"

namespace tc {
namespace {

namespace fs = std::filesystem;

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
  const std::string bytes = read_whole_file(folder / "model.onnx");
  std::pair<Outcome, std::string> result = run_model(bytes, folder, passes);
  for (bool all : {false, true}) {
    if (result.first != Outcome::Unsupported) break;
    auto again = run_model(constant_operands(bytes, folder / "test_data_set_0", all), folder, passes);
    if (again.first != Outcome::Unsupported) result = again;
  }
  return result;
}

class NodeTests : public testing::TestWithParam<bool> {};

TEST_P(NodeTests, MatchTheExpectedOutputs) {
  const std::vector<fs::path> tests = onnx_node_tests();
  if (tests.empty()) GTEST_SKIP() << "no ONNX node tests here; set TC_ONNX_NODE_TESTS to their folder";
  const char* filter = std::getenv("TC_ONNX_NODE_FILTER");
  std::map<Outcome, int> counts;
  for (const fs::path& test : tests) {
    const std::string name = test.filename().string();
    if (kWrongVectors.count(name) || (filter && name.find(filter) == std::string::npos)) continue;
    const auto [outcome, why] = run_test(test, GetParam());
    ++counts[outcome];
    if (outcome == Outcome::Fail) ADD_FAILURE() << name << ": " << why;
    if (outcome == Outcome::Unsupported && std::getenv("TC_ONNX_NODE_UNSUPPORTED")) {
      std::cout << "unsupported " << name << ": " << why << "\n";
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
