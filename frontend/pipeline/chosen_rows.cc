#include "frontend/pipeline/chosen_rows.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "ir/ops/op.h"

namespace tc {
namespace {

// Smaller tables are not worth the divisions with which rows of a packed one are found.
constexpr int64_t kLargeTable = 64 << 10;

// One dimension of the stored form: the dimension of the original that it has a part of, and which part.
struct Digit {
  std::optional<size_t> dimension;  // of the original; none: there is one element only
  int64_t step = 1, size = 1;
  bool highest = false;
};

// The parts of the original's dimensions that the stored form's dimensions are; nothing where it has an
// element twice, or leaves one out.
std::optional<std::vector<Digit>> digits_of(const StoredForm& form) {
  const Packing& packing = form.packing;
  std::vector<Digit> digits(form.shape.size());
  for (size_t i = 0; i < digits.size(); ++i) {
    digits[i].size = form.shape[i].evaluate({});
    for (size_t d = 0; d < packing.index.size(); ++d) {
      const int64_t step = packing.index[d].coefficient(packing.iterators[i]);
      if (step == 0 || digits[i].size == 1) continue;
      if (step < 0 || digits[i].dimension) return std::nullopt;
      digits[i].dimension = d;
      digits[i].step = step;
    }
    if (digits[i].size != 1 && !digits[i].dimension) return std::nullopt;
  }
  for (size_t d = 0; d < packing.index.size(); ++d) {
    if (packing.index[d].constant() != 0) return std::nullopt;
    std::vector<Digit*> own;
    for (Digit& digit : digits) {
      if (digit.dimension == d) own.push_back(&digit);
    }
    std::sort(own.begin(), own.end(), [](const Digit* a, const Digit* b) { return a->step < b->step; });
    int64_t step = 1;
    for (const Digit* digit : own) {
      if (digit->step != step) return std::nullopt;
      step *= digit->size;
    }
    if (step < packing.original_shape[d]) return std::nullopt;
    if (!own.empty()) own.back()->highest = true;
  }
  return digits;
}

// Where the element at `index` of the original is.
std::vector<Subscript> place_of(const std::vector<Subscript>& index, const std::vector<Digit>& digits) {
  std::vector<Subscript> place;
  for (const Digit& digit : digits) {
    if (!digit.dimension) {
      place.push_back({Affine(0), nullptr});
      continue;
    }
    const Subscript& from = index[*digit.dimension];
    if (digit.highest && digit.step == 1) {
      place.push_back(from);
      continue;
    }
    ExprPtr element = from.dynamic;
    const bool plain = from.affine.is_constant() && from.affine.constant() == 0;
    if (!element) element = index_value(from.affine);
    else if (!plain) element = binary(BinaryOp::Add, index_value(from.affine), element);
    if (digit.step > 1) element = binary(BinaryOp::Div, element, int_constant(DType::I64, digit.step));
    if (!digit.highest) element = binary(BinaryOp::Mod, element, int_constant(DType::I64, digit.size));
    place.push_back({Affine(0), element});
  }
  return place;
}

bool is_large(const Tensor& tensor) { return static_cast<int64_t>(tensor.bytes.size()) >= kLargeTable; }

bool are_equal(const Tensor& a, const Tensor& b) {
  return &a == &b || (a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes);
}

// The large constants that a group reads.
std::vector<ValueId> tables_of(const Graph& graph, const Group& group) {
  std::set<ValueId> found;
  if (group.kind != Group::Kind::Compute) return {};
  for (const int node : group.nodes) {
    for (const ValueId id : graph.nodes[static_cast<size_t>(node)].inputs) {
      if (id != kNoValue && graph[id].constant && is_large(*graph[id].constant)) found.insert(id);
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace

bool chooses_rows(const Kernel& kernel, const std::string& buffer) {
  const int which = kernel.buffer_index(buffer);
  if (which < 0 || kernel.buffers[static_cast<size_t>(which)].scope != Scope::Constant) return false;
  bool chosen = false, whole = false;
  for (const Statement& statement : kernel.statements) {
    if (statement.reduction != Reduction::None) return false;
    for_each_load(statement.value, [&](const Expr& load) {
      if (load.access.buffer != which) return;
      const bool by_data = std::any_of(load.access.index.begin(), load.access.index.end(),
                                       [](const Subscript& each) { return each.dynamic != nullptr; });
      (by_data ? chosen : whole) = true;
    });
  }
  return chosen && !whole;
}

bool read_from(const StoredForm& form, Kernel& kernel, const std::string& buffer) {
  const int which = kernel.buffer_index(buffer);
  Buffer& table = kernel.buffers.at(static_cast<size_t>(which));
  std::vector<Affine> original;
  for (const int64_t size : form.packing.original_shape) original.emplace_back(size);
  const auto digits = digits_of(form);
  if (!digits || packing_of(kernel, buffer) != nullptr || table.shape != original ||
      table.dtype != form.dtype)
    return false;
  const auto moved = [&](const ExprPtr& each) -> ExprPtr {
    const bool reads = each->kind == Expr::Kind::Load && each->access.buffer == which;
    return reads ? load(each->dtype, which, place_of(each->access.index, *digits)) : nullptr;
  };
  for (Statement& statement : kernel.statements) statement.value = rewrite(statement.value, moved);
  table.shape = form.shape;
  table.logical = "packed";
  kernel.packings.push_back(form.packing);
  kernel.packings.back().buffer = buffer;
  return true;
}

std::vector<Group> whole_readers(const Graph& graph, const std::vector<Group>& groups,
                                 const LowersGroup& kernel_of) {
  const auto is_sum = [&](int node) {
    return graph.nodes[static_cast<size_t>(node)].op->traits.contraction != OpTraits::Contraction::None;
  };
  std::vector<TensorPtr> tables;  // of which rows are chosen
  std::set<const Group*> choosers;
  for (const Group& group : groups) {
    const std::vector<ValueId> read = tables_of(graph, group);
    if (read.empty() || std::any_of(group.nodes.begin(), group.nodes.end(), is_sum)) continue;
    const KernelPart part = kernel_of(group);
    for_each_argument(part.kernel, [&](const Buffer& buffer, size_t argument) {
      const ValueId id = part.arguments.at(argument);
      if (!std::count(read.begin(), read.end(), id) || !chooses_rows(part.kernel, buffer.name)) return;
      tables.push_back(graph[id].constant);
      choosers.insert(&group);
    });
  }
  std::vector<Group> result;
  for (const Group& group : groups) {
    if (tables.empty() || choosers.count(&group) > 0) continue;
    const std::vector<ValueId> read = tables_of(graph, group);
    const bool shares = std::any_of(read.begin(), read.end(), [&](ValueId id) {
      return std::any_of(tables.begin(), tables.end(),
                         [&](const TensorPtr& table) { return are_equal(*table, *graph[id].constant); });
    });
    if (shares) result.push_back(group);
  }
  return result;
}

}  // namespace tc
