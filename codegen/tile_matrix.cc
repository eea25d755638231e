// Products on a matrix unit: Intel AMX. Tile registers are chosen here, not by LLVM, so that none spills.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <iterator>

#include "codegen/tile_emitter.h"
#include "ir/error.h"

namespace tc {

std::map<size_t, size_t> TileEmitter::zeroing_statements() const {
  std::map<size_t, size_t> result;
  const std::vector<TileStatement>& tiles = leaf_.statements;
  const auto statement_of = [&](size_t i) -> const Statement& {
    return kernel_.statements[static_cast<size_t>(tiles[i].statement)];
  };
  for (size_t i = 0; i < tiles.size(); ++i) {
    const int buffer = statement_of(i).write.buffer;
    // The next statement that touches the buffer, or may.
    size_t next = i + 1;
    for (; next < tiles.size(); ++next) {
      bool touches = statement_of(next).write.buffer == buffer;
      for_each_load(statement_of(next).value, [&](const Expr& load) {
        touches |= load.access.buffer == buffer ||
                   kernel_.buffers[static_cast<size_t>(load.access.buffer)].in_place_of ==
                       kernel_.buffers[static_cast<size_t>(buffer)].name;
      });
      if (touches) break;
    }
    if (next < tiles.size() && is_matrix_product(kernel_, tiles[next]) &&
        zeroes_accumulators(kernel_, tiles[i], tiles[next])) {
      result[i] = next;
    }
  }
  return result;
}

llvm::Value* TileEmitter::tile_pointer(const MatrixTile& tile) {
  iterators_ = values_;
  return pointer(address_of(tile.access, {}));
}

void TileEmitter::tile_instruction(llvm::Intrinsic::ID instruction, int number, const MatrixTile& tile) {
  builder_.CreateIntrinsic(instruction, {}, {builder_.getInt8(static_cast<uint8_t>(number)), tile_pointer(tile),
                                             context_.i64(tile.row_bytes)});
}

void TileEmitter::load_operand(int number, const MatrixTile& tile) {
  tile_instruction(llvm::Intrinsic::x86_tileloadd64, number, tile);
  Address line = address_of(tile.access, {});
  for (int row = 0; row < matrix_->configuration[48 + static_cast<size_t>(number)]; ++row) {
    prefetch(tile.source, line);
    line.bytes = line.bytes + Affine(tile.row_bytes);
  }
}

void TileEmitter::emit_matrix(bool from_zero) {
  const MatrixPlan plan = plan_matrix(kernel_, *tile_, context_.target);
  TC_CHECK(context_.target.arch == Arch::X86_64, "of target '", context_.target.name, "'");
  // Where the accumulators are not set to zero here, they need not exist where the products do not.
  Constraints outer;
  if (!from_zero) {
    Constraints pending = tile_->constraints;
    if (!simplify(pending)) return;
    std::copy_if(pending.begin(), pending.end(), std::back_inserter(outer),
                 [&](const Affine& constraint) { return is_fixed(constraint); });
  }
  matrix_ = &plan;
  region_position_ = SIZE_MAX;       // accumulators are in the unit's registers: loops carry nothing
  branch_on(outer, [&] {
    for (size_t i = 0; i < plan.accumulators.size(); ++i) {
      if (from_zero) {
        builder_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {builder_.getInt8(static_cast<uint8_t>(i))});
      } else {
        tile_instruction(llvm::Intrinsic::x86_tileloadd64, static_cast<int>(i), plan.accumulators[i]);
      }
    }
    nest(0, tile_->constraints);
    for (size_t i = 0; i < plan.accumulators.size(); ++i) {
      tile_instruction(llvm::Intrinsic::x86_tilestored64, static_cast<int>(i), plan.accumulators[i]);
    }
  });
  matrix_ = nullptr;
}

void TileEmitter::matrix_batch(const Constraints& pending) {
  // The plan has only the copies that exist.
  const bool of_copies = std::all_of(pending.begin(), pending.end(), [&](const Affine& constraint) {
    return is_of_copies(*tile_, constraint);
  });
  TC_CHECK(of_copies, "where all copies of matrix statement '", statement_->name, "' exist or none");
  const bool floats = statement_->value->dtype == DType::F32;
  const auto multiply_add = floats ? llvm::Intrinsic::x86_tdpbf16ps : llvm::Intrinsic::x86_tdpbssd;
  const MatrixOrder& order = matrix_->order;
  for (size_t i = 0; i < order.products.size(); ++i) {
    const MatrixProduct& product = order.products[i];
    const int a = matrix_->register_of_a(order.a_register[i]);
    const int b = matrix_->register_of_b(order.b_register[i]);
    if (order.loads_a[i]) load_operand(a, matrix_->a[static_cast<size_t>(product.a)]);
    if (order.loads_b[i]) load_operand(b, matrix_->b[static_cast<size_t>(product.b)]);
    const auto number = [&](int tile) { return builder_.getInt8(static_cast<uint8_t>(tile)); };
    builder_.CreateIntrinsic(multiply_add, {}, {number(product.accumulator), number(a), number(b)});
  }
}

}  // namespace tc
