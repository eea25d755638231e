// Products whose operands are divided into terms, on a target with a matrix unit.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/scheduler_kernels.h"

namespace tc::testing {

struct Division {
  const char* name;
  MatrixUnit::Format format;
  // Of the interpreter, which computes in double and keeps what is stored in float types unrounded: terms of
  // bf16 lose bits of the weights only.
  double error;
};
inline const Division kHalves = {"bf16x3", {DType::BF16, DType::F32, 16, 2, 16}, 2e-5};
inline const Division kDigits = {"int8x6", {DType::I8, DType::I32, 16, 4, 16}, 2e-6};

// A machine with a matrix unit, or this one's idea of it.
inline Target unit_target(const std::vector<MatrixUnit::Format>& formats = {kHalves.format, kDigits.format}) {
  Target target = parse_target("x86-64-v4");
  target.matrix = {16, 16, 8, formats};
  return target;
}

// A product whose number of rows is a parameter.
inline Kernel symbolic_product() {
  return parse_kernel(R"(kernel "product"
  parameter p = rows in [1, 100000]
  input I f32[p, 70]
  constant K f32[70, 40]
  output O f32[p, 40]
  local T f32[p, 40]
  init[m:p, n:40]: T[m, n] = 0
  macc[m:p, n:40, k:70]: T[m, n] += I[m, k] * K[k, n]
  tail[i:p, j:40]: O[i, j] = max(T[i, j], 0)
)");
}

using Changes = std::vector<std::pair<std::string, std::string>>;

inline std::string replaced(std::string all, const Changes& changes) {
  for (const auto& [from, to] : changes) {
    const size_t at = all.find(from);
    if (at == std::string::npos) throw std::runtime_error("no '" + from + "' to replace");
    all.replace(at, from.size(), to);
  }
  return all;
}

}  // namespace tc::testing
