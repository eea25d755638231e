// The contract between scheduler and codegen: a kernel with its loops. It depends on neither isl nor LLVM.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/loop.h"

namespace tc {

struct Accelerator;  // ir/accelerator.h

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

// How a schedule wants a loop to be run: a word that code generation may act on, and its arguments.
struct LoopMark {
  std::string word;                  // "parallel"
  int64_t count = 0;                 // "unroll 4": 4; 0 where there is none
  std::vector<std::string> buffers;  // "prefetch W"
  std::string instruction = {};      // "command MAC": of the target's accelerator
};
// "unroll 4".
std::string str(const LoopMark& mark);

// One loop inside a leaf, around one of its statements.
struct TileLoop {
  // Serial: a real loop (a reduction; accumulators live in registers across it). Unroll: copies of the code,
  // one per value. Vector: the lanes of one vector; a statement has at most one such loop, always the last of
  // `loops`. Matrix: the last four of `loops` are the rows, columns, groups and packed elements, in this
  // order, of one instruction of the target's matrix unit. The statement is a sum over groups and packed
  // elements (together the depth) of one or more products a * b of operands of the unit's type, cast to the
  // accumulator's: a is read at [.. row .., group * pack + packed element], and b at [.., group, column,
  // packed element]. The accumulators, which memory holds row by row, are in tile registers within the leaf:
  // they start as zero where an earlier statement sets them to zero, else they are loaded at the leaf's
  // start; they are stored at its end.
  enum class Kind : uint8_t { Serial, Unroll, Vector, Matrix };
  std::string name;
  Kind kind = Kind::Serial;
  int64_t extent = 1;  // 0 <= name < extent
  // Serial loops only: where the extent is not a number (symbolic reductions), `extent` is -1 and its value
  // is symbolic_extent / symbolic_divisor, rounded up. symbolic_extent is affine in the parameters and outer
  // variables.
  Affine symbolic_extent;
  int64_t symbolic_divisor = 1;
  int unroll = 1;  // Serial: copies per trip; a remainder loop runs the rest
  // Serial, of a sum: the trips are summed in blocks of this many, each block starting from zero, and the
  // blocks' sums are added up; 0: one running sum.
  int64_t sum_block = 0;
};

// One statement of a leaf: its instances, in the order of the loops, outermost first.
struct TileStatement {
  int statement = -1;  // index into kernel.statements
  std::vector<TileLoop> loops;
  // Each iterator of the statement as an affine expression of parameters, outer loop variables and
  // the names of `loops`.
  std::map<std::string, Affine> iterators;
  // The constraints that the loops' ranges do not imply: there is no instance where one of these is negative.
  std::vector<Affine> constraints;
};

// A software prefetch: one trip of an outer loop reads a part of a buffer, in one or several runs of the
// leaf, and those runs prefetch the part that the next trip will read. Changes no value.
struct Prefetch {
  int statement = -1;  // index into kernel.statements: the reader, a statement of the leaf
  int buffer = -1;     // scope Constant or Input
  int64_t ahead = 0;   // distance in elements from this trip's part to the next trip's
  int64_t shares = 1;  // runs of the leaf in one trip, each of which prefetches a share
  Affine share;        // number of this run's share, in outer variables; 0 <= share < shares
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
  // outermost loops of the tree, and loops directly nested in such a loop, have this mark. `unroll N`: how
  // many copies of the body to emit per trip.
  std::vector<LoopMark> marks;
  // Leaf: statements that share registers, in order. Buffers of scope Register live only here: an element is
  // identified by its index, whose terms in outer variables are the same in all accesses of the leaf.
  std::vector<TileStatement> statements;
  std::vector<Prefetch> prefetches;
  std::string name;  // Leaf: for people
  // Leaf of one statement: the instruction of the target's accelerator that executes it, whose iterators the
  // leaf's loops are, in order. Empty: the host executes the leaf.
  std::string command = {};

  const LoopMark* mark(const std::string& word) const;  // null where it has none
  bool is_parallel() const { return mark("parallel") != nullptr; }
  int64_t copies() const;
};

// Scratch memory of one thread, in bytes: the size that intermediate results should fit in, and the largest
// that they may take.
constexpr int64_t kManyScratchBytes = 64 << 20, kMaxScratchBytes = int64_t{1} << 30;

struct ScheduledKernel {
  Kernel kernel;  // after rewrites; scopes decided
  LoopNodePtr root;
  // A call has as much scratch memory as its actual sizes need (Plan::sized_scratch), not as much as the
  // largest sizes would need.
  bool scratch_by_sizes = false;
  // Whose instructions are the leaves' commands; null where there are none.
  std::shared_ptr<const Accelerator> accelerator = nullptr;
};

// Whether a loop of the kernel runs backwards in every other run (mark "alternate"). Then the number of the
// run is passed after the values of the kernel's parameters.
bool alternates(const ScheduledKernel& scheduled);

// An estimate of how many operations on registers the kernel's code will contain, copies by unrolling and
// register tiles included.
double code_size(const ScheduledKernel& scheduled);

// Loops and leaves as text, for people and golden tests.
std::string str(const ScheduledKernel& scheduled);

// Runs the loops exactly as written; the oracle for code generation (same contract as
// interpret(Kernel)).
void interpret(const ScheduledKernel& scheduled, const std::map<std::string, int64_t>& parameters,
               std::map<std::string, Tensor>& buffers, bool round_to_storage = false);

}  // namespace tc
