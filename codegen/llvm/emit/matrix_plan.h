// How a statement of matrix loops uses the target's matrix unit: its tiles, their registers, the order of
// products.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/scheduled.h"
#include "ir/target/target.h"

namespace tc {

// One product of a statement: accumulators[accumulator] += a[a] * b[b].
struct MatrixProduct {
  int accumulator = 0, a = 0, b = 0;
  bool operator==(const MatrixProduct&) const = default;
};

// Products in the order in which they run, and the registers of their operands: `a_register[i]` and
// `b_register[i]` count within the registers of their kind; `loads_a[i]` says that the tile is loaded into
// that register just before product i.
struct MatrixOrder {
  std::vector<MatrixProduct> products;
  std::vector<int> a_register, b_register;
  std::vector<bool> loads_a, loads_b;
  int a_registers = 0, b_registers = 0;
  int loads = 0;
};

// Orders the products so that few tiles are loaded, with this many registers for operands, at least two. The
// products of one of the `groups` have different accumulators, so that they need not wait for each other;
// groups follow each other in the order with the fewest loads, in which neighbouring groups share operands.
// Where it makes no difference, b gets two registers, so that statements with other blocks have registers of
// the same shapes.
MatrixOrder order_products(const std::vector<std::vector<MatrixProduct>>& groups, int registers);

// The order in which one operand has one register, a where `by_a`, else b: all products of one of its tiles
// follow each other, and the other operand's tiles have a register each.
MatrixOrder order_one_by_one(const std::vector<std::vector<MatrixProduct>>& groups, bool by_a);

// The products of one group after those of another, where each group reads operands of its own: a group holds
// all of its a's, and one b at a time.
MatrixOrder order_in_steps(const std::vector<std::vector<MatrixProduct>>& groups);

// Rows, and bytes per row, of a tile register.
struct TileShape {
  int64_t rows = 0, bytes = 0;
  auto operator<=>(const TileShape&) const = default;
};
using TileShapes = std::vector<TileShape>;

// A tile in memory: where its first element is (row, column, group and packed element 0), and the bytes
// between its rows.
struct MatrixTile {
  Access access;                           // in outer variables and the statement's serial loops
  Access source;                           // as the statement writes it, for what needs the iterators
  std::map<std::string, Affine> copy;      // values of the unrolled loops
  int64_t row_bytes = 0, group_bytes = 0;  // an operand's: group_bytes lie between two groups of a row
};

// The statement's loops are serial loops, then unrolled ones, then the four loops of the unit; each trip of
// the serial loops has the same tiles at other addresses. Tile registers are numbered: first those of
// accumulators, then a's, then b's. For units of vectors, whose registers LLVM allocates, only the order
// counts.
struct MatrixPlan {
  size_t batch = 0;  // position of the first loop that is not serial
  std::vector<MatrixTile> accumulators, a, b;
  MatrixOrder order;
  MatrixUnit::Format format{};
  int64_t groups = 1;  // along a tile's depth
  int rows = 1;        // of an accumulator
  bool by_a = false;   // with accumulators in vectors: the order of order_one_by_one(), with its `by_a`
  // Where sums are scalars: order_in_steps(), in which each product loads what no other one of its step has.
  bool in_steps = false;
  // The instruction takes b as unsigned, and the kernel's b is signed: 128 is added to each number of b, and
  // a further accumulator for each `a` sums up what this adds to its products, to be subtracted at the end.
  bool offset_sums = false;
  TileShapes shapes;  // of a unit of tiles: what its registers hold, by their numbers

  const NarrowProduct& instruction() const { return *format.instruction; }
  // Whether accumulators are in memory, since the instruction's sums have another type.
  bool adds_separately() const { return instruction().sum != format.accumulator; }
  int register_of_a(int a) const { return static_cast<int>(accumulators.size()) + a; }
  int register_of_b(int b) const { return register_of_a(order.a_registers) + b; }
};

// Whether the statement runs on the unit: its loops are matrix loops and it sums. Other statements with such
// loops (those that set accumulators to zero) become plain copies and lanes.
bool is_matrix_product(const Kernel& kernel, const TileStatement& tile);

// Whether any statement of the kernel does.
bool uses_matrix_unit(const ScheduledKernel& scheduled);

// Buffers of the kernel that only products on the unit read, directly or through others of this kind. The
// unit takes subnormal bfloat16 values as zero, so that the code which writes them may do so, too.
std::set<int> matrix_operands(const ScheduledKernel& scheduled);

// Whether the statement's unrolled loops alone decide the constraint (>= 0), so that it removes whole copies
// of a product.
bool is_of_copies(const TileStatement& tile, const Affine& constraint);

// Throws an Internal error where the target's unit cannot do the statement: its loops' order and extents,
// types, strides and the number of accumulators.
MatrixPlan plan_matrix(const Kernel& kernel, const TileStatement& tile, const Target& target);

// Whether `tile` sets exactly the accumulators of a matrix product to zero.
bool zeroes_accumulators(const Kernel& kernel, const TileStatement& tile, const TileStatement& product);

}  // namespace tc
