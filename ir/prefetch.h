// The addresses of the cache lines that a leaf prefetches.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/affine.h"
#include "ir/scheduled.h"

namespace tc {

// The byte offset in the buffer of the cache line that a run of the leaf prefetches together with one of its
// loads, so that all its loads together prefetch its share of what the next trip will read. Nothing where
// what the tile's loops add to the address also depends on other variables. `address` is the byte offset that
// the load reads now, `strides` are the buffer's strides in bytes, and `element` is the size of an element in
// bytes. The loops of `tile` have the names of ir/tile.h.
std::optional<Affine> line_ahead(const Prefetch& wanted, const TileStatement& tile, const Access& access,
                                 const std::vector<int64_t>& strides, const Affine& address, int64_t element);

}  // namespace tc
