// From nodes to statements: the context that rows lower in, and the kernel of a group.
#include <algorithm>
#include <set>

#include "ir/ops/keep_buffers.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

constexpr int64_t kLargestDim = int64_t{1} << 40;

int64_t saturated(__int128 value) {
  return static_cast<int64_t>(std::clamp<__int128>(value, -kLargestDim, kLargestDim));
}

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b < 0); }

Interval product(const Interval& a, const Interval& b) {
  const __int128 corners[] = {static_cast<__int128>(a.low) * b.low, static_cast<__int128>(a.low) * b.high,
                              static_cast<__int128>(a.high) * b.low, static_cast<__int128>(a.high) * b.high};
  return {saturated(*std::min_element(std::begin(corners), std::end(corners))),
          saturated(*std::max_element(std::begin(corners), std::end(corners)))};
}

Interval range_of_atom(const Dim::Atom& atom, const Graph& graph) {
  if (atom.kind == Dim::AtomKind::Symbol) {
    auto found = graph.symbols.find(atom.name);
    if (found != graph.symbols.end()) return {found->second.first, found->second.second};
    auto size = graph.data_symbols.find(atom.name);
    const bool bounded = size != graph.data_symbols.end() && size->second.bound;
    return {0, bounded ? std::max<int64_t>(dim_range(*size->second.bound, graph).high, 0) : kLargestDim};
  }
  const Interval a = dim_range(atom.left, graph), b = dim_range(atom.right, graph);
  switch (atom.kind) {
    case Dim::AtomKind::Min: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case Dim::AtomKind::Max: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case Dim::AtomKind::Mod: return {0, std::max<int64_t>(b.high - 1, 0)};
    default: {
      // A divisor is at least 1 wherever the division is defined.
      const int64_t least = std::max<int64_t>(b.low, 1), most = std::max<int64_t>(b.high, 1);
      return {floor_quotient(a.low, a.low < 0 ? least : most),
              floor_quotient(a.high, a.high < 0 ? most : least)};
    }
  }
}

Dim atom_as_dim(const Dim::Atom& atom) {
  switch (atom.kind) {
    case Dim::AtomKind::Symbol: return Dim::symbol(atom.name);
    case Dim::AtomKind::FloorDiv: return floor_div(atom.left, atom.right);
    case Dim::AtomKind::Mod: return mod(atom.left, atom.right);
    case Dim::AtomKind::Min: return min(atom.left, atom.right);
    case Dim::AtomKind::Max: return max(atom.left, atom.right);
  }
  fail(ErrorKind::Internal, "a dimension of no kind");
}

std::string identifier_of(const std::string& name) {
  std::string result;
  for (char c : name) result += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0]))) result = "v" + result;
  // Names in hostile or generated models may be very long.
  return result.substr(0, 40);
}

std::string fresh_buffer_name(const Kernel& kernel, const std::string& base) {
  std::string name = base;
  for (int i = 1; kernel.buffer_index(name) >= 0; ++i) name = text(base, "_", i);
  return name;
}

// Drops arguments that no statement uses.
void drop_unused_buffers(Kernel& kernel, std::vector<ValueId>& arguments) {
  std::vector<bool> used(kernel.buffers.size(), false);
  for (const Statement& statement : kernel.statements) {
    used[statement.write.buffer] = true;
    for (const Subscript& subscript : statement.write.index) {
      for_each_load(subscript.dynamic, [&](const Expr& load) { used[load.access.buffer] = true; });
    }
    for_each_load(statement.value, [&](const Expr& load) { used[load.access.buffer] = true; });
  }
  std::vector<ValueId> kept_arguments;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    used[i] = used[i] || kernel.buffers[i].scope == Scope::Output;
    if (used[i] && i < arguments.size()) kept_arguments.push_back(arguments[i]);
  }
  arguments = std::move(kept_arguments);
  keep_buffers(kernel, used);
}

}  // namespace

namespace {

// c * floor(a / c) lies between a - (c - 1) and a. Replaces multiples of it in the sum by multiples of a,
// which gives tighter ranges where symbols of a then cancel. `less` becomes the most that the true value may
// be below the result.
Dim without_rounding(const Dim& dim, int64_t& less) {
  Dim result = dim;
  for (const Dim::Term& term : dim.terms()) {
    if (term.factors.size() != 1 || term.factors[0]->kind != Dim::AtomKind::FloorDiv) continue;
    const Dim::Atom& atom = *term.factors[0];
    if (!atom.right.is_constant() || atom.right.constant() < 1 || term.coefficient < 1 ||
        term.coefficient % atom.right.constant() != 0)
      continue;
    const int64_t times = term.coefficient / atom.right.constant();
    result = result - Dim(term.coefficient) * atom_as_dim(atom) + Dim(times) * atom.left;
    less = saturated(less + static_cast<__int128>(times) * (atom.right.constant() - 1));
  }
  return result;
}

Interval range_of_sum(const Dim& dim, const Graph& graph);

}  // namespace

bool mentions_data(const Dim& dim, const Graph& graph) {
  if (graph.data_symbols.empty() || dim.is_constant()) return false;
  std::set<std::string> names;
  dim.collect_symbols(names);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return graph.data_symbols.count(name) > 0; });
}

Interval dim_range(const Dim& dim, const Graph& graph) {
  const Interval range = range_of_sum(dim, graph);
  int64_t less = 0;
  const Dim other = without_rounding(dim, less);
  if (less == 0) return range;
  const Interval closer = range_of_sum(other, graph);
  return {std::max(range.low, saturated(static_cast<__int128>(closer.low) - less)),
          std::min(range.high, closer.high)};
}

namespace {

// Factors may be negative: floor((n - 3)/2) is -1 where n is 1.
Interval range_of_sum(const Dim& dim, const Graph& graph) {
  __int128 low = 0, high = 0;
  for (const Dim::Term& term : dim.terms()) {
    Interval factors{1, 1};
    for (const Dim::AtomPtr& atom : term.factors) factors = product(factors, range_of_atom(*atom, graph));
    low += static_cast<__int128>(term.coefficient) * (term.coefficient < 0 ? factors.high : factors.low);
    high += static_cast<__int128>(term.coefficient) * (term.coefficient < 0 ? factors.low : factors.high);
  }
  return {saturated(low), saturated(high)};
}

}  // namespace

LowerContext::LowerContext(const Graph& graph, const Node& node, Kernel& kernel,
                           const std::map<ValueId, int>& buffers,
                           std::map<std::string, std::string>& parameters)
    : graph_(graph), node_(node), kernel_(kernel), buffers_(buffers), parameters_(parameters) {}

bool LowerContext::has_input(int i) const { return input_given(node_, i); }

int LowerContext::input(int i) const {
  TC_CHECK(has_input(i), "input ", i, " of ", node_.origin.str());
  return buffers_.at(node_.inputs[i]);
}

int LowerContext::output(int i) const {
  if (i >= static_cast<int>(node_.outputs.size()) || node_.outputs[i] == kNoValue) return -1;
  auto found = buffers_.find(node_.outputs[i]);
  return found == buffers_.end() ? -1 : found->second;
}

const Value& LowerContext::input_value(int i) const {
  TC_CHECK(has_input(i), "input ", i, " of ", node_.origin.str());
  return graph_[node_.inputs[i]];
}

const Value& LowerContext::output_value(int i) const { return graph_[node_.outputs.at(i)]; }

const Shape& LowerContext::shape(int i) const {
  const Value& value = input_value(i);
  TC_CHECK(value.shape, "a shape of ", value.name);
  return *value.shape;
}

DType LowerContext::dtype(int i) const { return input_value(i).dtype; }

Affine LowerContext::dim(const Dim& dim) {
  Affine result;
  for (const Dim::Term& term : dim.terms()) {
    if (term.factors.empty()) {
      result = result + Affine(term.coefficient);
      continue;
    }
    Dim product = 1;
    for (const Dim::AtomPtr& atom : term.factors) product = product * atom_as_dim(*atom);
    auto [found, fresh] = parameters_.try_emplace(product.str(), text("p", parameters_.size()));
    if (fresh) {
      const Interval range = dim_range(product, graph_);
      kernel_.parameters.push_back({found->second, product, range.low, range.high});
    }
    result = result + Affine::variable(found->second, term.coefficient);
  }
  return result;
}

int LowerContext::local(const std::string& base, DType dtype, const Shape& shape) {
  Buffer buffer;
  buffer.name = fresh_buffer_name(kernel_, base);
  buffer.dtype = dtype;
  for (const Dim& size : shape) buffer.shape.push_back(dim(size));
  buffer.scope = Scope::Local;
  kernel_.buffers.push_back(std::move(buffer));
  return static_cast<int>(kernel_.buffers.size()) - 1;
}

std::string LowerContext::fresh(const std::string& base) {
  std::string name = base;
  for (int i = 1; kernel_.find(name); ++i) name = text(base, "_", i);
  return name;
}

std::vector<Iterator> LowerContext::iterators(const std::string& stem, const Shape& shape) {
  std::vector<Iterator> result;
  for (size_t i = 0; i < shape.size(); ++i) result.push_back({text(stem, i), dim(shape[i])});
  return result;
}

LowerContext::Space LowerContext::space(const std::string& stem, const Shape& shape) {
  Space result;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == Dim(1)) {
      result.position.push_back(0);
      continue;
    }
    result.iterators.push_back({text(stem, i), dim(shape[i])});
    result.position.push_back(Affine::variable(result.iterators.back().name));
  }
  return result;
}

std::vector<Affine> LowerContext::broadcast_index(const Shape& shape,
                                                  const std::vector<Affine>& position) const {
  TC_CHECK(shape.size() <= position.size(), "an operand of lower rank than the result");
  std::vector<Affine> result;
  const size_t skip = position.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    result.push_back(shape[i] == Dim(1) ? Affine(0) : position[skip + i]);
  }
  return result;
}

ExprPtr LowerContext::read(int i, const std::vector<Affine>& index) const {
  std::vector<Subscript> subscripts;
  for (const Affine& affine : index) subscripts.push_back({affine, nullptr});
  return read(i, std::move(subscripts));
}

ExprPtr LowerContext::read(int i, std::vector<Subscript> index) const {
  const Value& value = input_value(i);
  if (value.constant && value.constant->count() == 1) {
    const DType type = compute_type(value.dtype);
    return is_float(type) ? constant(type, value.constant->as_double(0))
                          : int_constant(type, value.constant->as_int(0));
  }
  const int buffer = input(i);
  const DType stored = kernel_.buffers[buffer].dtype;
  ExprPtr result = load(stored, buffer, std::move(index));
  return compute_type(stored) == stored ? result : cast(compute_type(stored), result);
}

ExprPtr LowerContext::read_buffer(int buffer, const std::vector<Affine>& index) const {
  const DType stored = kernel_.buffers[buffer].dtype;
  ExprPtr result = load(stored, buffer, index);
  return compute_type(stored) == stored ? result : cast(compute_type(stored), result);
}

void LowerContext::add(Statement statement) {
  statement.name = fresh(statement.name);
  kernel_.statements.push_back(std::move(statement));
}

void LowerContext::assign(const std::string& base, std::vector<Iterator> iterators, int buffer,
                          const std::vector<Affine>& index, ExprPtr value, std::vector<Affine> constraints) {
  Statement statement;
  statement.name = base;
  statement.iterators = std::move(iterators);
  statement.constraints = std::move(constraints);
  statement.write.buffer = buffer;
  for (const Affine& affine : index) statement.write.index.push_back({affine, nullptr});
  const DType stored = kernel_.buffers[buffer].dtype;
  statement.value = value->dtype == stored ? value : cast(stored, value);
  add(std::move(statement));
}

void LowerContext::reduce(const std::string& base, const ReductionLoops& loops, int buffer,
                          const std::vector<Affine>& index, Reduction reduction, ExprPtr value) {
  const DType stored = kernel_.buffers[buffer].dtype;
  const DType type = compute_type(stored);
  int target = buffer;
  if (type != stored) {
    Buffer accumulator = kernel_.buffers[buffer];
    accumulator.name = fresh_buffer_name(kernel_, accumulator.name + "_sum");
    accumulator.dtype = type;
    accumulator.scope = Scope::Local;
    kernel_.buffers.push_back(std::move(accumulator));
    target = static_cast<int>(kernel_.buffers.size()) - 1;
  }
  assign(base + "_init", loops.outer, target, index, identity(reduction, type));
  Statement statement;
  statement.name = base;
  statement.iterators = loops.outer;
  statement.iterators.insert(statement.iterators.end(), loops.inner.begin(), loops.inner.end());
  statement.constraints = loops.constraints;
  for (const Affine& affine : index) statement.write.index.push_back({affine, nullptr});
  statement.write.buffer = target;
  statement.reduction = reduction;
  statement.value = value->dtype == type ? value : cast(type, value);
  add(std::move(statement));
  if (target != buffer) assign(base + "_store", loops.outer, buffer, index, read_buffer(target, index));
}

DType LowerContext::compute_type(DType dtype) { return computed_type(dtype); }

Kernel lower_group(const Graph& graph, const std::vector<int>& nodes, const std::vector<ValueId>& outputs,
                   std::vector<ValueId>* argument_values) {
  Kernel kernel;
  std::map<ValueId, int> buffers;
  std::map<std::string, std::string> parameters;
  std::vector<ValueId> arguments;
  Node none;
  LowerContext shapes(graph, none, kernel, buffers, parameters);
  auto add_buffer = [&](ValueId id, Scope scope) {
    const Value& value = graph[id];
    TC_CHECK(value.shape, "a shape of ", value.name);
    Buffer buffer;
    buffer.name = fresh_buffer_name(kernel, identifier_of(value.name));
    buffer.dtype = scope == Scope::Local ? LowerContext::compute_type(value.dtype) : value.dtype;
    for (const Dim& dim : *value.shape) buffer.shape.push_back(shapes.dim(dim));
    buffer.scope = scope;
    buffers[id] = static_cast<int>(kernel.buffers.size());
    kernel.buffers.push_back(std::move(buffer));
    if (scope != Scope::Local) arguments.push_back(id);
  };
  std::set<ValueId> inside;
  for (int index : nodes) {
    for (ValueId id : graph.nodes[index].outputs) {
      if (id != kNoValue) inside.insert(id);
    }
  }
  for (int index : nodes) {
    for (ValueId id : graph.nodes[index].inputs) {
      if (id == kNoValue || inside.count(id) || buffers.count(id)) continue;
      add_buffer(id, graph[id].constant ? Scope::Constant : Scope::Input);
    }
  }
  for (ValueId id : outputs) {
    if (!buffers.count(id)) add_buffer(id, Scope::Output);
  }
  for (int index : nodes) {
    for (ValueId id : graph.nodes[index].outputs) {
      if (id != kNoValue && !buffers.count(id)) add_buffer(id, Scope::Local);
    }
  }
  for (int index : nodes) {
    const Node& node = graph.nodes[index];
    TC_CHECK(has_lowering(*node.op), "a lowering of ", node.op->name, " for ", node.origin.str());
    LowerContext context(graph, node, kernel, buffers, parameters);
    lower_by_row(context);
    const std::string& origin = node.origin.node;
    const bool told = std::find(kernel.origins.begin(), kernel.origins.end(), origin) != kernel.origins.end();
    if (!origin.empty() && !told) kernel.origins.push_back(origin);
  }
  drop_unused_buffers(kernel, arguments);
  if (argument_values) *argument_values = std::move(arguments);
  return kernel;
}

}  // namespace tc
