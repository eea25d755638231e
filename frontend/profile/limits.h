// What this machine can do at most, measured: the roofs that kernels are compared with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/target/target.h"

namespace tc {

// Of all threads together.
struct MachineLimits {
  struct Peak {
    std::string instructions, types;  // as codegen/probe/probe.h names them
    int vector_bits = 0;
    double multiply_adds = 0;  // per second
  };
  // Streams over `bytes` in all, which level `level` of the memory holds.
  struct Bandwidth {
    std::string level;  // "L1", "L2", "L3", "memory"
    int64_t bytes = 0;
    double read = 0, write = 0;  // bytes per second
  };
  int threads = 1;
  std::vector<Peak> peaks;
  std::vector<Bandwidth> bandwidths;  // small ones first
  // Seconds that a call of a model that does nothing takes: with one thread; with all threads whose
  // workers still poll; with all after they went to sleep. Medians.
  double call = 0, awake = 0, asleep = 0;
};

// Measures with that many threads, for about a second on an idle machine, the target's features that
// this machine has. A Target error where the target's code does not run here.
MachineLimits measure_limits(const Target& target, int threads);

}  // namespace tc
