#include "codegen/llvm/emit/prewidened_words.h"

#include <algorithm>

#include "codegen/backend/byte_expr_matchers.h"
#include "codegen/llvm/units/cortex_m_products.h"
#include "ir/access.h"
#include "ir/target/narrow_product.h"

namespace tc {
namespace {

constexpr int64_t kWord = 4;

// The bytes from the start of the buffer to what the access reads; nothing where that is not affine.
std::optional<Affine> bytes_of(const KernelContext& context, const Access& access,
                               const std::map<std::string, Affine>& iterators) {
  const BufferSlot& slot = context.buffers[static_cast<size_t>(access.buffer)];
  Affine bytes;
  for (size_t d = 0; d < access.index.size(); ++d) {
    if (access.index[d].dynamic != nullptr || slot.symbolic_stride[d] != nullptr) return std::nullopt;
    bytes = bytes + access.index[d].affine.substitute(iterators) * slot.stride[d];
  }
  return bytes;
}

// Whether the loops are those of a tile of such a sum: loops that sum, columns, bytes of a word, lanes.
bool has_loops(const std::vector<TileLoop>& loops) {
  if (loops.size() < 4) return false;
  const TileLoop &columns = loops[loops.size() - 3], &bytes = loops[loops.size() - 2], &lanes = loops.back();
  if (columns.kind != TileLoop::Kind::Unroll || columns.extent != kWidenedColumns) return false;
  if (bytes.kind != TileLoop::Kind::Unroll || bytes.extent != kWord) return false;
  if (lanes.kind != TileLoop::Kind::Vector || lanes.extent != kLanesOfStep) return false;
  return std::all_of(loops.begin(), loops.end() - 3, [](const TileLoop& loop) {
    return loop.extent > 0 && loop.sum_block == 0 &&
           (loop.kind == TileLoop::Kind::Serial || loop.kind == TileLoop::Kind::Unroll);
  });
}

// Whether the steps of the loops that sum, one after the other, read adjacent weights, a word for each lane.
bool has_adjacent_weights(const Affine& bytes, const std::vector<TileLoop>& loops) {
  const size_t sums = loops.size() - 3;
  if (bytes.coefficient(loops[sums].name) != 0 || bytes.coefficient(loops[sums + 1].name) != 1 ||
      bytes.coefficient(loops[sums + 2].name) != kWord || bytes.constant() % kWord != 0)
    return false;
  int64_t stride = kWord * kLanesOfStep;
  for (size_t i = sums; i-- > 0; stride *= loops[i].extent) {
    if (loops[i].extent > 1 && bytes.coefficient(loops[i].name) != stride) return false;
  }
  return true;
}

std::optional<WidenedSum> sum_of(const KernelContext& context, const TileStatement& tile) {
  const Statement& statement = context.kernel.statements[static_cast<size_t>(tile.statement)];
  const Expr& value = *statement.value;
  if (!reads_widened_words(context.target) || statement.reduction != Reduction::Sum ||
      value.kind != Expr::Kind::Binary || value.binary != BinaryOp::Mul || !has_loops(tile.loops))
    return std::nullopt;
  const std::vector<TileLoop>& loops = tile.loops;
  WidenedSum sum{tile.statement,
                 &tile,
                 loaded_byte(value.operands[0]),
                 loaded_byte(value.operands[1]),
                 loops.size() - 3,
                 kWidenedColumns,
                 1};
  if (sum.shared == nullptr || sum.weights == nullptr) return std::nullopt;
  auto words = bytes_of(context, sum.shared->access, tile.iterators),
       weights = bytes_of(context, sum.weights->access, tile.iterators);
  if (words && words->coefficient(loops.back().name) != 0) {
    std::swap(sum.shared, sum.weights);
    std::swap(words, weights);
  }
  if (!words || !weights || !has_adjacent_weights(*weights, loops)) return std::nullopt;
  if (context.kernel.buffers[static_cast<size_t>(sum.weights->access.buffer)].scope != Scope::Constant)
    return std::nullopt;
  const Scope scope = context.kernel.buffers[static_cast<size_t>(sum.shared->access.buffer)].scope;
  if (scope != Scope::Input && scope != Scope::Constant) return std::nullopt;
  if (words->coefficient(loops.back().name) != 0 || words->coefficient(loops[sum.sums + 1].name) != 1)
    return std::nullopt;
  // All outer variables are bound; constraints on the bytes of a word or on lanes are not.
  const auto is_bound = [&](const Affine& affine) {
    return std::all_of(affine.terms().begin(), affine.terms().end(), [&](const auto& term) {
      const bool own = std::any_of(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(sum.sums + 1),
                                   [&](const TileLoop& loop) { return loop.name == term.first; });
      return own || context.variables.count(term.first) > 0;
    });
  };
  if (!is_bound(words->substitute({{loops[sum.sums + 1].name, Affine(0)}})) ||
      !std::all_of(tile.constraints.begin(), tile.constraints.end(), is_bound))
    return std::nullopt;
  for (size_t i = 0; i < sum.sums; ++i) sum.steps *= loops[i].extent;
  return sum;
}

// Emits the code that widens the words of one sum.
class WordWidener {
 public:
  WordWidener(KernelContext& context, const WidenedSum& sum)
      : context_(context),
        builder_(context.builder),
        sum_(sum),
        loops_(sum.tile->loops),
        columns_(loops_[sum.sums].name),
        bytes_(bytes_of(context, sum.shared->access, sum.tile->iterators)
                   ->substitute({{loops_[sum.sums + 1].name, Affine(0)}})) {}

  llvm::Value* run() {
    llvm::BasicBlock& first = context_.function->getEntryBlock();
    Builder entry(&first, first.begin());
    llvm::AllocaInst* words = entry.CreateAlloca(
        llvm::ArrayType::get(builder_.getInt8Ty(), static_cast<uint64_t>(sum_.steps * step_bytes() + kWord)),
        nullptr, "widened");
    words->setAlignment(llvm::Align(2 * kWord));
    // Behind them is a zero, which is read in place of words that do not exist.
    zero_ = moved(words, sum_.steps * step_bytes());
    if (!sum_.tile->constraints.empty())
      builder_.CreateAlignedStore(builder_.getInt32(0), zero_, llvm::Align(kWord));
    nest(0, words, sum_.tile->constraints);
    return words;
  }

 private:
  using Constraints = std::vector<Affine>;

  int64_t step_bytes() const { return 2 * kWord * sum_.columns; }
  llvm::Value* moved(llvm::Value* from, int64_t bytes) {
    return builder_.CreateConstGEP1_64(builder_.getInt8Ty(), from, static_cast<uint64_t>(bytes));
  }
  // Of one value of each loop from this one on.
  int64_t steps_from(size_t place) const {
    int64_t steps = 1;
    for (size_t i = place; i < sum_.sums; ++i) steps *= loops_[i].extent;
    return steps;
  }
  llvm::Value* holds(const Affine& constraint) {
    llvm::Value* value = builder_.CreateTrunc(context_.value_of(constraint), builder_.getInt32Ty());
    return builder_.CreateICmpSGE(value, builder_.getInt32(0));
  }
  // Whether the loops that are bound by now decide it for all columns.
  bool is_decided(const Affine& constraint) const {
    return std::all_of(constraint.terms().begin(), constraint.terms().end(),
                       [&](const auto& term) { return context_.variables.count(term.first) > 0; });
  }

  // The steps of the loops from this one on, under constraints that are not known to hold.
  void nest(size_t place, llvm::Value* to, const Constraints& pending) {
    Constraints open;
    llvm::Value* exists = nullptr;
    for (const Affine& constraint : pending) {
      if (proves_nonnegative(constraint, context_.ranges, {})) continue;
      if (!is_decided(constraint)) {
        open.push_back(constraint);
        continue;
      }
      llvm::Value* one = holds(constraint);
      exists = exists == nullptr ? one : builder_.CreateAnd(exists, one);
    }
    if (exists == nullptr) {
      loop(place, to, open);
      return;
    }
    llvm::BasicBlock *then = context_.block("exists"), *otherwise = context_.block("zeros"),
                     *after = context_.block("widened");
    builder_.CreateCondBr(exists, then, otherwise);
    builder_.SetInsertPoint(then);
    loop(place, to, open);
    builder_.CreateBr(after);
    builder_.SetInsertPoint(otherwise);
    clear(steps_from(place), to);
    builder_.CreateBr(after);
    builder_.SetInsertPoint(after);
  }

  void loop(size_t place, llvm::Value* to, const Constraints& pending) {
    constexpr int64_t kMostCopies = 3;
    if (place == sum_.sums) {
      step(to, pending);
      return;
    }
    const TileLoop& loop = loops_[place];
    const int64_t bytes = steps_from(place + 1) * step_bytes();
    const auto bind = [&](llvm::Value* value, Interval range, llvm::Value* place_of_trip) {
      context_.variables[loop.name] = value;
      context_.ranges[loop.name] = range;
      nest(place + 1, place_of_trip, pending);
      context_.variables.erase(loop.name);
      context_.ranges.erase(loop.name);
    };
    if (loop.extent <= kMostCopies) {
      for (int64_t i = 0; i < loop.extent; ++i) bind(context_.i64(i), {i, i}, moved(to, i * bytes));
      return;
    }
    context_.loop({"widen", context_.i64(0), context_.i64(loop.extent - 1), 1, false}, {to},
                  [&](llvm::Value* value, llvm::BasicBlock*, const std::vector<llvm::Value*>& current) {
                    bind(value, {0, loop.extent - 1}, current.front());
                    return std::vector<llvm::Value*>{moved(current.front(), bytes)};
                  });
  }

  // Stores the columns' words of one step, each as two words of 16-bit numbers.
  void step(llvm::Value* to, const Constraints& pending) {
    const Affine bytes = bytes_.substitute({{columns_, Affine(0)}});
    llvm::Value* from = builder_.CreatePtrAdd(
        context_.buffers[static_cast<size_t>(sum_.shared->access.buffer)].pointer, context_.value_of(bytes));
    std::vector<llvm::Value*> words;
    for (int64_t column = 0; column < sum_.columns; ++column) {
      llvm::Value* place = moved(from, column * bytes_.coefficient(columns_));
      for (const Affine& each : pending) {
        const Affine constraint = each.substitute({{columns_, Affine(column)}});
        if (proves_nonnegative(constraint, context_.ranges, {})) continue;
        place = builder_.CreateSelect(holds(constraint), place, zero_);
      }
      words.push_back(builder_.CreateAlignedLoad(builder_.getInt32Ty(), place, llvm::Align(1)));
    }
    int64_t next = 0;
    for (const bool odd : {false, true}) {
      for (llvm::Value* word : words) {
        builder_.CreateAlignedStore(bytes_as_halves(builder_, word, is_signed(sum_.shared->dtype), odd),
                                    moved(to, next), llvm::Align(kWord));
        next += kWord;
      }
    }
  }

  void clear(int64_t steps, llvm::Value* to) {
    context_.loop({"zeros", context_.i64(0), context_.i64(steps - 1), 1, false}, {to},
                  [&](llvm::Value*, llvm::BasicBlock*, const std::vector<llvm::Value*>& current) {
                    for (int64_t next = 0; next < step_bytes(); next += kWord)
                      builder_.CreateAlignedStore(builder_.getInt32(0), moved(current.front(), next),
                                                  llvm::Align(kWord));
                    return std::vector<llvm::Value*>{moved(current.front(), step_bytes())};
                  });
  }

  KernelContext& context_;
  Builder& builder_;
  const WidenedSum& sum_;
  const std::vector<TileLoop>& loops_;
  const std::string& columns_;
  const Affine bytes_;
  llvm::Value* zero_ = nullptr;
};

}  // namespace

std::optional<WidenedSum> widened_sum(const KernelContext& context, const LoopNode& leaf) {
  for (const TileStatement& tile : leaf.statements) {
    if (auto sum = sum_of(context, tile)) return sum;
  }
  return std::nullopt;
}

llvm::Value* widen_words(KernelContext& context, const WidenedSum& sum) {
  return WordWidener(context, sum).run();
}

}  // namespace tc
