#include "codegen/llvm/emit/gathered_windows.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "codegen/llvm/emit/window_operands.h"
#include "codegen/llvm/role_metadata.h"
#include "codegen/llvm/units/matrix_unit.h"
#include "ir/access.h"
#include "ir/target/register_groups.h"

namespace tc {
namespace {

constexpr int64_t kResultsOfLeaf = 4;
constexpr int64_t kReach = 255;  // bytes from an address to those that one load gathers
constexpr int64_t kMaxCopyBytes = 6144;
constexpr uint64_t kCentre = 0x80;  // exclusive or with it subtracts 128

int64_t rounded_up(int64_t number, int64_t to) { return (number + to - 1) / to * to; }

// Bytes at the offsets from the address.
llvm::Value* gather_bytes(Builder& builder, llvm::Value* from, llvm::Constant* offsets) {
  constexpr unsigned kBits = 8;
  return builder.CreateIntrinsic(
      llvm::Function::lookupIntrinsicID("llvm.arm.mve.vldr.gather.offset"),
      {offsets->getType(), from->getType(), offsets->getType()},
      {from, offsets, builder.getInt32(kBits), builder.getInt32(0), builder.getInt32(1)});
}

// The sum and all products of signed bytes of two vectors, by the instruction of the row for unsigned bytes:
// kernels store these less 128.
llvm::Value* add_byte_products(Builder& builder, const Target& target, llvm::Value* sum, llvm::Value* a,
                               llvm::Value* b) {
  llvm::Value* none = builder.getInt32(0);
  llvm::Value* result = call_intrinsic(builder, target.matrix.format(DType::U8)->instruction->intrinsic,
                                       builder.getInt32Ty(), {none, none, none, sum, a, b});
  set_role(result, Role::ByteProduct);
  return result;
}

// Finds the parts of such a sum one after the other; `find` returns null at the first that is missing.
class WindowsFinder : WindowOperands {
 public:
  WindowsFinder(const KernelContext& context, const TileStatement& tile, const Ranges& inner)
      : WindowOperands(context, tile, inner) {
    found_->statement = tile.statement;
    found_->tile = &tile;
  }

  std::shared_ptr<GatheredWindows> find() {
    const bool found =
        has_loops() && has_operands() && has_map() && has_weights() && only_padding_is_left_out();
    if (!found) return nullptr;
    found_->map_bytes = bound_bytes(context_, tile_, *found_->pixels, {found_->row_dim, found_->column_dim});
    found_->weight_bytes = bound_bytes(context_, tile_, *found_->weights, {});
    return found_;
  }

 private:
  bool has_loops() const {
    return sums_are_scalars(context_.target.matrix) && context_.target.matrix.format(DType::U8) != nullptr &&
           loops_.size() == 3 && !writes_along(loops_[0]) && !writes_along(loops_[1]) &&
           writes_along(loops_[2]) && loops_[2].kind == TileLoop::Kind::Vector &&
           loops_[2].extent == kResultsOfLeaf &&
           std::all_of(loops_.begin(), loops_.end() - 1, [](const TileLoop& loop) {
             return loop.extent > 0 && loop.sum_block == 0 &&
                    (loop.kind == TileLoop::Kind::Serial || loop.kind == TileLoop::Kind::Unroll);
           });
  }

  bool writes_along(const TileLoop& loop) const {
    return std::any_of(statement_.write.index.begin(), statement_.write.index.end(),
                       [&](const Subscript& each) {
                         return each.affine.substitute(tile_.iterators).coefficient(loop.name) != 0;
                       });
  }

  bool has_operands() {
    if (!find_operands() || weights_->dtype != DType::I8) return false;
    found_->pixels = pixels_;
    found_->weights = weights_;
    return true;
  }

  // Whether the copy reads only elements that exist, whatever conditions the leaf has.
  bool is_inside(const Expr& load, size_t d) const {
    Ranges ranges = context_.ranges;
    for (const auto& [name, range] : inner_) ranges[name] = range;
    const Interval range = range_of(subscript(load, d), ranges);
    return range.low >= 0 && range.high < slot_of(load).shape[d].constant();
  }
  bool is_inner(const Affine& affine) const {
    return std::all_of(affine.terms().begin(), affine.terms().end(),
                       [&](const auto& term) { return inner_.count(term.first) > 0; });
  }
  // What the statement reads of the dimension, whatever the loops.
  Interval read_of(size_t d) const {
    Ranges ranges;
    for (const Iterator& each : statement_.iterators) ranges[each.name] = {0, each.extent.constant() - 1};
    return range_of(found_->pixels->access.index[d].affine, ranges);
  }

  // Two subscripts are a map's row and column, in variables of inner loops; all others are bound by now.
  bool has_map() {
    const Expr& pixels = *found_->pixels;
    std::vector<size_t> dims;
    for (size_t d = 0; d < pixels.access.index.size(); ++d) {
      if (is_bound(subscript(pixels, d))) {
        if (!is_inside(pixels, d)) return false;
        continue;
      }
      if (!is_inner(subscript(pixels, d))) return false;
      dims.push_back(d);
    }
    const bool constant = std::all_of(statement_.iterators.begin(), statement_.iterators.end(),
                                      [](const Iterator& each) { return each.extent.is_constant(); });
    if (dims.size() != 2 || !constant) return false;
    found_->row_dim = dims[0];
    found_->column_dim = dims[1];
    const Interval rows = read_of(dims[0]), columns = read_of(dims[1]);
    const BufferSlot& slot = slot_of(pixels);
    const int64_t height = slot.shape[dims[0]].constant(), width = slot.shape[dims[1]].constant();
    found_->first_row = std::max<int64_t>(0, rows.low);
    found_->rows = std::min(height, rows.high + 1) - found_->first_row;
    found_->rows_above = found_->first_row - rows.low;
    found_->columns = std::min(width, columns.high + 1);
    const int64_t border = std::max(-columns.low, columns.high - width + 1), step = slot.stride[dims[1]];
    // A row's last column is the border to the left of the next row.
    const int64_t least = found_->columns + std::max<int64_t>(0, border);
    found_->pitch = 1;
    while (found_->pitch < least && found_->pitch < kBytesOfPatch) found_->pitch *= 2;
    if (found_->pitch < least) found_->pitch = rounded_up(least, kBytesOfPatch);
    if (found_->rows <= 0 || found_->columns <= 0 || border > kBytesOfPatch ||
        (kBytesOfPatch - 1) * step > kReach || reach_of_rows() > kReach)
      return false;
    const Affine at = Affine(kBytesOfPatch) +
                      (subscript(pixels, dims[0]) - Affine(rows.low)) * found_->pitch +
                      subscript(pixels, dims[1]);
    // The last leaf may have results beyond the map, which are not stored.
    const int64_t end = kBytesOfPatch + (rows.high - rows.low + 1) * found_->pitch +
                        (kResultsOfLeaf - 1) * at.coefficient(loops_[2].name);
    found_->bytes = rounded_up(end, kBytesOfPatch) + kBytesOfPatch;
    const Interval range = range_of(at, inner_);
    return range.low >= 0 && range.high < found_->bytes && found_->bytes <= kMaxCopyBytes && has_patch(at);
  }
  // Of several rows of the map that are loaded together.
  int64_t reach_of_rows() const {
    const BufferSlot& slot = slot_of(*found_->pixels);
    const int64_t together = std::max<int64_t>(1, kBytesOfPatch / found_->pitch);
    return (together - 1) * slot.stride[found_->row_dim] +
           (std::min(found_->columns, kBytesOfPatch) - 1) * slot.stride[found_->column_dim];
  }

  // Finds how many results a patch serves: as many as take the fewest instructions.
  bool has_patch(const Affine& at) {
    found_->lane_step = at.coefficient(loops_[2].name);
    found_->offset = at;
    for (const TileLoop& loop : loops_) found_->offset = found_->offset.substitute({{loop.name, Affine(0)}});
    for (int64_t a = 0; a < loops_[0].extent; ++a) {
      for (int64_t b = 0; b < loops_[1].extent; ++b)
        found_->taps.push_back({0, a * at.coefficient(loops_[0].name) + b * at.coefficient(loops_[1].name)});
    }
    double least = 0;
    for (int64_t results = 1; results <= kResultsOfLeaf; results *= 2) {
      std::set<int64_t> bytes;
      for (int64_t i = 0; i < results; ++i) {
        for (const GatheredWindows::Tap& tap : found_->taps) bytes.insert(i * found_->lane_step + tap.of_map);
      }
      if (*bytes.begin() < 0 || *bytes.rbegin() > kReach) continue;
      std::vector<std::vector<int64_t>> patch;
      for (const int64_t byte : bytes) {
        if (patch.empty() || patch.back().size() == kBytesOfPatch) patch.emplace_back();
        patch.back().push_back(byte);
      }
      const auto loads = static_cast<double>(patch.size()), count = static_cast<double>(results);
      const double instructions = (loads + loads * count) / count;
      if (!found_->patch.empty() && instructions >= least) continue;
      least = instructions;
      found_->patch = patch;
      found_->results = results;
    }
    return !found_->patch.empty() && found_->lane_step > 0;
  }

  bool has_weights() {
    Affine bytes;
    for (size_t d = 0; d < found_->weights->access.index.size(); ++d) {
      if (!is_inside(*found_->weights, d)) return false;
      bytes = bytes + subscript(*found_->weights, d) * slot_of(*found_->weights).stride[d];
    }
    const int64_t first = bytes.coefficient(loops_[0].name), second = bytes.coefficient(loops_[1].name);
    const int64_t reach = (loops_[0].extent - 1) * first + (loops_[1].extent - 1) * second;
    if (first < 0 || second < 0 || reach > kReach || bytes.coefficient(loops_[2].name) != 0) return false;
    for (size_t i = 0; i < found_->taps.size(); ++i) {
      const auto columns = static_cast<size_t>(loops_[1].extent);
      found_->taps[i].of_weights =
          static_cast<int64_t>(i / columns) * first + static_cast<int64_t>(i % columns) * second;
    }
    return is_bound(bytes - Affine::variable(loops_[0].name, first) -
                    Affine::variable(loops_[1].name, second));
  }

  // Whether what does not exist are products by padding, for which zeros are stored, and whole results.
  bool only_padding_is_left_out() const {
    return std::all_of(tile_.constraints.begin(), tile_.constraints.end(), [&](const Affine& constraint) {
      if (is_padding(constraint, {found_->row_dim, found_->column_dim})) return true;
      return std::any_of(statement_.iterators.begin(), statement_.iterators.end(), [&](const Iterator& each) {
        return depends_on(statement_.write, each.name) &&
               constraint == each.extent - Affine(1) - tile_.iterators.at(each.name);
      });
    });
  }

  std::shared_ptr<GatheredWindows> found_ = std::make_shared<GatheredWindows>();
};

// Emits the code of a channel: the copy of its map, and its weights.
class MapCopier {
 public:
  MapCopier(KernelContext& context, GatheredWindows& windows)
      : context_(context), builder_(context.builder), windows_(windows) {}

  void run() {
    llvm::BasicBlock& entry_block = context_.function->getEntryBlock();
    Builder entry(&entry_block, entry_block.begin());
    llvm::AllocaInst* start = entry.CreateAlloca(
        llvm::ArrayType::get(builder_.getInt8Ty(), static_cast<uint64_t>(windows_.bytes)), nullptr, "map");
    start->setAlignment(llvm::Align(kBytesOfPatch));
    windows_.start = start;
    const int64_t above = kBytesOfPatch + windows_.rows_above * windows_.pitch;
    const int64_t below = above + windows_.rows * windows_.pitch;
    fill(0, above);
    const BufferSlot& slot = slot_of(*windows_.pixels);
    llvm::Value* from = moved(address(*windows_.pixels, windows_.map_bytes),
                              windows_.first_row * slot.stride[windows_.row_dim]);
    if (windows_.pitch <= kBytesOfPatch) copy_rows_together(from, moved(start, above));
    else copy_rows(from, moved(start, above));
    fill(below, windows_.bytes - kBytesOfPatch);
    load_weights();
  }

 private:
  using Bytes = std::array<int64_t, kBytesOfPatch>;  // offsets of a vector's bytes; -1: the byte is 0

  const BufferSlot& slot_of(const Expr& load) const {
    return context_.buffers[static_cast<size_t>(load.access.buffer)];
  }
  llvm::Type* type() const { return llvm::FixedVectorType::get(builder_.getInt8Ty(), kBytesOfPatch); }
  llvm::Value* moved(llvm::Value* from, int64_t bytes) {
    return bytes == 0 ? from
                      : builder_.CreateConstGEP1_64(builder_.getInt8Ty(), from, static_cast<uint64_t>(bytes));
  }
  llvm::Value* address(const Expr& load, const Affine& bytes) {
    return builder_.CreatePtrAdd(slot_of(load).pointer, context_.value_of(bytes));
  }

  bool is_centred() const { return windows_.pixels->dtype == DType::U8; }
  llvm::Constant* splat(uint64_t byte) const { return llvm::ConstantInt::get(type(), byte); }
  llvm::Constant* padding() const { return splat(is_centred() ? kCentre : 0); }
  void store(llvm::Value* bytes, llvm::Value* to) { builder_.CreateAlignedStore(bytes, to, llvm::Align(1)); }
  void fill(int64_t begin, int64_t end) {
    const int64_t vectors = (end - begin + kBytesOfPatch - 1) / kBytesOfPatch;
    if (vectors <= 0) return;
    constexpr int64_t kFew = 4;
    llvm::Value* first = moved(windows_.start, begin);
    if (vectors <= kFew) {
      for (int64_t i = 0; i < vectors; ++i) store(padding(), moved(first, i * kBytesOfPatch));
      return;
    }
    in_loop(vectors, {first}, [&](const std::vector<llvm::Value*>& at) {
      store(padding(), at[0]);
      return std::vector<llvm::Value*>{moved(at[0], kBytesOfPatch)};
    });
  }
  void in_loop(int64_t trips, const std::vector<llvm::Value*>& carried,
               const std::function<std::vector<llvm::Value*>(const std::vector<llvm::Value*>&)>& body) {
    if (trips <= 0) return;
    context_.loop({"row", context_.i64(0), context_.i64(trips - 1), 1, false}, carried,
                  [&](llvm::Value*, llvm::BasicBlock*, const std::vector<llvm::Value*>& current) {
                    return body(current);
                  });
  }

  llvm::Value* gathered(llvm::Value* from, const Bytes& offsets) {
    std::array<uint8_t, kBytesOfPatch> bytes{}, mask{};
    bool all = true;
    for (size_t i = 0; i < offsets.size(); ++i) {
      const bool exists = offsets[i] >= 0;
      all = all && exists;
      bytes[i] = exists ? static_cast<uint8_t>(offsets[i]) : 0;
      mask[i] = exists ? UINT8_MAX : 0;
    }
    llvm::LLVMContext& context = builder_.getContext();
    llvm::Value* result =
        gather_bytes(builder_, from, llvm::ConstantDataVector::get(context, llvm::ArrayRef<uint8_t>(bytes)));
    if (all) return result;
    return builder_.CreateAnd(result, llvm::ConstantDataVector::get(context, llvm::ArrayRef<uint8_t>(mask)));
  }
  void copy(llvm::Value* from, llvm::Value* to, const Bytes& offsets) {
    llvm::Value* bytes = gathered(from, offsets);
    store(is_centred() ? builder_.CreateXor(bytes, splat(kCentre)) : bytes, to);
  }

  // A vector has several rows, or one, with the border at its end.
  void copy_rows_together(llvm::Value* from, llvm::Value* to) {
    const BufferSlot& slot = slot_of(*windows_.pixels);
    const int64_t row_stride = slot.stride[windows_.row_dim], step = slot.stride[windows_.column_dim];
    const int64_t together = kBytesOfPatch / windows_.pitch;
    const auto of_rows = [&](int64_t rows) {
      Bytes offsets{};
      for (int64_t i = 0; i < kBytesOfPatch; ++i) {
        const int64_t row = i / windows_.pitch, column = i % windows_.pitch;
        offsets[static_cast<size_t>(i)] =
            row < rows && column < windows_.columns ? row * row_stride + column * step : -1;
      }
      return offsets;
    };
    const int64_t whole = windows_.rows / together, rest = windows_.rows % together;
    in_loop(whole, {from, to}, [&](const std::vector<llvm::Value*>& at) {
      copy(at[0], at[1], of_rows(together));
      return std::vector<llvm::Value*>{moved(at[0], together * row_stride), moved(at[1], kBytesOfPatch)};
    });
    if (rest > 0)
      copy(moved(from, whole * together * row_stride), moved(to, whole * kBytesOfPatch), of_rows(rest));
  }
  void copy_rows(llvm::Value* from, llvm::Value* to) {
    const BufferSlot& slot = slot_of(*windows_.pixels);
    const int64_t step = slot.stride[windows_.column_dim];
    in_loop(windows_.rows, {from, to}, [&](const std::vector<llvm::Value*>& at) {
      for (int64_t first = 0; first < windows_.pitch; first += kBytesOfPatch) {
        if (first >= windows_.columns) {
          store(padding(), moved(at[1], first));
          continue;
        }
        Bytes offsets{};
        for (int64_t i = 0; i < kBytesOfPatch; ++i)
          offsets[static_cast<size_t>(i)] = first + i < windows_.columns ? i * step : -1;
        copy(moved(at[0], first * step), moved(at[1], first), offsets);
      }
      return std::vector<llvm::Value*>{moved(at[0], slot.stride[windows_.row_dim]),
                                       moved(at[1], windows_.pitch)};
    });
  }

  void load_weights() {
    llvm::Value* from = address(*windows_.weights, windows_.weight_bytes);
    for (int64_t i = 0; i < windows_.results; ++i) {
      std::vector<llvm::Value*>& factors = windows_.factors.emplace_back();
      for (const std::vector<int64_t>& part : windows_.patch) {
        Bytes offsets{};
        offsets.fill(-1);
        bool any = false;
        for (size_t byte = 0; byte < part.size(); ++byte) {
          for (const GatheredWindows::Tap& tap : windows_.taps) {
            if (i * windows_.lane_step + tap.of_map != part[byte]) continue;
            offsets[byte] = tap.of_weights;
            any = true;
          }
        }
        factors.push_back(any ? gathered(from, offsets) : nullptr);
      }
    }
    if (!is_centred()) return;
    for (llvm::Value* each : windows_.factors.front()) {
      if (each == nullptr) continue;
      llvm::Value* before = windows_.excess != nullptr ? windows_.excess : builder_.getInt32(0);
      windows_.excess = add_byte_products(builder_, context_.target, before, each, splat(kCentre));
    }
  }

  KernelContext& context_;
  Builder& builder_;
  GatheredWindows& windows_;
};

}  // namespace

std::shared_ptr<GatheredWindows> gathered_windows(const KernelContext& context, const LoopNode& leaf,
                                                  const Ranges& inner) {
  for (const TileStatement& tile : leaf.statements) {
    if (auto windows = WindowsFinder(context, tile, inner).find()) return windows;
  }
  return nullptr;
}

void copy_map(KernelContext& context, GatheredWindows& windows) { MapCopier(context, windows).run(); }

llvm::Value* sums_of_windows(KernelContext& context, const GatheredWindows& windows) {
  Builder& builder = context.builder;
  llvm::Value* from = builder.CreatePtrAdd(windows.start, context.value_of(windows.offset));
  llvm::Value* sums = llvm::PoisonValue::get(widen(builder.getInt32Ty(), kResultsOfLeaf));
  for (int64_t first = 0; first < kResultsOfLeaf; first += windows.results) {
    const int64_t moved = first * windows.lane_step;
    const bool reaches = moved + windows.patch.back().back() <= kReach;
    llvm::Value* at =
        reaches ? from : builder.CreateConstGEP1_64(builder.getInt8Ty(), from, static_cast<uint64_t>(moved));
    std::vector<llvm::Value*> of_results(static_cast<size_t>(windows.results), builder.getInt32(0));
    for (size_t part = 0; part < windows.patch.size(); ++part) {
      std::array<uint8_t, kBytesOfPatch> offsets{};
      for (size_t i = 0; i < windows.patch[part].size(); ++i)
        offsets[i] = static_cast<uint8_t>(windows.patch[part][i] + (reaches ? moved : 0));
      llvm::Value* bytes = gather_bytes(
          builder, at, llvm::ConstantDataVector::get(builder.getContext(), llvm::ArrayRef<uint8_t>(offsets)));
      for (size_t i = 0; i < of_results.size(); ++i) {
        llvm::Value* factors = windows.factors[i][part];
        if (factors != nullptr)
          of_results[i] = add_byte_products(builder, context.target, of_results[i], bytes, factors);
      }
    }
    for (size_t i = 0; i < of_results.size(); ++i)
      sums = builder.CreateInsertElement(sums, of_results[i], static_cast<uint64_t>(first) + i);
  }
  if (windows.excess == nullptr) return sums;
  return builder.CreateSub(sums, builder.CreateVectorSplat(kResultsOfLeaf, windows.excess));
}

}  // namespace tc
