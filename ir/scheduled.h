// The contract between scheduler and codegen: a kernel with its loops. No isl, no LLVM.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/loop.h"

namespace tc {

// An integer expression of loop variables and parameters, as isl's AST writes bounds.
struct LoopExpr;
using LoopExprPtr = std::shared_ptr<const LoopExpr>;
struct LoopExpr {
  // clang-format off
  enum class Kind : uint8_t {
    Const, Variable, Add, Sub, Mul, FloorDiv, Mod, Min, Max,  // FloorDiv and Mod by a positive Const
    Eq, Le, Lt, Ge, Gt, And, Or,                              // conditions
    Select                                                    // condition, then, else
  };
  // clang-format on
  Kind kind;
  int64_t value = 0;  // Const
  std::string name;   // Variable
  std::vector<LoopExprPtr> operands;
};
std::string str(const LoopExpr& expr);
LoopExprPtr loop_constant(int64_t value);
LoopExprPtr loop_variable(const std::string& name);
LoopExprPtr loop_expr(LoopExpr::Kind kind, std::vector<LoopExprPtr> operands);
int64_t evaluate(const LoopExpr& expr, const std::map<std::string, int64_t>& values);

// What a schedule says of how a loop is run: a word that code generation may act on, and what goes with it.
struct LoopMark {
  std::string word;                  // "parallel"
  int64_t count = 0;                 // "unroll 4": 4; 0 where there is none
  std::vector<std::string> buffers;  // "prefetch W"
};
// "unroll 4".
std::string str(const LoopMark& mark);

// One loop inside a leaf, around one of its statements.
struct TileLoop {
  // Serial: a real loop (a reduction; accumulators live in registers across it). Unroll: copies of the code,
  // one per value. Vector: the lanes of one vector; at most one per statement and always the last of `loops`.
  // Matrix: rows, columns, groups and packed elements of one instruction of the target's matrix unit, the
  // last four of `loops` in this order. The statement is a sum over groups and packed elements (together the
  // depth) of one or more products a * b of operands of the unit's type, cast to the accumulator's: a is read
  // at [.. row .., group * pack + packed element], its last dimension, b at [.., group, column, packed
  // element], its last three. The accumulators, rows of columns in memory, are in tile registers within the
  // leaf: zero where a statement before sets them to zero, else loaded at its start, and stored at its end.
  enum class Kind : uint8_t { Serial, Unroll, Vector, Matrix };
  std::string name;
  Kind kind = Kind::Serial;
  int64_t extent = 1;  // 0 <= name < extent
  // Where the extent is not a number (symbolic reductions) it is -1, and this over the divisor, rounded up,
  // is its value: affine in the parameters and outer variables. Serial only.
  Affine symbolic_extent;
  int64_t symbolic_divisor = 1;
  int unroll = 1;  // Serial: copies per trip; the rest runs in a remainder loop
  // Serial, of a sum: after each so many trips what they add up to, from zero, is added to the sum before; 0:
  // it goes on.
  int64_t sum_block = 0;
};

// One statement of a leaf: its instances, in the order of the loops, outermost first.
struct TileStatement {
  int statement = -1;  // index into kernel.statements
  std::vector<TileLoop> loops;
  // Each iterator of the statement as an affine expression of parameters, outer loop variables and
  // the names of `loops`.
  std::map<std::string, Affine> iterators;
  // What the loops' ranges do not imply: instances where one of these is negative do not exist.
  std::vector<Affine> constraints;
};

// What a leaf brings near before it is needed: of a buffer that one trip of an outer loop reads a part of, in
// one or several runs of the leaf, the part that the next trip will read. Changes no value.
struct Prefetch {
  int statement = -1;  // index into kernel.statements: the reader, a statement of the leaf
  int buffer = -1;     // scope Constant or Input
  int64_t ahead = 0;   // elements from what this trip reads to what the next one reads
  int64_t shares = 1;  // runs of the leaf in one trip, each of which brings a share
  Affine share;        // which one this run is, in outer variables; 0 <= share < shares
};

// A node of the loop tree.
struct LoopNode;
using LoopNodePtr = std::shared_ptr<LoopNode>;
struct LoopNode {
  // Block: children in order. For: children[0] for variable = lower .. upper, both included.
  // If: children[0] where the condition holds. Leaf: one register tile.
  enum class Kind : uint8_t { Block, For, If, Leaf };
  Kind kind;
  std::vector<LoopNodePtr> children;
  std::string variable;      // For
  LoopExprPtr lower, upper;  // For
  LoopExprPtr condition;     // If
  // For. `parallel`: iterations are independent and are divided statically among the threads; only the
  // outermost loops of the tree, and loops directly nested in such a loop, carry it. `unroll N`: copies of
  // the body to emit per trip.
  std::vector<LoopMark> marks;
  // Leaf: statements that share registers, in order. Buffers of scope Register live only here: an
  // element is identified by its index, whose part in outer variables is the same for all accesses
  // of the leaf.
  std::vector<TileStatement> statements;
  std::vector<Prefetch> prefetches;
  std::string name;  // Leaf: for people

  const LoopMark* mark(const std::string& word) const;  // null where it has none
  bool is_parallel() const { return mark("parallel") != nullptr; }
  int64_t copies() const;
};

// Bytes of scratch memory, of one thread, that intermediate results should fit, and that they may take at
// most.
constexpr int64_t kManyScratchBytes = 64 << 20, kMostScratchBytes = int64_t{1} << 30;

struct ScheduledKernel {
  Kernel kernel;  // after rewrites; scopes decided
  LoopNodePtr root;
  // The scratch memory that a call has is what its sizes need (Plan::sized_scratch), not what the largest
  // sizes would.
  bool scratch_by_sizes = false;
};

// Whether a loop of the kernel goes backwards in every other run (mark "alternate"): the number of the run
// stands behind the values of the kernel's parameters then.
bool alternates(const ScheduledKernel& scheduled);

// About how many operations on registers code has to be written for: what copies of loops' bodies and of
// register tiles multiply.
double code_size(const ScheduledKernel& scheduled);

// Loops and leaves as text, for people and golden tests.
std::string str(const ScheduledKernel& scheduled);

// Runs the loops exactly as written; the oracle for code generation (same contract as
// interpret(Kernel)).
void interpret(const ScheduledKernel& scheduled, const std::map<std::string, int64_t>& parameters,
               std::map<std::string, Tensor>& buffers, bool round_to_storage = false);

}  // namespace tc
