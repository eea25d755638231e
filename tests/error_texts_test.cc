// What is said of mistakes that no model file and no schedule line can hold: options, texts of kernels
// and graphs, sizes, exports, null arguments.
#include <gtest/gtest.h>

#include "frontend/import/import.h"
#include "frontend/import/onnx/onnx.pb.h"
#include "frontend/pipeline/compile.h"
#include "frontend/pipeline/kernel_module.h"
#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/pass.h"
#include "runtime/tc_runtime.h"
#include "scheduler/scheduler.h"
#include "tests/error_of.h"

namespace tc {
namespace {

using testing::error_of;

// y = Relu(x) for x of f32[2].
std::string small_model() {
  tc_onnx::ModelProto model;
  model.add_opset_import()->set_version(17);
  auto* input = model.mutable_graph()->add_input();
  input->set_name("x");
  input->mutable_type()->mutable_tensor_type()->set_elem_type(1);
  input->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(2);
  auto* node = model.mutable_graph()->add_node();
  node->set_op_type("Relu");
  node->add_input("x");
  node->add_output("y");
  model.mutable_graph()->add_output()->set_name("y");
  return model.SerializeAsString();
}

TEST(ErrorTexts, ConstantsForInputs) {
  ImportOptions options;
  options.constants["x"] = std::make_shared<Tensor>(DType::I64, std::vector<int64_t>{2});
  EXPECT_EQ(error_of([&] { import_model({small_model(), "m.onnx", ""}, options); }),
            "input 'x' of m.onnx is f32[2], but the constant given for it is i64[2]");
}

TEST(ErrorTexts, Exports) {
  const CompiledModel model = compile_model({small_model(), "m.onnx", ""}, {});
  EXPECT_EQ(error_of([&] { export_model(model, "static", "/tmp/tc-test-never.a", "/nowhere"); }),
            "cannot read '/nowhere/x86_64/libtc_runtime.a', which this export links; reinstall tc");
  EXPECT_EQ(
      error_of([&] { export_model(model, "zip", "/tmp/tc-test-never.zip", ""); }),
      "unknown kind of artefact 'zip'; the kinds are shared, static, executable, object, bare, c and loops");
}

TEST(ErrorTexts, MeaningsOfQuantisedNetworks) {
  CompileOptions options;
  options.quantised = "quick";
  EXPECT_EQ(
      error_of([&] { compile_model({small_model(), "m.onnx", ""}, options); }),
      "quantised is 'quick'; give 'exact' (what the unfused evaluation in floats gives) or 'fast' (fixed point, at most one step from it)");
}

TEST(ErrorTexts, RoundingOfHalfTypes) {
  CompileOptions options;
  options.rounding = "some";
  EXPECT_EQ(
      error_of([&] { compile_model({small_model(), "m.onnx", ""}, options); }),
      "rounding is 'some'; give 'stored' (float16 and bfloat16 are rounded where they are stored or cast) or 'each' (the result of every operator is rounded)");
}

TEST(ErrorTexts, SymbolicKernels) {
  const Target target = parse_target("x86-64-v3");
  const Schedule schedule(
      parse_kernel("kernel copy\n parameter n = seq in [1, 9]\n input A f32[n]\n output C f32[n]\n"
                   " s[i:n]: C[i] = A[i]\n"),
      target);
  EXPECT_EQ(error_of([&] { compile_kernel(schedule.finish(), target, 1); }),
            "kernel 'copy' has symbolic sizes ('seq'); bind them to numbers with shapes=");
}

TEST(ErrorTexts, KernelAndGraphTexts) {
  EXPECT_NE(error_of([] {
              parse_kernel("kernel k\n input A f32[2]\n output A f32[2]\n");
            }).find("buffer 'A' exists already"),
            std::string::npos);
  std::string sum = "A[i]", many;
  for (int i = 0; i < 5001; ++i) sum += " + 1";
  EXPECT_NE(error_of([&] {
              parse_kernel("kernel k\n input A f32[2]\n output C f32[2]\n s[i:2]: C[i] = " + sum + "\n");
            }).find("the expression is too long"),
            std::string::npos);
  for (int i = 0; i < 100001; ++i) many += text(" s", i, "[i:2]: C[i] = 1\n");
  EXPECT_NE(
      error_of([&] { parse_kernel("kernel k\n output C f32[2]\n" + many); }).find("too many statements"),
      std::string::npos);
  EXPECT_NE(error_of([] {
              parse_graph("graph g {\n  constant w f32[4294967296] #0\n  output w\n}\n");
            }).find("the constant is too large for a text"),
            std::string::npos);
  EXPECT_NE(error_of([] { parse_kernel("kernel \"k\n"); }).find("the quoted text does not end"),
            std::string::npos);
}

TEST(ErrorTexts, Sizes) {
  Dim product = Dim::symbol("a");
  EXPECT_EQ(error_of([&] {
              for (int i = 0; i < 64; ++i) product = product * Dim::symbol("a");
            }),
            "a dimension is a product of more than 64 factors");
  EXPECT_EQ(error_of([] { Tensor(DType::F64, {int64_t{1} << 38}); }),
            "a tensor of more than 2^40 bytes is not supported");
  EXPECT_EQ(error_of([] { Tensor(DType::U8, {int64_t{1} << 38, 8}); }),
            "a tensor of more than 2^40 elements is not supported");
  EXPECT_EQ(error_of([] { Tensor(DType::U8, {-3}); }), "a tensor cannot have the negative size -3");
}

TEST(ErrorTexts, SymbolsWithoutARange) {
  EXPECT_EQ(error_of([] {
              Graph graph = parse_graph("graph g {\n  input x f32[n]\n  y f32[?] = Relu(x)\n  output y\n}\n");
              infer_shapes(graph);
              CompileOptions options;
              options.target = "x86-64-v3";
              compile_graph(std::move(graph), options);
            }),
            "symbol 'n' of graph 'g' has no range");
}

// The form that resampling has inside: tables for the axes that have no affine map.
TEST(ErrorTexts, ResamplingWithoutItsTables) {
  const auto refused = [](const std::string& attributes) {
    return error_of([&] {
      Graph graph = parse_graph("graph g {\n  input x f32[4]\n  y f32[?] = Resize(x) {sizes = [8], " +
                                attributes + "}\n  output y\n}\n");
      infer_shapes(graph);
    });
  };
  EXPECT_EQ(refused("factors = [2, 2], steps = [0], offsets = [0]"),
            "node '': factors, steps and offsets are not one per axis");
  EXPECT_EQ(refused("factors = [0], steps = [0], offsets = [0]"), "node '': input 1 is no table of axis 0");
  EXPECT_EQ(refused("factors = [2], steps = [1], offsets = [0]"), "no error");
}

TEST(ErrorTexts, PassesToDump) {
  Graph graph = parse_graph("graph g {\n  input x f32[1]\n  y f32[1] = Relu(x)\n  output y\n}\n");
  PassOptions options;
  options.dump = "folding";
  EXPECT_EQ(error_of([&] {
              run_passes(graph, options);
            }).rfind("there is no pass 'folding' to dump; the passes are round_each, ", 0),
            0u);
}

TEST(ErrorTexts, NullArgumentsOfTheRuntime) {
  EXPECT_EQ(tc_model_open("m.so", nullptr), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(tc_last_error(), "tc_model_open: model is null");
}

}  // namespace
}  // namespace tc
