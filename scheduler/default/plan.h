// What the default decides about a reduction, as plain data: facts and knobs go in, lines come out of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/default/choices.h"
#include "scheduler/default/knobs.h"

namespace tc {

// An iterator or a loop that is divided: `outer` counts parts of `size` trips, which `inner` counts.
struct Division {
  std::string name;
  int64_t size = 1;
  std::string outer, inner;

  bool operator==(const Division&) const = default;
};

// How the iterators of the sum are divided before its constants are packed. Lanes run along an output.
struct IteratorPlan {
  std::string lane;     // counts the lanes of a vector
  std::string vectors;  // counts the vectors of a tile; empty where there is one
  // Counts the tiles along the vectors, each with a panel of its own; empty where there is one tile.
  std::string panels;
  std::string group;  // counts the groups, where a tile takes all vectors of one
  // Counts the K-blocks of a panel that is too large for the second cache; mostly empty.
  std::string panel_part;
  std::string bytes;  // counts the products of bytes that are added together; mostly empty
  int64_t vector_count = 1, panel_count = 1;
  size_t dimension = 0;          // the dimension of the accumulators' buffer that counts the vectors
  std::vector<Division> strips;  // of iterators

  bool operator==(const IteratorPlan&) const = default;
};

// Where the statements after the sum run.
enum class Epilogue {
  InTile,     // on the accumulators in registers
  AfterTile,  // in loops of its own: straight-line code of a whole tile would be too much
  AfterSums,  // after all sums, which wait in memory between the parts of a sum
  OfScalars,  // of partial sums, each of which is put together in one number
  OfVectors,  // of partial sums, those of neighbouring columns being put together in one vector
};

// The loops of the sum, and of the statements that run with it.
struct LoopPlan {
  struct InputCopy {  // a copy of an input with lanes side by side
    std::string buffer;
    std::vector<std::string> iterators;  // of the copy
    std::string at;                      // the loop that makes the copy

    bool operator==(const InputCopy&) const = default;
  };
  struct Unrolling {
    std::string loop;
    int64_t copies = 0;  // 0: all

    bool operator==(const Unrolling&) const = default;
  };
  struct Prefetch {  // of what the next trip reads
    std::string buffer, loop;

    bool operator==(const Prefetch&) const = default;
  };

  std::vector<InputCopy> packings;   // in order of preference: only the first that is accepted is made
  std::vector<Division> splits;      // of loops
  std::vector<std::string> order;    // outermost first
  std::optional<Division> held;      // into one trip: separates the tile from the epilogue after it
  std::string tile;                  // the loop whose body is the register tile; empty: the kernel
  std::string init_at, epilogue_at;  // the loops that hold the initialisation and the epilogue
  Epilogue epilogue = Epilogue::InTile;
  std::string columns;  // Epilogue::OfVectors: the sum's iterator whose results become lanes
  std::string lanes;    // becomes vectors
  std::vector<Unrolling> unrolled;
  std::optional<Unrolling> blocks;    // of a long sum: this many trips of the loop are summed separately
  std::vector<std::string> isolated;  // the trips without conditions get a version of their own
  std::string widened;                // its trips widen what all panels read; mostly empty
  std::vector<Prefetch> prefetched;   // where the target accepts it

  bool operator==(const LoopPlan&) const = default;
};

// A line for each field that is set.
std::string str(const IteratorPlan& plan);
std::string str(const LoopPlan& plan);

// Where the lanes are in the accumulators' buffer: the dimension that counts blocks of lanes, and the
// iterator of the sum that counts the lanes of a block.
struct LaneLayout {
  size_t dimension = 0;
  std::string lane;
};

// For lanes along the output `choice.vector`. Throws NotApplicable where the knobs ask for what the kernel
// does not have, as do the functions below.
IteratorPlan plan_iterators(const ReductionFacts& facts, const Choice& choice, const LaneLayout& layout,
                            const ReductionKnobs& knobs);
// The lines that pack the constants in panels, in the order in which tiles read them.
std::vector<std::string> constant_packings(const ReductionFacts& facts, const IteratorPlan& iterators,
                                           const Choice& choice, const ReductionKnobs& knobs);
// A copy of what the load reads, made in the loop `at`: with those of the iterators that the load depends on,
// in their order. Names may be empty.
LoopPlan::InputCopy copy_of_input(const ReductionFacts& facts, const Access& load,
                                  const std::vector<std::string>& iterators, const std::string& at);
// The loops of tiles of vectors by columns; to be called after the lines of both functions above are applied.
LoopPlan plan_tile_loops(const ReductionFacts& facts, const IteratorPlan& iterators, const Choice& choice,
                         const ReductionKnobs& knobs);
// The loops for lanes along an output of open size (`Choice::open`).
LoopPlan plan_open_lanes(const ReductionFacts& facts, const Choice& choice, const ReductionKnobs& knobs);
// The loops for lanes along what is summed up: partial sums, added up at the end.
LoopPlan plan_partial_sums(const ReductionFacts& facts, const Choice& choice, const ReductionKnobs& knobs);

// sum_order.cc.
//
// The loops that sum, from the outermost to the innermost, without the one over the bytes of a word.
std::vector<std::string> order_of_sums(const ReductionFacts& facts, const IteratorPlan& iterators,
                                       const std::string& columns, const ReductionKnobs& knobs);

// Whether the tile adds up words of bytes on general-purpose registers. The steps of such a sum that follow
// each other without a loop are one piece of code that keeps all sums in registers; between pieces some of
// them are in memory.
bool adds_words(const ReductionFacts& facts, const IteratorPlan& iterators);

// How the iterators of such a sum are unrolled, given in the order of their loops: from the innermost one
// outwards, as many copies as a piece of code may have.
std::vector<LoopPlan::Unrolling> copies_of_words(const ReductionFacts& facts, const std::string& columns,
                                                 const std::vector<std::string>& sums);

}  // namespace tc
