// What a plan gives up for less memory.
#pragma once

#include <cstdint>
#include <optional>

#include "frontend/pipeline/plan_builder.h"

namespace tc {

// What is given up for less memory; each value includes those above it.
enum class MemorySaving : uint8_t {
  None,
  Order,      // steps in the order in which the fewest bytes are in use at once, not in the model's
  Constants,  // no algorithm that stores more than the weights
  Layouts,    // maps have the model's channels alone: the last block is not filled up
  Code,       // kernels are plain loops
};

struct SavingLevel {
  MemorySaving saving = MemorySaving::None;
  // Where set: chains of kernels run in bands of rows (bands.h), so that values need so many bytes at most
  // or, if that is not possible, as few as possible.
  std::optional<int64_t> arena;
  int64_t largest = 0;  // bytes that a tensor may have; one with more is refused by its name
};

// The plan that gives up that much, whether it fits or not.
BuiltPlan build_plan_at(Graph graph, const BuildOptions& options, const SavingLevel& level);

}  // namespace tc
