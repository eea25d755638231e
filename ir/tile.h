// Questions about a leaf's statements (ir/scheduled.h) that each back end has before it writes them.
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

// Inside a statement the tile's loops are called `%name`, the vector loop `%lane`, and the variable of a
// serial loop that is written `%name#3`: none of these is a name that the kernel can use.
inline constexpr const char* kLaneLoop = "%lane";
// Whether the name is a loop's whose code is still to come.
bool is_open_loop(const std::string& name);
// Whether no such loop is in the expression.
bool is_fixed(const Affine& affine);
// The statement with those names. A vector loop of one trip becomes a loop of copies. Iterators that no name
// of `outer` hides are replaced in the constraints.
TileStatement with_loop_names(TileStatement tile, const std::set<std::string>& outer);

// The last trip of a loop of the statement, at most; -1 where it has none.
int64_t last_trip(const TileLoop& loop, const Ranges& ranges);

// The smallest value of a constraint over the tile's own loops, as an expression of outer variables.
// Nothing where no copy or lane depends on it: serial loops take such constraints as bounds.
std::optional<Affine> worst_case(const Affine& constraint, const TileStatement& tile,
                                 const std::set<std::string>& outer);

// Whether the statement reads the buffer that it writes.
bool reads_itself(const Statement& statement);

// The outermost position in the statement's loops from which on no serial loop moves the write: what is
// written can be kept in registers from there to the end. Nothing for plain stores.
std::optional<size_t> accumulation_start(const Kernel& kernel, const TileStatement& tile);

// Whether no two of these writes, each a list of subscripts, can share an element: some dimension keeps them
// apart in all of the vector loop's lanes. Without lanes `lane` is empty and `lanes` 1.
bool are_disjoint(const std::vector<std::vector<Affine>>& writes, const std::string& lane, int lanes);

}  // namespace tc
