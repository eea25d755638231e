// Kernels of every class for the scheduler's tests.
#include "tests/scheduler_kernels.h"

#include "ir/error.h"

namespace tc::testing {

const std::vector<NamedKernel>& small_kernels() {
  static const std::vector<NamedKernel> kernels = {
      {"conv",
       R"(kernel "conv"
  input I f32[1, 5, 7, 9]
  constant K f32[6, 5, 3, 3]
  constant B f32[6]
  output O f32[1, 6, 7, 9]
  local T f32[1, 6, 7, 9]
  init[f:6, y:7, x:9]: T[0, f, y, x] = 0
  macc[f:6, y:7, x:9, c:5, r:3, s:3] where r + y - 1 >= 0, 7 - r - y >= 0, s + x - 1 >= 0, 9 - s - x >= 0: T[0, f, y, x] += I[0, c, r + y - 1, s + x - 1] * K[f, c, r, s]
  tail[f:6, y:7, x:9]: O[0, f, y, x] = max(T[0, f, y, x] + B[f], 0)
)",
       {"layout I 1 4", "layout O 1 4"}},
      {"conv_direct",
       R"(kernel "convolution of a batch without padding"
  input I f32[2, 4, 6, 7]
  constant K f32[5, 4, 3, 3]
  constant B f32[5]
  output O f32[2, 5, 4, 5]
  init[n:2, f:5, y:4, x:5]: O[n, f, y, x] = B[f]
  macc[n:2, f:5, y:4, x:5, c:4, r:3, s:3]: O[n, f, y, x] += I[n, c, y + r, x + s] * K[f, c, r, s]
)",
       {"layout I 1 4", "layout O 1 4"}},
      {"conv_plain",
       R"(kernel "strided convolution without epilogue"
  input I f32[2, 3, 9, 11]
  constant K f32[4, 3, 3, 3]
  output O f32[2, 4, 5, 6]
  init[n:2, f:4, y:5, x:6]: O[n, f, y, x] = 0
  macc[n:2, f:4, y:5, x:6, c:3, r:3, s:3] where 2*y + r - 1 >= 0, 9 - r - 2*y >= 0, s + 2*x - 1 >= 0, 11 - s - 2*x >= 0: O[n, f, y, x] += I[n, c, r + 2*y - 1, s + 2*x - 1] * K[f, c, r, s]
)",
       {"layout O 1 4"}},
      {"conv_group",
       R"(kernel "grouped convolution"
  input I f32[1, 8, 5, 6]
  constant K f32[12, 4, 3, 3]
  constant B f32[12]
  output O f32[1, 12, 3, 4]
  local T f32[1, 12, 3, 4]
  init[g:2, f:6, y:3, x:4]: T[0, 6*g + f, y, x] = 0
  macc[g:2, f:6, y:3, x:4, c:4, r:3, s:3]: T[0, 6*g + f, y, x] += I[0, 4*g + c, y + r, x + s] * K[6*g + f, c, r, s]
  tail[f:12, y:3, x:4]: O[0, f, y, x] = T[0, f, y, x] + B[f]
)",
       {}},
      {"conv_groups",
       R"(kernel "convolution with two groups in each block"
  input I f32[1, 8, 5, 6]
  constant K f32[8, 2, 3, 3]
  constant B f32[8]
  output O f32[1, 8, 5, 6]
  local T f32[1, 8, 5, 6]
  init[g:4, f:2, y:5, x:6]: T[0, 2*g + f, y, x] = 0
  macc[g:4, f:2, y:5, x:6, c:2, r:3, s:3] where r + y - 1 >= 0, 5 - r - y >= 0, s + x - 1 >= 0, 6 - s - x >= 0: T[0, 2*g + f, y, x] += I[0, 2*g + c, r + y - 1, s + x - 1] * K[2*g + f, c, r, s]
  tail[f:8, y:5, x:6]: O[0, f, y, x] = T[0, f, y, x] + B[f]
)",
       {"layout I 1 4", "layout O 1 4"}},
      {"pointwise",
       R"(kernel "1x1 convolution with residual"
  input I f32[1, 8, 4, 5]
  input R f32[1, 12, 4, 5]
  constant K f32[12, 8, 1, 1]
  constant B f32[12]
  output O f32[1, 12, 4, 5]
  local T f32[1, 12, 4, 5]
  init[f:12, y:4, x:5]: T[0, f, y, x] = 0
  macc[f:12, y:4, x:5, c:8]: T[0, f, y, x] += I[0, c, y, x] * K[f, c, 0, 0]
  tail[f:12, y:4, x:5]: O[0, f, y, x] = max(T[0, f, y, x] + B[f] + R[0, f, y, x], 0)
)",
       {"layout I 1 4", "layout R 1 4", "layout O 1 4"}},
      {"depthwise",
       R"(kernel "depthwise convolution"
  input I f32[1, 10, 6, 7]
  constant K f32[10, 1, 3, 3]
  constant B f32[10]
  output O f32[1, 10, 6, 7]
  local T f32[1, 10, 6, 7]
  init[c:10, y:6, x:7]: T[0, c, y, x] = 0
  macc[c:10, y:6, x:7, r:3, s:3] where r + y - 1 >= 0, 6 - r - y >= 0, s + x - 1 >= 0, 7 - s - x >= 0: T[0, c, y, x] += I[0, c, r + y - 1, s + x - 1] * K[c, 0, r, s]
  tail[c:10, y:6, x:7]: O[0, c, y, x] = min(max(T[0, c, y, x] + B[c], 0), 6)
)",
       {"layout I 1 4", "layout O 1 4"}},
      {"local_response",
       R"(kernel "local response normalisation"
  input I f32[1, 12, 3, 5]
  output O f32[1, 12, 3, 5]
  local T f32[1, 12, 3, 5]
  init[c:12, y:3, x:5]: T[0, c, y, x] = 0
  total[c:12, y:3, x:5, k:5] where c + k - 2 >= 0, 13 - c - k >= 0: T[0, c, y, x] += I[0, c + k - 2, y, x] * I[0, c + k - 2, y, x]
  tail[c:12, y:3, x:5]: O[0, c, y, x] = I[0, c, y, x] / sqrt(T[0, c, y, x] * 0.2 + 1)
)",
       {"layout I 1 4", "layout O 1 4"}},
      {"channel_pool",
       R"(kernel "largest of four channels"
  input I f32[1, 8, 3, 5]
  output O f32[1, 8, 3, 5]
  init[c:8, y:3, x:5]: O[0, c, y, x] = -inf
  largest[c:8, y:3, x:5, k:4] where c + k - 3 >= 0: O[0, c, y, x] max= I[0, c + k - 3, y, x]
)",
       {"layout I 1 4", "layout O 1 4"}},
      {"conv1d",
       R"(kernel "one-dimensional convolution"
  input I f32[1, 6, 20]
  constant K f32[7, 6, 5]
  output O f32[1, 7, 9]
  local T f32[1, 7, 9]
  init[f:7, x:9]: T[0, f, x] = 0
  macc[f:7, x:9, c:6, s:5] where s + 2*x - 1 >= 0, 20 - s - 2*x >= 0: T[0, f, x] += I[0, c, s + 2*x - 1] * K[f, c, s]
  tail[f:7, x:9]: O[0, f, x] = sigmoid(T[0, f, x])
)",
       {}},
      {"gemm",
       R"(kernel "gemm with bias and gelu"
  input A f32[2, 5, 12]
  constant K f32[12, 21]
  constant B f32[21]
  output O f32[2, 5, 21]
  local T f32[2, 5, 21]
  init[b:2, m:5, n:21]: T[b, m, n] = 0
  macc[b:2, m:5, n:21, k:12]: T[b, m, n] += A[b, m, k] * K[k, n]
  tail[b:2, m:5, n:21]: O[b, m, n] = (T[b, m, n] + B[n]) * erf(T[b, m, n] + B[n])
)",
       {}},
      {"gemm_direct",
       R"(kernel "product of two inputs"
  input A f32[3, 7, 10]
  input C f32[3, 10, 18]
  output O f32[3, 7, 18]
  init[h:3, m:7, n:18]: O[h, m, n] = 0
  macc[h:3, m:7, n:18, k:10]: O[h, m, n] += A[h, m, k] * C[h, k, n]
)",
       {}},
      {"gemm_transposed",
       R"(kernel "scores"
  input Q f32[9, 2, 8]
  input K f32[7, 2, 8]
  output S f32[2, 9, 7]
  local T f32[2, 9, 7]
  init[h:2, m:9, n:7]: T[h, m, n] = 0
  macc[h:2, m:9, n:7, k:8]: T[h, m, n] += Q[m, h, k] * K[n, h, k]
  tail[h:2, m:9, n:7]: S[h, m, n] = T[h, m, n] * 0.125
)",
       {}},
      {"gemm_open",
       R"(kernel "scores of an open number of keys"
  parameter p0 = seq in [1, 1000]
  parameter p1 = keys in [0, 1000]
  input K f32[2, p1, 40]
  input Q f32[2, 3*p0, 40]
  output S f32[2, 3*p0, p1]
  local T f32[2, 3*p0, p1]
  init[h:2, m:3*p0, n:p1]: T[h, m, n] = 0
  macc[h:2, m:3*p0, n:p1, k:40]: T[h, m, n] += Q[h, m, k] * K[h, n, k]
  tail[h:2, m:3*p0, n:p1]: S[h, m, n] = T[h, m, n] * 0.125
)",
       {}},
      {"gemv",
       R"(kernel "row times matrix"
  input A f32[1, 30]
  constant K f32[37, 30]
  constant B f32[37]
  output O f32[1, 37]
  local T f32[1, 37]
  init[n:37]: T[0, n] = 0
  macc[n:37, k:30]: T[0, n] += A[0, k] * K[n, k]
  tail[n:37]: O[0, n] = T[0, n] + B[n]
)",
       {}},
      {"gemm_symbolic",
       R"(kernel "product with symbolic rows"
  parameter p0 = seq in [1, 1000]
  input A f32[p0, 9]
  constant K f32[9, 19]
  output O f32[p0, 19]
  local T f32[p0, 19]
  init[m:p0, n:19]: T[m, n] = 0
  macc[m:p0, n:19, k:9]: T[m, n] += A[m, k] * K[k, n]
  tail[m:p0, n:19]: O[m, n] = max(T[m, n], 0)
)",
       {}},
      {"pool",
       R"(kernel "max pooling"
  input I f32[1, 6, 7, 8]
  output O f32[1, 6, 4, 4]
  init[c:6, y:4, x:4]: O[0, c, y, x] = -inf
  best[c:6, y:4, x:4, r:3, s:3] where r + 2*y - 1 >= 0, 7 - r - 2*y >= 0, s + 2*x - 1 >= 0, 8 - s - 2*x >= 0: O[0, c, y, x] max= I[0, c, r + 2*y - 1, s + 2*x - 1]
)",
       {"layout I 1 4", "layout O 1 4"}},
      {"average",
       R"(kernel "global average"
  input I f32[1, 10, 5, 6]
  output O f32[1, 10, 1, 1]
  local T f32[1, 10, 1, 1]
  init[c:10]: T[0, c, 0, 0] = 0
  sum[c:10, y:5, x:6]: T[0, c, 0, 0] += I[0, c, y, x]
  mean[c:10]: O[0, c, 0, 0] = T[0, c, 0, 0] / 30
)",
       {"layout I 1 4", "layout O 1 4"}},
      {"softmax",
       R"(kernel "softmax"
  input I f32[3, 5, 21]
  output O f32[3, 5, 21]
  local M f32[3, 5, 1]
  local E f32[3, 5, 21]
  local S f32[3, 5, 1]
  top_init[i:3, j:5]: M[i, j, 0] = -inf
  top[i:3, j:5, k:21]: M[i, j, 0] max= I[i, j, k]
  power[i:3, j:5, k:21]: E[i, j, k] = exp(I[i, j, k] - M[i, j, 0])
  sum_init[i:3, j:5]: S[i, j, 0] = 0
  sum[i:3, j:5, k:21]: S[i, j, 0] += E[i, j, k]
  divide[i:3, j:5, k:21]: O[i, j, k] = E[i, j, k] / S[i, j, 0]
)",
       {}},
      {"softmax_symbolic",
       R"(kernel "softmax over a symbolic row"
  parameter p0 = seq in [1, 1000]
  input I f32[p0, p0]
  output O f32[p0, p0]
  local M f32[p0]
  local E f32[p0, p0]
  local S f32[p0]
  top_init[j:p0]: M[j] = -inf
  top[j:p0, k:p0]: M[j] max= I[j, k]
  power[j:p0, k:p0]: E[j, k] = exp(I[j, k] - M[j])
  sum_init[j:p0]: S[j] = 0
  sum[j:p0, k:p0]: S[j] += E[j, k]
  divide[j:p0, k:p0]: O[j, k] = E[j, k] / S[j]
)",
       {}},
      {"layer_norm",
       R"(kernel "layer norm"
  input I f32[4, 24]
  constant G f32[24]
  constant B f32[24]
  output O f32[4, 24]
  local S f32[4]
  local Q f32[4]
  sum_init[i:4]: S[i] = 0
  sum[i:4, k:24]: S[i] += I[i, k]
  square_init[i:4]: Q[i] = 0
  square[i:4, k:24]: Q[i] += (I[i, k] - S[i] / 24) * (I[i, k] - S[i] / 24)
  scale[i:4, k:24]: O[i, k] = (I[i, k] - S[i] / 24) / sqrt(Q[i] / 24 + 1e-05) * G[k] + B[k]
)",
       {}},
      {"row_sum",
       R"(kernel "sum of rows"
  input I f32[6, 37]
  output O f32[6]
  init[i:6]: O[i] = 0
  sum[i:6, k:37]: O[i] += I[i, k]
)",
       {}},
      {"column_max",
       R"(kernel "maximum of columns"
  input I f32[9, 22]
  output O f32[22]
  init[i:22]: O[i] = -inf
  best[i:22, k:9]: O[i] max= I[k, i]
)",
       {}},
      {"elementwise",
       R"(kernel "addition with broadcast"
  input A f32[2, 6, 5, 7]
  input C f32[2, 6, 5, 7]
  constant B f32[6, 1, 1]
  output O f32[2, 6, 5, 7]
  add[n:2, c:6, y:5, x:7]: O[n, c, y, x] = max(A[n, c, y, x] * C[n, c, y, x] + B[c, 0, 0], 0)
)",
       {"layout A 1 4", "layout C 1 4", "layout O 1 4"}},
      {"unsafe",
       R"(kernel "padded lanes that would not be finite"
  input A f32[1, 6, 9]
  constant B f32[6, 1]
  output O f32[1, 6, 9]
  div[c:6, x:9]: O[0, c, x] = exp(A[0, c, x]) / B[c, 0]
)",
       {"layout A 1 4", "layout O 1 4"}},
      {"reorder",
       R"(kernel "into blocks"
  input I f32[1, 6, 5, 3]
  output O f32[1, 6, 5, 3]
  copy[c:6, y:5, x:3]: O[0, c, y, x] = I[0, c, y, x]
)",
       {"layout O 1 4"}},
      {"transpose",
       R"(kernel "transpose"
  input I f32[4, 6, 8]
  output O f32[6, 4, 8]
  copy[i:6, j:4, k:8]: O[i, j, k] = I[j, i, k]
)",
       {}},
      {"pad",
       R"(kernel "constant padding"
  input I f32[5, 9]
  output O f32[8, 14]
  copy[i:8, j:14]: O[i, j] = select(and(and(index(i - 1) >= 0, index(5 - i) >= 0), and(index(j - 2) >= 0, index(10 - j) >= 0)), I[i - 1, j - 2], 0.5)
)",
       {}},
      {"concat",
       R"(kernel "concatenation of channels"
  input A f32[1, 8, 3, 5]
  input C f32[1, 4, 3, 5]
  output O f32[1, 12, 3, 5]
  first[c:8, y:3, x:5]: O[0, c, y, x] = A[0, c, y, x]
  second[c:4, y:3, x:5]: O[0, c + 8, y, x] = C[0, c, y, x]
)",
       {"layout A 1 4", "layout C 1 4", "layout O 1 4"}},
      {"gather",
       R"(kernel "rows by index"
  input W f32[7, 20]
  input N i64[3, 4]
  output O f32[3, 4, 20]
  row[i:3, j:4, k:20]: O[i, j, k] = W[{min(max(N[i, j], 0), 6)}, k]
)",
       {}},
      {"in_place",
       R"(kernel "in place"
  input A f32[4, 30]
  output O f32[4, 30]
  copy[i:4, j:30]: O[i, j] = A[i, j]
  add[i:4, j:30]: O[i, j] = O[i, j] + 1
)",
       {}},
      {"scan",
       R"(kernel "running sum"
  input A f32[5, 9]
  output O f32[5, 9]
  first[i:5]: O[i, 0] = A[i, 0]
  next[i:5, j:8]: O[i, j + 1] = O[i, j] + A[i, j + 1]
)",
       {}},
      {"dense_chain",
       R"(kernel "two products"
  input A f32[5, 8]
  constant K f32[8, 10]
  constant L f32[10, 6]
  output O f32[5, 6]
  local T f32[5, 10]
  local U f32[5, 10]
  i1[m:5, n:10]: T[m, n] = 0
  m1[m:5, n:10, k:8]: T[m, n] += A[m, k] * K[k, n]
  t1[m:5, n:10]: U[m, n] = tanh(T[m, n])
  i2[m:5, n:6]: O[m, n] = 0
  m2[m:5, n:6, k:10]: O[m, n] += U[m, k] * L[k, n]
)",
       {}},
      {"scalar",
       R"(kernel "one element"
  input A f32[1]
  output O f32[1]
  add[]: O[0] = A[0] + 1
)",
       {}},
      {"integers",
       R"(kernel "integer arithmetic"
  input A i32[3, 17]
  output O i32[3, 17]
  add[i:3, j:17]: O[i, j] = A[i, j] * 3 - i32(index(i + j))
)",
       {}},
      {"conv_dilated",
       R"(kernel "dilated convolution with uneven padding"
  input I f32[1, 5, 9, 8]
  constant K f32[7, 5, 3, 2]
  constant B f32[7]
  output O f32[1, 7, 8, 7]
  local T f32[1, 7, 8, 7]
  init[f:7, y:8, x:7]: T[0, f, y, x] = 0
  macc[f:7, y:8, x:7, c:5, r:3, s:2] where 2*r + y - 1 >= 0, 9 - 2*r - y >= 0, 3*s + x - 2 >= 0, 9 - 3*s - x >= 0: T[0, f, y, x] += I[0, c, 2*r + y - 1, 3*s + x - 2] * K[f, c, r, s]
  tail[f:7, y:8, x:7]: O[0, f, y, x] = max(T[0, f, y, x] + B[f], 0.1 * (T[0, f, y, x] + B[f]))
)",
       {"layout I 1 4", "layout O 1 4"}},
      {"conv_first",
       R"(kernel "first layer with a large stride"
  input I f32[1, 3, 15, 17]
  constant K f32[9, 3, 5, 5]
  constant B f32[9]
  output O f32[1, 9, 4, 5]
  local T f32[1, 9, 4, 5]
  init[f:9, y:4, x:5]: T[0, f, y, x] = 0
  macc[f:9, y:4, x:5, c:3, r:5, s:5] where 4*y + r - 1 >= 0, 15 - r - 4*y >= 0, 4*x + s - 2 >= 0, 18 - s - 4*x >= 0: T[0, f, y, x] += I[0, c, 4*y + r - 1, 4*x + s - 2] * K[f, c, r, s]
  tail[f:9, y:4, x:5]: O[0, f, y, x] = max(T[0, f, y, x] + B[f], 0)
)",
       {"layout O 1 4"}},
      {"conv_all",
       R"(kernel "grouped, strided, dilated, padded, asymmetric"
  input I f32[2, 6, 10, 11]
  constant K f32[9, 2, 3, 2]
  output O f32[2, 9, 4, 4]
  local T f32[2, 9, 4, 4]
  init[n:2, g:3, f:3, y:4, x:4]: T[n, 3*g + f, y, x] = 0
  macc[n:2, g:3, f:3, y:4, x:4, c:2, r:3, s:2] where 2*r + 3*y - 2 >= 0, 11 - 2*r - 3*y >= 0, s + 3*x - 1 >= 0: T[n, 3*g + f, y, x] += I[n, 2*g + c, 2*r + 3*y - 2, s + 3*x - 1] * K[3*g + f, c, r, s]
  tail[n:2, f:9, y:4, x:4]: O[n, f, y, x] = tanh(T[n, f, y, x])
)",
       {}},
      {"conv_transposed",
       R"(kernel "transposed convolution that adds at strided places"
  input I f32[1, 4, 3, 5]
  constant K f32[4, 6, 3, 3]
  output O f32[1, 6, 7, 11]
  local T f32[1, 6, 7, 11]
  init[f:6, y:7, x:11]: T[0, f, y, x] = 0
  add[f:6, y:3, x:5, c:4, r:3, s:3]: T[0, f, 2*y + r, 2*x + s] += I[0, c, y, x] * K[c, f, r, s]
  tail[f:6, y:7, x:11]: O[0, f, y, x] = T[0, f, y, x]
)",
       {"layout I 1 4", "layout O 1 4"}},
      {"depthwise_strided",
       R"(kernel "depthwise convolution with stride, dilation and a multiplier"
  input I f32[1, 5, 11, 9]
  constant K f32[10, 1, 3, 3]
  output O f32[1, 10, 4, 3]
  local T f32[1, 10, 4, 3]
  init[c:5, m:2, y:4, x:3]: T[0, 2*c + m, y, x] = 0
  macc[c:5, m:2, y:4, x:3, r:3, s:3] where 2*r + 3*y - 2 >= 0, 12 - 2*r - 3*y >= 0, 8 - 2*s - 2*x >= 0: T[0, 2*c + m, y, x] += I[0, c, 2*r + 3*y - 2, 2*s + 2*x] * K[2*c + m, 0, r, s]
  tail[c:10, y:4, x:3]: O[0, c, y, x] = max(T[0, c, y, x], 0)
)",
       {}},
      {"average_padded",
       R"(kernel "average pooling that counts what is inside"
  input I f32[1, 6, 7, 7]
  constant C f32[4, 4]
  output O f32[1, 6, 4, 4]
  local T f32[1, 6, 4, 4]
  init[c:6, y:4, x:4]: T[0, c, y, x] = 0
  sum[c:6, y:4, x:4, r:3, s:3] where r + 2*y - 1 >= 0, 7 - r - 2*y >= 0, s + 2*x - 1 >= 0, 7 - s - 2*x >= 0: T[0, c, y, x] += I[0, c, r + 2*y - 1, s + 2*x - 1]
  mean[c:6, y:4, x:4]: O[0, c, y, x] = T[0, c, y, x] * C[y, x]
)",
       {"layout I 1 4", "layout O 1 4"}},
      {"quantized",
       R"(kernel "product of bytes"
  input A u8[3, 21]
  constant K i8[21, 13]
  output O i32[3, 13]
  init[m:3, n:13]: O[m, n] = 0
  macc[m:3, n:13, k:21]: O[m, n] += (i32(A[m, k]) - 3) * i32(K[k, n])
)",
       {}},
      {"product_double",
       R"(kernel "products of columns in double"
  input I f64[7, 13]
  output O f64[13]
  init[i:13]: O[i] = 1
  times[i:13, k:7]: O[i] *= I[k, i]
)",
       {}},
      {"any",
       R"(kernel "whether one is larger"
  input I f32[5, 19]
  output O bool[5]
  init[i:5]: O[i] = false
  either[i:5, k:19]: O[i] or= I[i, k] > 0.9
)",
       {}},
      {"upsample",
       R"(kernel "nearest neighbour, then addition"
  input I f32[1, 6, 3, 4]
  input R f32[1, 6, 6, 8]
  output O f32[1, 6, 6, 8]
  add[c:6, y:3, r:2, x:4, s:2]: O[0, c, 2*y + r, 2*x + s] = I[0, c, y, x] + R[0, c, 2*y + r, 2*x + s]
)",
       {"layout I 1 4", "layout R 1 4", "layout O 1 4"}},
      {"stencil",
       R"(kernel "steps in time"
  input A f32[14]
  output O f32[14]
  local T f32[5, 14]
  first[x:14]: T[0, x] = A[x]
  left[t:4]: T[t + 1, 0] = T[t, 0]
  right[t:4]: T[t + 1, 13] = T[t, 13] + 1
  step[t:4, x:12]: T[t + 1, x + 1] = 0.5 * T[t, x] + T[t, x + 1] - 0.25 * T[t, x + 2]
  store[x:14]: O[x] = T[4, x]
)",
       {}},
      {"gated",
       R"(kernel "one step of a gated recurrence"
  input X f32[1, 7]
  input H f32[1, 9]
  constant W f32[9, 7]
  constant R f32[9, 9]
  constant B f32[9]
  output O f32[1, 9]
  local U f32[9]
  local V f32[9]
  iu[n:9]: U[n] = 0
  mu[n:9, k:7]: U[n] += W[n, k] * X[0, k]
  iv[n:9]: V[n] = 0
  mv[n:9, k:9]: V[n] += R[n, k] * H[0, k]
  out[n:9]: O[0, n] = H[0, n] + sigmoid(U[n] + V[n] + B[n]) * (tanh(U[n] - V[n]) - H[0, n])
)",
       {}},
      {"causal_scores",
       R"(kernel "scores of the keys that queries see"
  parameter p0 = seq in [1, 1000]
  parameter p1 = keys in [0, 1000]
  input K f32[2, p1, 40]
  input Q f32[2, 3*p0, 40]
  output S f32[2, 3*p0, p1]
  local T f32[2, 3*p0, p1]
  init[h:2, m:3*p0, n:p1] where 3*p1 - 3*p0 + m - 3*n >= 0: T[h, m, n] = 0
  macc[h:2, m:3*p0, n:p1, k:40] where 3*p1 - 3*p0 + m - 3*n >= 0: T[h, m, n] += Q[h, m, k] * K[h, n, k]
  tail[h:2, m:3*p0, n:p1]: S[h, m, n] = select(index(3*p1 - 3*p0 + m - 3*n) >= index(0), T[h, m, n], -9)
)",
       {}},
      {"causal_sum",
       R"(kernel "sum of the values that queries see"
  parameter p0 = seq in [1, 1000]
  parameter p1 = keys in [0, 1000]
  input V f32[2, p1, 40]
  input W f32[2, 3*p0, p1]
  output O f32[2, 3*p0, 40]
  init[h:2, m:3*p0, n:40]: O[h, m, n] = 0
  macc[h:2, m:3*p0, n:40, k:p1] where 3*p1 - 3*p0 + m - 3*k >= 0: O[h, m, n] += W[h, m, k] * V[h, k, n]
)",
       {}},
  };
  return kernels;
}

Kernel rectified_convolution(int64_t channels, int64_t features, int64_t size, int64_t taps, int64_t stride) {
  const int64_t padding = taps / 2, out = (size + 2 * padding - taps) / stride + 1;
  const std::string y = text(stride, "*y + r - ", padding), x = text(stride, "*x + s - ", padding);
  const std::string map = text("1, ", features, ", ", out, ", ", out),
                    over = text("f:", features, ", y:", out, ", x:", out);
  return parse_kernel(text(
      "kernel \"convolution\"\n  input I f32[1, ", channels, ", ", size, ", ", size, "]\n  constant K f32[",
      features, ", ", channels, ", ", taps, ", ", taps, "]\n  output O f32[", map, "]\n  local T f32[", map,
      "]\n  init[", over, "]: T[0, f, y, x] = 0\n  macc[", over, ", c:", channels, ", r:", taps, ", s:", taps,
      "] where ", y, " >= 0, ", x, " >= 0, ", size - 1 + padding, " - ", stride, "*y - r >= 0, ",
      size - 1 + padding, " - ", stride, "*x - s >= 0: T[0, f, y, x] += I[0, c, ", y, ", ", x,
      "] * K[f, c, r, s]\n  tail[", over, "]: O[0, f, y, x] = max(T[0, f, y, x], 0)\n"));
}

Kernel biased_product(int64_t rows, int64_t features, int64_t channels) {
  return parse_kernel(text("kernel \"product\"\n  input I f32[", rows, ", ", channels, "]\n  constant K f32[",
                           channels, ", ", features, "]\n  constant B f32[", features, "]\n  output O f32[",
                           rows, ", ", features, "]\n  local T f32[", rows, ", ", features, "]\n  init[m:",
                           rows, ", n:", features, "]: T[m, n] = 0\n  macc[m:", rows, ", n:", features,
                           ", k:", channels, "]: T[m, n] += I[m, k] * K[k, n]\n  tail[i:", rows,
                           ", j:", features, "]: O[i, j] = max(T[i, j] + B[j], 0)\n"));
}

const std::vector<NamedKernel>& kernels_of_products() {
  static const std::vector<NamedKernel> kernels = {
      {"product",
       R"(kernel "product with rows of two open sizes"
  parameter p0 = batch in [1, 100]
  parameter p1 = seq in [1, 1000]
  input A f32[p0, p1, 5]
  constant K f32[5, 19]
  output O f32[p0, p1, 19]
  local T f32[p0, p1, 19]
  init[b:p0, m:p1, n:19]: T[b, m, n] = 0
  macc[b:p0, m:p1, n:19, k:5]: T[b, m, n] += A[b, m, k] * K[k, n]
  tail[b:p0, m:p1, n:19]: O[b, m, n] = max(T[b, m, n], 0)
)",
       {}},
      {"elements",
       R"(kernel "elements of two open sizes"
  parameter p0 = batch in [1, 100]
  parameter p1 = seq in [2, 1000]
  input A f32[p0, p1]
  input B f32[p0, p1]
  output O f32[p0, p1]
  local T f32[p0, p1]
  scaled[i:p0, j:p1]: T[i, j] = A[i, j] * 3
  added[i:p0, j:p1]: O[i, j] = T[i, j] + B[i, j]
)",
       {}},
      {"three_sizes",
       R"(kernel "elements of three open sizes"
  parameter p0 = batch in [1, 100]
  parameter p1 = heads in [1, 100]
  parameter p2 = seq in [1, 1000]
  input A f32[p0, p1, p2]
  output O f32[p0, p1, p2]
  one[i:p0, j:p1, k:p2]: O[i, j, k] = max(A[i, j, k], 0)
)",
       {}},
      {"sum",
       R"(kernel "sum along two open sizes"
  parameter p0 = batch in [1, 100]
  parameter p1 = seq in [1, 1000]
  input A f32[p0, p1, 13]
  output O f32[13]
  init[n:13]: O[n] = 0
  sum[i:p0, j:p1, n:13]: O[n] += A[i, j, n]
)",
       {}},
      {"softmax",
       R"(kernel "softmax of rows of two open sizes"
  parameter p0 = batch in [1, 100]
  parameter p1 = seq in [1, 1000]
  input I f32[p0, p1, 11]
  output O f32[p0, p1, 11]
  local M f32[p0, p1]
  local E f32[p0, p1, 11]
  local S f32[p0, p1]
  top_init[i:p0, j:p1]: M[i, j] = -inf
  top[i:p0, j:p1, k:11]: M[i, j] max= I[i, j, k]
  power[i:p0, j:p1, k:11]: E[i, j, k] = exp(I[i, j, k] - M[i, j])
  sum_init[i:p0, j:p1]: S[i, j] = 0
  sum[i:p0, j:p1, k:11]: S[i, j] += E[i, j, k]
  divide[i:p0, j:p1, k:11]: O[i, j, k] = E[i, j, k] / S[i, j]
)",
       {}},
  };
  return kernels;
}

Kernel small_kernel(const std::string& name) {
  for (const NamedKernel& kernel : small_kernels()) {
    if (kernel.name == name) return parse_kernel(kernel.text);
  }
  fail(ErrorKind::Internal, "no small kernel '", name, "'");
}

}  // namespace tc::testing
