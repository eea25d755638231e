// Where the lines lie that a leaf brings near before they are needed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/affine.h"
#include "ir/scheduled.h"

namespace tc {

// Byte of the buffer, of elements of so many bytes, at which the line begins that the next trip's load of
// this kind reads, or a run's share of it; nothing where the address depends on loops within the leaf.
// `address` is the byte that the load reads now, `strides` are those of the buffer in bytes; the statement's
// loops have their names (ir/tile.h).
std::optional<Affine> line_ahead(const Prefetch& wanted, const TileStatement& tile, const Access& access,
                                 const std::vector<int64_t>& strides, const Affine& address, int64_t element);

}  // namespace tc
