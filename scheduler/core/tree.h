// Schedule trees as values: loops over parts of iterators, sequences, tiles.
//
// The tree says in which order the instances of a kernel's statements run. A loop says, for each statement
// below it, which part of which of its iterators it counts. isl trees are made from the tree where isl is
// asked (legality, loop bounds, text).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/loop.h"
#include "ir/scheduled.h"

namespace tc {

// A part of an iterator: its value, divided (rounding down) or taken modulo, step by step.
struct LoopPart {
  struct Step {
    bool modulo = false;
    int64_t size = 1;
    bool operator==(const Step&) const = default;
  };
  std::string iterator;
  std::vector<Step> steps;
  bool operator==(const LoopPart&) const = default;

  // What one step of the loop adds to the iterator: the product of the divisions.
  int64_t multiplier() const;
  int64_t evaluate(int64_t iterator_value) const;
  // Number of values, where the iterator has a constant extent or a modulo bounds them.
  std::optional<int64_t> extent(const Affine& iterator_extent) const;
};

// The words of the marks, on which the generator, the check of marks and code generation act. Each is
// declared by the primitive that sets it.
namespace marks {
inline constexpr const char* kParallel = "parallel";
inline constexpr const char* kVector = "vector";
inline constexpr const char* kMatrix = "matrix";  // one of the four innermost loops that the matrix unit runs
inline constexpr const char* kUnroll = "unroll";  // without a count: all trips
inline constexpr const char* kIsolate = "isolate";
inline constexpr const char* kPrefetch = "prefetch";     // the parts of its buffers that the next trip reads
inline constexpr const char* kAlternate = "alternate";   // backwards in every other run of the kernel
inline constexpr const char* kWiden = "widen";           // its trips widen what tiles inside of it share
inline constexpr const char* kHold = "hold";             // what it adds up in memory is in registers
inline constexpr const char* kCommand = "command";       // one of the loops of an accelerator's instruction
inline constexpr const char* kSumBlocks = "sum_blocks";  // its number of trips is summed separately
}  // namespace marks

struct TreeNode {
  // Sequence: children in order. Loop: one child. Tile: its child becomes one leaf of the loop tree.
  // Leaf: the instance of `statement`.
  enum class Kind : uint8_t { Sequence, Loop, Tile, Leaf };
  Kind kind = Kind::Leaf;
  std::string name;                        // Loop: unique in the tree
  std::map<int, LoopPart> iterator_parts;  // Loop: by statement
  std::vector<LoopMark> marks;             // Loop
  int statement = -1;                      // Leaf
  std::vector<TreeNode> children;

  const LoopMark* find_mark(const std::string& word) const;  // null where it has none
  LoopMark* find_mark(const std::string& word);
  bool is(const std::string& word) const { return find_mark(word) != nullptr; }
  // Copies of the body in a trip; 0: the loop is unrolled as a whole.
  int64_t copies() const;
};

// The initial tree: a sequence of the statements, each under one loop per iterator.
TreeNode initial_tree(const Kernel& kernel);

// The loop of that name; null where absent.
const TreeNode* find_loop(const TreeNode& tree, const std::string& name);
TreeNode* find_loop(TreeNode& tree, const std::string& name);
// The node whose child list holds `node`; null for the root.
TreeNode* parent_of(TreeNode& tree, const TreeNode* node);

// Statements below the node, in order.
std::vector<int> statements_below(const TreeNode& node);
// Names of all loops, in tree order.
std::vector<std::string> loop_names(const TreeNode& tree);

// Calls visit(node, loops above it) for every node, parents first.
void visit_tree(const TreeNode& tree,
                const std::function<void(const TreeNode&, const std::vector<const TreeNode*>&)>& visit);

const Affine& iterator_extent(const Statement& statement, const std::string& iterator);

// Replaces sequences of one child by that child, and flattens nested sequences.
void tidy(TreeNode& tree);

// The position in time of one instance: sequence positions and loop values, outermost first. Of two
// instances, the one whose list is lexicographically smaller runs first.
std::vector<int64_t> time_of(const TreeNode& tree, const Kernel& kernel, int statement,
                             const std::vector<int64_t>& iterators);

}  // namespace tc
