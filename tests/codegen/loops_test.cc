// The loop tree above the tiles: threads, conditions, bounds, stack buffers, results that are read again.
#include <gtest/gtest.h>

#include "ir/error.h"
#include "codegen/llvm/kernel_code.h"
#include "ir/scratch.h"
#include "tests/codegen_harness.h"
#include "tests/codegen_kernels.h"

namespace tc::testing {
namespace {

// O = O + 1: an instance that runs twice, or never, shows.
Kernel increment(std::vector<Affine> shape, std::vector<std::string> names) {
  Kernel kernel;
  kernel.name = "increment";
  Buffer input, output;
  input.name = "A";
  input.shape = output.shape = shape;
  output.name = "O";
  output.scope = Scope::Output;
  kernel.buffers = {input, output};
  Statement statement;
  statement.name = "add";
  std::vector<Affine> place;
  for (size_t i = 0; i < names.size(); ++i) {
    statement.iterators.push_back({names[i], shape[i]});
    place.push_back(v(names[i]));
    statement.write.index.push_back({place.back(), nullptr});
  }
  statement.write.buffer = 1;
  statement.value = binary(BinaryOp::Add, load(DType::F32, 1, place), constant(DType::F32, 1));
  kernel.statements = {statement};
  return kernel;
}

TileStatement whole(int statement, std::map<std::string, Affine> iterators) {
  TileStatement result;
  result.statement = statement;
  result.iterators = std::move(iterators);
  return result;
}

LoopExprPtr number(int64_t value) { return loop_constant(value); }
LoopExprPtr name(const std::string& text) { return loop_variable(text); }

TEST(CodegenLoops, ParallelLoopsAreDividedOnce) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 7}, {5, 1}, {3, 4}, {7, 5}}) {
    for (const bool nested : {false, true}) {
      for (const int threads : {1, 2, 3, 8, 40}) {
        ScheduledKernel kernel;
        kernel.kernel = increment({rows, columns}, {"i", "j"});
        kernel.root = for_loop("i1", rows,
                               for_loop("j1", number(0), number(columns - 1),
                                        leaf({whole(0, {{"i", v("i1")}, {"j", v("j1")}})}), nested),
                               true);
        expect_like_interpreter(kernel, host_targets(), {}, {{"A", seeded(DType::F32, {rows, columns}, 1)}},
                                0, threads);
      }
    }
  }
}

// The first and the last iteration of the inner loop stand on their own, as conditions at the ends of a range
// leave them: rows are divided all the same.
TEST(CodegenLoops, RowsOfSeveralPartsAreDividedEvenly) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 3}, {3, 9}, {2, 4}, {5, 12}}) {
    const auto part = [&](LoopExprPtr lower, LoopExprPtr upper, const std::string& variable) {
      return for_loop(variable, std::move(lower), std::move(upper),
                      leaf({whole(0, {{"i", v("i1")}, {"j", v(variable)}})}), true);
    };
    const auto alone = [&](int64_t column) {
      return leaf({whole(0, {{"i", v("i1")}, {"j", Affine(column)}})});
    };
    ScheduledKernel kernel;
    kernel.kernel = increment({rows, columns}, {"i", "j"});
    // Two parallel parts, where there is room.
    const int64_t middle = columns / 2;
    kernel.root = for_loop("i1", rows,
                           block({alone(0),
                                  block({part(number(1), number(middle - 1), "j1"),
                                         part(number(middle), number(columns - 2), "j2")}),
                                  alone(columns - 1)}),
                           true);
    const Tensors inputs = {{"A", seeded(DType::F32, {rows, columns}, 1)}};
    const CompiledKernels compiled({kernel}, host_target());
    for (const int threads : {1, 2, 3, 8, 40}) {
      SCOPED_TRACE(text(rows, " rows of ", columns, " on ", threads));
      expect_like_interpreter(kernel, host_targets(), {}, inputs, 0, threads);
      for (int thread = 0; thread < threads; ++thread) {
        Tensors tensors = inputs;
        tensors["O"] = inputs.at("A");
        compiled.run_thread(0, {}, tensors, thread, threads);
        int64_t computed = 0;
        for (int64_t i = 0; i < rows * columns; ++i)
          computed += tensors.at("O").as_double(i) != inputs.at("A").as_double(i);
        const int64_t share = rows * columns / threads;
        EXPECT_EQ(computed, share + (thread < rows * columns % threads ? 1 : 0)) << "thread " << thread;
      }
    }
  }
}

// One iteration that stands on its own may be several nodes, of which the later ones read what the first left
// in scratch memory of its thread.
TEST(CodegenLoops, IterationsOfSeveralNodesStayOnOneThread) {
  constexpr int64_t kRows = 3, kColumns = 7;
  const auto alone = [&](int64_t column) {
    return leaf({whole(0, {{"i", v("i1")}, {"j", Affine(column)}})});
  };
  ScheduledKernel kernel;
  kernel.kernel = increment({kRows, kColumns}, {"i", "j"});
  kernel.root = for_loop(
      "i1", kRows,
      block({alone(0), alone(1),
             for_loop("j1", number(2), number(3), leaf({whole(0, {{"i", v("i1")}, {"j", v("j1")}})}), true),
             block({alone(4), block({alone(5), alone(6)})})}),
      true);
  const Tensors inputs = {{"A", seeded(DType::F32, {kRows, kColumns}, 1)}};
  const CompiledKernels compiled({kernel}, host_target());
  for (const int threads : {1, 2, 3, 5, 8, 20}) {
    SCOPED_TRACE(threads);
    expect_like_interpreter(kernel, host_targets(), {}, inputs, 0, threads);
    for (int thread = 0; thread < threads; ++thread) {
      Tensors tensors = inputs;
      tensors["O"] = inputs.at("A");
      compiled.run_thread(0, {}, tensors, thread, threads);
      for (int64_t i = 0; i < kRows; ++i) {
        const auto computed = [&](int64_t j) {
          return tensors.at("O").as_double(i * kColumns + j) != inputs.at("A").as_double(i * kColumns + j);
        };
        EXPECT_EQ(computed(0), computed(1)) << "thread " << thread << ", row " << i;
        EXPECT_EQ(computed(4), computed(5)) << "thread " << thread << ", row " << i;
        EXPECT_EQ(computed(4), computed(6)) << "thread " << thread << ", row " << i;
      }
    }
  }
}

TEST(CodegenLoops, BoundsMayBeAnything) {
  // A triangle in tiles: j = 2*jo + {0, 1} <= i, with an unrolled loop, floors and minima.
  using Kind = LoopExpr::Kind;
  const int64_t n = 11;
  ScheduledKernel kernel;
  kernel.kernel = increment({n, n}, {"i", "j"});
  const LoopExprPtr last = loop_expr(Kind::FloorDiv, {name("i1"), number(2)});
  LoopNodePtr inner = for_loop(
      "jj", loop_expr(Kind::Mul, {number(2), name("jo")}),
      loop_expr(Kind::Min, {name("i1"), loop_expr(Kind::Add, {loop_expr(Kind::Mul, {name("jo"), number(2)}),
                                                              number(1)})}),
      leaf({whole(0, {{"i", v("i1")}, {"j", v("jj")}})}));
  LoopNodePtr middle = for_loop("jo", number(0), last, inner);
  middle->marks.push_back({"unroll", 3, {}});
  kernel.root = for_loop("i1", n, middle, true);
  expect_like_interpreter(kernel, host_targets(), {}, {{"A", seeded(DType::F32, {n, n}, 1)}}, 0, 2);
}

TEST(CodegenLoops, ConditionsChoose) {
  using Kind = LoopExpr::Kind;
  const int64_t n = 20;
  auto when = [&](LoopExprPtr condition, LoopNodePtr body) {
    auto node = std::make_shared<LoopNode>();
    node->kind = LoopNode::Kind::If;
    node->condition = std::move(condition);
    node->children = {std::move(body)};
    return node;
  };
  ScheduledKernel kernel;
  kernel.kernel = increment({n}, {"i"});
  const LoopExprPtr third = loop_expr(
      Kind::Eq,
      {loop_expr(Kind::Mod, {loop_expr(Kind::Sub, {name("i1"), number(30)}), number(3)}), number(1)});
  const LoopExprPtr ends =
      loop_expr(Kind::Or, {loop_expr(Kind::Lt, {name("i1"), number(4)}),
                           loop_expr(Kind::And, {third, loop_expr(Kind::Ge, {name("i1"), number(9)})})});
  kernel.root = for_loop("i1", n, when(ends, leaf({whole(0, {{"i", v("i1")}})})), true);
  expect_like_interpreter(kernel, host_targets(), {}, {{"A", seeded(DType::F32, {n}, 1)}}, 0, 3);
}

TEST(CodegenLoops, SeveralParallelLoopsAndASerialPart) {
  const int64_t n = 13;
  ScheduledKernel kernel;
  kernel.kernel = increment({n}, {"i"});
  auto range = [&](const std::string& variable, int64_t low, int64_t high, bool parallel) {
    return for_loop(variable, number(low), number(high), leaf({whole(0, {{"i", v(variable)}})}), parallel);
  };
  kernel.root = block({range("a", 0, 4, true), range("b", 5, 7, false), range("c", 8, n - 1, true)});
  for (const int threads : {1, 2, 5}) {
    expect_like_interpreter(kernel, host_targets(), {}, {{"A", seeded(DType::F32, {n}, 1)}}, 0, threads);
  }
}

TEST(CodegenLoops, SoftmaxRowsThroughTheStack) {
  for (const int64_t columns : {1, 16, 37}) {
    const ScheduledKernel kernel = softmax(5, columns);
    EXPECT_EQ(scratch_bytes(kernel), (columns * 4 + 63) / 64 * 64);
    expect_like_interpreter(kernel, host_targets(), {}, {{"A", seeded(DType::F32, {5, columns}, 1)}}, 2e-7,
                            2);
  }
}

TEST(CodegenLoops, LocalBuffersAreRefused) {
  ScheduledKernel kernel = softmax(5, 8);
  for (Buffer& buffer : kernel.kernel.buffers) {
    if (buffer.scope == Scope::Stack) buffer.scope = Scope::Local;
  }
  try {
    kernel_object(kernel, host_target(), "kernel");
    FAIL() << "a local buffer was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    EXPECT_NE(std::string(error.what()).find("the scheduler decides between Stack and Register"),
              std::string::npos)
        << error.what();
  }
}

TEST(CodegenLoops, RegistersAreWrittenBeforeTheyAreRead) {
  ScheduledKernel kernel = row_reduction(4, 16, Reduction::Sum);
  LoopNode& leaf = *kernel.root->children[0];
  leaf.statements.erase(leaf.statements.begin());
  try {
    kernel_object(kernel, host_target(), "kernel");
    FAIL() << "an accumulator without a first value was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("register buffer 'T' is accumulated before it is written"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tc::testing
