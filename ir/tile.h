// Analyses of a leaf's statements (ir/scheduled.h) that every back end needs to emit their code.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/affine.h"
#include "ir/ranges.h"
#include "ir/scheduled.h"

namespace tc {

// Within code generation the loops of a tile statement are called `%name`, the vector loop `%lane`, and the
// variable of a serial loop whose code is being emitted `%name#3`. No kernel can use these names.
inline constexpr const char* kLaneLoop = "%lane";
// Whether the name is that of a loop whose code has not been emitted yet.
bool is_open_loop(const std::string& name);
// Whether the expression contains no such loop.
bool is_fixed(const Affine& affine);
// The statement with its loops renamed so. A vector loop of one trip becomes an Unroll loop. In the
// constraints iterators are replaced by their values, except those whose name is also one of `outer`.
TileStatement with_loop_names(TileStatement tile, const std::set<std::string>& outer);

// An upper bound of the number of the loop's last trip; -1 where it has no trips.
int64_t last_trip(const TileLoop& loop, const Ranges& ranges);

// The smallest value of a constraint over the tile's own loops, as an expression of outer variables. Nothing
// where the constraint is the same for all copies and lanes: serial loops use such constraints as bounds. Nor
// where it ends a loop whose length a run decides, which has trips for which all copies exist, and others.
std::optional<Affine> worst_case(const Affine& constraint, const TileStatement& tile,
                                 const std::set<std::string>& outer);

// Whether the statement reads the buffer that it writes.
bool reads_itself(const Statement& statement);

// The outermost position in the statement's loops such that the written element does not change with any
// serial loop from there on: the accumulators can be kept in registers inside that position. Nothing for
// plain stores.
std::optional<size_t> accumulation_start(const Kernel& kernel, const TileStatement& tile);

// Whether no two of these writes, each a list of subscripts, can touch the same element: any two differ in
// some dimension, in all of the vector loop's lanes. Without lanes `lane` is empty and `lanes` 1.
bool are_disjoint(const std::vector<std::vector<Affine>>& writes, const std::string& lane, int lanes);

}  // namespace tc
