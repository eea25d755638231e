// The node tests that the ONNX project publishes: imports each model, runs it and compares with the
// expected outputs; what does not pass is listed with its reason in tests/golden/onnx_node.txt. The
// data are those of the Python package `onnx`; TC_ONNX_NODE_TESTS names their folder,
// TC_ONNX_NODE_FILTER selects tests by a part of their names (and compares no list). Those of the
// newest standard (build_rules/newest_node_tests.sh) that differ from these, or are new, have their
// list in tests/golden/onnx_node_newest.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "ir/ops/op.h"
#include "tests/golden_file.h"
#include "tests/onnx_node_data.h"
#include "tests/onnx_node_run.h"

namespace tc {
namespace {

namespace fs = std::filesystem;
using Outcome = NodeTestResult::Outcome;

// Vectors that contradict the text of their operator, and how, and those of random numbers.
constexpr const char* kDrawn =
    "its vectors were drawn by NumPy's generator, and the text leaves the generator open";
constexpr const char* kOldText =
    "its vectors have the softcap and the mask in the other order, which onnx 1.20 corrected";
const std::map<std::string, std::string> kWrongVectors = {
    {"test_attention_3d_with_past_and_present_qk_matmul_bias", kOldText},
    {"test_attention_3d_with_past_and_present_qk_matmul_softcap", kOldText},
    {"test_attention_4d_with_past_and_present_qk_matmul_bias", kOldText},
    {"test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask", kOldText},
    {"test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal", kOldText},
    {"test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask", kOldText},
    {"test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal", kOldText},
    {"test_attention_4d_with_qk_matmul_bias", kOldText},
    {"test_attention_4d_with_qk_matmul_softcap", kOldText},
    {"test_bernoulli", kDrawn},
    {"test_bernoulli_double", kDrawn},
    {"test_bernoulli_double_expanded", kDrawn},
    {"test_bernoulli_expanded", kDrawn},
    {"test_bernoulli_seed", kDrawn},
    {"test_bernoulli_seed_expanded", kDrawn},
    {"test_training_dropout", kDrawn},
    {"test_training_dropout_default", kDrawn},
    {"test_training_dropout_default_mask", kDrawn},
    {"test_training_dropout_mask", kDrawn},
    {"test_l2normalization_axis_0", "its vectors have 0/0 where the norm is 0, which gives 0"},
    {"test_qlinearmatmul_2D_int8_float16", "its vectors wrap where QuantizeLinear saturates"},
    {"test_qlinearmatmul_2D_int8_float32", "its vectors wrap where QuantizeLinear saturates"},
    {"test_qlinearmatmul_3D_int8_float16", "its vectors wrap where QuantizeLinear saturates"},
    {"test_qlinearmatmul_3D_int8_float32", "its vectors wrap where QuantizeLinear saturates"}};

// The error without its advice.
std::string short_reason(const std::string& reason) { return reason.substr(0, reason.rfind(';')); }

// Rows of the op table that no passing test runs, and forms that none uses.
std::string uncovered(const std::set<std::string>& covered) {
  std::ostringstream list;
  list << "Operator rows and their ONNX forms that no node test of the ONNX project passes in native code;\n"
          "tests/ir/test_op_rows.py has other vectors for them.\n";
  for (const auto& [name, row] : op_table()) {
    const bool made_of_others = row.kind == OpRow::Kind::Expand || row.kind == OpRow::Kind::Control;
    if (!made_of_others && !covered.count(name)) list << name << "\n";
    for (const OnnxName& form : row.onnx) {
      if (!covered.count(str(row, form))) list << str(row, form) << "\n";
    }
  }
  return list.str();
}

// What became of the tests of one package.
struct Outcomes {
  std::map<Outcome, int> counts;
  std::set<std::string> covered;  // rows and forms of those that pass
  std::ostringstream list;        // those that do not, and why
};

// Runs the tests that TC_ONNX_NODE_FILTER selects, or all; a test that gives something else is a failure
// unless `wrong_vectors` has it.
void run_all(const std::vector<fs::path>& tests, NodeTestWay way,
             const std::map<std::string, std::string>& wrong_vectors, Outcomes& outcomes) {
  const char* filter = std::getenv("TC_ONNX_NODE_FILTER");
  for (const fs::path& test : tests) {
    const std::string name = test.filename().string();
    if (filter && name.find(filter) == std::string::npos) continue;
    const auto start = std::chrono::steady_clock::now();
    const NodeTestResult result = run_node_test(test, way);
    if (std::getenv("TC_ONNX_NODE_TIMES")) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      std::cout << "seconds " << seconds.count() << " " << name << "\n";
    }
    ++outcomes.counts[result.outcome];
    if (result.outcome == Outcome::Pass) outcomes.covered.insert(result.rows.begin(), result.rows.end());
    const auto wrong = wrong_vectors.find(name);
    if (result.outcome == Outcome::Fail && wrong != wrong_vectors.end()) {
      outcomes.list << name << ": " << wrong->second << "\n";
    } else if (result.outcome == Outcome::Fail) {
      ADD_FAILURE() << name << ": " << result.reason;
    } else if (result.outcome == Outcome::Refused) {
      outcomes.list << name << ": " << short_reason(result.reason) << "\n";
    }
  }
  std::cout << outcomes.counts[Outcome::Pass] << " pass, " << outcomes.counts[Outcome::Refused]
            << " unsupported, " << outcomes.counts[Outcome::Fail] << " fail\n";
}

class NodeTests : public testing::TestWithParam<NodeTestWay> {};

TEST_P(NodeTests, MatchTheExpectedOutputs) {
  const std::vector<fs::path> tests = onnx_node_tests();
  if (tests.empty()) GTEST_SKIP() << "no ONNX node tests here; set TC_ONNX_NODE_TESTS to their folder";
  Outcomes outcomes;
  outcomes.list
      << "Node tests of the ONNX project that do not pass as they are, neither interpreted nor as native code.\n";
  run_all(tests, GetParam(), kWrongVectors, outcomes);
  if (std::getenv("TC_ONNX_NODE_FILTER")) return;
  expect_golden("tests/golden/onnx_node.txt", outcomes.list.str());
  if (GetParam() == NodeTestWay::Native)
    expect_golden("tests/golden/onnx_rows.txt", uncovered(outcomes.covered));
}

TEST_P(NodeTests, OfTheNewestStandardMatchTheExpectedOutputs) {
  size_t count = 0;
  const std::vector<fs::path> tests = newest_onnx_node_tests(count);
  if (count == 0)
    GTEST_SKIP()
        << "no node tests of the newest ONNX standard here; build_rules/newest_node_tests.sh makes them, and TC_ONNX_NEWEST_NODE_TESTS names their folder";
  std::cout << count << " tests, of which " << count - tests.size() << " have the same files as before\n";
  Outcomes outcomes;
  outcomes.list
      << "Node tests of the newest ONNX standard, other than those in onnx_node.txt, that do not pass as they are.\n";
  run_all(tests, GetParam(), {}, outcomes);
  if (std::getenv("TC_ONNX_NODE_FILTER")) return;
  expect_golden("tests/golden/onnx_node_newest.txt", outcomes.list.str());
}

INSTANTIATE_TEST_SUITE_P(Onnx, NodeTests,
                         testing::Values(NodeTestWay::AsImported, NodeTestWay::AfterPasses,
                                         NodeTestWay::Native),
                         [](const auto& info) {
                           return info.param == NodeTestWay::AsImported    ? "AsImported"
                                  : info.param == NodeTestWay::AfterPasses ? "AfterPasses"
                                                                           : "Native";
                         });

}  // namespace
}  // namespace tc
