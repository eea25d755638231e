#include "scheduler/default/facts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/target/narrow_product.h"
#include "scheduler/core/rewriting.h"
#include "scheduler/cost/tile_cost.h"

namespace tc {
namespace {

int64_t widest_tile(const Target& target) {
  int columns = 1;
  for (const auto& [vectors, width] : target.tiles) {
    if (leaves_registers(target, target.block * size_of(DType::F32), vectors * width))
      columns = std::max(columns, width);
  }
  return columns;
}

}  // namespace

bool is_cast_byte(const Expr& expr) {
  return expr.kind == Expr::Kind::Cast && expr.operands[0]->kind == Expr::Kind::Load &&
         size_of(expr.operands[0]->dtype) == 1 && is_integer(expr.operands[0]->dtype);
}

bool is_computed(const Subscript& subscript) {
  if (!subscript.dynamic) return false;
  bool loads = false;
  for_each_load(subscript.dynamic, [&](const Expr&) { loads = true; });
  return !loads;
}

std::string same_result(const ReductionFacts& facts, const Statement& other, const std::string& iterator) {
  const auto dimension = facts.dimension_of(iterator);
  std::set<std::string> found;
  visit_accesses(other, [&](const Access& access, bool) {
    if (dimension && access.buffer == facts.sum().write.buffer)
      found.insert(access.index[*dimension].affine.as_variable());
  });
  return found.size() == 1 ? *found.begin() : "";
}

std::vector<std::string> ReductionFacts::outputs() const {
  std::vector<std::string> result;
  for (const Iterator& iterator : sum().iterators) {
    if (is_output(iterator.name)) result.push_back(iterator.name);
  }
  return result;
}

std::vector<std::string> ReductionFacts::reductions() const {
  std::vector<std::string> result;
  for (const Iterator& iterator : sum().iterators) {
    if (!is_output(iterator.name)) result.push_back(iterator.name);
  }
  return result;
}

std::vector<std::string> ReductionFacts::reduction_order(const std::string& vector,
                                                         const std::string& columns) const {
  std::vector<std::string> order, along, last;
  for (const Iterator& iterator : sum().iterators) {
    if (is_output(iterator.name)) continue;
    if (moves_groups(iterator.name)) {
      along.push_back(iterator.name);
      continue;
    }
    bool innermost = false;
    for (const Access& load : loads_of(sum())) {
      if (is_constant(load) || depends_on(load, vector)) continue;
      innermost = innermost || element_stride(kernel(), load, iterator.name) == 1;
    }
    (innermost ? last : order).push_back(iterator.name);
  }
  if (!along.empty()) {
    // So that the result of a shuffle serves the taps of the next columns as well.
    const auto windows = std::stable_partition(
        order.begin(), order.end(), [&](const std::string& name) { return !is_window(name, columns); });
    order.insert(windows, along.begin(), along.end());
  }
  order.insert(order.end(), last.begin(), last.end());
  return order;
}

bool ReductionFacts::is_window(const std::string& reduction, const std::string& columns) const {
  if (columns.empty()) return false;
  for (const Access& load : loads_of(sum())) {
    for (const Subscript& subscript : load.index) {
      if (subscript.affine.coefficient(reduction) != 0 && subscript.affine.coefficient(columns) != 0) {
        return true;
      }
    }
  }
  return false;
}

bool ReductionFacts::is_window_alone() const {
  const std::vector<Access> loads = loads_of(sum());
  if (loads.size() != 1) return false;
  return std::all_of(sum().iterators.begin(), sum().iterators.end(), [&](const Iterator& iterator) {
    if (is_output(iterator.name)) return true;
    return std::any_of(loads[0].index.begin(), loads[0].index.end(), [&](const Subscript& subscript) {
      const auto& terms = subscript.affine.terms();
      return subscript.affine.coefficient(iterator.name) != 0 &&
             std::any_of(terms.begin(), terms.end(), [&](const auto& term) { return is_output(term.first); });
    });
  });
}

bool ReductionFacts::shares_broadcasts(const std::string& window, const std::string& columns,
                                       const std::string& lane) const {
  for (const Access& load : loads_of(sum())) {
    for (const Subscript& subscript : load.index) {
      if (subscript.affine.coefficient(window) == 0 || subscript.affine.coefficient(columns) == 0) continue;
      if (!depends_on(load, lane)) return true;
    }
  }
  return false;
}

bool ReductionFacts::constrained(const std::string& iterator) const {
  for (const Affine& constraint : sum().constraints) {
    if (constraint.coefficient(iterator) != 0) return true;
  }
  return false;
}

bool ReductionFacts::moves_groups(const std::string& iterator) const {
  for (const Access& load : loads_of(sum())) {
    for (const Subscript& subscript : load.index) {
      if (is_computed(subscript) && subscript.affine.coefficient(iterator) != 0) return true;
    }
  }
  return false;
}

bool ReductionFacts::cuts_lanes(const std::string& iterator, const std::string& lane) const {
  return std::any_of(sum().constraints.begin(), sum().constraints.end(), [&](const Affine& condition) {
    if (condition.coefficient(iterator) == 0 || condition.coefficient(lane) == 0) return false;
    const auto& terms = condition.terms();
    return std::all_of(terms.begin(), terms.end(),
                       [&](const auto& term) { return term.first == lane || !is_output(term.first); });
  });
}

std::optional<size_t> ReductionFacts::dimension_of(const std::string& iterator) const {
  std::optional<size_t> result;
  for (size_t d = 0; d < sum().write.index.size(); ++d) {
    const int64_t coefficient = sum().write.index[d].affine.coefficient(iterator);
    if (coefficient == 0) continue;
    if (coefficient != 1 || result) return std::nullopt;
    result = d;
  }
  return result;
}

const BlockedDim* ReductionFacts::blocked_dim(const Access& access, size_t inner) const {
  const std::string& name = buffer(access).name;
  for (const BlockedDim& dim : reduction().builder.state().blocked) {
    if (dim.buffer == name && dim.inner == inner) return &dim;
  }
  return nullptr;
}

bool ReductionFacts::is_blocked(int buffer) const {
  const std::string& name = kernel().buffers[static_cast<size_t>(buffer)].name;
  return std::any_of(reduction().builder.state().blocked.begin(), reduction().builder.state().blocked.end(),
                     [&](const BlockedDim& dim) { return dim.buffer == name; });
}

bool ReductionFacts::shares_dimension(const std::string& iterator, size_t dim) const {
  if (dim < sum().write.index.size() && sum().write.index[dim].affine.coefficient(iterator) != 0) return true;
  // A batch dimension comes before.
  for (size_t d = 0; d < dim; ++d) {
    if (sum().write.index[d].affine.coefficient(iterator) != 0) return true;
  }
  return false;
}

double ReductionFacts::bytes_of(const Access& access) const {
  double bytes = 1;
  const Buffer& read = buffer(access);
  for (const Affine& size : read.shape) {
    bytes *= size.is_constant() ? static_cast<double>(size.constant()) : kAssumedSymbolic;
  }
  return bytes * static_cast<double>(size_of(read.dtype));
}

int ReductionFacts::times_read(int buffer) const {
  int count = 0;
  for (const Statement& statement : kernel().statements) {
    for_each_load(statement.value, [&](const Expr& load) { count += load.access.buffer == buffer; });
  }
  return count;
}

bool ReductionFacts::packable(const Access& access) const {
  if (!is_constant(access) || times_read(access.buffer) != 1) return false;
  for (const Subscript& subscript : access.index) {
    if (subscript.dynamic) return false;
  }
  return true;
}

bool ReductionFacts::is_packable_input(const Access& access, const std::string& lane,
                                       const std::string& columns) const {
  const bool dynamic = std::any_of(access.index.begin(), access.index.end(),
                                   [](const Subscript& each) { return each.dynamic; });
  const auto step = element_stride(kernel(), access, lane);
  // A window's copy would hold each element as often as windows overlap.
  const bool window = std::any_of(access.index.begin(), access.index.end(), [&](const Subscript& each) {
    bool sum = false, output = false;
    for (const auto& [name, coefficient] : each.affine.terms()) (is_output(name) ? output : sum) = true;
    return sum && output;
  });
  // Padded lanes of an output have to be finite, but those of a copy need not be.
  const bool padded =
      std::any_of(reduction().builder.state().blocked.begin(), reduction().builder.state().blocked.end(),
                  [&](const BlockedDim& dim) {
                    const int buffer = kernel().buffer_index(dim.buffer);
                    const bool leaves = kernel().buffers[static_cast<size_t>(buffer)].scope == Scope::Output;
                    return leaves && (!dim.extent.is_constant() || dim.extent.constant() % dim.block != 0);
                  });
  return buffer(access).scope == Scope::Input && !dynamic && !window && !padded &&
         times_read(access.buffer) == 1 && step && *step > 1 &&
         (columns.empty() || !depends_on(access, columns));
}

bool ReductionFacts::reads_packed(const Access& load, const std::string& vector,
                                  const std::string& columns) const {
  // There are so many columns that tiles of every width read a packed input again.
  return !columns.empty() && is_packable_input(load, vector, columns) &&
         extent(columns, kAssumedSymbolic) >= 2 * widest_tile(target());
}

std::optional<std::string> ReductionFacts::byte_iterator(const std::string& lane) const {
  const int64_t products = byte_products(target());
  const Expr& value = *sum().value;
  if (products == 0 || sum().reduction != Reduction::Sum || value.dtype != DType::I32 ||
      value.kind != Expr::Kind::Binary || value.binary != BinaryOp::Mul || !is_output(lane)) {
    return std::nullopt;
  }
  const Access *shared = nullptr, *constant = nullptr;
  for (const ExprPtr& operand : value.operands) {
    if (!is_cast_byte(*operand)) return std::nullopt;
    const Access& access = operand->operands[0]->access;
    (depends_on(access, lane) ? constant : shared) = &access;
  }
  if (shared == nullptr || constant == nullptr || !packable(*constant)) return std::nullopt;
  for (const std::string& name : reductions()) {
    const int64_t size = extent(name, 0);
    if (size == 0 || size % products != 0 || element_stride(kernel(), *shared, name) != 1) continue;
    // Padding would separate bytes that are multiplied together. So would a window, unless single words are
    // loaded, from any address.
    const bool any_address = adds_products_in_scalars(target());
    const bool divided =
        std::any_of(sum().iterators.begin(), sum().iterators.end(), [&](const Iterator& each) {
          if (!is_output(each.name)) return false;
          const auto joint = [&](const Affine& affine) {
            return affine.coefficient(name) != 0 && affine.coefficient(each.name) != 0;
          };
          return std::any_of(sum().constraints.begin(), sum().constraints.end(), joint) ||
                 (!any_address && std::any_of(shared->index.begin(), shared->index.end(),
                                              [&](const Subscript& index) { return joint(index.affine); }));
        });
    if (!divided) return name;
  }
  return std::nullopt;
}

bool ReductionFacts::crosses_pages(const Access& load) const {
  constexpr int64_t kPage = 4096;  // bytes
  const Buffer& read = buffer(load);
  return std::any_of(sum().iterators.begin(), sum().iterators.end(), [&](const Iterator& iterator) {
    const auto stride = element_stride(kernel(), load, iterator.name);
    return !is_output(iterator.name) && stride && std::abs(*stride) * size_of(read.dtype) >= kPage &&
           extent(iterator.name, kAssumedSymbolic) > target().tlb_entries;
  });
}

bool may_widen(const ReductionFacts& facts, const std::string& lane, const std::string& columns) {
  constexpr int64_t kMostBytes = 5 << 10;   // on the stack
  constexpr int64_t kTiles = 2, kWord = 4;  // the least
  if (!reads_widened_words(facts.target()) || columns.empty() ||
      facts.extent(columns, 0) < kTiles * kWidenedColumns)
    return false;
  int64_t bytes = 2 * kWidenedColumns;
  for (const std::string& name : facts.reductions()) {
    bytes *= facts.extent(name, kMostBytes);
    if (bytes > kMostBytes) return false;
  }
  if (bytes <= 2 * kWidenedColumns * kWord) return false;
  // Iterators of the result that the weights depend on count channels, in blocks of lanes.
  const std::vector<Access> loads = loads_of(facts.sum());
  std::vector<std::string> channels;
  for (const std::string& name : facts.outputs()) {
    if (std::any_of(loads.begin(), loads.end(),
                    [&](const Access& load) { return depends_on(load, lane) && depends_on(load, name); }))
      channels.push_back(name);
  }
  const auto apart = [&](const std::string& name) {
    return name != columns &&
           std::none_of(facts.sum().constraints.begin(), facts.sum().constraints.end(),
                        [&](const Affine& each) { return each.coefficient(name) != 0; }) &&
           std::all_of(loads.begin(), loads.end(),
                       [&](const Access& load) { return depends_on(load, lane) == depends_on(load, name); });
  };
  return std::all_of(channels.begin(), channels.end(), apart);
}

double epilogue_weight(const ReductionFacts& facts) {
  double weight = 0;
  for (const std::string& tail : facts.reduction().epilogue)
    weight += weight_of(facts.reduction().builder.statement(tail).value);
  return weight;
}

}  // namespace tc
