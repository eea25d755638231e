// The node tests that the ONNX project publishes: imports each model, runs it and compares with the
// expected outputs; what does not pass is listed with its reason in tests/golden/onnx_node*.txt. The
// data are those of the Python package `onnx`; TC_ONNX_NODE_TESTS names their folder,
// TC_ONNX_NODE_FILTER selects tests by a part of their names (and compares no list).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <sstream>

#include "ir/ops/op.h"
#include "tests/golden_file.h"
#include "tests/onnx_node_data.h"
#include "tests/onnx_node_run.h"

namespace tc {
namespace {

namespace fs = std::filesystem;
using Outcome = NodeTestResult::Outcome;

// Vectors that contradict the text of their operator, and how.
const std::map<std::string, std::string> kWrongVectors = {
    {"test_qlinearmatmul_2D_int8_float16", "its vectors wrap where QuantizeLinear saturates"},
    {"test_qlinearmatmul_2D_int8_float32", "its vectors wrap where QuantizeLinear saturates"},
    {"test_qlinearmatmul_3D_int8_float16", "its vectors wrap where QuantizeLinear saturates"},
    {"test_qlinearmatmul_3D_int8_float32", "its vectors wrap where QuantizeLinear saturates"}};

// The error without its advice.
std::string short_reason(const std::string& reason) { return reason.substr(0, reason.rfind(';')); }

class NodeTests : public testing::TestWithParam<NodeTestWay> {};

TEST_P(NodeTests, MatchTheExpectedOutputs) {
  const std::vector<fs::path> tests = onnx_node_tests();
  if (tests.empty()) GTEST_SKIP() << "no ONNX node tests here; set TC_ONNX_NODE_TESTS to their folder";
  const char* filter = std::getenv("TC_ONNX_NODE_FILTER");
  std::map<Outcome, int> counts;
  std::ostringstream list;
  const bool native = GetParam() == NodeTestWay::Native;
  list << "Node tests of the ONNX project that do not pass as they are" << (native ? " in native code" : "") << ".\n";
  for (const fs::path& test : tests) {
    const std::string name = test.filename().string();
    if (filter && name.find(filter) == std::string::npos) continue;
    const auto start = std::chrono::steady_clock::now();
    NodeTestResult result = run_node_test(test, GetParam());
    if (std::getenv("TC_ONNX_NODE_TIMES")) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      std::cout << "seconds " << seconds.count() << " " << name << "\n";
    }
    ++counts[result.outcome];
    const auto wrong = kWrongVectors.find(name);
    if (result.outcome == Outcome::Fail && wrong != kWrongVectors.end()) {
      list << name << ": " << wrong->second << "\n";
    } else if (result.outcome == Outcome::Fail) {
      ADD_FAILURE() << name << ": " << result.reason;
    } else if (result.outcome == Outcome::Refused) {
      list << name << ": " << short_reason(result.reason) << "\n";
    } else if (result.outcome == Outcome::Constant) {
      list << name << ": passes with constant operands alone: " << short_reason(result.reason) << "\n";
    }
  }
  std::cout << counts[Outcome::Pass] << " pass, " << counts[Outcome::Constant] << " pass with constant operands, "
            << counts[Outcome::Refused] << " unsupported, " << counts[Outcome::Fail] << " fail\n";
  if (!filter) expect_golden(native ? "tests/golden/onnx_node_native.txt" : "tests/golden/onnx_node.txt", list.str());
}

INSTANTIATE_TEST_SUITE_P(Onnx, NodeTests, testing::Values(NodeTestWay::AsImported, NodeTestWay::AfterPasses, NodeTestWay::Native),
                         [](const auto& info) {
                           return info.param == NodeTestWay::AsImported    ? "AsImported"
                                  : info.param == NodeTestWay::AfterPasses ? "AfterPasses"
                                                                           : "Native";
                         });

}  // namespace
}  // namespace tc
