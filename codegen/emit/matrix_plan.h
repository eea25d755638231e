// What a statement of matrix loops asks of the target's matrix unit: tiles, their registers, the order.
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

// Products in an order, and where their operands are then: `a_register[i]` and `b_register[i]` count
// within the registers of their kind; `loads_a[i]` says that the register takes the tile just before.
struct MatrixOrder {
  std::vector<MatrixProduct> products;
  std::vector<int> a_register, b_register;
  std::vector<bool> loads_a, loads_b;
  int a_registers = 0, b_registers = 0;
  int loads = 0;
};

// Orders the products so that few tiles are loaded with this many registers for operands. `groups` are
// products of which each has another accumulator, so that those of one group need not wait for each
// other; groups follow each other in the order with the fewest loads, of which neighbours share
// operands. Where it makes no difference b has two registers, so that statements with other blocks have
// registers of the same shapes. At least two registers.
MatrixOrder order_products(const std::vector<std::vector<MatrixProduct>>& groups, int registers);

// The order in which one operand has one register, a where `by_a`, else b: all products of one of its tiles
// follow each other, and the other operand's tiles have a register each.
MatrixOrder order_one_by_one(const std::vector<std::vector<MatrixProduct>>& groups, bool by_a);

// Rows and bytes per row of each register of a unit of tiles.
struct TileShape {
  int64_t rows = 0, bytes = 0;
  auto operator<=>(const TileShape&) const = default;
};
using TileShapes = std::vector<TileShape>;

// A tile in memory: where row, column, group and member are 0, and the bytes between its rows.
struct MatrixTile {
  Access access;                       // in outer variables and the statement's serial loops
  Access source;                       // as the statement writes it, for what needs the iterators
  std::map<std::string, Affine> copy;  // values of the unrolled loops
  int64_t row_bytes = 0;
};

// The statement's loops are serial ones, then unrolled ones, then the four of the unit; tiles are the same
// in each trip of the serial loops but for their addresses. Registers of tiles: accumulators first, a's, b's.
// Of vectors, where LLVM gives out the registers, only the order counts.
struct MatrixPlan {
  size_t batch = 0;  // position of the first loop that is not serial
  std::vector<MatrixTile> accumulators, a, b;
  MatrixOrder order;
  MatrixUnit::Format format{};
  int64_t groups = 1;  // of a depth
  int rows = 1;        // of an accumulator
  bool by_a = false;   // of vectors: b's stay in registers
  // Of vectors that take signed numbers as unsigned: what this adds is summed up for each a.
  bool surplus = false;
  TileShapes shapes;  // of a unit of tiles: what its registers hold, by their numbers

  const NarrowProduct& instruction() const { return *format.instruction; }
  // Whether accumulators are in memory, as the instruction's sums are of another type.
  bool adds_separately() const { return instruction().sum != format.accumulator; }
  int register_of_a(int a) const { return static_cast<int>(accumulators.size()) + a; }
  int register_of_b(int b) const { return register_of_a(order.a_registers) + b; }
};

// Whether the statement runs on the unit: its loops are matrix loops and it sums. Others with such
// loops (what sets accumulators to zero) are plain copies and lanes.
bool is_matrix_product(const Kernel& kernel, const TileStatement& tile);

// Whether any statement of the kernel does.
bool uses_matrix_unit(const ScheduledKernel& scheduled);

// Buffers of the kernel that only products on the unit read, directly or through others of this kind. The
// unit takes bfloat16 values below the normal ones as zero, so that what writes them may do so, too.
std::set<int> matrix_operands(const ScheduledKernel& scheduled);

// Whether the statement's unrolled loops alone decide the constraint (>= 0): some copies of a product do
// not exist.
bool is_of_copies(const TileStatement& tile, const Affine& constraint);

// Throws an Internal error where the target's unit cannot do the statement: its loops' order and extents,
// types, strides and the number of accumulators.
MatrixPlan plan_matrix(const Kernel& kernel, const TileStatement& tile, const Target& target);

// Whether `tile` sets exactly the accumulators of a matrix product to zero.
bool zeroes_accumulators(const Kernel& kernel, const TileStatement& tile, const TileStatement& product);

}  // namespace tc
