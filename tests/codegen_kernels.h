// Hand-scheduled kernels that the code generator's tests share.
#pragma once

#include <functional>

#include "tests/codegen_harness.h"

namespace tc::testing {

// O[fo, y, x, 16] = relu(bias + sum I[co, y*s + r - p, x*s + q - p, ci] * K): channels in blocks of
// 16, packed weights [fo, co, r, s, ci, fn, 16], tiles of `vectors` by `columns`.
struct ConvolutionSpec {
  int64_t input_blocks = 2, output_blocks = 2;  // of 16 channels; output in groups of `vectors`
  int64_t height = 6, width = 28;               // of the input
  int64_t filter = 3, stride = 1, padding = 0;
  int64_t vectors = 2, columns = 13;
  int64_t block = 16;
  int unroll = 4;
  int64_t out(int64_t extent) const { return (extent + 2 * padding - filter) / stride + 1; }
};
ScheduledKernel blocked_convolution(const ConvolutionSpec& spec);
Tensors convolution_inputs(const ConvolutionSpec& spec);

// O[i] = max(A[i] + B[i], 0) in vectors of `width`, the tail under a constraint.
ScheduledKernel elementwise_relu(int64_t count, int64_t width);

// O[i] = value(A[i], B[i], ...) in vectors of `width`; as many inputs as `value` loads, by default of
// `from`; the tail under a constraint.
ScheduledKernel elementwise(int64_t count, int64_t width, DType from, DType to,
                            const std::function<ExprPtr(const std::vector<ExprPtr>&)>& value,
                            const std::vector<DType>& input_types = {});

// Oj[i] = results[j](A[i], B[i], ...) in one leaf, in vectors of `width`.
struct Result {
  DType dtype;
  std::function<ExprPtr(const std::vector<ExprPtr>&)> value;
};
ScheduledKernel several(int64_t count, int64_t width, const std::vector<DType>& inputs,
                        const std::vector<Result>& results);

// O[i, j] = A[j, i] + 1 with `width` lanes along i and `copies` along j; ends of both in leaves of their own,
// or where they are not `apart`, under conditions known only at run time.
ScheduledKernel transposed(int64_t rows, int64_t columns, int64_t width, int64_t copies, DType dtype,
                           bool apart);

// O[i] = A[i] + B[i] over i < p0, in vectors of 16; B of this scope, with 5000 elements if constant.
ScheduledKernel symbolic_add(Scope second);

// O = A B + bias with tiles of 4 rows by 2 vectors of 16; any extents.
ScheduledKernel gemm(int64_t m, int64_t n, int64_t k);

// O[r] = reduction over c of A[r, c], the lanes along c.
ScheduledKernel row_reduction(int64_t rows, int64_t columns, Reduction reduction);

// O[r, :] = softmax of A[r, :], the exponentials in a stack buffer of one row.
ScheduledKernel softmax(int64_t rows, int64_t columns);

// Sums of products on a matrix unit of vectors: some accumulators of rows by blocks of columns.
struct Products {
  int64_t rows = 2;  // of an accumulator
  int64_t tiles = 2, blocks = 2, steps = 3;
  bool next_to_each_other = true;  // rows of A, of a depth
};
ScheduledKernel products(const Products& p, const MatrixUnit& unit, const MatrixUnit::Format& format);

}  // namespace tc::testing
