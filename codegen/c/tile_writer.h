// Writes one leaf of the loop tree, a register tile: copies of the code, vectors, and the loops between them.
//
// Unrolled loops become copies, the vector loop the lanes of one vector, serial loops become loops of C.
// Accumulators of reductions are variables.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/c/tile_state.h"

namespace tc::c {

class TileWriter {
 public:
  TileWriter(KernelContext& context, const LoopNode& leaf, std::vector<Affine> assumed);

  std::string text();

 private:
  using Constraints = std::vector<Affine>;

  // One accumulator of a statement.
  struct Accumulator {
    std::string variable;
    ElementKey element;                         // Register buffers
    bool fresh = false;                         // a register without an earlier value
    std::map<std::string, Affine> copy_values;  // values of one copy that writes it
    std::set<std::string> exists_where;  // constraints of lanes outside of which its value does not matter
    Constraints existence;               // those that all copies that write it have
    std::string total;                   // the sum of the blocks before, where there are blocks
  };
  // The statements over which accumulators stay in variables.
  struct Region {
    bool active = false;
    bool lane_partial = false;  // lanes are parts of one result
    bool in_blocks = false;     // variables have the sum of a block
    std::map<std::string, Accumulator> accumulators;
  };

  // tile_writer.cc: statements and their loop nests.
  void statement(const TileStatement& original);
  void nest(size_t position, Constraints pending);
  bool simplify(Constraints& pending) const;  // drops what holds; false where one never holds
  void branch_on(const Constraints& constraints, const std::function<void()>& body);
  void instance(const Constraints& pending);
  void store_instance(const Constraints& pending);
  void accumulate_instance(const Constraints& pending);
  std::string shaped_like(const Accumulator& accumulator, DType dtype, const Value& value);
  std::string selected(const Accumulator& accumulator, const Constraints& needed, const std::string& next);
  DType written_type() const { return state_.context.buffer(state_.statement->write.buffer).dtype; }

  // byte_products.cc: writes a loop over four bytes as one step, if that is what the loop does.
  bool sum_bytes(size_t position, const Constraints& pending);

  // tile_loops.cc: serial loops.
  struct Bounds {
    Constraints bounds, rest;  // constraints that are the loop's bounds, and the others
    LoopExprPtr lower, upper;
    Interval low, high;  // of the values that `lower` and `upper` can have
  };
  Bounds bounds_of(const TileLoop& loop, const Constraints& pending) const;
  void serial_loop(size_t position, const Constraints& pending);
  void copy(size_t position, const Bounds& bounds, const Affine& value);
  void trips(size_t position, const Bounds& bounds, const std::string& first, const std::string& last,
             Interval range);
  void known_trips(size_t position, const Bounds& bounds, Interval range);
  int64_t last_whole_trip(size_t position, const Bounds& bounds, Interval range) const;
  bool divide_trips(size_t position, const Bounds& bounds);
  void blocks(size_t position, const Bounds& bounds, Interval range);
  void end_block();

  // accumulators.cc
  void begin_region(size_t position, const Constraints& pending);
  void begin_accumulator(Accumulator& accumulator);
  void end_region();
  void end_accumulator(const Region& done, const Accumulator& accumulator);
  void collect_accumulators(size_t position, Constraints pending);
  bool accumulators_are_disjoint() const;
  std::string accumulator_key() const;
  int lanes_of(const Region& region, const Accumulator& accumulator) const;  // of its variable

  TileState state_;
  const LoopNode& leaf_;
  Registers registers_;
  Expressions expressions_;
  Region region_;
  size_t region_position_ = 0;
};

// The leaf's code: a block of C. `assumed` holds affine expressions of outer variables and parameters known
// to be >= 0 here.
std::string tile_text(KernelContext& context, const LoopNode& leaf, std::vector<Affine> assumed);

}  // namespace tc::c
