// Products of bytes on general-purpose registers, where each lane of an accumulator is a register of its own.
#include <algorithm>
#include <array>

#include "codegen/llvm/emit/tile_emitter.h"
#include "codegen/llvm/emit/gathered_windows.h"
#include "codegen/llvm/emit/prewidened_rows.h"
#include "codegen/llvm/emit/prewidened_words.h"
#include "codegen/llvm/units/cortex_m_products.h"
#include "codegen/llvm/units/matrix_unit.h"
#include "ir/error.h"
#include "ir/target/narrow_product.h"

namespace tc {
namespace {

// An address and the bytes from there to what is loaded.
struct Place {
  llvm::Value* base = nullptr;
  int64_t offset = 0;
};

// What the value, or the one that a splat repeats, was loaded from; without a base where no such instruction
// loaded it.
Place loaded_from(llvm::Value* value, const llvm::DataLayout& layout) {
  if (auto* splat = llvm::dyn_cast<llvm::ShuffleVectorInst>(value)) {
    auto* inserted = llvm::dyn_cast<llvm::InsertElementInst>(splat->getOperand(0));
    if (inserted != nullptr && splat->isZeroEltSplat()) value = inserted->getOperand(1);
  }
  auto* load = llvm::dyn_cast<llvm::LoadInst>(value);
  if (load == nullptr) return {};
  llvm::APInt offset(layout.getIndexTypeSizeInBits(load->getPointerOperandType()), 0);
  llvm::Value* base = load->getPointerOperand()->stripAndAccumulateConstantOffsets(layout, offset,
                                                                                   /*AllowNonInbounds=*/true);
  return {base, offset.getSExtValue()};
}

bool has_aligned_words(llvm::Value* value) {
  auto* load = llvm::dyn_cast<llvm::LoadInst>(value);
  return load != nullptr && load->getAlign().value() >= 4;
}

llvm::Value* lane_of(Builder& builder, llvm::Value* vector, int lane) {
  return vector->getType()->isVectorTy() ? builder.CreateExtractElement(vector, static_cast<uint64_t>(lane))
                                         : vector;
}

}  // namespace

llvm::Value* TileEmitter::add_products_of_lanes(llvm::Value* sums, std::pair<Value, DType> first,
                                                std::pair<Value, DType> second) {
  if (first.first.vector && !second.first.vector) std::swap(first, second);
  const bool is_shared = !first.first.vector;  // the same number of 16 bits in all lanes
  // Even and odd lanes.
  const auto halves_of = [&](const std::pair<Value, DType>& operand) -> std::array<llvm::Value*, 2> {
    const auto& [bytes, dtype] = operand;
    llvm::Type* word = builder_.getInt32Ty();
    if (!bytes.vector) {
      llvm::Value* number =
          is_signed(dtype) ? builder_.CreateSExt(bytes.value, word) : builder_.CreateZExt(bytes.value, word);
      return {number, number};
    }
    llvm::Value* lanes = builder_.CreateBitCast(bytes.value, word);
    return {bytes_as_halves(builder_, lanes, is_signed(dtype), false),
            bytes_as_halves(builder_, lanes, is_signed(dtype), true)};
  };
  const std::array<llvm::Value*, 2> a = halves_of(first), b = halves_of(second);
  for (int lane = 0; lane < lanes_; ++lane) {
    const bool is_top = lane >= 2;
    const char* name = !is_top ? "llvm.arm.smlabb" : is_shared ? "llvm.arm.smlabt" : "llvm.arm.smlatt";
    const auto index = static_cast<uint64_t>(lane);
    llvm::Value* sum =
        call_intrinsic(builder_, name, builder_.getInt32Ty(),
                       {a[index % 2], b[index % 2], builder_.CreateExtractElement(sums, index)});
    sums = builder_.CreateInsertElement(sums, sum, index);
  }
  return sums;
}

void TileEmitter::add_word_product(const WordProduct& product, const Constraints& needed) {
  if (needed.empty()) {
    word_products_.push_back(product);
    return;
  }
  add_word_products();
  llvm::Value*& sum = region_.accumulators.at(product.sum).value;
  llvm::Value* before = sum;
  word_products_.push_back(product);
  add_word_products();
  sum = selected(needed, sum, before);
}

// The lanes of an accumulator, before and after products are added.
std::vector<llvm::Value*> TileEmitter::lanes_of_sum(const std::string& name) {
  std::vector<llvm::Value*> lanes;
  for (int lane = 0; lane < lanes_; ++lane)
    lanes.push_back(lane_of(builder_, region_.accumulators.at(name).value, lane));
  return lanes;
}

void TileEmitter::set_lanes_of_sum(const std::string& name, const std::vector<llvm::Value*>& lanes) {
  llvm::Value*& sum = region_.accumulators.at(name).value;
  if (!sum->getType()->isVectorTy()) {
    sum = lanes.front();
    return;
  }
  sum = llvm::PoisonValue::get(sum->getType());
  for (size_t lane = 0; lane < lanes.size(); ++lane)
    sum = builder_.CreateInsertElement(sum, lanes[lane], static_cast<uint64_t>(lane));
}

void TileEmitter::add_one_word_product(const WordProduct& product) {
  const NarrowProduct& row = *lane_product(context_.target, 1, DType::I16, DType::I16, DType::I32);
  std::vector<llvm::Value*> sums = lanes_of_sum(product.sum);
  llvm::Value* shared = lane_of(builder_, product.shared, 0);
  for (const bool odd : {false, true}) {
    llvm::Value* half = bytes_as_halves(builder_, shared, product.shared_is_signed, odd);
    for (int lane = 0; lane < lanes_; ++lane) {
      llvm::Value* weight = bytes_as_halves(builder_, lane_of(builder_, product.weights, lane),
                                            product.weights_are_signed, odd);
      llvm::Value*& sum = sums[static_cast<size_t>(lane)];
      sum = add_products_of_halves(builder_, row, sum, half, weight);
    }
  }
  set_lanes_of_sum(product.sum, sums);
}

// Products whose operands lie at constant distances from two addresses, as those of the copies of a loop do,
// make steps of one or two columns. Other products are added one by one.
void TileEmitter::add_word_products() {
  const std::vector<WordProduct> products = std::exchange(word_products_, {});
  // The accumulators of a step and the two addresses.
  struct Run {
    std::vector<std::string> sums;
    llvm::Value *words = nullptr, *weights = nullptr;
    std::vector<WordStep> steps;
  };
  std::vector<Run> runs;
  const llvm::DataLayout& layout = context_.compiler.module().getDataLayout();
  for (size_t i = 0; i < products.size();) {
    const WordProduct& first = products[i];
    const Place word = loaded_from(first.shared, layout), weight = loaded_from(first.weights, layout);
    if (lanes_ != kLanesOfStep || word.base == nullptr || weight.base == nullptr ||
        !has_aligned_words(first.weights)) {
      add_one_word_product(first);
      ++i;
      continue;
    }
    Run run{{first.sum}, word.base, weight.base, {{{word.offset}, weight.offset}}};
    if (i + 1 < products.size() && products[i + 1].weights == first.weights &&
        products[i + 1].sum != first.sum) {
      const Place other = loaded_from(products[i + 1].shared, layout);
      if (other.base == word.base) {
        run.sums.push_back(products[i + 1].sum);
        run.steps.front().columns.push_back(other.offset);
      }
    }
    i += run.sums.size();
    const auto same = std::find_if(runs.begin(), runs.end(), [&](const Run& each) {
      return each.sums == run.sums && each.words == run.words && each.weights == run.weights;
    });
    if (same == runs.end()) runs.push_back(run);
    else same->steps.push_back(run.steps.front());
  }
  for (const Run& run : runs) {
    std::vector<llvm::Value*> sums;
    for (const std::string& name : run.sums) {
      for (llvm::Value* lane : lanes_of_sum(name)) sums.push_back(lane);
    }
    add_word_steps(builder_, sums, run.words, run.weights, run.steps,
                   {products.front().shared_is_signed, products.front().weights_are_signed});
    for (size_t i = 0; i < run.sums.size(); ++i) {
      const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(i * kLanesOfStep);
      set_lanes_of_sum(run.sums[i], {begin, begin + kLanesOfStep});
    }
  }
}

bool TileEmitter::add_widened_words() {
  const auto words = context_.widened.find(&leaf_);
  if (words == context_.widened.end() || region_position_ != 0) return false;
  const auto sum = widened_sum(context_, leaf_);
  TC_CHECK(sum.has_value(), "as the sum of leaf '", leaf_.name, "', whose words were widened");
  if (sum->statement != tile_->statement) return false;
  // The first step's weights, and the accumulators of all columns.
  std::vector<std::string> names;
  llvm::Value* weights = nullptr;
  const auto saved = values_;
  for (size_t i = 0; i < sum->sums; ++i) values_[tile_->loops[i].name] = Affine(0);
  values_[tile_->loops[sum->sums + 1].name] = Affine(0);
  for (int64_t column = 0; column < sum->columns; ++column) {
    values_[tile_->loops[sum->sums].name] = Affine(column);
    evaluated_.clear();
    iterators_.clear();
    for (const auto& [name, affine] : tile_->iterators) iterators_[name] = with_values(affine);
    names.push_back(accumulator_key());
    if (weights == nullptr) weights = pointer(address_of(sum->weights->access, Guard()));
  }
  values_ = saved;
  std::vector<std::vector<llvm::Value*>> columns;
  for (const std::string& name : names) columns.push_back(lanes_of_sum(name));
  for (size_t first = 0; first < kLanesOfStep; first += kLanesOfHalf) {
    std::vector<llvm::Value*> sums;
    for (const auto& lanes : columns)
      sums.insert(sums.end(), lanes.begin() + static_cast<std::ptrdiff_t>(first),
                  lanes.begin() + static_cast<std::ptrdiff_t>(first + kLanesOfHalf));
    llvm::Value* own = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), weights, 4 * first);
    add_widened_steps(builder_, sums,
                      {words->second, own, sum->columns, sum->steps, is_signed(sum->weights->dtype)});
    for (size_t column = 0; column < columns.size(); ++column)
      std::copy_n(sums.begin() + static_cast<std::ptrdiff_t>(column * kLanesOfHalf), kLanesOfHalf,
                  columns[column].begin() + static_cast<std::ptrdiff_t>(first));
  }
  for (size_t column = 0; column < names.size(); ++column) set_lanes_of_sum(names[column], columns[column]);
  return true;
}

bool TileEmitter::add_widened_rows() {
  const auto found = context_.widened_rows.find(&leaf_);
  if (found == context_.widened_rows.end() || region_position_ != 0) return false;
  const WidenedRows& rows = *found->second;
  if (rows.statement != tile_->statement) return false;
  const std::vector<TileLoop>& loops = tile_->loops;
  std::vector<std::string> names;
  const auto saved = values_;
  for (const TileLoop& loop : loops) values_[loop.name] = Affine(0);
  for (int64_t column = 0; column < rows.columns; ++column) {
    values_[loops.back().name] = Affine(column);
    evaluated_.clear();
    iterators_.clear();
    for (const auto& [name, affine] : tile_->iterators) iterators_[name] = with_values(affine);
    names.push_back(accumulator_key());
  }
  values_ = saved;
  std::vector<llvm::Value*> sums;
  // A column under whose window there is only padding has no accumulator.
  for (const std::string& name : names) {
    const auto sum = region_.accumulators.find(name);
    sums.push_back(sum == region_.accumulators.end() ? builder_.getInt32(0) : sum->second.value);
  }
  const auto place = [&](const Affine& bytes) {
    return builder_.CreatePtrAdd(rows.start, context_.value_of(bytes));
  };
  add_window_rows(builder_, sums,
                  {place(rows.offset), place(rows.offset_of_weights), rows.stride, rows.taps,
                   rows.dilation * rows.row_bytes()});
  for (size_t column = 0; column < names.size(); ++column) {
    const auto sum = region_.accumulators.find(names[column]);
    if (sum != region_.accumulators.end()) sum->second.value = sums[column];
  }
  return true;
}

bool TileEmitter::add_gathered_windows() {
  const auto found = context_.gathered_windows.find(&leaf_);
  if (found == context_.gathered_windows.end() || region_position_ != 0) return false;
  const GatheredWindows& windows = *found->second;
  if (windows.statement != tile_->statement || region_.accumulators.size() != 1) return false;
  Accumulator& accumulator = region_.accumulators.begin()->second;
  accumulator.value = builder_.CreateAdd(accumulator.value, sums_of_windows(context_, windows));
  return true;
}

}  // namespace tc
