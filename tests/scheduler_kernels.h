// Kernels of every class for the scheduler's tests, and running schedules against the interpreter.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/loop.h"
#include "scheduler/scheduler.h"

namespace tc::testing {

// A kernel as text, and lines that bring its arguments into the layouts that the graph would choose.
struct NamedKernel {
  std::string name;
  std::string text;
  std::vector<std::string> layout_lines;
};
// Small ones, a few thousand instances each: convolutions, products, pooling, rows, copies, symbolic
// extents, in-place outputs.
const std::vector<NamedKernel>& small_kernels();
// Kernels with two open sizes that lie one behind the other in memory, so that a schedule may make one size
// of them, their product.
const std::vector<NamedKernel>& kernels_of_products();
// The small kernel of that name.
Kernel small_kernel(const std::string& name);
// O = max(I K + B, 0), of constants K [channels, features] and B [features].
Kernel biased_product(int64_t rows, int64_t features, int64_t channels);
// O = max(I * K, 0), of a square map padded by half the taps.
Kernel rectified_convolution(int64_t channels, int64_t features, int64_t size, int64_t taps, int64_t stride);

// Runs a finished schedule on arguments by name, outputs of the buffers' own types.
using Runner = std::function<void(const ScheduledKernel&, std::map<std::string, Tensor>&)>;

// Runs the kernel by the plain interpreter and the finished schedule of it by the runner (without
// one: by the interpreter of loops, in double), on the same seeded data, with parameters bound;
// returns what differs by more than `tolerance` times the largest element, or nothing. Outputs start
// as NaN. Layout lines of the trace are followed: inputs are brought into blocks with arbitrary
// finite values in the padded lanes, and outputs back.
std::string difference(const Kernel& kernel, const Schedule& schedule, uint32_t seed,
                       const std::map<std::string, int64_t>& parameters = {}, const Runner& runner = {},
                       double tolerance = 1e-9);

// Values for the kernel's parameters: small, and different per seed.
std::map<std::string, int64_t> parameter_values(const Kernel& kernel, uint32_t seed);

}  // namespace tc::testing
