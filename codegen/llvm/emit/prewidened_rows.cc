#include "codegen/llvm/emit/prewidened_rows.h"

#include <algorithm>
#include <array>
#include <functional>

#include "codegen/llvm/emit/window_operands.h"
#include "codegen/llvm/units/cortex_m_products.h"
#include "ir/access.h"
#include "ir/target/narrow_product.h"

namespace tc {
namespace {

constexpr int64_t kWord = 4;

// Finds the parts of such a sum one after the other; `find` returns null at the first that is missing.
class RowsFinder : WindowOperands {
 public:
  RowsFinder(const KernelContext& context, const TileStatement& tile, const Ranges& inner)
      : WindowOperands(context, tile, inner) {
    found_->statement = tile.statement;
    found_->tile = &tile;
  }

  std::shared_ptr<WidenedRows> find() {
    const bool found = has_loops() && has_operands() && has_window() && has_lanes() && has_weights() &&
                       is_padded_with_zeros();
    return found ? found_ : nullptr;
  }

 private:
  bool has_loops() const {
    return reads_widened_words(context_.target) && loops_.size() == 3 &&
           std::all_of(loops_.begin(), loops_.end(), [](const TileLoop& loop) {
             return loop.extent > 0 && loop.sum_block == 0 &&
                    (loop.kind == TileLoop::Kind::Serial || loop.kind == TileLoop::Kind::Unroll);
           });
  }

  bool has_operands() {
    if (!find_operands()) return false;
    found_->pixels = pixels_;
    found_->weights = weights_;
    return true;
  }
  // The part of the expression in variables of inner loops, without a constant.
  Affine inner_part(const Affine& affine) const {
    Affine part;
    for (const auto& [name, coefficient] : affine.terms()) {
      if (inner_.count(name) > 0) part = part + Affine::variable(name, coefficient);
    }
    return part;
  }
  Affine at_first_tap(Affine affine) const {
    for (const TileLoop& loop : loops_) affine = affine.substitute({{loop.name, Affine(0)}});
    return affine;
  }

  // One subscript moves with the rows of the window, one with its columns and those of the tile.
  bool has_window() {
    const std::string &taps = loops_[0].name, &window = loops_[1].name, &columns = loops_[2].name;
    const Expr& pixels = *found_->pixels;
    int rows = 0, cols = 0;
    for (size_t d = 0; d < pixels.access.index.size(); ++d) {
      const Affine index = subscript(pixels, d);
      if (index.coefficient(taps) != 0) {
        found_->row_dim = d;
        ++rows;
      }
      if (index.coefficient(window) != 0 || index.coefficient(columns) != 0) {
        found_->column_dim = d;
        ++cols;
      }
    }
    if (rows != 1 || cols != 1 || found_->row_dim == found_->column_dim) return false;
    const Affine row = subscript(pixels, found_->row_dim), column = subscript(pixels, found_->column_dim);
    found_->taps = loops_[0].extent;
    found_->dilation = row.coefficient(taps);
    found_->columns = loops_[2].extent;
    found_->stride = column.coefficient(columns);
    const bool fits = loops_[1].extent == kTapsOfWindow && column.coefficient(window) == 1 &&
                      (found_->stride == 1 || found_->stride == 2) && found_->dilation > 0 &&
                      found_->columns <= kMostColumnsOfWindow;
    const Affine of_rows = inner_part(row), of_columns = inner_part(column);
    if (!fits || !is_bound(row - of_rows) || !(column - of_columns).is_constant()) return false;
    const Interval row_range = range_of(of_rows, inner_), column_range = range_of(of_columns, inner_);
    found_->first_row = row - of_rows + Affine(row_range.low);
    found_->rows = row_range.high - row_range.low + 1;
    found_->first_column = (column - of_columns).constant() + column_range.low;
    found_->pairs = (column_range.high - column_range.low + 2) / 2;
    // A tile begins with a pair.
    const Affine from_first = at_first_tap(of_columns) - Affine(column_range.low);
    const Affine rows_from_first = at_first_tap(of_rows) - Affine(row_range.low);
    found_->offset = rows_from_first * found_->row_bytes() + from_first * 2;
    return from_first.is_multiple_of(2) && slot_of(pixels).stride[found_->column_dim] == kLanesOfRows &&
           reaches_window(found_->taps, found_->dilation * found_->row_bytes());
  }

  // The innermost subscript of the pixels is one of four channels; all others are the same in all leaves.
  bool has_lanes() {
    const Expr& pixels = *found_->pixels;
    const size_t last = pixels.access.index.size() - 1;
    if (last == found_->row_dim || last == found_->column_dim || slot_of(pixels).stride[last] != 1)
      return false;
    lane_ = subscript(pixels, last).as_variable();
    const auto range = inner_.find(lane_);
    if (range == inner_.end() || range->second.low != 0 || range->second.high != kLanesOfRows - 1)
      return false;
    for (size_t d = 0; d < last; ++d) {
      if (d != found_->row_dim && d != found_->column_dim && !is_bound(subscript(pixels, d))) return false;
    }
    found_->offset = found_->offset + Affine::variable(lane_, found_->lane_bytes());
    return true;
  }

  bool has_weights() {
    const BufferSlot& slot = slot_of(*found_->weights);
    Affine bytes;
    for (size_t d = 0; d < found_->weights->access.index.size(); ++d)
      bytes = bytes + subscript(*found_->weights, d) * slot.stride[d];
    if (bytes.coefficient(lane_) != 1 || bytes.coefficient(loops_[2].name) != 0) return false;
    const Affine others = bytes - Affine::variable(lane_) -
                          Affine::variable(loops_[0].name, bytes.coefficient(loops_[0].name)) -
                          Affine::variable(loops_[1].name, bytes.coefficient(loops_[1].name));
    found_->offset_of_weights =
        Affine(kLanesOfRows * found_->lane_bytes()) + Affine::variable(lane_, found_->weight_bytes());
    return is_bound(others);
  }

  // Whether there is no product exactly where a pixel is outside of the map: then a zero takes its place.
  bool is_padded_with_zeros() const {
    return std::all_of(tile_.constraints.begin(), tile_.constraints.end(), [&](const Affine& constraint) {
      return is_padding(constraint, {found_->row_dim, found_->column_dim});
    });
  }

  std::string lane_;
  std::shared_ptr<WidenedRows> found_ = std::make_shared<WidenedRows>();
};

// Emits the code that widens rows and weights.
class RowWidener {
 public:
  RowWidener(KernelContext& context, WidenedRows& rows)
      : context_(context), builder_(context.builder), rows_(rows) {}

  void run() {
    llvm::BasicBlock& entry_block = context_.function->getEntryBlock();
    Builder entry(&entry_block, entry_block.begin());
    const int64_t bytes = kLanesOfRows * (rows_.lane_bytes() + rows_.weight_bytes());
    llvm::AllocaInst* start = entry.CreateAlloca(
        llvm::ArrayType::get(builder_.getInt8Ty(), static_cast<uint64_t>(bytes)), nullptr, "widened");
    start->setAlignment(llvm::Align(2 * kWord));
    rows_.start = start;
    weights();
    llvm::Value* from = address(*rows_.pixels, {rows_.row_dim, rows_.column_dim});
    context_.loop({"row", context_.i64(0), context_.i64(rows_.rows - 1), 1, false}, {start},
                  [&](llvm::Value* row, llvm::BasicBlock*, const std::vector<llvm::Value*>& current) {
                    any_row(context_.add(context_.value_of(rows_.first_row), row), from, current.front());
                    return std::vector<llvm::Value*>{moved(current.front(), rows_.row_bytes())};
                  });
  }

 private:
  using Words = std::array<llvm::Value*, kLanesOfRows>;

  const BufferSlot& slot_of(const Expr& load) const {
    return context_.buffers[static_cast<size_t>(load.access.buffer)];
  }
  llvm::Value* moved(llvm::Value* from, int64_t bytes) {
    return builder_.CreateConstGEP1_64(builder_.getInt8Ty(), from, static_cast<uint64_t>(bytes));
  }
  llvm::Value* address(const Expr& load, const std::vector<size_t>& zero) {
    return builder_.CreatePtrAdd(slot_of(load).pointer,
                                 context_.value_of(bound_bytes(context_, *rows_.tile, load, zero)));
  }
  llvm::Value* word(llvm::Value* from) {
    return builder_.CreateAlignedLoad(builder_.getInt32Ty(), from, llvm::Align(1));
  }

  // For each lane, its bytes of both words as numbers of 16 bits.
  Words pairs(llvm::Value* first, llvm::Value* second, bool is_signed) {
    Words result{};
    llvm::Value *low = builder_.getInt32(0xFFFF), *high = builder_.getInt32(0xFFFF0000),
                *half = builder_.getInt32(16);
    for (const bool odd : {false, true}) {
      llvm::Value* a = bytes_as_halves(builder_, first, is_signed, odd);
      llvm::Value* b = bytes_as_halves(builder_, second, is_signed, odd);
      result[odd] = builder_.CreateOr(builder_.CreateAnd(a, low), builder_.CreateShl(b, half));
      result[odd + 2] = builder_.CreateOr(builder_.CreateLShr(a, half), builder_.CreateAnd(b, high));
    }
    return result;
  }
  void store(const Words& words, llvm::Value* to, int64_t lane_bytes) {
    for (size_t lane = 0; lane < words.size(); ++lane)
      builder_.CreateAlignedStore(words[lane], moved(to, static_cast<int64_t>(lane) * lane_bytes),
                                  llvm::Align(kWord));
  }

  void weights() {
    const Expr& load = *rows_.weights;
    int64_t row_bytes = 0, column_bytes = 0;
    for (size_t d = 0; d < load.access.index.size(); ++d) {
      const Affine index = load.access.index[d].affine.substitute(rows_.tile->iterators);
      row_bytes += index.coefficient(rows_.tile->loops[0].name) * slot_of(load).stride[d];
      column_bytes += index.coefficient(rows_.tile->loops[1].name) * slot_of(load).stride[d];
    }
    llvm::Value *from = address(load, {}), *to = moved(rows_.start, kLanesOfRows * rows_.lane_bytes());
    for (int64_t row = 0; row < rows_.taps; ++row) {
      std::array<llvm::Value*, kTapsOfWindow> taps{};
      for (size_t tap = 0; tap < taps.size(); ++tap)
        taps[tap] = word(moved(from, row * row_bytes + static_cast<int64_t>(tap) * column_bytes));
      for (size_t pair = 0; pair + 1 < taps.size(); ++pair)
        store(pairs(taps[pair], taps[pair + 1], is_signed(load.dtype)),
              moved(to, 2 * kWord * row + kWord * static_cast<int64_t>(pair)), rows_.weight_bytes());
    }
  }

  // A row of the map, or zeros where the map has none of this number.
  void any_row(llvm::Value* number, llvm::Value* from, llvm::Value* to) {
    const int64_t last = slot_of(*rows_.pixels).shape[rows_.row_dim].constant() - 1;
    const Interval first = range_of(rows_.first_row, context_.ranges);
    if (first.low >= 0 && first.high + rows_.rows - 1 <= last) {
      row_of_map(number, from, to);
      return;
    }
    llvm::BasicBlock *exists = context_.block("row"), *otherwise = context_.block("zeros"),
                     *after = context_.block("widened");
    llvm::Value* narrow = builder_.CreateTrunc(number, builder_.getInt32Ty());
    builder_.CreateCondBr(builder_.CreateICmpULE(narrow, builder_.getInt32(static_cast<uint32_t>(last))),
                          exists, otherwise);
    builder_.SetInsertPoint(exists);
    row_of_map(number, from, to);
    builder_.CreateBr(after);
    builder_.SetInsertPoint(otherwise);
    Words zeros{};
    zeros.fill(builder_.getInt32(0));
    in_loop(0, rows_.pairs - 1, {to}, [&](const std::vector<llvm::Value*>& current) {
      store(zeros, current.front(), rows_.lane_bytes());
      return std::vector<llvm::Value*>{moved(current.front(), kWord)};
    });
    builder_.CreateBr(after);
    builder_.SetInsertPoint(after);
  }

  void in_loop(int64_t first, int64_t last, const std::vector<llvm::Value*>& carried,
               const std::function<std::vector<llvm::Value*>(const std::vector<llvm::Value*>&)>& body) {
    if (first > last) return;
    context_.loop({"pair", context_.i64(first), context_.i64(last), 1, false}, carried,
                  [&](llvm::Value*, llvm::BasicBlock*, const std::vector<llvm::Value*>& current) {
                    return body(current);
                  });
  }

  // Pairs with both pixels inside of the map are a loop; the others are at its ends.
  void row_of_map(llvm::Value* number, llvm::Value* plane, llvm::Value* to) {
    const BufferSlot& slot = slot_of(*rows_.pixels);
    llvm::Value* from = builder_.CreatePtrAdd(plane, context_.multiply(number, slot.stride[rows_.row_dim]));
    const int64_t width = slot.shape[rows_.column_dim].constant();
    const auto exists = [&](int64_t column) { return column >= 0 && column < width; };
    const auto column_of = [&](int64_t pair) { return rows_.first_column + 2 * pair; };
    int64_t first = rows_.pairs, last = -1;
    for (int64_t pair = 0; pair < rows_.pairs; ++pair) {
      const int64_t column = column_of(pair);
      if (exists(column) && exists(column + 1)) {
        first = std::min(first, pair);
        last = pair;
        continue;
      }
      llvm::Value* zero = builder_.getInt32(0);
      llvm::Value* a = exists(column) ? word(moved(from, kLanesOfRows * column)) : zero;
      llvm::Value* b = exists(column + 1) ? word(moved(from, kLanesOfRows * (column + 1))) : zero;
      store(pairs(a, b, is_signed(rows_.pixels->dtype)), moved(to, kWord * pair), rows_.lane_bytes());
    }
    if (first > last) return;
    in_loop(first, last, {moved(from, kLanesOfRows * column_of(first)), moved(to, kWord * first)},
            [&](const std::vector<llvm::Value*>& current) {
              llvm::Value *a = word(current[0]), *b = word(moved(current[0], kLanesOfRows));
              store(pairs(a, b, is_signed(rows_.pixels->dtype)), current[1], rows_.lane_bytes());
              return std::vector<llvm::Value*>{moved(current[0], 2 * kLanesOfRows), moved(current[1], kWord)};
            });
  }

  KernelContext& context_;
  Builder& builder_;
  WidenedRows& rows_;
};

}  // namespace

std::shared_ptr<WidenedRows> widened_rows(const KernelContext& context, const LoopNode& leaf,
                                          const Ranges& inner) {
  for (const TileStatement& tile : leaf.statements) {
    if (auto rows = RowsFinder(context, tile, inner).find()) return rows;
  }
  return nullptr;
}

void widen_rows(KernelContext& context, WidenedRows& rows) { RowWidener(context, rows).run(); }

}  // namespace tc
