// Random register tiles of one family of kernels against the interpreter.
//
// O[y, x, f] = epilogue(reduction over r, c of I[y*s + r*d - p, x*s + r - p, c] (x) K[r, c, f]) with
// random extents, strides, padding (by constraint or by select), splits of every iterator into
// outer, serial, unrolled and vector loops in random order, with and without register accumulators.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "tests/codegen_harness.h"
#include "tests/codegen_kernels.h"

namespace tc::testing {
namespace {

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  ScheduledKernel kernel() {
    shape();
    statements();
    const bool reduce_outside = !registers_ && chance(3);
    std::vector<Split> output, all;
    for (const Dimension& dimension : output_) output.push_back(split(dimension, registers_, true));
    all = output;
    std::vector<Split> reduction;
    for (const Dimension& dimension : reduction_) {
      reduction.push_back(split(dimension, false, reduce_outside));
    }
    all.insert(all.end(), reduction.begin(), reduction.end());
    // One vector loop per statement: of the macc any iterator's, of the others an output's.
    const int64_t vector = pick(0, static_cast<int64_t>(all.size()));
    const bool output_vector = vector < static_cast<int64_t>(output.size());
    if (vector < static_cast<int64_t>(all.size())) all[static_cast<size_t>(vector)].vector = true;
    if (output_vector) output[static_cast<size_t>(vector)].vector = true;

    TileStatement init = tile(0, output), macc = tile(1, all), tail = tile(2, output);
    LoopNodePtr body;
    std::vector<Split> outer = output;
    if (registers_) {
      body = leaf({init, macc, tail});
    } else {
      LoopNodePtr inner = leaf({macc});
      for (const Split& part : reduction) inner = wrap(part, inner);
      body = block({leaf({init}), inner, leaf({tail})});
    }
    std::shuffle(outer.begin(), outer.end(), random_);
    for (const Split& part : outer) body = wrap(part, body);
    // The outermost loops that are there are parallel.
    if (body->kind == LoopNode::Kind::For) {
      body->marks.push_back({"parallel", 0, {}});
      if (body->children[0]->kind == LoopNode::Kind::For && chance(2) && is_output(body->children[0])) {
        body->children[0]->marks.push_back({"parallel", 0, {}});
      }
    }
    ScheduledKernel result;
    result.kernel = kernel_;
    result.root = body;
    return result;
  }

  Tensors inputs() {
    Tensors result;
    for (const Buffer& buffer : kernel_.buffers) {
      if (buffer.scope != Scope::Input && buffer.scope != Scope::Constant) continue;
      std::vector<int64_t> extents;
      for (const Affine& extent : buffer.shape) extents.push_back(extent.constant());
      result[buffer.name] = seeded(buffer.dtype, extents, static_cast<uint32_t>(pick(1, 1000)));
    }
    return result;
  }

  bool exact() const { return !is_float(dtype_); }

 private:
  struct Dimension {
    std::string name;
    int64_t extent;
  };
  // name = outer * (serial * unrolled) + serial loop * unrolled + unrolled loop.
  struct Split {
    Dimension dimension;
    int64_t serial = 1, unrolled = 1, outer = 1;
    int64_t trip_unroll = 1;
    bool vector = false;
  };

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool chance(int64_t one_in) { return pick(1, one_in) == 1; }

  bool is_output(const LoopNodePtr& node) const {
    for (const Dimension& dimension : output_) {
      if (node->variable == "o_" + dimension.name) return true;
    }
    return false;
  }

  void shape() {
    output_ = {{"y", pick(1, 5)}, {"x", pick(1, 9)}, {"f", pick(1, 20)}};
    reduction_ = {{"r", pick(1, 3)}, {"c", pick(1, 9)}};
    registers_ = chance(2);
    const DType types[] = {DType::F32, DType::F32, DType::F32, DType::F64, DType::I32, DType::I8};
    dtype_ = types[pick(0, 5)];
  }

  Buffer buffer(const std::string& name, Scope scope, std::vector<Affine> extents) {
    Buffer result;
    result.name = name;
    result.scope = scope;
    result.shape = std::move(extents);
    result.dtype = dtype_;
    return result;
  }

  void statements() {
    const int64_t stride = pick(1, 3), dilation = pick(1, 2), padding = pick(0, 2);
    const Affine row = v("y") * stride + v("r") * dilation - padding;
    const Affine column = v("x") * stride + v("r") - padding;
    const int64_t rows = std::max<int64_t>(
        1, (output_[0].extent - 1) * stride + (reduction_[0].extent - 1) * dilation + 1 - 2 * padding);
    const int64_t columns =
        std::max<int64_t>(1, (output_[1].extent - 1) * stride + reduction_[0].extent - 2 * padding);
    const bool channels_first = chance(2);
    const int64_t c = reduction_[1].extent, f = output_[2].extent;
    std::vector<Affine> input_shape = {rows, columns, c}, input_place = {row, column, v("c")};
    if (channels_first) {
      input_shape = {c, rows, columns};
      input_place = {v("c"), row, column};
    }
    const std::vector<Affine> output_shape = {output_[0].extent, output_[1].extent, f};
    const std::vector<Affine> place = {v("y"), v("x"), v("f")};
    kernel_.name = "fuzz";
    kernel_.buffers = {buffer("I", Scope::Input, input_shape),
                       buffer("K", chance(2) ? Scope::Constant : Scope::Input, {reduction_[0].extent, c, f}),
                       buffer("O", Scope::Output, output_shape)};
    int target = 2;
    if (registers_) {
      kernel_.buffers.push_back(buffer("T", Scope::Register, output_shape));
      target = 3;
    }
    const Reduction reductions[] = {Reduction::Sum, Reduction::Sum, Reduction::Sum, Reduction::Max,
                                    Reduction::Min};
    const Reduction reduction = reductions[pick(0, 4)];
    const ExprPtr input = load(dtype_, 0, input_place);
    ExprPtr value =
        binary(BinaryOp::Mul, input, load(dtype_, 1, std::vector<Affine>{v("r"), v("c"), v("f")}));
    if (chance(3)) value = input;
    const std::vector<Affine> bounds = {row, Affine(rows - 1) - row, column, Affine(columns - 1) - column};
    std::vector<Affine> constraints;
    if (chance(2)) {
      constraints = bounds;
    } else {
      ExprPtr inside;
      for (const Affine& bound : bounds) {
        const ExprPtr one = binary(BinaryOp::Ge, index_value(bound), int_constant(DType::I64, 0));
        inside = inside == nullptr ? one : binary(BinaryOp::And, inside, one);
      }
      const ExprPtr padded = is_float(dtype_) ? constant(dtype_, 0.25) : int_constant(dtype_, 3);
      value = select(inside, value, padded);
    }
    auto statement = [&](const std::string& name, bool reduces, int buffer, const ExprPtr& expr) {
      Statement result;
      result.name = name;
      for (const Dimension& dimension : output_) {
        result.iterators.push_back({dimension.name, dimension.extent});
      }
      if (reduces) {
        for (const Dimension& dimension : reduction_) {
          result.iterators.push_back({dimension.name, dimension.extent});
        }
        result.reduction = reduction;
        result.constraints = constraints;
      }
      result.write.buffer = buffer;
      for (const Affine& affine : place) result.write.index.push_back({affine, nullptr});
      result.value = expr;
      return result;
    };
    const ExprPtr start = is_float(dtype_) ? constant(dtype_, 0.5) : int_constant(dtype_, 1);
    ExprPtr end = load(dtype_, target, place);
    if (chance(2))
      end = binary(BinaryOp::Max, end, is_float(dtype_) ? constant(dtype_, 0) : int_constant(dtype_, 0));
    kernel_.statements = {statement("init", false, target, start), statement("macc", true, target, value),
                          statement("tail", false, 2, end)};
  }

  // Register accumulators need output loops that are unrolled, vectors or outside.
  Split split(const Dimension& dimension, bool no_serial, bool may_be_outside) {
    Split result;
    result.dimension = dimension;
    result.unrolled = pick(1, std::min<int64_t>(dimension.extent, 5));
    const int64_t left = (dimension.extent + result.unrolled - 1) / result.unrolled;
    result.serial = no_serial ? 1 : pick(1, left);
    if (!may_be_outside) result.serial = left;
    const int64_t inside = result.serial * result.unrolled;
    result.outer = (dimension.extent + inside - 1) / inside;
    result.trip_unroll = pick(1, 3);
    return result;
  }

  TileStatement tile(int index, std::vector<Split> splits) {
    const Statement& statement = kernel_.statements[static_cast<size_t>(index)];
    TileStatement result;
    result.statement = index;
    std::vector<TileLoop> loops;
    TileLoop vector;
    for (const Split& part : splits) {
      const std::string& name = part.dimension.name;
      Affine value = v("u_" + name);
      if (part.serial > 1) {
        loops.push_back(serial("s_" + name, part.serial, static_cast<int>(part.trip_unroll)));
        value = value + v("s_" + name) * part.unrolled;
      }
      // Wide vectors are also those of more lanes than the dimension has.
      if (part.vector) {
        vector = lanes("u_" + name, part.unrolled);
      } else {
        loops.push_back(unrolled("u_" + name, part.unrolled));
      }
      if (part.outer > 1) value = value + v("o_" + name) * (part.serial * part.unrolled);
      result.iterators[name] = value;
      if (part.serial * part.unrolled * part.outer != part.dimension.extent) {
        result.constraints.push_back(Affine(part.dimension.extent - 1) - value);
      }
    }
    std::shuffle(loops.begin(), loops.end(), random_);
    if (!vector.name.empty()) loops.push_back(vector);
    result.loops = loops;
    for (const Affine& constraint : statement.constraints) {
      result.constraints.push_back(constraint.substitute(result.iterators));
    }
    return result;
  }

  LoopNodePtr wrap(const Split& part, LoopNodePtr body) {
    if (part.outer == 1) return body;
    LoopNodePtr loop = for_loop("o_" + part.dimension.name, part.outer, std::move(body));
    if (chance(4)) loop->marks.push_back({"unroll", 2, {}});
    return loop;
  }

  std::mt19937 random_;
  std::vector<Dimension> output_, reduction_;
  bool registers_ = false;
  DType dtype_ = DType::F32;
  Kernel kernel_;
};

TEST(CodegenFuzz, RandomTilesLikeTheInterpreter) {
  const char* only = std::getenv("TC_SEED");
  const uint32_t first = only != nullptr ? static_cast<uint32_t>(std::atoi(only)) : 0;
  const char* seeds = std::getenv("TC_SEEDS");
  const uint32_t count = only != nullptr    ? 1
                         : seeds != nullptr ? static_cast<uint32_t>(std::atoi(seeds))
                                            : 150;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(::testing::Message() << "TC_SEED=" << seed);
    Generator generator(seed);
    const ScheduledKernel kernel = generator.kernel();
    const Tensors inputs = generator.inputs();
    expect_like_interpreter(kernel, seed % 3 == 0 ? avx2_target() : host_target(), {}, inputs,
                            generator.exact() ? 0 : 3e-6, static_cast<int>(seed % 3) + 1);
    if (::testing::Test::HasFailure()) break;
  }
}

TEST(CodegenFuzz, RandomTilesOnRiscv) {
  for (uint32_t seed = 5000; seed < 5012; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Generator generator(seed);
    const ScheduledKernel kernel = generator.kernel();
    const Tensors inputs = generator.inputs();
    const int bits[] = {0, 128, 256, 512};
    expect_like_interpreter(kernel, riscv_target(bits[seed % 4]), {}, inputs, generator.exact() ? 0 : 3e-6,
                            2);
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace tc::testing
