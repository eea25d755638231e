// Products on a matrix unit, whatever its instructions (`matrix_unit.h`). Tile registers are assigned here,
// not by LLVM, so that none spills; where accumulators are vectors, loops carry them in phi nodes.
#include <algorithm>
#include <iterator>

#include "codegen/llvm/units/matrix_unit.h"
#include "codegen/llvm/emit/tile_emitter.h"
#include "ir/error.h"
#include "ir/tile.h"

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
      for_each_load(statement_of(next).value,
                    [&](const Expr& load) { touches |= load.access.buffer == buffer; });
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

MemoryRows TileEmitter::sums_of(const MatrixTile& tile) {
  return {tile_pointer(tile), tile.row_bytes, matrix_->rows};
}

void TileEmitter::load_operand(TileInstructions& unit, int number, const MatrixTile& tile) {
  unit.load(number, tile_pointer(tile), tile.row_bytes);
  Address line = address_of(tile.access, {});
  for (int64_t row = 0; row < matrix_->shapes[static_cast<size_t>(number)].rows; ++row) {
    prefetch(tile.source, line, CacheLevel::Second);
    line.bytes = line.bytes + Affine(tile.row_bytes);
  }
}

void TileEmitter::emit_matrix(bool from_zero) {
  const MatrixPlan plan = plan_matrix(kernel_, *tile_, context_.target);
  // Where the accumulators are not set to zero here, nothing is to be done for products that do not exist.
  Constraints outer;
  if (!from_zero) {
    Constraints pending = tile_->constraints;
    if (!simplify(pending)) return;
    std::copy_if(pending.begin(), pending.end(), std::back_inserter(outer),
                 [&](const Affine& constraint) { return is_fixed(constraint); });
  }
  matrix_ = &plan;
  region_position_ = SIZE_MAX;  // accumulators are in the unit's registers: loops carry nothing
  branch_on(outer, [&] { context_.target.matrix.vectors ? emit_vectors(from_zero) : emit_tiles(from_zero); });
  if (context_.target.matrix.vectors) region_.accumulators.clear();
  matrix_ = nullptr;
}

void TileEmitter::emit_tiles(bool from_zero) {
  const std::unique_ptr<TileInstructions> unit = tile_instructions(context_);
  const std::vector<MatrixTile>& tiles = matrix_->accumulators;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const int number = static_cast<int>(i);
    from_zero ? unit->zero(number) : unit->load(number, tile_pointer(tiles[i]), tiles[i].row_bytes);
  }
  nest(0, tile_->constraints);
  for (size_t i = 0; i < tiles.size(); ++i)
    unit->store(static_cast<int>(i), tile_pointer(tiles[i]), tiles[i].row_bytes);
}

void TileEmitter::matrix_batch(const Constraints& pending) {
  // The plan has only the copies that exist.
  const bool of_copies = std::all_of(pending.begin(), pending.end(), [&](const Affine& constraint) {
    return is_of_copies(*tile_, constraint);
  });
  TC_CHECK(of_copies, "where all copies of matrix statement '", statement_->name, "' exist or none");
  context_.target.matrix.vectors ? vector_batch() : tile_batch();
}

void TileEmitter::tile_batch() {
  const std::unique_ptr<TileInstructions> unit = tile_instructions(context_);
  const MatrixOrder& order = matrix_->order;
  for (size_t i = 0; i < order.products.size(); ++i) {
    const MatrixProduct& product = order.products[i];
    const int a = matrix_->register_of_a(order.a_register[i]);
    const int b = matrix_->register_of_b(order.b_register[i]);
    if (order.loads_a[i]) load_operand(*unit, a, matrix_->a[static_cast<size_t>(product.a)]);
    if (order.loads_b[i]) load_operand(*unit, b, matrix_->b[static_cast<size_t>(product.b)]);
    unit->multiply_add(matrix_->instruction(), product.accumulator, a, b);
  }
}

llvm::Value*& TileEmitter::vector_sum(const char* of, int number) {
  return region_.accumulators[text(of, number)].value;
}

// Loops carry each part of an accumulator on its own, so that passes see vectors.
llvm::Value* TileEmitter::sum_of(const char* of, int number, llvm::Type* type) {
  const auto* parts = llvm::dyn_cast<llvm::StructType>(type);
  if (parts == nullptr) return vector_sum(of, number);
  llvm::Value* result = llvm::PoisonValue::get(type);
  for (unsigned part = 0; part < parts->getNumElements(); ++part) {
    llvm::Value* value = vector_sum(text(of, number, " part ").c_str(), static_cast<int>(part));
    result = builder_.CreateInsertValue(result, value, part);
  }
  return result;
}

void TileEmitter::set_sum(const char* of, int number, llvm::Value* value) {
  const auto* parts = llvm::dyn_cast<llvm::StructType>(value->getType());
  if (parts == nullptr) {
    vector_sum(of, number) = value;
    return;
  }
  for (unsigned part = 0; part < parts->getNumElements(); ++part) {
    vector_sum(text(of, number, " part ").c_str(), static_cast<int>(part)) =
        builder_.CreateExtractValue(value, part);
  }
}

// Some instructions multiply unsigned bytes of b by signed bytes of a: b + 128 then takes the place of b.
// What that adds to a sum, 128 times the sum of the a's, is the same in all lanes: it is summed up for each
// a, and subtracted at the end. Sums wrap around, so that those of up to 31 bits come out right. Where
// integers can hold no more than the sums of one depth, the accumulators are f32 in memory.
void TileEmitter::emit_vectors(bool from_zero) {
  const std::unique_ptr<VectorInstructions> unit = vector_instructions(context_, matrix_->instruction());
  const DType kept = matrix_->format.accumulator;
  const std::vector<MatrixTile>& tiles = matrix_->accumulators;
  llvm::Value* zero = unit->zero_sums();
  if (matrix_->adds_separately()) {
    zero = llvm::Constant::getNullValue(conversion_type(zero));
    for (size_t i = 0; i < tiles.size() && from_zero; ++i) unit->store_sums(sums_of(tiles[i]), zero);
    return nest(0, tile_->constraints);
  }
  for (size_t i = 0; i < tiles.size(); ++i) {
    set_sum("sum ", static_cast<int>(i), from_zero ? zero : unit->load_sums(sums_of(tiles[i]), kept));
  }
  for (size_t a = 0; a < matrix_->a.size() && matrix_->offset_sums; ++a)
    set_sum("offset_sums ", static_cast<int>(a), zero);
  nest(0, tile_->constraints);
  for (const MatrixProduct& product : matrix_->order.products) {
    if (!matrix_->offset_sums) break;
    llvm::Value*& sum = vector_sum("sum ", product.accumulator);
    sum = builder_.CreateSub(sum, vector_sum("offset_sums ", product.a));
  }
  for (size_t i = 0; i < tiles.size(); ++i) {
    unit->store_sums(sums_of(tiles[i]), sum_of("sum ", static_cast<int>(i), zero->getType()));
  }
}

// The type of as many floats as there are integer sums.
llvm::Type* TileEmitter::conversion_type(llvm::Value* sums) {
  return llvm::cast<llvm::VectorType>(sums->getType())->getWithNewType(builder_.getFloatTy());
}

// The address of a group of a tile, `offset` bytes from the tile's first.
TileEmitter::Address TileEmitter::group_of(const MatrixTile& tile, int64_t offset) {
  iterators_ = values_;
  Address address = address_of(tile.access, {});
  address.bytes = address.bytes + Affine(offset);
  return address;
}

bool TileEmitter::vector_steps(VectorInstructions& unit) {
  const std::vector<MatrixProduct>& products = matrix_->order.products;
  const size_t count = matrix_->accumulators.size();
  if (!matrix_->in_steps || count < 2 || matrix_->groups != 1 || products.size() % count != 0) return false;
  ProductSteps steps;
  std::vector<Address> first_a, first_b;
  // The number of a step's tile among those of the same operand, which is added where it is new.
  const auto number = [](std::vector<int>& held, int tile) {
    const auto place = std::find(held.begin(), held.end(), tile) - held.begin();
    if (place == static_cast<std::ptrdiff_t>(held.size())) held.push_back(tile);
    return place;
  };
  for (size_t step = 0; step < products.size() / count; ++step) {
    std::vector<int> a, b;
    for (size_t i = 0; i < count; ++i) {
      const MatrixProduct& product = products[step * count + i];
      const int of_a = static_cast<int>(number(a, product.a)), of_b = static_cast<int>(number(b, product.b));
      if (step == 0) steps.products.push_back({product.accumulator, of_a, of_b});
      const ProductSteps::Product& as = steps.products[i];
      if (as.accumulator != product.accumulator || as.a != of_a || as.b != of_b) return false;
    }
    for (const bool is_a : {true, false}) {
      std::vector<Address>& first = is_a ? first_a : first_b;
      std::vector<int64_t> offsets;
      for (const int tile : is_a ? a : b) {
        const Address place = group_of((is_a ? matrix_->a : matrix_->b)[static_cast<size_t>(tile)], 0);
        if (!place.symbolic.empty() || place.dynamic != nullptr) return false;
        if (step == 0) first.push_back(place);
        const Affine moved = place.bytes - first[offsets.size()].bytes;
        if (!moved.is_constant()) return false;
        offsets.push_back(moved.constant());
      }
      (is_a ? steps.a_offsets : steps.b_offsets).push_back(std::move(offsets));
    }
  }
  for (const Address& place : first_a) {
    const Affine apart = place.bytes - first_a.front().bytes;
    if (!apart.is_constant() || place.buffer != first_a.front().buffer) {
      steps.a_apart.clear();
      break;
    }
    steps.a_apart.push_back(apart.constant());
  }
  steps.a_in_words = std::all_of(first_a.begin(), first_a.end(), [&](const Address& place) {
    return !is_argument(kernel_.buffers[static_cast<size_t>(place.buffer)]) &&
           place.bytes.is_multiple_of(sizeof(int32_t));
  });
  for (const Address& place : first_a) steps.a.push_back(pointer(place));
  for (const Address& place : first_b) steps.b.push_back(pointer(place));
  llvm::Type* type = unit.zero_sums()->getType();
  std::vector<llvm::Value*> sums;
  for (size_t i = 0; i < count; ++i) sums.push_back(sum_of("sum ", static_cast<int>(i), type));
  if (!unit.add_steps(sums, steps)) return false;
  for (size_t i = 0; i < count; ++i) set_sum("sum ", static_cast<int>(i), sums[i]);
  return true;
}

void TileEmitter::vector_batch() {
  const std::unique_ptr<VectorInstructions> unit = vector_instructions(context_, matrix_->instruction());
  if (vector_steps(*unit)) return;
  const MatrixOrder& order = matrix_->order;
  const bool separate = matrix_->adds_separately();
  std::vector<llvm::Value*> parts(matrix_->accumulators.size(), unit->zero_sums());
  std::vector<llvm::Value*> a_values(static_cast<size_t>(order.a_registers));
  std::vector<llvm::Value*> b_values(static_cast<size_t>(order.b_registers));
  // 128 in each byte.
  const auto offset = [&](llvm::Value* b) {
    return llvm::ConstantInt::get(
        b->getType(), llvm::APInt::getSplat(b->getType()->getScalarSizeInBits(), llvm::APInt(8, 0x80)));
  };
  const auto load_a = [&](size_t i, int64_t group) {
    const int a = order.products[i].a;
    const MatrixTile& tile = matrix_->a[static_cast<size_t>(a)];
    llvm::Value*& value = a_values[static_cast<size_t>(order.a_register[i])];
    value = unit->load_a({pointer(group_of(tile, group * tile.group_bytes)), tile.row_bytes, matrix_->rows});
    if (!matrix_->offset_sums) return;
    llvm::Value*& offset_sums = vector_sum("offset_sums ", a);
    offset_sums = unit->multiply_add(offset_sums, value, offset(value));
  };
  const auto load_b = [&](size_t i, int64_t group) {
    const MatrixTile& tile = matrix_->b[static_cast<size_t>(order.products[i].b)];
    const Address line = group_of(tile, group * tile.row_bytes);
    prefetch(tile.source, line);
    llvm::Value* loaded = unit->load_b(pointer(line));
    b_values[static_cast<size_t>(order.b_register[i])] =
        matrix_->offset_sums ? builder_.CreateXor(loaded, offset(loaded)) : loaded;
  };
  // First loads the operand that stays in registers.
  const bool by_a = matrix_->by_a;
  for (int64_t group = 0; group < matrix_->groups; ++group) {
    for (size_t i = 0; i < order.products.size() && !matrix_->in_steps; ++i) {
      if (by_a && order.loads_b[i]) load_b(i, group);
      if (!by_a && order.loads_a[i]) load_a(i, group);
    }
    for (size_t i = 0; i < order.products.size(); ++i) {
      if ((by_a || matrix_->in_steps) && order.loads_a[i]) load_a(i, group);
      if (!by_a && order.loads_b[i]) load_b(i, group);
      const MatrixProduct& product = order.products[i];
      llvm::Value*& part = parts[static_cast<size_t>(product.accumulator)];
      llvm::Value* sum = separate ? part : sum_of("sum ", product.accumulator, part->getType());
      sum = unit->multiply_add(sum, a_values[static_cast<size_t>(order.a_register[i])],
                               b_values[static_cast<size_t>(order.b_register[i])]);
      if (separate) part = sum;
      else set_sum("sum ", product.accumulator, sum);
    }
  }
  for (size_t i = 0; i < parts.size() && separate; ++i) {
    const MemoryRows place = sums_of(matrix_->accumulators[i]);
    llvm::Value* sum = unit->load_sums(place, matrix_->format.accumulator);
    unit->store_sums(place,
                     builder_.CreateFAdd(sum, builder_.CreateSIToFP(parts[i], conversion_type(parts[i]))));
  }
}

}  // namespace tc
