// What each step of a compiled model has to do: for profiles and roofs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "frontend/pipeline/compile.h"
#include "ir/traffic.h"

namespace tc {

// A piece of memory that a step reads or writes whole.
struct StepUse {
  Location::Kind where = Location::Kind::Arena;
  int index = 0;  // number of the input, output, constant, arena block or segment
  int64_t offset = 0, bytes = 0;
  bool writes = false;
  std::string type;  // "f32[1, 3, 224, 224]", as the step sees it; empty where it sees bytes alone
};

// One step of the plan, done once.
struct StepWork {
  std::string kind;  // "kernel", "copy", "loop", "branch", …
  std::string label;
  int report = -1;           // kernel: index into CompiledModel::reports
  std::string what;          // kernel: its class, as kernel_class() names it; else the kind
  DType dtype = DType::F32;  // of the arithmetic
  double flops = 0, multiply_adds = 0;
  Traffic traffic;
  double predicted_seconds = 0;  // on one thread
  bool single_thread = false;    // however many threads run the model
  bool runs = true;              // false: the step is of a version by size that these symbols do not take
  int parent = -1;               // number of the loop or branch that has the step; -1: the plan itself
  std::vector<StepUse> uses;
};

// All steps by number (ir/plan_steps.h) with the model's symbols bound; the counter of a loop is taken to be
// at its middle. An Internal error where `symbols` lacks one of the model's.
std::vector<StepWork> work_of(const CompiledModel& model, const std::map<std::string, int64_t>& symbols);

// The plan's arena blocks with the same symbols bound.
std::vector<ArenaBlock> blocks_of(const CompiledModel& model, const std::map<std::string, int64_t>& symbols);

// What kind of computation the kernel is, in a few words and by structure alone: "conv 3x3", "conv 7x7/2",
// "depthwise 3x3", "grouped conv 3x3", "product", "matrix x vector", "pool 2x2/2", "rows" (reductions such as
// softmax), "elementwise", "move" (no arithmetic).
std::string kernel_class(const Kernel& kernel);

}  // namespace tc
