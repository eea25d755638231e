// Substitutes private buffers into their readers, so that a group computes in registers.
#include <algorithm>
#include <optional>
#include <set>
#include <unordered_set>

#include "ir/ops/keep_buffers.h"
#include "ir/ops/op.h"

namespace tc {
namespace {

// An expression of at most this weight is cheaper to recompute than to store.
constexpr int kCheap = 2;
// Expressions do not grow past this many nodes.
constexpr size_t kLargestExpression = 400;

int weight_of(const ExprPtr& expr) {
  int weight = 0;
  for (const ExprPtr& operand : expr->operands) weight += weight_of(operand);
  switch (expr->kind) {
    case Expr::Kind::Const:
    case Expr::Kind::Index: return 0;
    case Expr::Kind::Load:
      for (const Subscript& subscript : expr->access.index) {
        if (subscript.dynamic) weight += 10;
      }
      return weight + 1;
    case Expr::Kind::Unary:
      return weight +
             (expr->unary == UnaryOp::Neg || expr->unary == UnaryOp::Abs || expr->unary == UnaryOp::Not ? 1
                                                                                                        : 10);
    case Expr::Kind::Binary:
      switch (expr->binary) {
        case BinaryOp::Div:
        case BinaryOp::Mod:
        case BinaryOp::Fmod:
        case BinaryOp::Pow:
        case BinaryOp::Atan2: return weight + 10;
        default: return weight + 1;
      }
    case Expr::Kind::Cast:
      // The same bits as a byte of the other sign.
      return weight + (size_of(expr->dtype) == 1 && size_of(expr->operands[0]->dtype) == 1 ? 0 : 1);
    default: return weight + 1;
  }
}

size_t size_of_tree(const ExprPtr& expr, size_t limit) {
  if (!expr) return 0;
  size_t size = 1;
  for (const ExprPtr& operand : expr->operands) {
    if (size > limit) break;
    size += size_of_tree(operand, limit);
  }
  for (const Subscript& subscript : expr->access.index) size += size_of_tree(subscript.dynamic, limit);
  return size;
}

void for_each_load_of(const Statement& statement, const std::function<void(const Expr&)>& visit) {
  for_each_load(statement.value, visit);
  for (const Subscript& subscript : statement.write.index) for_each_load(subscript.dynamic, visit);
}

bool reads(const Statement& statement, int buffer) {
  bool found = false;
  for_each_load_of(statement, [&](const Expr& load) { found = found || load.access.buffer == buffer; });
  return found;
}

bool is_full_permutation(const Statement& s, const Access& access, const Buffer& buffer);

// A value at a subscript that has an affine and a dynamic part.
struct Position {
  Affine affine;
  ExprPtr dynamic;
};

ExprPtr sum_of(ExprPtr a, ExprPtr b) { return !a ? b : !b ? a : binary(BinaryOp::Add, a, b); }

// Replaces iterators by positions in an affine expression.
Position at(const Affine& affine, const std::map<std::string, Position>& values) {
  Position result{Affine(affine.constant()), nullptr};
  for (const auto& [name, coefficient] : affine.terms()) {
    auto found = values.find(name);
    if (found == values.end()) {
      result.affine = result.affine + Affine::variable(name, coefficient);
      continue;
    }
    result.affine = result.affine + found->second.affine * coefficient;
    ExprPtr dynamic = found->second.dynamic;
    if (dynamic && coefficient != 1) {
      dynamic = binary(BinaryOp::Mul, dynamic, int_constant(DType::I64, coefficient));
    }
    result.dynamic = sum_of(result.dynamic, dynamic);
  }
  return result;
}

ExprPtr substitute_positions(const ExprPtr& expr, const std::map<std::string, Position>& values) {
  std::function<ExprPtr(const ExprPtr&)> replace = [&](const ExprPtr& node) -> ExprPtr {
    if (node->kind == Expr::Kind::Index) {
      Position position = at(node->affine, values);
      return sum_of(position.dynamic, index_value(position.affine));
    }
    if (node->kind != Expr::Kind::Load) return nullptr;
    auto changed = std::make_shared<Expr>(*node);
    for (Subscript& subscript : changed->access.index) {
      Position position = at(subscript.affine, values);
      if (subscript.dynamic) subscript.dynamic = rewrite(subscript.dynamic, replace);
      subscript.affine = position.affine;
      subscript.dynamic = sum_of(subscript.dynamic, position.dynamic);
    }
    return changed;
  };
  return rewrite(expr, replace);
}

std::string key_of(const Access& access, const Kernel& kernel) {
  std::string key;
  for (const Subscript& subscript : access.index) {
    key += subscript.affine.str() + (subscript.dynamic ? " ~ " + str(*subscript.dynamic, kernel) : "") + ";";
  }
  return key;
}

class Inliner {
 public:
  explicit Inliner(Kernel& kernel) : kernel_(kernel) {}

  void run() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (int buffer = 0; buffer < static_cast<int>(kernel_.buffers.size()); ++buffer) {
        if (kernel_.buffers[buffer].scope == Scope::Local) changed = visit(buffer) || changed;
      }
    }
    for (int buffer = 0; buffer < static_cast<int>(kernel_.buffers.size()); ++buffer) {
      if (kernel_.buffers[buffer].scope == Scope::Local) redirect_copy(buffer);
    }
    drop_locals();
  }

 private:
  std::vector<int> writers(int buffer) const {
    std::vector<int> result;
    for (int s = 0; s < count(); ++s) {
      if (kernel_.statements[s].write.buffer == buffer) result.push_back(s);
    }
    return result;
  }
  std::vector<int> readers(int buffer) const {
    std::vector<int> result;
    for (int s = 0; s < count(); ++s) {
      if (reads(kernel_.statements[s], buffer)) result.push_back(s);
    }
    return result;
  }
  int count() const { return static_cast<int>(kernel_.statements.size()); }

  bool visit(int buffer) {
    const std::vector<int> write = writers(buffer), read = readers(buffer);
    if (read.empty()) {
      if (write.empty()) return false;
      for (auto s = write.rbegin(); s != write.rend(); ++s)
        kernel_.statements.erase(kernel_.statements.begin() + *s);
      return true;
    }
    if (write.size() != 1 || read.front() <= write[0]) return false;
    const Statement source = kernel_.statements[write[0]];
    if (source.reduction != Reduction::None || !source.constraints.empty()) return false;
    if (!is_full_permutation(source, source.write, kernel_.buffers[buffer])) return false;
    if (overwritten(source, write[0], read.back())) return false;
    const bool cheap = weight_of(source.value) <= kCheap;
    if (!cheap && (read.size() != 1 || repeats(kernel_.statements[read[0]], buffer))) return false;
    std::vector<Statement> changed;
    for (int s : read) {
      changed.push_back(substituted(kernel_.statements[s], buffer, source));
      if (size_of_tree(changed.back().value, kLargestExpression) > kLargestExpression) return false;
    }
    for (size_t i = 0; i < read.size(); ++i) kernel_.statements[read[i]] = std::move(changed[i]);
    kernel_.statements.erase(kernel_.statements.begin() + write[0]);
    return true;
  }

  // True where a buffer that the statement reads is written between the statement and its last reader.
  bool overwritten(const Statement& source, int from, int to) const {
    for (int s = from + 1; s <= to; ++s) {
      if (reads(source, kernel_.statements[s].write.buffer)) return true;
    }
    return false;
  }

  // True where the reader evaluates some element of the buffer more than once.
  bool repeats(const Statement& reader, int buffer) const {
    bool repeated = false;
    std::string first;
    for_each_load_of(reader, [&](const Expr& load) {
      if (load.access.buffer != buffer) return;
      std::string key = key_of(load.access, kernel_);
      if (!first.empty() && key != first) repeated = true;
      first = key;
      std::set<std::string> used;
      for (const Subscript& subscript : load.access.index) {
        if (subscript.dynamic) repeated = repeated || reader.iterators.size() > load.access.index.size();
        for (const auto& [name, coefficient] : subscript.affine.terms()) used.insert(name);
        if (subscript.affine.terms().size() > 1) {
          // A subscript that is the sum of several iterators visits elements more than once; parameters do no
          // harm.
          int moving = 0;
          for (const auto& [name, coefficient] : subscript.affine.terms())
            moving += is_iterator(reader, name);
          repeated = repeated || moving > 1;
        }
      }
      for (const Iterator& iterator : reader.iterators) {
        const bool dynamic =
            std::any_of(load.access.index.begin(), load.access.index.end(),
                        [](const Subscript& subscript) { return subscript.dynamic != nullptr; });
        if (!used.count(iterator.name) && !dynamic) repeated = true;
      }
    });
    return repeated;
  }

  static bool is_iterator(const Statement& statement, const std::string& name) {
    return std::any_of(statement.iterators.begin(), statement.iterators.end(),
                       [&](const Iterator& iterator) { return iterator.name == name; });
  }

  Statement substituted(const Statement& reader, int buffer, const Statement& source) const {
    std::map<std::string, ExprPtr> made;
    std::function<ExprPtr(const ExprPtr&)> replace = [&](const ExprPtr& node) -> ExprPtr {
      if (node->kind != Expr::Kind::Load || node->access.buffer != buffer) return nullptr;
      ExprPtr& result = made[key_of(node->access, kernel_)];
      if (result) return result;
      std::map<std::string, Position> values;
      for (size_t i = 0; i < node->access.index.size(); ++i) {
        const std::string name = source.write.index[i].affine.as_variable();
        if (name.empty()) continue;
        ExprPtr dynamic = node->access.index[i].dynamic;
        values[name] = {node->access.index[i].affine, dynamic ? rewrite(dynamic, replace) : nullptr};
      }
      return result = substitute_positions(source.value, values);
    };
    Statement result = reader;
    result.value = rewrite(reader.value, replace);
    for (Subscript& subscript : result.write.index) {
      if (subscript.dynamic) subscript.dynamic = rewrite(subscript.dynamic, replace);
    }
    return result;
  }

  // Where the kernel's last use of the buffer copies it whole into an output, its statements use the
  // output instead.
  void redirect_copy(int buffer) {
    const std::vector<int> read = readers(buffer);
    if (read.empty()) return;
    const int last = read.back();
    const Statement copy = kernel_.statements[last];
    if (copy.reduction != Reduction::None || !copy.constraints.empty()) return;
    if (copy.value->kind != Expr::Kind::Load || copy.value->access.buffer != buffer) return;
    const int target = copy.write.buffer;
    const Buffer& to = kernel_.buffers[target];
    if (to.scope != Scope::Output || to.dtype != kernel_.buffers[buffer].dtype) return;
    if (writers(target).size() != 1 || !readers(target).empty() || writers(buffer).back() > last) return;
    if (!is_full_permutation(copy, copy.write, to)) return;
    if (!is_full_permutation(copy, copy.value->access, kernel_.buffers[buffer])) return;
    auto moved = [&](const Access& access) {
      std::map<std::string, Subscript> values;
      for (size_t i = 0; i < access.index.size(); ++i) {
        values[copy.value->access.index[i].affine.as_variable()] = access.index[i];
      }
      Access result;
      result.buffer = target;
      for (const Subscript& subscript : copy.write.index) {
        const std::string name = subscript.affine.as_variable();
        result.index.push_back(name.empty() ? Subscript{Affine(0), nullptr} : values.at(name));
      }
      return result;
    };
    std::function<ExprPtr(const ExprPtr&)> replace = [&](const ExprPtr& node) -> ExprPtr {
      if (node->kind != Expr::Kind::Load || node->access.buffer != buffer) return nullptr;
      auto changed = std::make_shared<Expr>(*node);
      for (Subscript& subscript : changed->access.index) {
        if (subscript.dynamic) subscript.dynamic = rewrite(subscript.dynamic, replace);
      }
      changed->access = moved(changed->access);
      return changed;
    };
    kernel_.statements.erase(kernel_.statements.begin() + last);
    for (Statement& statement : kernel_.statements) {
      statement.value = rewrite(statement.value, replace);
      for (Subscript& subscript : statement.write.index) {
        if (subscript.dynamic) subscript.dynamic = rewrite(subscript.dynamic, replace);
      }
      if (statement.write.buffer == buffer) statement.write = moved(statement.write);
    }
  }

  // Locals come after the arguments, so dropping some renumbers only locals.
  void drop_locals() {
    std::vector<bool> kept(kernel_.buffers.size(), true);
    for (int i = 0; i < static_cast<int>(kernel_.buffers.size()); ++i) {
      kept[static_cast<size_t>(i)] = kernel_.buffers[static_cast<size_t>(i)].scope != Scope::Local ||
                                     !writers(i).empty() || !readers(i).empty();
    }
    if (std::count(kept.begin(), kept.end(), false) > 0) keep_buffers(kernel_, kept);
  }

  Kernel& kernel_;
};

// True where the access visits each element of the buffer exactly once as the iterators move.
bool is_full_permutation(const Statement& s, const Access& access, const Buffer& buffer) {
  std::set<std::string> used;
  for (size_t i = 0; i < access.index.size(); ++i) {
    const Subscript& subscript = access.index[i];
    if (subscript.dynamic) return false;
    if (subscript.affine == Affine(0) && buffer.shape[i] == Affine(1)) continue;
    const std::string name = subscript.affine.as_variable();
    if (name.empty() || !used.insert(name).second) return false;
    auto iterator = std::find_if(s.iterators.begin(), s.iterators.end(),
                                 [&](const Iterator& candidate) { return candidate.name == name; });
    if (iterator == s.iterators.end() || iterator->extent != buffer.shape[i]) return false;
  }
  return used.size() == s.iterators.size();
}

}  // namespace

void inline_locals(Kernel& kernel) { Inliner(kernel).run(); }

}  // namespace tc
