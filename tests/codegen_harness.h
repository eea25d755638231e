// Compiles, links, loads and runs single kernels, and compares them with the interpreter.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "codegen/llvm/kernel_code.h"
#include "ir/scheduled.h"

namespace tc::testing {

// x86-64 targets of the tests, independent of the target tables.
Target avx512_target();
Target avx2_target();
// rv64gcv with at least this vector length; 0 for rv64gc.
Target riscv_target(int vector_bits);
// The best of these that this machine runs, and all that it runs.
Target host_target();
std::vector<Target> host_targets();

// Building blocks of hand-written loop trees.
LoopNodePtr block(std::vector<LoopNodePtr> children);
LoopNodePtr for_loop(const std::string& variable, LoopExprPtr lower, LoopExprPtr upper, LoopNodePtr body,
                     bool parallel = false);
LoopNodePtr for_loop(const std::string& variable, int64_t extent, LoopNodePtr body, bool parallel = false);
LoopNodePtr leaf(std::vector<TileStatement> statements);
TileLoop serial(const std::string& name, int64_t extent, int unroll = 1);
TileLoop unrolled(const std::string& name, int64_t extent);
TileLoop lanes(const std::string& name, int64_t extent);
TileLoop matrix(const std::string& name, int64_t extent);
Affine v(const std::string& name);

// A tensor with reproducible values: floats in [-1, 1), integers in a small range.
Tensor seeded(DType dtype, std::vector<int64_t> shape, uint32_t seed);
// Seeded rows of f32, the first of NaN alone, of the others each third element.
inline Tensor rows_with_nan(int64_t rows, int64_t columns) {
  Tensor result = seeded(DType::F32, {rows, columns}, 1);
  for (int64_t i = 0; i < rows * columns; ++i) {
    if (i < columns || i % 3 == 0) result.set(i, std::numeric_limits<double>::quiet_NaN());
  }
  return result;
}

using Tensors = std::map<std::string, Tensor>;
// All arguments of a kernel of fixed sizes, seeded by their number from 1.
Tensors seeded_arguments(const Kernel& kernel);
// Its inputs alone, of whole numbers that `draw` makes one by one.
Tensors drawn_inputs(const Kernel& kernel, const std::function<int64_t(const Buffer&, std::mt19937&)>& draw);
using Parameters = std::map<std::string, int64_t>;

// Kernels compiled for one target and linked together, which takes less time than one by one.
class CompiledKernels {
 public:
  CompiledKernels(std::vector<ScheduledKernel> kernels, const Target& target);
  ~CompiledKernels();
  CompiledKernels(const CompiledKernels&) = delete;
  CompiledKernels& operator=(const CompiledKernels&) = delete;

  // As run_compiled, for the kernel of that number.
  void run(size_t which, const Parameters& parameters, Tensors& tensors, int threads = 1) const;
  // What one of `threads` threads of this machine computes, alone.
  void run_thread(size_t which, const Parameters& parameters, Tensors& tensors, int thread,
                  int threads) const;

 private:
  void* function(size_t which) const;
  std::vector<ScheduledKernel> kernels_;
  Target target_;
  std::string folder_;
  void* library_ = nullptr;
  bool is_c_ = false;  // the library is made of C source (tests/c_kernels.h)
};

// Runs the compiled kernel as each of `threads` threads in turn. Buffers stand against unreadable
// pages, once with their ends and once with their beginnings; the bytes around them are checked.
// `tensors` holds the arguments by name; Output buffers are replaced by what was computed.
// Elements of outputs that the kernel does not write keep what `tensors` gave.
void run_compiled(const ScheduledKernel& kernel, const Target& target, const Parameters& parameters,
                  Tensors& tensors, int threads = 1);

// Compiles and runs, and expects each output to agree with interpret(kernel) within `tolerance` of
// the largest element (exactly for integers).
void expect_like_interpreter(const ScheduledKernel& kernel, const Target& target,
                             const Parameters& parameters, const Tensors& inputs, double tolerance,
                             int threads = 1);
// The same for each of several targets.
void expect_like_interpreter(const ScheduledKernel& kernel, const std::vector<Target>& targets,
                             const Parameters& parameters, const Tensors& inputs, double tolerance,
                             int threads = 1);

// Number of lines of the text that contain `part`.
int count_lines(const std::string& text, const std::string& part);
// The innermost loop with most lines that contain `part`: from a label to the jump back to it.
std::string hottest_loop(const std::string& assembly, const std::string& part);

}  // namespace tc::testing
