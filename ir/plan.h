// The plan of a compiled model: what runs in which order on which memory. No LLVM, no graph.
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
  int index = 0;  // Input, Output: which; Constant, Arena: of Plan's constants, blocks; Segment: which
  Dim offset;     // from the begin of the input, output, constant, arena or segment
};

struct PlanStep;
using PlanSteps = std::vector<PlanStep>;
struct PlanStep {
  // Call: run kernel `kernel` with one location per argument buffer (in the order of the kernel's Input,
  // Output and Constant buffers). Copy: `bytes` from locations[1] to locations[0]. Loop: body for symbol = 0
  // .. trip-1 (any number where there is no trip), as long as the bool at locations[0], if there is one, is
  // true before the iteration. If: body where the bool at locations[0] is true or, without a location, where
  // the sizes of each pair in `sizes` are equal; else otherwise. Bind: the symbol takes the i64 at
  // locations[0], from here to the end of the list of steps; the run ends with an error where that is not 0
  // to `bound`, if there is one. Grow: segment `segment` has room for `bytes` from here on, and keeps what it
  // holds; the run ends with an error, which tells `left`, where memory is out. Check: the run ends with an
  // error where `left` is not `right`, or, unless `equal`, is more. All threads reach a barrier after each
  // step.
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
  Dim left, right;                         // Check; of Grow the size that asks for the memory
  bool equal = true;                       // Check
  PlanSteps body, otherwise;
  bool single_thread = false;  // Call: too small to divide; thread 0 runs it
  // Call: where the arena has room for thread 0's scratch memory; none: it is the thread's own.
  std::optional<Location> scratch;
  std::string label;  // origin, for profiles
};

struct PortInfo {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;  // dimensions may be symbols (inputs) or expressions (outputs)
  // Where an output lies that has no bound: in memory of the run, which the caller copies it from.
  std::optional<Location> data;
};

// Life of one block of the arena or of a segment in steps (pre-order numbers), for the memory report and its
// test.
struct ArenaBlock {
  std::string name;
  Dim offset, bytes;
  int first = 0, last = 0;
  int segment = -1;  // -1: the arena
};

// A kernel of a plan by another schedule, for machines that can run it. It takes the same arguments, packed
// constants included.
struct VectorVersion {
  std::string target;  // with longer vectors than the plan's
  ScheduledKernel kernel;
};

struct Plan {
  std::string model;
  std::string target;                                          // canonical target string
  std::map<std::string, std::pair<int64_t, int64_t>> symbols;  // range of each
  // What the sizes in the outputs' shapes that a step binds are at most, over the symbols above; of those in
  // `unbounded` nobody knows.
  std::map<std::string, Dim> data_symbols;
  std::set<std::string> unbounded;
  std::vector<PortInfo> inputs, outputs;
  std::vector<PlanConstant> constants;                 // each stored once
  std::vector<ScheduledKernel> kernels;                // unique ones; calls refer to them
  std::map<int, std::vector<VectorVersion>> versions;  // of some of them, shortest vectors first
  PlanSteps steps;
  Dim arena_bytes;            // function of the symbols
  int segments = 0;           // memory beside the arena that steps of kind Grow size
  int64_t memory_limit = 0;   // of all memory with them, bytes; 0: what the machine has
  int64_t scratch_bytes = 0;  // per thread, for Stack buffers
  // The same of thread 0, where it has less because the arena holds the rest.
  std::optional<int64_t> first_scratch_bytes;
  Dim sized_scratch;  // the same of kernels that need what their sizes tell: a function of the symbols
  std::vector<ArenaBlock> blocks;
  std::string provenance;  // compiler version and options, embedded in the artefact
};

std::string str(const Plan& plan);

}  // namespace tc
