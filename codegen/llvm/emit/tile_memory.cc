// Addresses, loads and stores of a leaf's statements.
#include <algorithm>
#include <bit>

#include "codegen/llvm/module_compiler.h"
#include "codegen/llvm/emit/tile_emitter.h"
#include "ir/error.h"

namespace tc {

int TileEmitter::level_of(const Affine& affine) const {
  int level = 0;
  for (const auto& [name, coefficient] : affine.terms()) {
    const auto found = variable_level_.find(name);
    if (found != variable_level_.end()) level = std::max(level, found->second);
  }
  return level;
}

// Computes a value at the end of a level's setup block, once per key.
llvm::Value* TileEmitter::at_level(int level, const std::string& key,
                                   const std::function<llvm::Value*()>& compute) {
  Level& place = levels_[static_cast<size_t>(level)];
  const auto found = place.values.find(key);
  if (found != place.values.end()) return found->second;
  llvm::IRBuilderBase::InsertPointGuard restore(builder_);
  builder_.SetInsertPoint(place.setup->getTerminator());
  llvm::Value* value = compute();
  levels_[static_cast<size_t>(level)].values[key] = value;
  return value;
}

// The terms of an affine expression whose variables belong to one level.
Affine terms_of_level(const Affine& affine, int level, const std::map<std::string, int>& levels) {
  Affine result;
  for (const auto& [name, coefficient] : affine.terms()) {
    const auto found = levels.find(name);
    if ((found == levels.end() ? 0 : found->second) == level) {
      result = result + Affine::variable(name, coefficient);
    }
  }
  return result;
}

llvm::Value* TileEmitter::hoisted(const Affine& affine) {
  llvm::Value* sum = context_.i64(0);
  Affine so_far;
  for (int level = 0; level <= level_of(affine); ++level) {
    const Affine part = terms_of_level(affine, level, variable_level_);
    if (part.terms().empty()) continue;
    so_far = so_far + part;
    sum =
        at_level(level, "value " + so_far.str(), [&] { return context_.add(sum, context_.value_of(part)); });
  }
  return context_.add(sum, context_.i64(affine.constant()));
}

bool TileEmitter::is_read_only(int buffer) const { return written_.count(buffer) == 0; }

TileEmitter::Address TileEmitter::address_of(const Access& access, const Guard& guard) {
  const BufferSlot& slot = context_.buffers[static_cast<size_t>(access.buffer)];
  TC_CHECK(access.index.size() == slot.stride.size(), "in an access of '",
           kernel_.buffers[static_cast<size_t>(access.buffer)].name, "'");
  Address address;
  address.buffer = access.buffer;
  for (size_t d = 0; d < access.index.size(); ++d) {
    Affine affine = access.index[d].affine.substitute(iterators_);
    const int64_t step = lanes_ > 1 ? affine.coefficient(lane_) : 0;
    if (step != 0) affine = affine - Affine::variable(lane_, step);
    llvm::Value* symbolic = slot.symbolic_stride[d];
    if (symbolic == nullptr) {
      address.bytes = address.bytes + affine * slot.stride[d];
      address.lane_bytes += step * slot.stride[d];
    } else {
      address.symbolic.push_back({symbolic, affine});
      if (step != 0) address.symbolic_lane.push_back({symbolic, step});
    }
    if (access.index[d].dynamic == nullptr) continue;
    Value dynamic = evaluate(access.index[d].dynamic, guard);
    llvm::Value* stride = symbolic == nullptr ? context_.i64(slot.stride[d]) : symbolic;
    if (dynamic.vector) {
      stride = builder_.CreateVectorSplat(static_cast<unsigned>(lanes_), stride);
      llvm::Value* bytes = builder_.CreateMul(dynamic.value, stride);
      address.dynamic_lanes =
          address.dynamic_lanes == nullptr ? bytes : builder_.CreateAdd(address.dynamic_lanes, bytes);
    } else {
      llvm::Value* bytes = builder_.CreateMul(dynamic.value, stride);
      address.dynamic = address.dynamic == nullptr ? bytes : builder_.CreateAdd(address.dynamic, bytes);
    }
  }
  return address;
}

// Whether the access is inside the buffer for all values of the variables, constraints aside.
bool TileEmitter::in_bounds(const Access& access) const {
  const Buffer& buffer = kernel_.buffers[static_cast<size_t>(access.buffer)];
  for (size_t d = 0; d < access.index.size(); ++d) {
    if (access.index[d].dynamic != nullptr) return false;
    const Affine affine = access.index[d].affine.substitute(iterators_);
    if (!proves_nonnegative(affine, context_.ranges, known_)) return false;
    if (!proves_nonnegative(buffer.shape[d] - 1 - affine, context_.ranges, known_)) return false;
  }
  return true;
}

// The address of lane 0: parts of each loop level are added at that level, the constant last, so
// that copies share the sum and the constant becomes a displacement.
llvm::Value* TileEmitter::pointer(const Address& address) {
  llvm::Value* result = context_.buffers[static_cast<size_t>(address.buffer)].pointer;
  const std::string prefix = text("pointer ", address.buffer, " ");
  int last = level_of(address.bytes);
  for (const auto& [stride, affine] : address.symbolic) last = std::max(last, level_of(affine));
  Affine bytes;
  std::vector<Affine> symbolic(address.symbolic.size());
  for (int level = 0; level <= last; ++level) {
    std::string key = prefix;
    const Affine part = terms_of_level(address.bytes, level, variable_level_);
    bytes = bytes + part;
    key += bytes.str();
    std::vector<Affine> symbolic_part;
    bool any = !part.terms().empty();
    for (size_t i = 0; i < symbolic.size(); ++i) {
      symbolic_part.push_back(terms_of_level(address.symbolic[i].second, level, variable_level_));
      symbolic[i] = symbolic[i] + symbolic_part[i];
      key += text(" + ", i, "*(", symbolic[i].str(), ")");
      any |= !symbolic_part[i].terms().empty();
    }
    if (!any) continue;
    result = at_level(level, key, [&] {
      llvm::Value* offset = context_.value_of(part);
      for (size_t i = 0; i < symbolic.size(); ++i) {
        if (symbolic_part[i].terms().empty()) continue;
        offset = context_.add(
            offset, builder_.CreateNSWMul(address.symbolic[i].first, context_.value_of(symbolic_part[i])));
      }
      return builder_.CreatePtrAdd(result, offset);
    });
  }
  for (const auto& [stride, affine] : address.symbolic) {
    if (affine.constant() == 0) continue;
    llvm::Value* symbolic_stride = stride;
    const int64_t factor = affine.constant();
    llvm::Value* offset = at_level(0, text("rows ", symbolic_stride->getName().str(), " ", factor),
                                   [&] { return context_.multiply(symbolic_stride, factor); });
    result = builder_.CreatePtrAdd(result, offset);
  }
  if (address.dynamic != nullptr) result = builder_.CreatePtrAdd(result, address.dynamic);
  if (address.bytes.constant() != 0) {
    result = builder_.CreatePtrAdd(result, context_.i64(address.bytes.constant()));
  }
  return result;
}

// As pointer(), or the address of `bytes` zeros where the scalar guard does not hold. The selection
// is made at the guard's own loop level where what inner loops add is small.
llvm::Value* TileEmitter::guarded_pointer(const Address& address, llvm::Value* scalar, int level, int id,
                                          int64_t bytes) {
  constexpr int64_t kLargest = 4096;
  if (level >= 0 && address.dynamic == nullptr && address.symbolic.empty()) {
    Affine inner;
    for (int inside = level + 1; inside < static_cast<int>(levels_.size()); ++inside) {
      inner = inner + terms_of_level(address.bytes, inside, variable_level_);
    }
    const Interval range = range_of(inner, context_.ranges);
    if (range.low > -kLargest && range.high < kLargest) {
      Address outer = address;
      outer.bytes = address.bytes - inner + Affine(range.low);
      llvm::Value* selected =
          at_level(level, text("guarded ", id, " ", address.buffer, " ", outer.bytes.str()), [&] {
            return builder_.CreateSelect(scalar, pointer(outer),
                                         context_.zero_block(range.high - range.low + bytes));
          });
      return builder_.CreatePtrAdd(selected, hoisted(inner - Affine(range.low)));
    }
  }
  return builder_.CreateSelect(scalar, pointer(address), context_.zero_block(bytes));
}

// Byte offsets of the lanes from lane 0's address. Constant where they can be.
llvm::Value* TileEmitter::lane_offsets(const Address& address) {
  const bool narrow = std::abs(address.lane_bytes) * lanes_ < (int64_t{1} << 31) &&
                      address.symbolic_lane.empty() && address.dynamic_lanes == nullptr;
  llvm::Type* type = narrow ? builder_.getInt32Ty() : builder_.getInt64Ty();
  llvm::SmallVector<llvm::Constant*, 64> constants, lanes;
  for (int i = 0; i < lanes_; ++i) {
    constants.push_back(llvm::ConstantInt::get(type, static_cast<uint64_t>(address.lane_bytes * i), true));
    lanes.push_back(context_.i64(i));
  }
  llvm::Value* offsets = llvm::ConstantVector::get(constants);
  for (const auto& [stride, step] : address.symbolic_lane) {
    llvm::Value* scaled =
        builder_.CreateVectorSplat(static_cast<unsigned>(lanes_), context_.multiply(stride, step));
    offsets = builder_.CreateAdd(offsets, builder_.CreateMul(scaled, llvm::ConstantVector::get(lanes)));
  }
  if (address.dynamic_lanes != nullptr) offsets = builder_.CreateAdd(offsets, address.dynamic_lanes);
  // LLVM 19 does not shorten vectors of offsets that are longer than addresses: it reads beyond a list of
  // types (RISC-V with Zve32f).
  if (context_.target.word_bits == 32)
    offsets = builder_.CreateTrunc(offsets, widen(builder_.getInt32Ty(), lanes_));
  return offsets;
}

// Where lanes belong to several groups, each lane reads its own group's element of a block. If the loops
// along the block are unrolled, that is a vector load and a shuffle.
std::optional<TileEmitter::RowShuffle> TileEmitter::row_shuffle(const Access& access,
                                                                const Address& address) const {
  constexpr int64_t kMaxVectors = 4;  // in the row
  if (address.dynamic != nullptr || address.dynamic_lanes == nullptr || !address.symbolic_lane.empty()) {
    return std::nullopt;
  }
  auto* offsets = llvm::dyn_cast<llvm::Constant>(address.dynamic_lanes);
  const Buffer& buffer = kernel_.buffers[static_cast<size_t>(access.buffer)];
  const BufferSlot& slot = context_.buffers[static_cast<size_t>(access.buffer)];
  const int64_t element = size_of(buffer.dtype);
  if (offsets == nullptr || !buffer.shape.back().is_constant() || slot.symbolic_stride.back() != nullptr ||
      slot.stride.back() != element) {
    return std::nullopt;
  }
  Affine first = access.index.back().affine.substitute(iterators_);
  first = first - Affine::variable(lane_, first.coefficient(lane_));
  RowShuffle row{first.constant(), buffer.shape.back().constant(), {}};
  if (!first.is_constant() || row.extent < 2 || row.extent > kMaxVectors * lanes_) return std::nullopt;
  for (int i = 0; i < lanes_; ++i) {
    auto* added =
        llvm::dyn_cast_or_null<llvm::ConstantInt>(offsets->getAggregateElement(static_cast<unsigned>(i)));
    if (added == nullptr) return std::nullopt;
    const int64_t bytes = address.lane_bytes * i + added->getSExtValue();
    const int64_t at = row.first + bytes / element;
    if (bytes % element != 0 || at < 0 || at >= row.extent) return std::nullopt;
    row.elements.push_back(static_cast<int>(at));
  }
  return row;
}

// Two broadcasting loads and a blend where the lanes read only two elements; else a load of the row and a
// shuffle.
llvm::Value* TileEmitter::shuffled_row(const RowShuffle& row, llvm::Type* type, llvm::Value* from,
                                       llvm::Align align) {
  const std::set<int> elements(row.elements.begin(), row.elements.end());
  if (elements.size() > 2) {
    return builder_.CreateShuffleVector(
        builder_.CreateAlignedLoad(widen(type, static_cast<int>(row.extent)), from, align), row.elements);
  }
  auto all_lanes = [&](int element) {
    llvm::Value* place = builder_.CreateConstGEP1_64(type, from, static_cast<uint64_t>(element));
    llvm::Value* value = builder_.CreateAlignedLoad(type, place, align);
    return builder_.CreateVectorSplat(static_cast<unsigned>(lanes_), value);
  };
  llvm::Value* value = all_lanes(*elements.begin());
  if (elements.size() == 1) return value;
  llvm::SmallVector<llvm::Constant*, 64> first;
  for (const int element : row.elements) first.push_back(builder_.getInt1(element == *elements.begin()));
  return builder_.CreateSelect(llvm::ConstantVector::get(first), value, all_lanes(*elements.rbegin()));
}

// Bools are bytes in memory, and become i1.
TileEmitter::Value TileEmitter::from_memory(llvm::Value* value, DType dtype, bool vector) {
  if (dtype == DType::Bool) {
    value = builder_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  }
  return {value, vector};
}

std::string TileEmitter::load_key(const Access& access, const Address& address, const Guard& guard,
                                  const RowShuffle* row) const {
  std::string key = text(access.buffer, " ", address.bytes.str(), " ", address.lane_bytes, " ", guard.id);
  for (size_t i = 0; row != nullptr && i < row->elements.size(); ++i) key += text(" row ", row->elements[i]);
  for (const auto& [stride, affine] : address.symbolic) {
    key += text(" + ", stride->getName().str(), "*(", affine.str(), ")");
  }
  for (const auto& [stride, step] : address.symbolic_lane) {
    key += text(" lane ", stride->getName().str(), "*", step);
  }
  return key;
}

llvm::Value* TileEmitter::load_whole(const Address& address, llvm::Type* type, const Guard& guard,
                                     int64_t bytes, llvm::Align align) {
  llvm::Value* scalar = guard.scalar;
  int level = guard.level;
  if (guard.mask != nullptr && !guard.some_lane) {
    llvm::Value* any = builder_.CreateOrReduce(guard.mask);
    scalar = scalar == nullptr ? any : builder_.CreateAnd(scalar, any);
    level = -1;
  }
  llvm::Value* from =
      scalar == nullptr ? pointer(address) : guarded_pointer(address, scalar, level, guard.id, bytes);
  return builder_.CreateAlignedLoad(type, from, align);
}

// Whether lanes are so few bytes apart that a whole vector contains several of them. x86 has no gather of
// bytes, and LLVM would load one after the other.
bool TileEmitter::is_near_apart(const Address& address) const {
  constexpr int64_t kFarthest = 4;
  return context_.target.arch == Arch::X86_64 && address.symbolic_lane.empty() &&
         address.dynamic_lanes == nullptr && address.lane_bytes > 1 && address.lane_bytes <= kFarthest;
}

// Loads bytes that are `stride` apart, as whole vectors of which the last ends with the last lane: nothing
// after it is read.
llvm::Value* TileEmitter::load_apart(int64_t stride, llvm::Type* type, llvm::Value* from, llvm::Align align) {
  const int64_t last = (lanes_ - 1) * stride;
  llvm::Value* result = llvm::PoisonValue::get(type);
  for (int64_t lane = 0; lane < lanes_;) {
    const int64_t begin = std::min(lane * stride, last + 1 - lanes_);
    llvm::Value* part = builder_.CreateAlignedLoad(
        type, builder_.CreateConstGEP1_64(builder_.getInt8Ty(), from, static_cast<uint64_t>(begin)), align);
    llvm::SmallVector<int, 64> lanes(static_cast<size_t>(lanes_));
    for (int64_t i = 0; i < lanes_; ++i) {
      const bool is_new = i >= lane && i * stride - begin < lanes_;
      lanes[static_cast<size_t>(i)] = static_cast<int>(is_new ? lanes_ + i * stride - begin : i);
    }
    result = builder_.CreateShuffleVector(result, part, lanes);
    while (lane < lanes_ && lane * stride - begin < lanes_) ++lane;
  }
  return result;
}

// With Zve32f LLVM 19 supports gathers and scatters only where the number of lanes is a power of two: others
// get additional lanes that the mask leaves out.
static int lanes_apart(const Target& target, int lanes) {
  return target.word_bits == 32 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(lanes))) : lanes;
}

// The vector with this number of lanes, fewer or more; additional ones are zero.
static llvm::Value* with_lanes(Builder& builder, llvm::Value* vector, int lanes) {
  const int before = lanes_of(vector);
  if (lanes == before) return vector;
  llvm::SmallVector<int, 64> order(static_cast<size_t>(lanes));
  for (int i = 0; i < lanes; ++i) order[static_cast<size_t>(i)] = std::min(i, before);
  return builder.CreateShuffleVector(vector, llvm::Constant::getNullValue(vector->getType()), order);
}

llvm::Value* TileEmitter::load_lanes(const Address& address, llvm::Type* type, const Guard& guard,
                                     int64_t element, llvm::Align align) {
  llvm::Value* mask = guard.mask;
  if (guard.scalar != nullptr) {
    llvm::Value* all = builder_.CreateVectorSplat(static_cast<unsigned>(lanes_), guard.scalar);
    mask = mask == nullptr ? all : builder_.CreateAnd(mask, all);
  }
  llvm::Value* from = pointer(address);
  llvm::Constant* zero = llvm::Constant::getNullValue(type);
  if (address.contiguous(element)) return builder_.CreateMaskedLoad(type, from, align, mask, zero);
  if (mask == nullptr && element == 1 && is_near_apart(address))
    return load_apart(address.lane_bytes, type, from, align);
  const int lanes = lanes_apart(context_.target, lanes_);
  llvm::Value* pointers =
      builder_.CreateGEP(builder_.getInt8Ty(), from, with_lanes(builder_, lane_offsets(address), lanes));
  if (mask == nullptr) mask = llvm::Constant::getAllOnesValue(widen(builder_.getInt1Ty(), lanes_));
  llvm::Value* gathered =
      builder_.CreateMaskedGather(widen(type->getScalarType(), lanes), pointers, align,
                                  with_lanes(builder_, mask, lanes), with_lanes(builder_, zero, lanes));
  return with_lanes(builder_, gathered, lanes_);
}

TileEmitter::Value TileEmitter::load(const Access& access, DType dtype, const Guard& wanted,
                                     bool must_guard) {
  const Address address = address_of(access, wanted);
  const bool dynamic = address.dynamic != nullptr || address.dynamic_lanes != nullptr;
  const Guard guard = !wanted.empty() && (must_guard || !in_bounds(access)) ? wanted : Guard();
  const int64_t element = size_of(dtype);
  const llvm::Align align(static_cast<uint64_t>(element));
  llvm::Type* scalar_type = memory_type(builder_.getContext(), dtype);
  const Buffer& buffer = kernel_.buffers[static_cast<size_t>(access.buffer)];

  const auto row = guard.mask == nullptr ? row_shuffle(access, address) : std::nullopt;
  std::string key;
  if ((!dynamic || row) && is_read_only(access.buffer)) {
    key = load_key(access, address, guard, row ? &*row : nullptr);
    for (auto scope = loaded_.rbegin(); scope != loaded_.rend(); ++scope) {
      const auto found = scope->find(key);
      if (found != scope->end()) return found->second;
    }
  }

  llvm::Value* value = nullptr;
  const bool invariant = address.lane_invariant();
  if (row) {
    Address start = address;
    start.bytes = start.bytes - Affine(row->first * element);
    llvm::Value* from = guard.scalar == nullptr ? pointer(start)
                                                : guarded_pointer(start, guard.scalar, guard.level, guard.id,
                                                                  row->extent * element);
    value = shuffled_row(*row, scalar_type, from, align);
  } else if (invariant || (guard.mask == nullptr && address.contiguous(element))) {
    llvm::Type* type = invariant ? scalar_type : widen(scalar_type, lanes_);
    value = load_whole(address, type, guard, invariant ? element : element * lanes_, align);
    // Single elements of constants are few.
    if (guard.empty() && !(invariant && buffer.scope == Scope::Constant)) prefetch(access, address);
    if (guard.empty() && invariant && buffer.scope != Scope::Constant) prefetch_next_trip(access, address);
  } else {
    value = load_lanes(address, widen(scalar_type, lanes_), guard, element, align);
    if (guard.empty()) prefetch_lanes(access, address);
  }
  // On in-order cores a vector is loaded again where it is needed, which takes a cycle in which the memory
  // port is free. If it were marked invariant, LLVM would move the load out of loops, and spill the vector
  // where registers do not suffice.
  const Target& target = context_.compiler.target();
  const bool again = orders_code(target) && value->getType()->isVectorTy() &&
                     !context_.function->hasFnAttribute("tc-keeps-constants");
  if (auto* instruction = llvm::dyn_cast<llvm::LoadInst>(value);
      instruction != nullptr && buffer.scope == Scope::Constant && !again && !fills_registers()) {
    instruction->setMetadata(llvm::LLVMContext::MD_invariant_load,
                             llvm::MDNode::get(builder_.getContext(), {}));
  }
  const Value result = from_memory(value, dtype, !invariant);
  if (!key.empty()) loaded_.back()[key] = result;
  return result;
}

void TileEmitter::store(const Access& access, DType dtype, const Value& value, const Guard& guard) {
  const Address address = address_of(access, guard);
  const int64_t element = size_of(dtype);
  const llvm::Align align(static_cast<uint64_t>(element));
  auto to_memory = [&](llvm::Value* stored) {
    if (dtype != DType::Bool) return stored;
    return builder_.CreateZExt(stored, stored->getType()->getWithNewBitWidth(8));
  };
  TC_CHECK(guard.scalar == nullptr, "for the store of statement '", statement_->name, "'");
  if (address.lane_invariant()) {
    TC_CHECK(guard.mask == nullptr || !value.vector, "for the store of statement '", statement_->name,
             "': lanes write one element under a condition");
    llvm::Value* last = value.vector
                            ? builder_.CreateExtractElement(value.value, static_cast<uint64_t>(lanes_ - 1))
                            : value.value;
    builder_.CreateAlignedStore(to_memory(last), pointer(address), align);
    return;
  }
  llvm::Value* stored = to_memory(spread(value));
  if (address.contiguous(element)) {
    llvm::Value* to = pointer(address);
    if (guard.mask == nullptr) {
      builder_.CreateAlignedStore(stored, to, align);
    } else {
      builder_.CreateMaskedStore(stored, to, align, guard.mask);
    }
    return;
  }
  if (auto* mask = llvm::dyn_cast_or_null<llvm::Constant>(guard.mask);
      waits_ && !address.dynamic_lanes && (guard.mask == nullptr || mask != nullptr)) {
    waiting_.push_back({address, stored, mask});
    return;
  }
  scatter(address, stored, guard.mask, align);
}

// Four bytes at constant distances from an address, on MVE. LLVM would add the address to the distances in a
// vector, which takes another register.
bool TileEmitter::scatter_bytes(const Address& address, llvm::Value* value, llvm::Value* mask) {
  constexpr int kLanes = 4;
  constexpr unsigned kBits = 8;
  if (context_.target.arch != Arch::ArmM || context_.target.vector_bits == 0 || lanes_ != kLanes ||
      address.lane_bytes < 0 || address.dynamic_lanes != nullptr || !address.symbolic_lane.empty() ||
      !value->getType()->getScalarType()->isIntegerTy(kBits))
    return false;
  auto* offsets = llvm::dyn_cast<llvm::Constant>(lane_offsets(address));
  if (offsets == nullptr) return false;
  llvm::Value* to = pointer(address);
  llvm::Type* words = widen(builder_.getInt32Ty(), kLanes);
  std::vector<llvm::Type*> types = {to->getType(), words, words};
  // Only the low bytes are stored.
  const auto* narrowed = llvm::dyn_cast<llvm::TruncInst>(value);
  llvm::Value* bytes = narrowed != nullptr && narrowed->getSrcTy() == words
                           ? narrowed->getOperand(0)
                           : builder_.CreateZExt(value, words);
  std::vector<llvm::Value*> arguments = {to, offsets, bytes, builder_.getInt32(kBits), builder_.getInt32(0)};
  const char* name = "llvm.arm.mve.vstr.scatter.offset";
  if (mask != nullptr) {
    name = "llvm.arm.mve.vstr.scatter.offset.predicated";
    types.push_back(mask->getType());
    arguments.push_back(mask);
  }
  builder_.CreateIntrinsic(llvm::Function::lookupIntrinsicID(name), types, arguments);
  return true;
}

void TileEmitter::scatter(const Address& address, llvm::Value* value, llvm::Value* mask, llvm::Align align) {
  if (scatter_bytes(address, value, mask)) return;
  const int lanes = lanes_apart(context_.target, lanes_);
  llvm::Value* pointers = builder_.CreateGEP(builder_.getInt8Ty(), pointer(address),
                                             with_lanes(builder_, lane_offsets(address), lanes));
  if (mask == nullptr) mask = llvm::Constant::getAllOnesValue(widen(builder_.getInt1Ty(), lanes_));
  builder_.CreateMaskedScatter(with_lanes(builder_, value, lanes), pointers, align,
                               with_lanes(builder_, mask, lanes));
}

}  // namespace tc
