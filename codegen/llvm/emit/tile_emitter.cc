// Emits one leaf of the loop tree: its statements and their loop nests.
#include "codegen/llvm/module_compiler.h"
#include "codegen/llvm/emit/tile_emitter.h"

#include <llvm/Analysis/VectorUtils.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "codegen/llvm/role_metadata.h"
#include "ir/error.h"
#include "ir/tile.h"

namespace tc {
namespace {

constexpr size_t kNever = std::numeric_limits<size_t>::max();

// Turns the matrix loops of a statement that is no product into unrolled loops, and the last one, along the
// columns, into the vector loop.
void without_matrices(std::vector<TileLoop>& loops) {
  for (TileLoop& loop : loops) {
    if (loop.kind == TileLoop::Kind::Matrix)
      loop.kind = &loop == &loops.back() ? TileLoop::Kind::Vector : TileLoop::Kind::Unroll;
  }
}

}  // namespace

TileEmitter::TileEmitter(KernelContext& context, const LoopNode& leaf, std::vector<Affine> assumed)
    : context_(context),
      kernel_(context.kernel),
      leaf_(leaf),
      builder_(context.builder),
      arithmetic_(context.builder, context.target),
      known_(std::move(assumed)) {
  known_.insert(known_.end(), context.facts.begin(), context.facts.end());
  for (const TileStatement& tile : leaf.statements) {
    TC_CHECK(tile.statement >= 0 && tile.statement < static_cast<int>(kernel_.statements.size()),
             "in a leaf of kernel '", kernel_.name, "'");
    const int buffer = kernel_.statements[static_cast<size_t>(tile.statement)].write.buffer;
    if (kernel_.buffers[static_cast<size_t>(buffer)].scope != Scope::Register) {
      written_.insert(buffer);
    }
  }
}

void TileEmitter::emit() {
  llvm::BasicBlock* inside = context_.block("leaf");
  levels_.push_back({builder_.GetInsertBlock(), {}});
  builder_.CreateBr(inside);
  builder_.SetInsertPoint(inside);
  loaded_.emplace_back();
  const std::map<size_t, size_t> zeroing = zeroing_statements();
  std::set<size_t> from_zero;
  for (const auto& [zero, product] : zeroing) from_zero.insert(product);
  for (size_t i = 0; i < leaf_.statements.size(); ++i) {
    next_statement_ = i + 1;
    if (zeroing.count(i) == 0) emit_statement(leaf_.statements[i], from_zero.count(i) != 0);
  }
}

void TileEmitter::emit_statement(const TileStatement& original, bool from_zero) {
  std::set<std::string> outer;
  for (const auto& [name, value] : context_.variables) outer.insert(name);
  const bool product = is_matrix_product(kernel_, original);
  TileStatement plain = original;
  if (!product) without_matrices(plain.loops);
  const TileStatement tile = with_loop_names(std::move(plain), outer);
  tile_ = &tile;
  statement_ = &kernel_.statements[static_cast<size_t>(tile.statement)];
  arithmetic_.let_bfloats_flush(
      context_.matrix_operands.count(statement_->write.buffer) != 0 && context_.target.arch == Arch::X86_64 &&
      context_.compiler.has_feature("avx512bf16") && context_.compiler.has_feature("avx512vl"));
  values_.clear();
  lane_.clear();
  lanes_ = 1;
  for (size_t i = 0; i < tile.loops.size(); ++i) {
    const TileLoop& loop = tile.loops[i];
    const int64_t last = last_trip(loop, context_.ranges);
    if (last < 0) return;  // no instances
    context_.ranges[loop.name] = {0, last};
    if (loop.kind == TileLoop::Kind::Vector) {
      TC_CHECK(i + 1 == tile.loops.size(), "the vector loop is the innermost, in statement '",
               statement_->name, "'");
      lane_ = loop.name;
      lanes_ = static_cast<int>(loop.extent);
    }
  }
  region_ = AccumulatorRegion();
  if (product) {
    emit_matrix(from_zero);
  } else {
    region_position_ = accumulation_start(kernel_, tile).value_or(kNever);
    nest(0, tile.constraints);
  }
  for (const TileLoop& loop : tile.loops) context_.ranges.erase(loop.name);
  tile_ = nullptr;
}

Affine TileEmitter::with_values(const Affine& affine) const { return affine.substitute(values_); }

bool TileEmitter::simplify(Constraints& pending) const {
  Constraints kept;
  for (const Affine& constraint : pending) {
    const Affine affine = with_values(constraint);
    if (proves_nonnegative(affine, context_.ranges, known_)) continue;
    if (refutes_nonnegative(affine, context_.ranges)) return false;
    kept.push_back(affine);
  }
  pending = std::move(kept);
  return true;
}

void TileEmitter::nest(size_t position, Constraints pending) {
  if (!simplify(pending)) return;
  const std::vector<TileLoop>& loops = tile_->loops;
  const bool serial = position < loops.size() && loops[position].kind == TileLoop::Kind::Serial;
  const bool batch = matrix_ != nullptr && position == matrix_->batch;
  if (position == 0 || serial || batch) {
    Constraints fixed, open;
    for (const Affine& constraint : pending) {
      (is_fixed(constraint) ? fixed : open).push_back(constraint);
    }
    if (!fixed.empty()) return branch_on(fixed, [&] { nest(position, open); });
  }
  if (batch) {
    matrix_batch(pending);
    return;
  }
  if (position == region_position_ && !region_.active) {
    const Constraints any = any_result_exists(pending);
    if (!any.empty()) return branch_on(any, [&] { nest(position, pending); });
    begin_region(position, pending);
    if (position == region_position_) {
      if (!region_.accumulators.empty()) {
        prefetch_all_stores();
        nest(position, pending);
        end_region();
      }
      region_ = AccumulatorRegion();
      return;
    }
  }
  if (position == region_position_ && region_.active &&
      (add_widened_words() || add_widened_rows() || add_gathered_windows()))
    return;
  if (position == loops.size()) {
    instance(pending);
    return;
  }
  const TileLoop& loop = loops[position];
  switch (loop.kind) {
    case TileLoop::Kind::Vector: nest(position + 1, pending); break;
    case TileLoop::Kind::Unroll:
      if (copy_words(position, pending) || copy_bytes(position, pending) || sum_bytes(position, pending))
        break;
      waits_ = stores_across(position);
      for (int64_t i = 0; i < loop.extent; ++i) {
        values_[loop.name] = Affine(i);
        nest(position + 1, pending);
        if (i + 1 < loop.extent && is_step(loop)) end_step();
      }
      values_.erase(loop.name);
      store_transposed();
      waits_ = false;
      break;
    case TileLoop::Kind::Serial: serial_loop(position, pending); break;
    case TileLoop::Kind::Matrix:
      fail(ErrorKind::Internal, "internal error: a matrix loop outside of a product");
  }
}

// A tile at the end of a map with a slanted edge, such as the scores of a causal attention, may have no
// results at all: its sums are not worth computing.
TileEmitter::Constraints TileEmitter::any_result_exists(const Constraints& pending) const {
  Constraints any;
  const std::vector<TileLoop>& loops = tile_->loops;
  const auto is_serial = [](const TileLoop& loop) { return loop.kind == TileLoop::Kind::Serial; };
  if (statement_->reduction == Reduction::None || std::none_of(loops.begin(), loops.end(), is_serial))
    return any;
  for (const Affine& constraint : pending) {
    const Affine holds = over_copies(constraint).second;
    if (!is_fixed(holds) || proves_nonnegative(holds, context_.ranges, known_)) continue;
    any.push_back(holds);
  }
  return any;
}

// Whether the copies of the loop are steps of scalar sums that fill the registers.
bool TileEmitter::is_step(const TileLoop& loop) const {
  if (context_.target.vector_bits > 0 || !region_.active || statement_->reduction != Reduction::Sum)
    return false;
  const auto& index = statement_->write.index;
  return std::none_of(index.begin(), index.end(),
                      [&](const Subscript& each) {
                        return mentions(each.affine.substitute(tile_->iterators), loop.name);
                      }) &&
         fills_registers();
}

// Loads of later steps must stay after this one: LLVM would move them together, or keep what several steps
// load, and spill sums to make room for it.
void TileEmitter::end_step() {
  builder_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent, llvm::SyncScope::SingleThread);
  if (!loaded_.empty()) loaded_.back().clear();
}

void TileEmitter::branch_on(const Constraints& constraints, const std::function<void()>& body) {
  llvm::Value* holds = nullptr;
  for (const Affine& constraint : constraints) {
    llvm::Value* one = condition(constraint);
    holds = holds == nullptr ? one : builder_.CreateAnd(holds, one);
  }
  if (holds == nullptr) {
    body();
    return;
  }
  add_waiting_products();
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  llvm::BasicBlock* inside = context_.block("guarded");
  llvm::BasicBlock* after = context_.block("guarded.end");
  const auto registers = registers_;
  const auto accumulators = region_.accumulators;
  builder_.CreateCondBr(holds, inside, after);
  builder_.SetInsertPoint(inside);
  const size_t known = known_.size();
  known_.insert(known_.end(), constraints.begin(), constraints.end());
  loaded_.emplace_back();
  body();
  add_waiting_products();
  loaded_.pop_back();
  known_.resize(known);
  llvm::BasicBlock* end = builder_.GetInsertBlock();
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
  auto merge = [&](llvm::Value* ran, llvm::Value* skipped) -> llvm::Value* {
    if (ran == skipped) return ran;
    llvm::PHINode* phi = builder_.CreatePHI(ran->getType(), 2);
    phi->addIncoming(ran, end);
    phi->addIncoming(skipped == nullptr ? llvm::PoisonValue::get(ran->getType()) : skipped, before);
    return phi;
  };
  for (auto& [name, accumulator] : region_.accumulators) {
    const auto found = accumulators.find(name);
    accumulator.value = merge(accumulator.value, found == accumulators.end() ? nullptr : found->second.value);
  }
  for (auto& [key, element] : registers_) {
    const auto found = registers.find(key);
    if (found == registers.end()) {
      for (const Affine& constraint : constraints) element.valid_where.insert(constraint.str());
      element.value = merge(element.value, nullptr);
    } else if (found->second.value != element.value) {
      element.value = merge(element.value, found->second.value);
      element.valid_where.insert(found->second.valid_where.begin(), found->second.valid_where.end());
    }
  }
}

llvm::Value* TileEmitter::condition(const Affine& constraint) {
  return at_level(level_of(constraint), "condition " + constraint.str(), [&]() -> llvm::Value* {
    // Compared with the constant, which becomes an immediate.
    const Affine terms = constraint - Affine(constraint.constant());
    return builder_.CreateICmpSGE(context_.value_of(terms), context_.i64(-constraint.constant()));
  });
}

llvm::Value* TileEmitter::lane_mask(const Affine& constraint) {
  const int64_t step = constraint.coefficient(lane_);
  const Affine rest = constraint - Affine::variable(lane_, step);
  // The statements of a leaf may have different numbers of lanes.
  return at_level(level_of(rest), text("mask of ", lanes_, " ", constraint.str()), [&]() -> llvm::Value* {
    constexpr int64_t kLimit = int64_t{1} << 30;
    const Interval range = range_of(constraint, context_.ranges);
    const bool narrow = range.low > -kLimit && range.high < kLimit;
    llvm::Type* type = narrow ? builder_.getInt32Ty() : builder_.getInt64Ty();
    llvm::SmallVector<llvm::Constant*, 64> lanes;
    for (int i = 0; i < lanes_; ++i) {
      lanes.push_back(llvm::ConstantInt::get(type, static_cast<uint64_t>(-step * i), true));
    }
    llvm::Value* scalar = builder_.CreateIntCast(context_.value_of(rest), type, true);
    llvm::Value* splat = builder_.CreateVectorSplat(static_cast<unsigned>(lanes_), scalar);
    return builder_.CreateICmpSGE(splat, llvm::ConstantVector::get(lanes));
  });
}

TileEmitter::Guard TileEmitter::guard_for(const Constraints& constraints) {
  Guard guard;
  std::string key;
  for (const Affine& constraint : constraints) {
    key += constraint.str() + ";";
    if (constraint.coefficient(lane_) != 0 && lanes_ > 1) {
      llvm::Value* mask = lane_mask(constraint);
      guard.mask = guard.mask == nullptr ? mask : builder_.CreateAnd(guard.mask, mask);
      continue;
    }
    llvm::Value* one = condition(constraint);
    const int level = level_of(constraint);
    if (guard.scalar == nullptr) {
      guard.scalar = one;
      guard.level = level;
    } else {
      guard.level = std::max(guard.level, level);
      llvm::Value* earlier = guard.scalar;
      guard.scalar = at_level(guard.level, "all " + key, [&] { return builder_.CreateAnd(earlier, one); });
    }
  }
  if (!guard.empty()) {
    const int next = static_cast<int>(guard_ids_.size()) + 1;
    guard.id = guard_ids_.insert({key, next}).first->second;
  }
  return guard;
}

void TileEmitter::instance(const Constraints& pending) {
  evaluated_.clear();
  iterators_.clear();
  for (const auto& [name, affine] : tile_->iterators) iterators_[name] = with_values(affine);
  if (region_.active) {
    accumulate_instance(pending);
  } else {
    store_instance(pending);
  }
}

void TileEmitter::store_instance(const Constraints& pending) {
  // Scalar conditions branch around the instance; those of lanes mask it, after a branch on whether any lane
  // is left.
  Constraints scalar, lanes;
  for (const Affine& constraint : pending) {
    const int64_t step = lanes_ > 1 ? constraint.coefficient(lane_) : 0;
    if (step == 0) {
      scalar.push_back(constraint);
      continue;
    }
    lanes.push_back(constraint);
    const Affine best = constraint.substitute({{lane_, Affine(step > 0 ? lanes_ - 1 : 0)}});
    if (!proves_nonnegative(best, context_.ranges, known_)) scalar.push_back(best);
  }
  // A value that is computed under a branch cannot wait until after it.
  const bool waits = std::exchange(waits_, waits_ && scalar.empty());
  branch_on(scalar, [&] {
    Guard guard = guard_for(lanes);
    guard.some_lane = lanes.size() == 1;
    const DType dtype = kernel_.buffers[static_cast<size_t>(statement_->write.buffer)].dtype;
    const Value value = evaluate(statement_->value, guard);
    store(statement_->write, dtype, value, guard);
  });
  waits_ = waits;
}

void TileEmitter::accumulate_instance(const Constraints& pending) {
  add_word_products();
  Accumulator& accumulator = region_.accumulators.at(accumulator_key());
  Constraints needed;
  for (const Affine& constraint : pending) {
    if (accumulator.exists_where.count(constraint.str()) == 0) needed.push_back(constraint);
  }
  if (statement_->reduction == Reduction::None) {
    replace_element(accumulator, pending, std::move(needed));
    return;
  }
  const DType dtype = statement_->value->dtype;
  if (needed.empty() && add_to_short_sum(accumulator, guard_for(pending))) return;
  llvm::Value* next = nullptr;
  if (const auto product = statement_->reduction == Reduction::Sum && is_float(dtype)
                               ? product_of(statement_->value)
                               : std::nullopt) {
    next = add_product(accumulator, *product, pending, needed);
  } else if (llvm::Value* sum = add_short_product(accumulator, pending)) {
    next = sum;
  } else {
    const Value value = evaluate(statement_->value, guard_for(pending));
    next =
        arithmetic_.combine(statement_->reduction, dtype, accumulator.value, shaped_like(accumulator, value));
  }
  accumulator.value = selected(needed, next, accumulator.value);
}

llvm::Value* TileEmitter::shaped_like(const Accumulator& accumulator, const Value& value) {
  return accumulator.value->getType()->isVectorTy() ? spread(value) : value.value;
}

llvm::Value* TileEmitter::selected(const Constraints& needed, llvm::Value* next, llvm::Value* before) {
  if (needed.empty()) return next;
  const Guard predicate = guard_for(needed);
  if (predicate.mask != nullptr) next = builder_.CreateSelect(predicate.mask, next, before);
  if (predicate.scalar != nullptr) next = builder_.CreateSelect(predicate.scalar, next, before);
  return next;
}

void TileEmitter::replace_element(Accumulator& accumulator, const Constraints& pending, Constraints needed) {
  const Guard guard = guard_for(pending);
  TC_CHECK(!(lanes_ > 1 && !accumulator.value->getType()->isVectorTy()), "in statement '", statement_->name,
           "': lanes write one register element");
  // A guarded plain load gives 0 where the instance does not exist, which is what a register that holds 0
  // has to keep there.
  const Expr& source = *statement_->value;
  auto* constant = llvm::dyn_cast<llvm::Constant>(accumulator.value);
  const bool kept = !needed.empty() && constant != nullptr && constant->isNullValue() &&
                    source.kind == Expr::Kind::Load && !accumulator.fresh &&
                    kernel_.buffers[static_cast<size_t>(source.access.buffer)].scope != Scope::Register;
  const Value value = kept ? load(source.access, source.dtype, guard, /*must_guard=*/true)
                           : evaluate(statement_->value, guard);
  if (kept && (guard.mask == nullptr || value.vector)) needed.clear();
  llvm::Value* next = shaped_like(accumulator, value);
  if (accumulator.fresh || pending.empty()) {
    accumulator.exists_where.clear();
    for (const Affine& constraint : pending) accumulator.exists_where.insert(constraint.str());
    accumulator.fresh = false;
  } else {
    next = selected(needed, next, accumulator.value);
  }
  accumulator.value = next;
}

// Whether all lanes have the same value, which is not known while compiling.
static bool is_broadcast(const llvm::Value& value) {
  return !llvm::isa<llvm::Constant>(value) && llvm::getSplatValue(&value) != nullptr;
}

llvm::Value* TileEmitter::add_product(const Accumulator& accumulator, std::pair<ExprPtr, ExprPtr> product,
                                      const Constraints& pending, Constraints& needed) {
  const Guard guard = guard_for(pending);
  // A guarded plain load gives 0 where the instance does not exist. Times a constant it adds nothing, as
  // padding's zeros do: no further selection is needed. (A weight that is not finite makes the sum NaN there,
  // as it does in ONNX Runtime.)
  auto plain_load = [&](const ExprPtr& expr, bool constant) {
    if (expr->kind != Expr::Kind::Load) return false;
    const Scope scope = kernel_.buffers[static_cast<size_t>(expr->access.buffer)].scope;
    return constant ? scope == Scope::Constant : scope != Scope::Register;
  };
  const Guard predicate = guard_for(needed);
  auto& [a, b] = product;
  if (plain_load(a, true) && !plain_load(b, true)) std::swap(a, b);
  bool zero = !needed.empty() && plain_load(a, false) && plain_load(b, false);
  // Where neither operand is a constant, both loads are guarded.
  const bool both = zero && !plain_load(b, true);
  Value left;
  if (zero) {
    left = load(a->access, a->dtype, guard, /*must_guard=*/true);
    zero = predicate.mask == nullptr || left.vector;
  } else {
    left = evaluate(a, guard);
  }
  const Value right = both ? load(b->access, b->dtype, guard, /*must_guard=*/true) : evaluate(b, guard);
  if (both) zero = zero && (predicate.mask == nullptr || right.vector);
  if (zero) needed.clear();
  llvm::Value *x = shaped_like(accumulator, left), *y = shaped_like(accumulator, right);
  // A sum that begins with zero needs no register for the zero. (The sign of zero does not matter: -0
  // compares equal.)
  const auto* before = llvm::dyn_cast<llvm::Constant>(accumulator.value);
  const Target& target = context_.compiler.target();
  if (orders_code(target) && before != nullptr && before->isNullValue()) return builder_.CreateFMul(x, y);
  llvm::Value* sum = builder_.CreateIntrinsic(llvm::Intrinsic::fmuladd, {accumulator.value->getType()},
                                              {x, y, accumulator.value});
  if (sum->getType()->isVectorTy())
    set_role(sum, is_broadcast(*x) || is_broadcast(*y) ? Role::BroadcastProduct : Role::Product);
  return sum;
}

}  // namespace tc
