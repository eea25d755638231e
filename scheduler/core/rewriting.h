// What the rewrites share: strip-mining, editing every access, padded lanes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/loop.h"
#include "scheduler/core/state.h"

namespace tc {

// Whether extent / size, rounded up, is affine: the extent is a constant, or a multiple of the size whatever
// its symbols are.
bool has_parts(const Affine& extent, int64_t size);
// extent / size, rounded up; has_parts() has to hold.
Affine parts_of(const Affine& extent, int64_t size);

// Replaces iterator `position` of the statement by `outer` (ceil(extent/size) values) and `inner` (size
// values) wherever it occurs; where the size does not divide the extent, a constraint excludes the additional
// instances. has_parts() has to hold for the extent.
void strip_iterator(Statement& statement, size_t position, int64_t size, const std::string& outer,
                    const std::string& inner);

// A name that no iterator of the statement and no parameter has.
std::string fresh_iterator(const Kernel& kernel, const Statement& statement, const std::string& base);

// Replaces every access of the statement (write, loads, also inside subscripts) by what `edit`
// returns for it.
void edit_accesses(Statement& statement, const std::function<Access(const Access&)>& edit);

// Calls visit for every access of the statement; `is_write` is true for the write.
void visit_accesses(const Statement& statement,
                    const std::function<void(const Access&, bool is_write)>& visit);

// Whether the loop that counts this part of one of the statement's iterators moves it along the buffer.
bool moves_along(const Kernel& kernel, int buffer, int statement, const LoopPart& part);

// The ranges of the statement's iterators and of the kernel's parameters, by name.
std::map<std::string, Interval> box_of(const Kernel& kernel, const Statement& statement);

// Drops the conditions that exclude padded lanes where computing these lanes is harmless. Where it is not,
// but padded lanes of a blocked buffer have to be written, the value is guarded instead.
//
// What padded lanes hold: packed constants 0 (the fill), activations any finite value. So a lane of
// an output may be computed from padded lanes where that cannot make it non-finite, and a term of a
// sum may be added where a packed 0 multiplies it; everything else keeps its condition, or becomes
// `select(inside, value, 0)`.
void settle_padding(Kernel& kernel, const std::vector<BlockedDim>& blocked);

}  // namespace tc
