// merge: two iterators over contiguous dimensions become one.
#include <algorithm>
#include <set>

#include "scheduler/core/primitive.h"
#include "scheduler/core/rewriting.h"

namespace tc {
namespace {

// The prefix of the names of sizes that are products of a kernel's sizes.
constexpr const char* kProduct = "product_";

// The parameter that is the product of two others; it is added to the kernel where it has none. Its value is
// expressed by the kernel's original parameters.
std::string product_of(Kernel& kernel, const std::string& first, const std::string& second) {
  const auto found = [&](const std::string& name) {
    return *std::find_if(kernel.parameters.begin(), kernel.parameters.end(),
                         [&](const Parameter& each) { return each.name == name; });
  };
  const auto is_product = [](const Parameter& each) { return each.name.rfind(kProduct, 0) == 0; };
  const auto value_of = [&](const Parameter& each) {
    return is_product(each) ? each.value : Dim::symbol(each.name);
  };
  const Parameter one = found(first), other = found(second);
  const Dim value = value_of(one) * value_of(other);
  for (const Parameter& each : kernel.parameters) {
    if (is_product(each) && each.value == value) return each.name;
  }
  // It counts elements in memory, of which there are never more than the default maximum of a size.
  const auto limited = [](int64_t x, int64_t y) {
    return static_cast<int64_t>(std::min<__int128>(static_cast<__int128>(x) * y, Parameter().maximum));
  };
  kernel.parameters.push_back({kProduct + first + "_" + second, value, limited(one.minimum, other.minimum),
                               limited(one.maximum, other.maximum)});
  return kernel.parameters.back().name;
}

Affine product_of(Kernel& kernel, const Affine& a, const Affine& b) {
  if (b.is_constant()) return a * b.constant();
  if (a.is_constant()) return b * a.constant();
  const auto only_term = [&](const Affine& extent) {
    if (extent.terms().size() != 1 || extent.constant() != 0)
      refuse("an extent of ", extent.str(), " is no multiple of one size");
    return *extent.terms().begin();
  };
  const auto [first, times] = only_term(a);
  const auto [second, more] = only_term(b);
  return Affine::variable(product_of(kernel, first, second), times * more);
}

// Finds what has to be merged together: the iterator pairs of statements and the dimension pairs of
// buffers that follow from one pair of iterators.
class Merger {
 public:
  Merger(Kernel& kernel, const ScheduleState& state) : kernel_(kernel), state_(state) {}

  void add_statement(size_t which, size_t position) {
    auto [found, fresh] = statements_.insert({which, position});
    if (!fresh) {
      if (found->second != position)
        refuse("statement ", kernel_.statements[which].name, " would merge two pairs");
      return;
    }
    const Statement& statement = kernel_.statements[which];
    const std::string a = statement.iterators[position].name;
    const std::string b = statement.iterators.at(position + 1).name;
    const Affine& size = statement.iterators[position + 1].extent;
    auto mentions = [&](const Affine& affine) {
      return affine.coefficient(a) != 0 || affine.coefficient(b) != 0;
    };
    for (const Affine& constraint : statement.constraints) {
      if (mentions(constraint)) {
        refuse("statement ", statement.name, " has the condition ", constraint.str(), " >= 0");
      }
    }
    check_values(statement, statement.value, mentions);
    visit_accesses(statement, [&](const Access& access, bool) {
      size_t used = 0;
      for (const Subscript& subscript : access.index) used += mentions(subscript.affine);
      if (used == 0) return;
      const Buffer& buffer = kernel_.buffers[static_cast<size_t>(access.buffer)];
      for (size_t d = 0; d + 1 < access.index.size(); ++d) {
        if (used != 2 || access.index[d].affine.as_variable() != a ||
            access.index[d + 1].affine.as_variable() != b || access.index[d].dynamic ||
            access.index[d + 1].dynamic || buffer.shape[d + 1] != size)
          continue;
        add_buffer(access.buffer, d);
        return;
      }
      refuse("statement ", statement.name, " does not access ", buffer.name, " contiguously along ", a,
             " and ", b);
    });
  }

  void apply(const std::string& name) {
    for (const auto& [which, position] : statements_) {
      Statement& statement = kernel_.statements[which];
      const std::string own = statement.iterators[position].name;
      const std::string other = statement.iterators[position + 1].name;
      if (name != own && name != other && fresh_iterator(kernel_, statement, name) != name) {
        refuse("the name '", name, "' is taken in statement ", statement.name);
      }
      statement.iterators[position].extent =
          product_of(kernel_, statement.iterators[position].extent, statement.iterators[position + 1].extent);
      statement.iterators[position].name = name;
      statement.iterators.erase(statement.iterators.begin() + static_cast<std::ptrdiff_t>(position) + 1);
      edit_accesses(statement, [&](const Access& access) {
        auto found = buffers_.find(access.buffer);
        if (found == buffers_.end()) return access;
        Access result = access;
        result.index[found->second].affine = Affine::variable(name);
        result.index.erase(result.index.begin() + static_cast<std::ptrdiff_t>(found->second) + 1);
        return result;
      });
    }
    for (const auto& [which, d] : buffers_) {
      Buffer& buffer = kernel_.buffers[static_cast<size_t>(which)];
      buffer.shape[d] = product_of(kernel_, buffer.shape[d], buffer.shape[d + 1]);
      buffer.shape.erase(buffer.shape.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    }
  }

  // Positions of blocked dimensions after the merge.
  std::vector<BlockedDim> moved(std::vector<BlockedDim> blocked) const {
    for (BlockedDim& dim : blocked) {
      auto found = buffers_.find(kernel_.buffer_index(dim.buffer));
      if (found == buffers_.end()) continue;
      if (dim.outer > found->second) --dim.outer;
      if (dim.inner > found->second) --dim.inner;
    }
    return blocked;
  }

 private:
  template <class Mentions>
  void check_values(const Statement& statement, const ExprPtr& expr, const Mentions& mentions) {
    if (!expr) return;
    if (expr->kind == Expr::Kind::Index && mentions(expr->affine)) {
      refuse("statement ", statement.name, " computes with the value of an iterator");
    }
    for (const Subscript& subscript : expr->access.index)
      check_values(statement, subscript.dynamic, mentions);
    for (const ExprPtr& operand : expr->operands) check_values(statement, operand, mentions);
  }

  void add_buffer(int which, size_t d) {
    auto [found, fresh] = buffers_.insert({which, d});
    const Buffer& buffer = kernel_.buffers[static_cast<size_t>(which)];
    if (!fresh) {
      if (found->second != d) refuse("buffer ", buffer.name, " would merge two pairs of dimensions");
      return;
    }
    for (const BlockedDim& dim : state_.blocked) {
      if (dim.buffer != buffer.name) continue;
      if (d == dim.outer || d == dim.inner || d + 1 == dim.outer || d + 1 == dim.inner) {
        refuse("dimension ", d, " of ", buffer.name, " is in blocks");
      }
    }
    if (packing_of(kernel_, buffer.name) != nullptr) refuse("constant ", buffer.name, " is packed");
    for (size_t s = 0; s < kernel_.statements.size(); ++s) {
      const Statement& statement = kernel_.statements[s];
      visit_accesses(statement, [&](const Access& access, bool) {
        if (access.buffer != which) return;
        const std::string a = access.index[d].affine.as_variable();
        const std::string b = access.index[d + 1].affine.as_variable();
        size_t position = 0;
        while (position < statement.iterators.size() && statement.iterators[position].name != a) ++position;
        if (a.empty() || b.empty() || position + 1 >= statement.iterators.size() ||
            statement.iterators[position + 1].name != b ||
            statement.iterators[position + 1].extent != buffer.shape[d + 1]) {
          refuse("statement ", statement.name, " does not access ", buffer.name,
                 " contiguously along dimensions ", d, " and ", d + 1);
        }
        add_statement(s, position);
      });
    }
  }

  Kernel& kernel_;
  const ScheduleState& state_;
  std::map<size_t, size_t> statements_;  // statement -> position of the first iterator
  std::map<int, size_t> buffers_;        // buffer -> first dimension
};

}  // namespace

Primitive merge_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "merge", PrimitiveKind::Rewrite, neighbours("the merged iterator's name"),
      "for i in 0..N: for j in 0..M: A[i, j]  ->  for NAME in 0..N*M: A[NAME], in all "
      "statements that share the buffers, where both dimensions are contiguous. The product of two "
      "sizes that are not known is a size of its own."};
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    Kernel kernel = state.kernel->kernel;
    const Arguments::Neighbours both = given.neighbours();
    Merger merger(kernel, state);
    merger.add_statement(both.statement, both.outer);
    merger.apply(given.word("NAME"));
    state.blocked = merger.moved(state.blocked);
    replace_kernel(state, std::move(kernel));
  };
  return primitive;
}

}  // namespace tc
