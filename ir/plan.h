// The plan of a compiled model: what runs in which order on which memory. It depends neither on LLVM nor on
// the graph IR.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/constant.h"
#include "ir/dim.h"
#include "ir/dtype.h"
#include "ir/scheduled.h"

namespace tc {

// Where bytes live. Offsets and sizes are in bytes and may depend on symbols, also on the symbols
// of enclosing plan loops.
struct Location {
  enum class Kind : uint8_t { Input, Output, Constant, Arena, Segment };
  Kind kind = Kind::Arena;
  int index = 0;  // number of the input, output, constant, arena block or segment
  Dim offset;     // from the start of the input, output, constant, arena or segment
};

struct PlanStep;
using PlanSteps = std::vector<PlanStep>;
struct PlanStep {
  // Call: run kernel `kernel` with one location per argument buffer (in the order of the kernel's Input,
  // Output and Constant buffers). Copy: `bytes` from locations[1] to locations[0]. Loop: runs `body` for
  // symbol = 0 .. trip-1 (without a trip: any number of times), as long as the bool at locations[0], if there
  // is one, is true before the iteration. If: runs `body` where the bool at locations[0] is true or, without
  // a location, where the sizes of each pair in `sizes` are equal; else runs `otherwise`. Bind: the symbol
  // has the value of the i64 at locations[0], from here to the end of this list of steps; a value that is
  // negative or above `bound`, if there is one, ends the run with an error. Grow: makes room for `bytes` in
  // segment `segment` and keeps its contents; where memory runs out, the run ends with an error that states
  // `left`. Check: the run ends with an error unless `left` equals `right` or, where `equal` is false, is at
  // most `right`. All threads wait at a barrier after each step.
  enum class Kind : uint8_t { Call, Copy, Loop, If, Bind, Grow, Check };
  Kind kind = Kind::Call;
  int kernel = -1;
  std::vector<Location> locations;
  std::vector<Dim> parameters;             // Call: values of the kernel's parameters, in order
  Dim bytes;                               // Copy, Grow
  std::string symbol;                      // Loop, Bind
  std::optional<Dim> trip;                 // Loop
  std::optional<Dim> bound;                // Bind
  std::vector<std::pair<Dim, Dim>> sizes;  // If without a location
  int segment = -1;                        // Grow
  Dim left, right;                         // Check; Grow uses `left`: the size that needs the memory
  bool equal = true;                       // Check
  PlanSteps body, otherwise;
  bool single_thread = false;  // Call: too small to divide; thread 0 runs it
  // Call: part of the arena that thread 0 uses as scratch memory; nothing: it uses its own.
  std::optional<Location> scratch;
  std::string label;  // origin, for profiles
};

struct PortInfo {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;  // dimensions may be symbols (inputs) or expressions (outputs)
  // An output whose size has no bound: where it is in the memory of the run, from which the caller copies it.
  std::optional<Location> data;
};

// A value that artefacts without a runtime keep from one run to the next. The plan is right where this input
// and this output, which have one type and shape, are in the same memory.
struct KeptState {
  std::string name;
  int input = 0, output = 0;
  std::vector<uint8_t> initial;  // its bytes before the first run; empty: zeros
};

// Lifetime of one block of the arena or of a segment, as numbers of steps in pre-order, for the memory report
// and its test.
struct ArenaBlock {
  std::string name;
  Dim offset, bytes;
  int first = 0, last = 0;
  int segment = -1;  // -1: the arena
};

// A kernel of a plan with another schedule, for machines with longer vectors. It takes the same arguments,
// packed constants included.
struct VectorVersion {
  std::string target;  // has longer vectors than the plan's target
  ScheduledKernel kernel;
};

struct Plan {
  std::string model;
  std::string target;                                          // canonical target string
  std::map<std::string, std::pair<int64_t, int64_t>> symbols;  // range of each
  // Upper bounds, in the symbols above, of the sizes in the outputs' shapes that a step of kind Bind sets;
  // those in `unbounded` have none.
  std::map<std::string, Dim> data_symbols;
  std::set<std::string> unbounded;
  std::vector<PortInfo> inputs, outputs;
  std::vector<PlanConstant> constants;                 // each stored once
  std::vector<ScheduledKernel> kernels;                // unique ones; calls refer to them
  std::map<int, std::vector<VectorVersion>> versions;  // by kernel index, shortest vectors first
  PlanSteps steps;
  Dim arena_bytes;            // function of the symbols
  int segments = 0;           // how many; memory in addition to the arena, sized by Grow steps
  int64_t memory_limit = 0;   // bytes, of all memory including the segments; 0: what the machine has
  int64_t scratch_bytes = 0;  // per thread, for Stack buffers
  // The same for thread 0, where that is less because the rest is in the arena.
  std::optional<int64_t> first_scratch_bytes;
  Dim sized_scratch;  // the same for kernels whose need depends on their sizes: a function of the symbols
  std::vector<ArenaBlock> blocks;
  std::vector<KeptState> states;
  bool least_code = false;  // kernels are plain loops (Target::least_code)
  std::string provenance;   // compiler version and options, embedded in the artefact
};

std::string str(const Plan& plan);

}  // namespace tc
