// Register elements of a leaf, and the accumulators that its reduction loops carry.
#include <algorithm>

#include "codegen/llvm/emit/held_sums.h"
#include "codegen/llvm/emit/tile_emitter.h"
#include "ir/error.h"
#include "ir/target/narrow_product.h"
#include "ir/target/register_groups.h"
#include "ir/tile.h"

namespace tc {
// What identifies an accumulator among the copies of the statement.
std::string TileEmitter::accumulator_key() const {
  std::string key;
  for (const Subscript& subscript : statement_->write.index) {
    key += subscript.affine.substitute(iterators_).str() + ";";
  }
  return key;
}

TileEmitter::ElementKey TileEmitter::element_key(const Access& access) const {
  ElementKey key;
  key.buffer = access.buffer;
  bool moves = false;
  for (const Subscript& subscript : access.index) {
    const Affine affine = subscript.affine.substitute(iterators_);
    TC_CHECK(subscript.dynamic == nullptr, "in an access of a register by statement '", statement_->name,
             "'");
    for (const auto& [name, coefficient] : affine.terms()) {
      TC_CHECK(name[0] != '%' || name == lane_, "in statement '", statement_->name, "': loop '", name,
               "' moves along a register buffer");
    }
    key.index.push_back(affine.constant());
    key.step.push_back(lanes_ > 1 ? affine.coefficient(lane_) : 0);
    moves |= key.step.back() != 0;
  }
  key.lanes = moves ? lanes_ : 1;
  return key;
}

std::pair<const TileEmitter::ElementKey*, int> TileEmitter::find_lane(
    int buffer, const std::vector<int64_t>& index) const {
  for (const auto& [key, element] : registers_) {
    if (key.buffer != buffer || key.index.size() != index.size()) continue;
    for (int lane = 0; lane < key.lanes; ++lane) {
      bool same = true;
      for (size_t d = 0; d < index.size() && same; ++d) {
        same = key.index[d] + lane * key.step[d] == index[d];
      }
      if (same) return {&key, lane};
    }
  }
  return {nullptr, 0};
}

TileEmitter::Value TileEmitter::read_register(const ElementKey& key) {
  if (region_.active) {
    // A statement that reads what it accumulates sees the running value.
    for (const auto& [name, accumulator] : region_.accumulators) {
      if (accumulator.element == key && !region_.lane_partial && !accumulator.fresh) {
        return {accumulator.value, key.lanes > 1};
      }
    }
  }
  const auto found = registers_.find(key);
  if (found != registers_.end()) return {found->second.value, key.lanes > 1};
  // The elements are held in another arrangement: they are extracted lane by lane.
  std::vector<llvm::Value*> lanes;
  for (int lane = 0; lane < key.lanes; ++lane) {
    std::vector<int64_t> index = key.index;
    for (size_t d = 0; d < index.size(); ++d) index[d] += lane * key.step[d];
    const auto [holder, held_lane] = find_lane(key.buffer, index);
    TC_CHECK(holder != nullptr, "in statement '", statement_->name, "': register buffer '",
             kernel_.buffers[static_cast<size_t>(key.buffer)].name, "' is read before it is written");
    llvm::Value* value = registers_.at(*holder).value;
    if (holder->lanes > 1) {
      value = builder_.CreateExtractElement(value, static_cast<uint64_t>(held_lane));
    }
    lanes.push_back(value);
  }
  if (key.lanes == 1) return {lanes[0], false};
  llvm::Value* vector = llvm::PoisonValue::get(widen(lanes[0]->getType(), key.lanes));
  for (int lane = 0; lane < key.lanes; ++lane) {
    vector =
        builder_.CreateInsertElement(vector, lanes[static_cast<size_t>(lane)], static_cast<uint64_t>(lane));
  }
  return {vector, true};
}

void TileEmitter::write_register(const ElementKey& key, llvm::Value* value,
                                 std::set<std::string> valid_where) {
  if (registers_.count(key) == 0) {
    // Runs that overlap this one in another arrangement are split into single elements.
    for (int lane = 0; lane < key.lanes; ++lane) {
      std::vector<int64_t> index = key.index;
      for (size_t d = 0; d < index.size(); ++d) index[d] += lane * key.step[d];
      const auto [holder, held_lane] = find_lane(key.buffer, index);
      if (holder == nullptr) continue;
      const ElementKey old = *holder;
      const Element element = registers_.at(old);
      registers_.erase(old);
      for (int i = 0; i < old.lanes && old.lanes > 1; ++i) {
        ElementKey single{old.buffer, old.index, std::vector<int64_t>(old.index.size(), 0), 1};
        for (size_t d = 0; d < single.index.size(); ++d) single.index[d] += i * old.step[d];
        if (i == held_lane) continue;
        registers_[single] = {builder_.CreateExtractElement(element.value, static_cast<uint64_t>(i)),
                              element.valid_where};
      }
    }
  }
  registers_[key] = {value, std::move(valid_where)};
}

void TileEmitter::collect_accumulators(size_t position, Constraints pending) {
  if (!simplify(pending)) return;
  if (position < tile_->loops.size()) {
    const TileLoop& loop = tile_->loops[position];
    if (loop.kind != TileLoop::Kind::Unroll) {
      collect_accumulators(position + 1, pending);
      return;
    }
    for (int64_t i = 0; i < loop.extent; ++i) {
      values_[loop.name] = Affine(i);
      collect_accumulators(position + 1, pending);
    }
    values_.erase(loop.name);
    return;
  }
  iterators_.clear();
  for (const auto& [name, affine] : tile_->iterators) iterators_[name] = with_values(affine);
  std::map<std::string, Affine> existence;
  for (const Affine& constraint : pending) {
    const int64_t step = lanes_ > 1 ? constraint.coefficient(lane_) : 0;
    if (step != 0 && region_.lane_partial) continue;
    if (is_fixed(constraint - (step != 0 ? Affine::variable(lane_, step) : Affine()))) {
      existence[constraint.str()] = constraint;
    }
  }
  const auto [place, added] = region_.accumulators.insert({accumulator_key(), {}});
  Accumulator& accumulator = place->second;
  if (added) {
    accumulator.copy_values = values_;
    for (const auto& [name, constraint] : existence) {
      accumulator.exists_where.insert(name);
      accumulator.existence.push_back(constraint);
    }
    return;
  }
  auto gone = [&](const Affine& constraint) { return existence.count(constraint.str()) == 0; };
  accumulator.existence.erase(
      std::remove_if(accumulator.existence.begin(), accumulator.existence.end(), gone),
      accumulator.existence.end());
  accumulator.exists_where.clear();
  for (const Affine& constraint : accumulator.existence) {
    accumulator.exists_where.insert(constraint.str());
  }
}

bool TileEmitter::accumulators_are_disjoint() const {
  std::vector<std::vector<Affine>> writes;
  for (const auto& [name, accumulator] : region_.accumulators) {
    std::vector<Affine> index;
    for (const Subscript& subscript : statement_->write.index) {
      index.push_back(subscript.affine.substitute(tile_->iterators).substitute(accumulator.copy_values));
    }
    writes.push_back(std::move(index));
  }
  return are_disjoint(writes, lane_, lanes_);
}

bool TileEmitter::fills_registers() const {
  const Target& target = context_.compiler.target();
  double bits = 0;
  for (const auto& [name, accumulator] : region_.accumulators) {
    bits += static_cast<double>(accumulator.value->getType()->getPrimitiveSizeInBits().getKnownMinValue());
  }
  // Sums of scalars: as many registers again hold operands and products.
  if (target.is_riscv() && target.vector_bits == 0 && target.word_bits == 32)
    return statement_ != nullptr && statement_->value->dtype == DType::I32 &&
           2 * bits > 32.0 * target.integer_registers;
  // Where bytes are multiplied, those that all lanes share are broadcast to registers, too.
  const int held =
      statement_ != nullptr && statement_->value->dtype == DType::I32 && byte_products(target) > 0 ? 4 : 2;
  return !counts_registers(target) && target.vector_bits > 0 &&
         held * bits > target.vector_bits * target.vector_registers;
}

void TileEmitter::begin_region(size_t position, const Constraints& pending) {
  const Access& write = statement_->write;
  const Buffer& buffer = kernel_.buffers[static_cast<size_t>(write.buffer)];
  bool lanes_move = false;
  for (const Subscript& subscript : write.index) {
    lanes_move |= lanes_ > 1 && mentions(subscript.affine.substitute(tile_->iterators), lane_);
  }
  region_ = AccumulatorRegion();
  region_.active = true;
  region_.lane_partial = lanes_ > 1 && !lanes_move && statement_->reduction != Reduction::None;
  collect_accumulators(position, pending);
  if (buffer.scope != Scope::Register && !accumulators_are_disjoint()) {
    // Copies may write the same element: each instance loads and stores its own.
    region_ = AccumulatorRegion();
    TC_CHECK(position < tile_->loops.size(), "in statement '", statement_->name, "'");
    region_position_ = tile_->loops.size();
    return;
  }
  const auto saved_values = values_;
  for (auto& [name, accumulator] : region_.accumulators) {
    values_ = accumulator.copy_values;
    iterators_.clear();
    evaluated_.clear();
    for (const auto& [iterator, affine] : tile_->iterators) {
      iterators_[iterator] = with_values(affine);
    }
    if (region_.lane_partial) {
      accumulator.value = arithmetic_.identity(statement_->reduction, buffer.dtype, lanes_);
    }
    if (buffer.scope == Scope::Register) {
      accumulator.element = element_key(write);
      accumulator.exists_where.clear();
      const auto holder = find_lane(accumulator.element.buffer, accumulator.element.index);
      if (holder.first == nullptr) {
        TC_CHECK(statement_->reduction == Reduction::None, "in statement '", statement_->name,
                 "': register buffer '", buffer.name, "' is accumulated before it is written");
        accumulator.fresh = true;
        accumulator.value = llvm::PoisonValue::get(
            widen(value_type(builder_.getContext(), buffer.dtype), accumulator.element.lanes));
      } else if (!region_.lane_partial) {
        const bool active = std::exchange(region_.active, false);
        accumulator.value = read_register(accumulator.element).value;
        region_.active = active;
        accumulator.exists_where = registers_.at(*holder.first).valid_where;
      }
    } else if (llvm::AllocaInst* held = region_.lane_partial ? nullptr : held_element()) {
      accumulator.value = builder_.CreateLoad(held->getAllocatedType(), held);
    } else if (!region_.lane_partial) {
      const Value value = load(write, buffer.dtype, guard_for(accumulator.existence), false);
      accumulator.value = lanes_ > 1 ? spread(value) : value.value;
    }
  }
  values_ = saved_values;
  iterators_.clear();
  begin_blocks(position);
}

llvm::AllocaInst* TileEmitter::held_element() {
  const Access& write = statement_->write;
  if (context_.held == nullptr || context_.held->buffer != write.buffer) return nullptr;
  const Address address = address_of(write, Guard());
  const DType dtype = kernel_.buffers[static_cast<size_t>(write.buffer)].dtype;
  if (!address.contiguous(size_of(dtype)) && !address.lane_invariant()) return nullptr;
  const std::string key = load_key(write, address, Guard(), nullptr);
  const auto found = context_.held->elements.find(key);
  if (found != context_.held->elements.end()) return found->second.variable;
  llvm::IRBuilderBase::InsertPointGuard restore(builder_);
  builder_.SetInsertPoint(context_.held->before->getTerminator());
  llvm::Value* offset = context_.value_of(address.bytes);
  for (const auto& [stride, affine] : address.symbolic)
    offset = context_.add(offset, builder_.CreateNSWMul(stride, context_.value_of(affine)));
  llvm::Value* place =
      builder_.CreatePtrAdd(context_.buffers[static_cast<size_t>(write.buffer)].pointer, offset);
  llvm::Type* type = memory_type(builder_.getContext(), dtype);
  if (!address.lane_invariant()) type = widen(type, lanes_);
  llvm::Value* value =
      builder_.CreateAlignedLoad(type, place, llvm::Align(static_cast<uint64_t>(size_of(dtype))));
  llvm::BasicBlock& entry = context_.function->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  llvm::AllocaInst* variable = at_entry.CreateAlloca(type);
  builder_.CreateStore(value, variable);
  context_.held->elements[key] = {place, variable};
  return variable;
}

void TileEmitter::end_partial_sums(AccumulatorRegion& region, DType dtype) {
  if (!region.lane_partial || !is_float(dtype) || context_.compiler.target().scalable) return;
  // By vector of results: the accumulators of its lanes, each of which is a vector of parts of one result.
  std::map<ElementKey, std::map<int, std::string>> results;
  for (const auto& [name, accumulator] : region.accumulators) {
    const ElementKey& element = accumulator.element;
    if (element.index.empty()) continue;
    const auto [holder, lane] = find_lane(element.buffer, element.index);
    if (holder != nullptr && holder->lanes == lanes_of(accumulator.value)) results[*holder][lane] = name;
  }
  for (const auto& [holder, parts] : results) {
    const int lanes = holder.lanes;
    if (2 * parts.size() < static_cast<size_t>(lanes) || (lanes & (lanes - 1)) != 0) continue;
    // At the end of a dimension some lanes have no sum.
    llvm::SmallVector<llvm::Value*, 16> vectors(static_cast<size_t>(lanes),
                                                arithmetic_.identity(statement_->reduction, dtype, lanes));
    for (const auto& [lane, name] : parts) {
      const Accumulator& accumulator = region.accumulators.at(name);
      vectors[static_cast<size_t>(lane)] = region.in_blocks ? with_total(accumulator) : accumulator.value;
    }
    llvm::Value* sums = reduce_each(arithmetic_, builder_, statement_->reduction, dtype, vectors);
    Element& result = registers_.at(holder);
    result.value = arithmetic_.combine(statement_->reduction, dtype, result.value, sums);
    for (const auto& [lane, name] : parts) region.accumulators.erase(name);
  }
}

void TileEmitter::end_region() {
  add_waiting_products();
  AccumulatorRegion done = std::move(region_);
  region_ = AccumulatorRegion();
  const Access& write = statement_->write;
  const Buffer& buffer = kernel_.buffers[static_cast<size_t>(write.buffer)];
  end_partial_sums(done, buffer.dtype);
  const auto saved_values = values_;
  for (auto& [name, accumulator] : done.accumulators) {
    llvm::Value* value = accumulator.value;
    if (done.in_blocks) value = with_total(accumulator);
    if (done.lane_partial) value = arithmetic_.reduce(statement_->reduction, buffer.dtype, value);
    values_ = accumulator.copy_values;
    iterators_.clear();
    evaluated_.clear();
    for (const auto& [iterator, affine] : tile_->iterators) {
      iterators_[iterator] = with_values(affine);
    }
    if (buffer.scope == Scope::Register) {
      if (!done.lane_partial) {
        write_register(accumulator.element, value, accumulator.exists_where);
        continue;
      }
      const Value old = read_register(accumulator.element);
      const auto holder = find_lane(accumulator.element.buffer, accumulator.element.index);
      const std::set<std::string> valid_where = registers_.at(*holder.first).valid_where;
      write_register(accumulator.element,
                     arithmetic_.combine(statement_->reduction, buffer.dtype, old.value, value), valid_where);
      continue;
    }
    if (llvm::AllocaInst* held = done.lane_partial ? nullptr : held_element()) {
      builder_.CreateStore(value, held);
      continue;
    }
    Constraints scalar, lanes;
    for (const Affine& constraint : accumulator.existence) {
      const bool masked = lanes_ > 1 && constraint.coefficient(lane_) != 0;
      (masked ? lanes : scalar).push_back(constraint);
    }
    branch_on(scalar, [&] {
      Guard guard = guard_for(lanes);
      Value result{value, value->getType()->isVectorTy()};
      if (done.lane_partial || done.from_zero) {
        const Value old = load(write, buffer.dtype, guard, false);
        const bool vector = !done.lane_partial && lanes_ > 1;
        result = {
            arithmetic_.combine(statement_->reduction, buffer.dtype, vector ? spread(old) : old.value, value),
            vector};
      }
      store(write, buffer.dtype, result, guard);
    });
  }
  values_ = saved_values;
  iterators_.clear();
}

}  // namespace tc
