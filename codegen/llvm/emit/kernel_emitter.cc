// Emits a scheduled kernel as one function: the loop tree above the register tiles.
#include "codegen/llvm/emit/kernel_emitter.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "codegen/llvm/emit/matrix_plan.h"
#include "codegen/llvm/emit/held_sums.h"
#include "codegen/llvm/emit/open_extent_tails.h"
#include "codegen/llvm/emit/tile_emitter.h"
#include "codegen/llvm/emit/gathered_windows.h"
#include "codegen/llvm/emit/prewidened_rows.h"
#include "codegen/llvm/emit/prewidened_words.h"
#include "ir/error.h"
#include "ir/tile.h"

namespace tc {
namespace {

using Kind = LoopNode::Kind;

class KernelEmitter {
 public:
  KernelEmitter(ModuleCompiler& compiler, const ScheduledKernel& scheduled)
      : context_(compiler, scheduled), builder_(context_.builder) {}

  void run() {
    TC_CHECK(context_.scheduled.root != nullptr, "in kernel '", context_.kernel.name, "'");
    const LoopNode& root = *context_.scheduled.root;
    configure(root);
    top(root);
    if (!shapes_of(root).empty()) tile_instructions(context_)->release();
    builder_.CreateRetVoid();
  }

 private:
  // The shapes of the tile registers in leaves of the subtree; none for units of vectors, which need no
  // configuration.
  const std::set<TileShapes>& shapes_of(const LoopNode& node) {
    const auto known = shapes_.find(&node);
    if (known != shapes_.end()) return known->second;
    std::set<TileShapes> result;
    for (const LoopNodePtr& child : node.children) {
      const std::set<TileShapes>& of_child = shapes_of(*child);
      result.insert(of_child.begin(), of_child.end());
    }
    for (const TileStatement& tile : node.statements) {
      if (context_.target.matrix.vectors || !is_matrix_product(context_.kernel, tile)) continue;
      result.insert(plan_matrix(context_.kernel, tile, context_.target).shapes);
    }
    TC_CHECK(node.kind != Kind::Leaf || result.size() <= 1, "as the shapes of matrix statements in leaf '",
             node.name, "' of kernel '", context_.kernel.name, "'");
    return shapes_[&node] = std::move(result);
  }

  // Configures the matrix unit where the subtree needs only one configuration. That takes as long as ten
  // instructions of the unit, so that a configuration is set outside of all loops that need no other.
  void configure(const LoopNode& node) {
    const std::set<TileShapes>& needed = shapes_of(node);
    if (needed.size() != 1 || configured_ == *needed.begin()) return;
    configured_ = *needed.begin();
    tile_instructions(context_)->configure(*configured_);
  }

  // Emits code that may not run, or may run again. Afterwards the unit's configuration is known only where
  // the code did not change it.
  void conditionally(const LoopNode& node, const std::function<void()>& body) {
    const bool several = shapes_of(node).size() > 1;
    if (several) configured_.reset();
    const std::optional<TileShapes> before = configured_;
    body();
    if (configured_ != before) configured_.reset();
  }

  static bool has_parallel(const LoopNode& node) {
    return node.is_parallel() || std::any_of(node.children.begin(), node.children.end(),
                                             [](const LoopNodePtr& child) { return has_parallel(*child); });
  }

  // A node that all threads reach.
  void top(const LoopNode& node) {
    switch (node.kind) {
      case Kind::Block:
        for (const LoopNodePtr& child : node.children) top(*child);
        return;
      case Kind::If:
        condition(node, [&] { conditionally(node, [&] { top(*node.children.at(0)); }); });
        return;
      case Kind::For:
        if (node.is_parallel()) {
          configure(node);
          divided(node);
          return;
        }
        [[fallthrough]];
      case Kind::Leaf: {
        // The last thread's parts of parallel loops are the smallest.
        llvm::Value* own = builder_.getInt32(0);
        if (has_parallel(*context_.scheduled.root))
          own = builder_.CreateSub(argument(0), builder_.getInt32(1));
        guarded(builder_.CreateICmpEQ(argument(1), own), [&] { conditionally(node, [&] { inside(node); }); });
        return;
      }
    }
  }

  // A node that one thread runs.
  void inside(const LoopNode& node) {
    configure(node);
    switch (node.kind) {
      case Kind::Block:
        for (const LoopNodePtr& child : node.children) inside(*child);
        return;
      case Kind::If:
        condition(node, [&] { conditionally(node, [&] { inside(*node.children.at(0)); }); });
        return;
      case Kind::For:
        loop(node, context_.value_of(*node.lower), context_.value_of(*node.upper), range(node), false,
             [&] { inside(*node.children.at(0)); });
        return;
      case Kind::Leaf: leaf(node); return;
    }
  }

  llvm::Argument* argument(unsigned from_last) {
    const unsigned count = static_cast<unsigned>(context_.function->arg_size());
    return context_.function->getArg(count - 1 - from_last);
  }

  Interval range(const LoopNode& node) const {
    return {range_of(*node.lower, context_.ranges).low, range_of(*node.upper, context_.ranges).high};
  }

  void guarded(llvm::Value* holds, const std::function<void()>& body) {
    llvm::BasicBlock* then = context_.block("if");
    llvm::BasicBlock* after = context_.block("if.end");
    builder_.CreateCondBr(holds, then, after);
    builder_.SetInsertPoint(then);
    body();
    builder_.CreateBr(after);
    builder_.SetInsertPoint(after);
  }

  void condition(const LoopNode& node, const std::function<void()>& body) {
    const Interval truth = range_of(*node.condition, context_.ranges);
    if (truth.high <= 0) return;
    if (truth.low > 0) {
      body();
    } else {
      guarded(context_.value_of(*node.condition), body);
    }
  }

  // Widens what the leaves below the node read, where it is bound by now. `inner` has the ranges of the loops
  // between the one that widens and the node.
  void widen_below(const LoopNode& node, const Ranges& inner) {
    if (node.kind == Kind::Leaf) {
      if (const auto sum = widened_sum(context_, node)) {
        context_.widened[&node] = widen_words(context_, *sum);
      } else if (const auto rows = widened_rows(context_, node, inner)) {
        widen_rows(context_, *rows);
        context_.widened_rows[&node] = rows;
        // All registers are taken in these tiles: LLVM's code generator would compute addresses in each.
        context_.function->addFnAttr("tc-hoists-invariants");
      } else if (const auto windows = gathered_windows(context_, node, inner)) {
        // The leaves of parts of a loop read the same copy.
        const auto& all = context_.gathered_windows;
        const auto same = std::find_if(all.begin(), all.end(), [&](const auto& each) {
          return each.second->shares_copy_with(*windows);
        });
        if (same == all.end()) copy_map(context_, *windows);
        else windows->read_copy_of(*same->second);
        context_.gathered_windows[&node] = windows;
        context_.function->addFnAttr("tc-keeps-constants");
      }
    }
    for (const LoopNodePtr& child : node.children) {
      Ranges ranges = inner;
      if (child->kind == Kind::For) {
        Ranges around = context_.ranges;
        around.insert(inner.begin(), inner.end());
        ranges[child->variable] = {range_of(*child->lower, around).low, range_of(*child->upper, around).high};
      }
      widen_below(*child, ranges);
    }
  }

  // The loop over lower .. upper, which lie within `range`. With `part` it may be empty whatever the bounds'
  // ranges say.
  void loop(const LoopNode& node, llvm::Value* lower, llvm::Value* upper, Interval range, bool part,
            const std::function<void()>& body) {
    if (range.low > range.high) return;
    const auto saved_value = context_.variables.find(node.variable);
    TC_CHECK(saved_value == context_.variables.end(), "for loop variable '", node.variable, "' of kernel '",
             context_.kernel.name, "': names differ");
    auto bind = [&](llvm::Value* value, Interval interval) {
      context_.variables[node.variable] = value;
      context_.ranges[node.variable] = interval;
      if (node.mark("widen") != nullptr) widen_below(node, {});
      conditionally(node, body);
      if (node.mark("widen") != nullptr) {
        context_.widened.clear();
        context_.widened_rows.clear();
        context_.gathered_windows.clear();
      }
      context_.variables.erase(node.variable);
      context_.ranges.erase(node.variable);
    };
    const Interval low = range_of(*node.lower, context_.ranges);
    const Interval high = range_of(*node.upper, context_.ranges);
    // Exactly one trip: not where the upper bound may be lower.
    if (!part && low.low == low.high && high.low == high.high && low.low == high.low) {
      bind(context_.i64(low.low), low);
      return;
    }
    const bool may_be_empty = part || high.low < low.high;
    const int64_t unroll = node.copies();
    const bool alternating = node.mark("alternate") != nullptr;
    TC_CHECK(!alternating || unroll == 1, "of loop ", node.variable, ", which alternates and is unrolled");
    auto emit = [&](llvm::Value* first, llvm::Value* last, Interval interval, int64_t copies, bool empty) {
      // Backwards, trip `mirror - t` takes the place of trip t.
      llvm::Value* mirror = alternating ? context_.add(first, last) : nullptr;
      return context_
          .loop({node.variable, first, last, copies, empty}, {},
                [&](llvm::Value* value, llvm::BasicBlock*, const std::vector<llvm::Value*>&) {
                  if (alternating)
                    value = builder_.CreateSelect(context_.backwards, builder_.CreateNSWSub(mirror, value),
                                                  value);
                  for (int64_t i = 0; i < copies; ++i) {
                    bind(context_.add(value, context_.i64(i)), {interval.low + i, interval.high + i});
                  }
                  return std::vector<llvm::Value*>();
                })
          .next;
    };
    if (unroll > 1 && range.high - (unroll - 1) >= range.low) {
      llvm::Value* last = builder_.CreateNSWSub(upper, context_.i64(unroll - 1));
      lower = emit(lower, last, {range.low, range.high - (unroll - 1)}, unroll, true);
      emit(lower, upper, range, 1, true);
      return;
    }
    std::optional<HeldSums> held;
    if (node.mark("hold") != nullptr && context_.held == nullptr) held = held_sums(context_.kernel, node);
    if (held) {
      held->before = builder_.GetInsertBlock();
      context_.held = &*held;
      context_.function->addFnAttr("tc-holds-sums");
    }
    emit(lower, upper, range, 1, may_be_empty);
    if (!held) return;
    store_held(context_, *held);
    context_.held = nullptr;
  }

  // first .. last of this thread's part of `count` iterations: equal parts, the first ones take one
  // more where it does not divide.
  std::pair<llvm::Value*, llvm::Value*> part_of(llvm::Value* count) {
    llvm::Type* wide = builder_.getInt64Ty();
    llvm::Value* thread = builder_.CreateZExt(argument(1), wide);
    llvm::Value* threads = builder_.CreateZExt(argument(0), wide);
    llvm::Value* share = builder_.CreateUDiv(count, threads);
    llvm::Value* extra = builder_.CreateURem(count, threads);
    auto start = [&](llvm::Value* index) {
      return builder_.CreateNSWAdd(builder_.CreateNSWMul(index, share),
                                   builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, index, extra));
    };
    llvm::Value* first = start(thread);
    llvm::Value* end = start(builder_.CreateNSWAdd(thread, context_.i64(1)));
    return {first, builder_.CreateNSWSub(end, context_.i64(1))};
  }

  llvm::Value* count_of(llvm::Value* lower, llvm::Value* upper) {
    llvm::Value* count = builder_.CreateNSWAdd(builder_.CreateNSWSub(upper, lower), context_.i64(1));
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, context_.i64(0));
  }

  // A parallel loop; or nodes that run one after the other and count as one iteration (a first or last
  // iteration that was split off).
  using Piece = std::vector<const LoopNode*>;

  // The pieces of the body of a parallel loop: parallel loops inside it, and first and last iterations that
  // conditions have split off. Nothing where there is no parallel loop inside, or its bounds depend on the
  // outer one's variable.
  std::vector<Piece> rectangular_pieces(const LoopNode& node) const {
    const auto depends = [&](const LoopExpr& expr, const auto& self) -> bool {
      if (expr.kind == LoopExpr::Kind::Variable) return expr.name == node.variable;
      return std::any_of(expr.operands.begin(), expr.operands.end(),
                         [&](const LoopExprPtr& operand) { return self(*operand, self); });
    };
    std::vector<Piece> pieces;
    bool parallel = false, rectangular = true, follows = false;
    const auto collect = [&](const LoopNode& child, const auto& self) -> void {
      if (child.kind == Kind::Block) {
        for (const LoopNodePtr& each : child.children) self(*each, self);
        return;
      }
      const bool shared = is_shared(child);
      // Nodes of one iteration need each other's results, in scratch memory of one thread.
      if (shared || !follows) pieces.emplace_back();
      pieces.back().push_back(&child);
      follows = !shared;
      if (!shared) return;
      parallel = true;
      rectangular &= !depends(*child.lower, depends) && !depends(*child.upper, depends);
    };
    collect(*node.children.at(0), collect);
    if (!parallel || !rectangular) pieces.clear();
    return pieces;
  }

  static bool is_shared(const LoopNode& node) { return node.kind == Kind::For && node.is_parallel(); }

  void divided(const LoopNode& node) {
    llvm::Value* lower = context_.value_of(*node.lower);
    llvm::Value* count = count_of(lower, context_.value_of(*node.upper));
    struct Part {
      Piece piece;
      llvm::Value* lower;  // of a parallel loop; null for a single iteration
      llvm::Value* count;
    };
    std::vector<Part> parts;
    llvm::Value* row = context_.i64(0);
    for (const Piece& piece : rectangular_pieces(node)) {
      if (is_shared(*piece[0])) {
        llvm::Value* from = context_.value_of(*piece[0]->lower);
        parts.push_back({piece, from, count_of(from, context_.value_of(*piece[0]->upper))});
      } else {
        parts.push_back({piece, nullptr, context_.i64(1)});
      }
      row = context_.add(row, parts.back().count);
    }
    if (parts.empty()) {
      const auto [first, last] = part_of(count);
      loop(node, context_.add(lower, first), context_.add(lower, last), range(node), true,
           [&] { inside(*node.children.at(0)); });
      return;
    }
    const auto [first, last] = part_of(builder_.CreateNSWMul(count, row));
    // An empty part may not divide by an empty row.
    llvm::Value* divisor = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, row, context_.i64(1));
    guarded(builder_.CreateICmpSLE(first, last), [&, first = first, last = last] {
      llvm::Value* first_row = context_.add(lower, builder_.CreateUDiv(first, divisor));
      llvm::Value* last_row = context_.add(lower, builder_.CreateUDiv(last, divisor));
      llvm::Value* first_column = builder_.CreateURem(first, divisor);
      llvm::Value* last_column = builder_.CreateURem(last, divisor);
      loop(node, first_row, last_row, range(node), true, [&] {
        llvm::Value* variable = context_.variables.at(node.variable);
        llvm::Value* from =
            builder_.CreateSelect(builder_.CreateICmpEQ(variable, first_row), first_column, context_.i64(0));
        llvm::Value* to = builder_.CreateSelect(builder_.CreateICmpEQ(variable, last_row), last_column,
                                                builder_.CreateNSWSub(row, context_.i64(1)));
        // `from` and `to` are counted from the beginning of the current part of the row.
        for (const Part& part : parts) {
          if (part.lower == nullptr) {
            llvm::Value* within = builder_.CreateAnd(builder_.CreateICmpSLE(from, context_.i64(0)),
                                                     builder_.CreateICmpSGE(to, context_.i64(0)));
            guarded(within, [&] {
              for (const LoopNode* each : part.piece) conditionally(*each, [&] { inside(*each); });
            });
          } else {
            llvm::Value* begin = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, from, context_.i64(0));
            llvm::Value* end = builder_.CreateBinaryIntrinsic(
                llvm::Intrinsic::smin, to, builder_.CreateNSWSub(part.count, context_.i64(1)));
            const LoopNode& shared = *part.piece[0];
            loop(shared, context_.add(part.lower, begin), context_.add(part.lower, end), range(shared), true,
                 [&] { inside(*shared.children.at(0)); });
          }
          from = builder_.CreateNSWSub(from, part.count);
          to = builder_.CreateNSWSub(to, part.count);
        }
      });
    });
  }

  // A leaf with guards on copies or lanes is emitted twice: without the guards, for where all of them hold,
  // and with them. Not where its rows were widened, since these have zeros in place of what guards exclude.
  void leaf(const LoopNode& node) {
    std::set<std::string> outer;
    for (const auto& [name, value] : context_.variables) outer.insert(name);
    std::vector<Affine> conditions;
    bool possible = true;
    for (const TileStatement& tile : node.statements) {
      for (const Affine& constraint : tile.constraints) {
        const auto worst = worst_case(constraint, tile, outer);
        if (!worst || proves_nonnegative(*worst, context_.ranges, conditions)) continue;
        possible &= !refutes_nonnegative(*worst, context_.ranges);
        conditions.push_back(*worst);
      }
    }
    if (conditions.empty() || !possible || context_.widened_rows.count(&node) > 0 ||
        context_.gathered_windows.count(&node) > 0) {
      TileEmitter(context_, node, {}).emit();
      return;
    }
    llvm::Value* all = nullptr;
    for (const Affine& condition : conditions) {
      llvm::Value* holds = builder_.CreateICmpSGE(context_.value_of(condition), context_.i64(0));
      all = all == nullptr ? holds : builder_.CreateAnd(all, holds);
    }
    llvm::BasicBlock* whole = context_.block("whole");
    llvm::BasicBlock* partial = context_.block("partial");
    llvm::BasicBlock* after = context_.block("leaf.end");
    builder_.CreateCondBr(all, whole, partial);
    builder_.SetInsertPoint(whole);
    TileEmitter(context_, node, conditions).emit();
    builder_.CreateBr(after);
    builder_.SetInsertPoint(partial);
    if (const auto tail = open_tail(context_.kernel, node, outer)) {
      parts_of(*tail, conditions.size() > 1 || conditions[0] != tail->last - (tail->copies - 1));
    } else {
      TileEmitter(context_, node, {}).emit();
    }
    builder_.CreateBr(after);
    builder_.SetInsertPoint(after);
  }

  // Emits wide parts one after the other, and the remaining copies as one tile: each number of so few copies
  // has code of its own. With `maybe_all` other constraints remove copies as well, so that all copies of
  // this tail may exist.
  void parts_of(const OpenTail& tail, bool maybe_all) {
    constexpr int64_t kWidePart = 8;
    const std::string name = text("first.copy", ++tails_);
    const auto emit = [&](llvm::Value* first, int64_t count) {
      context_.variables[name] = first;
      context_.ranges[name] = {0, tail.copies - count};
      context_.facts.push_back(tail.last - Affine::variable(name) - Affine(count - 1));
      leaf(tail.part(name, count));
      context_.facts.pop_back();
      context_.variables.erase(name);
      context_.ranges.erase(name);
    };
    std::vector<int64_t> widths;
    if (maybe_all) widths.push_back(tail.copies);
    for (auto width = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tail.copies - 1)));
         width >= kWidePart; width /= 2)
      widths.push_back(width);
    llvm::Value* left = builder_.CreateBinaryIntrinsic(
        llvm::Intrinsic::smin, context_.add(context_.value_of(tail.last), context_.i64(1)),
        context_.i64(tail.copies));
    llvm::Value* first = context_.i64(0);
    for (const int64_t width : widths) {
      llvm::Value* fits = builder_.CreateICmpSGE(left, context_.i64(width));
      llvm::Value* begin = first;
      guarded(fits, [&] { emit(begin, width); });
      llvm::Value* done = builder_.CreateSelect(fits, context_.i64(width), context_.i64(0));
      left = builder_.CreateNSWSub(left, done);
      first = builder_.CreateNSWAdd(first, done);
    }
    for (int64_t few = 1; few < std::min(kWidePart, tail.copies); ++few) {
      guarded(builder_.CreateICmpEQ(left, context_.i64(few)), [&] { emit(first, few); });
    }
  }

  KernelContext context_;
  Builder& builder_;
  std::map<const LoopNode*, std::set<TileShapes>> shapes_;
  std::optional<TileShapes> configured_;  // of the matrix unit, at the builder's insertion point
  int tails_ = 0;                         // that were emitted in parts, so far
};

}  // namespace

void emit_kernel(ModuleCompiler& compiler, const ScheduledKernel& scheduled) {
  KernelEmitter(compiler, scheduled).run();
}

}  // namespace tc
