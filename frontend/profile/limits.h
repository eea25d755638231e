// What this machine can do at most, measured: the roofs that kernels are compared with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/target/target.h"

namespace tc {

// Rates are those of all threads together.
struct MachineLimits {
  struct Peak {
    std::string instructions, types;  // as codegen/llvm/probe/roofline_probes.h names them
    int vector_bits = 0;
    double multiply_adds = 0;  // per second
  };
  // Reading and writing `bytes` bytes in total, which memory level `level` holds.
  struct Bandwidth {
    std::string level;  // "L1", "L2", "L3", "memory"
    int64_t bytes = 0;
    double read = 0, write = 0;  // bytes per second
  };
  int threads = 1;
  std::vector<Peak> peaks;
  std::vector<Bandwidth> bandwidths;  // small ones first
  // Median seconds of a call of a model that does nothing: `call` with one thread, `awake` with all threads
  // while their workers still poll, `asleep` with all threads after they went to sleep.
  double call = 0, awake = 0, asleep = 0;
};

// Measures with so many threads what those features of the target can do that this machine has, which takes
// about a second on an idle machine. A Target error where the target's code does not run here.
MachineLimits measure_limits(const Target& target, int threads);

}  // namespace tc
