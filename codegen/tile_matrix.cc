// Products on a matrix unit. Of Intel AMX the tile registers are chosen here, not by LLVM, so that none spills; of
// AVX-512 the accumulators are vectors that loops carry in phi nodes.
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
        touches |= load.access.buffer == buffer;
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
    prefetch(tile.source, line, Near::SecondCache);
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
  if (context_.target.matrix.vectors) {
    branch_on(outer, [&] { emit_vectors(from_zero); });
    region_.accumulators.clear();
    matrix_ = nullptr;
    return;
  }
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
  if (context_.target.matrix.vectors) return vector_batch();
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

llvm::Value*& TileEmitter::vector_sum(const char* of, int number) {
  return region_.accumulators[text(of, number)].value;
}

// Of bytes the instruction multiplies unsigned numbers of b by signed ones of a: b + 128 takes the place of b, and what
// that adds, 128 times the sum of the a's, is the same in all lanes: it is summed up for each a, and taken off at the
// end. Sums wrap around, so that those of up to 31 bits come out right. Of numbers of 16 bits the registers hold the sums
// of one instruction, in whole numbers; those in f32 are in memory.
void TileEmitter::emit_vectors(bool from_zero) {
  const auto columns = static_cast<unsigned>(context_.target.matrix.columns);
  llvm::Type* element = matrix_->surplus ? builder_.getInt32Ty() : builder_.getFloatTy();
  llvm::Type* type = llvm::FixedVectorType::get(element, columns);
  llvm::Value* zero = llvm::Constant::getNullValue(type);
  const std::vector<MatrixTile>& tiles = matrix_->accumulators;
  const llvm::Align align(static_cast<uint64_t>(size_of(DType::I32)));
  if (matrix_->operand == DType::I16) {
    for (size_t i = 0; i < tiles.size() && from_zero; ++i) builder_.CreateAlignedStore(zero, tile_pointer(tiles[i]), align);
    return nest(0, tile_->constraints);
  }
  for (size_t i = 0; i < tiles.size(); ++i) {
    llvm::Value* start = from_zero ? zero : builder_.CreateAlignedLoad(type, tile_pointer(tiles[i]), align);
    vector_sum("sum ", static_cast<int>(i)) = start;
  }
  for (size_t a = 0; a < matrix_->a.size() && matrix_->surplus; ++a) vector_sum("surplus ", static_cast<int>(a)) = zero;
  nest(0, tile_->constraints);
  for (const MatrixProduct& product : matrix_->order.products) {
    if (!matrix_->surplus) break;
    llvm::Value*& sum = vector_sum("sum ", product.accumulator);
    sum = builder_.CreateSub(sum, vector_sum("surplus ", product.a));
  }
  for (size_t i = 0; i < tiles.size(); ++i) {
    builder_.CreateAlignedStore(vector_sum("sum ", static_cast<int>(i)), tile_pointer(tiles[i]), align);
  }
}

void TileEmitter::vector_batch() {
  constexpr int64_t kGroupBytes = 4;   // members of a group, and a lane
  const auto lanes = static_cast<unsigned>(context_.target.matrix.columns);
  llvm::Type* wide = llvm::FixedVectorType::get(builder_.getInt32Ty(), lanes);
  llvm::Type* halves = llvm::FixedVectorType::get(builder_.getBFloatTy(), 2 * lanes);
  llvm::Value* surplus = builder_.CreateVectorSplat(lanes, builder_.getInt32(0x80808080));
  const bool floats = matrix_->operand == DType::BF16;
  const MatrixOrder& order = matrix_->order;
  // A group of a tile: where its bytes are.
  const auto group_of = [&](const MatrixTile& tile, int64_t offset) {
    iterators_ = values_;
    Address address = address_of(tile.access, {});
    address.bytes = address.bytes + Affine(offset);
    return address;
  };
  const auto multiply_add = [&](llvm::Value*& sum, llvm::Value* b, llvm::Value* a) {
    const auto instruction = matrix_->operand == DType::I8    ? llvm::Intrinsic::x86_avx512_vpdpbusd_512
                             : matrix_->operand == DType::I16 ? llvm::Intrinsic::x86_avx512_vpdpwssd_512
                                                              : llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512;
    sum = builder_.CreateIntrinsic(instruction, {}, {sum, b, a});
  };
  const bool apart = matrix_->operand == DType::I16;
  std::vector<llvm::Value*> parts(matrix_->accumulators.size(), llvm::Constant::getNullValue(wide));
  std::vector<llvm::Value*> a_values(static_cast<size_t>(order.a_registers));
  std::vector<llvm::Value*> b_values(static_cast<size_t>(order.b_registers));
  const auto load_a = [&](size_t i, int64_t group) {
    const int a = order.products[i].a;
    llvm::Value* from = pointer(group_of(matrix_->a[static_cast<size_t>(a)], group * kGroupBytes));
    llvm::Value* row = builder_.CreateAlignedLoad(builder_.getInt32Ty(), from, llvm::Align(1));
    llvm::Value*& value = a_values[static_cast<size_t>(order.a_register[i])];
    value = builder_.CreateVectorSplat(lanes, row);
    if (matrix_->surplus) multiply_add(vector_sum("surplus ", a), surplus, value);
    if (floats) value = builder_.CreateBitCast(value, halves);
  };
  const auto load_b = [&](size_t i, int64_t group) {
    const MatrixTile& tile = matrix_->b[static_cast<size_t>(order.products[i].b)];
    const Address line = group_of(tile, group * tile.row_bytes);
    prefetch(tile.source, line);
    llvm::Value* loaded = builder_.CreateAlignedLoad(wide, pointer(line), llvm::Align(1));
    llvm::Value*& value = b_values[static_cast<size_t>(order.b_register[i])];
    value = matrix_->surplus ? builder_.CreateXor(loaded, surplus) : loaded;
    if (floats) value = builder_.CreateBitCast(value, halves);
  };
  // The operand that stays in registers first.
  const bool by_a = matrix_->by_a;
  for (int64_t group = 0; group < matrix_->groups; ++group) {
    for (size_t i = 0; i < order.products.size(); ++i) {
      if (by_a && order.loads_b[i]) load_b(i, group);
      if (!by_a && order.loads_a[i]) load_a(i, group);
    }
    for (size_t i = 0; i < order.products.size(); ++i) {
      if (by_a && order.loads_a[i]) load_a(i, group);
      if (!by_a && order.loads_b[i]) load_b(i, group);
      const MatrixProduct& product = order.products[i];
      llvm::Value*& sum = apart ? parts[static_cast<size_t>(product.accumulator)] : vector_sum("sum ", product.accumulator);
      multiply_add(sum, b_values[static_cast<size_t>(order.b_register[i])],
                   a_values[static_cast<size_t>(order.a_register[i])]);
    }
  }
  for (size_t i = 0; i < parts.size() && apart; ++i) {
    llvm::Type* type = llvm::FixedVectorType::get(builder_.getFloatTy(), lanes);
    llvm::Value* place = tile_pointer(matrix_->accumulators[i]);
    const llvm::Align align(static_cast<uint64_t>(size_of(DType::F32)));
    llvm::Value* sum = builder_.CreateAlignedLoad(type, place, align);
    builder_.CreateAlignedStore(builder_.CreateFAdd(sum, builder_.CreateSIToFP(parts[i], type)), place, align);
  }
}

}  // namespace tc
