// Building graphs and reading the attributes of their nodes.
#include "ir/graph.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "ir/error.h"
#include "ir/held_constants.h"
#include "ir/names.h"
#include "ir/ops/op.h"

namespace tc {
namespace {

// The node's attribute, else the row's default.
const Attribute& attribute(const Node& node, const std::string& name) {
  auto given = node.attributes.find(name);
  if (given != node.attributes.end()) return given->second;
  TC_CHECK(node.op != nullptr, "for ", node.origin.str());
  const auto& rows = node.op->attributes;
  auto row = std::find_if(rows.begin(), rows.end(),
                          [&](const AttributeRow& candidate) { return candidate.name == name; });
  TC_CHECK(row != rows.end(), "an attribute '", name, "' of op ", node.op->name);
  if (row->required)
    fail(ErrorKind::Model, node.origin.str(), " lacks attribute '", name, "', which ", node.op->name,
         " needs");
  return row->fallback;
}

template <class T>
const T& typed_attribute(const Node& node, const std::string& name, const char* kind) {
  const T* value = std::get_if<T>(&attribute(node, name));
  if (value == nullptr) fail(ErrorKind::Model, node.origin.str(), ": attribute '", name, "' is not ", kind);
  return *value;
}

void collect(const Value& value, std::set<std::string>& names) {
  if (value.shape) {
    for (const Dim& dim : *value.shape) dim.collect_symbols(names);
  }
  if (value.elements) {
    for (const Dim& dim : *value.elements) dim.collect_symbols(names);
  }
}

// The symbols that a graph mentions and does not define.
std::set<std::string> free_symbols(const Graph& graph) {
  std::set<std::string> names;
  for (const Value& value : graph.values) collect(value, names);
  for (const Node& node : graph.nodes) {
    for (const auto& [name, attribute] : node.attributes) {
      if (const auto* dims = std::get_if<std::vector<Dim>>(&attribute)) {
        for (const Dim& dim : *dims) dim.collect_symbols(names);
      } else if (const auto* body = std::get_if<GraphPtr>(&attribute)) {
        names.merge(free_symbols(**body));
      }
    }
  }
  for (const auto& [name, symbol] : graph.data_symbols) {
    if (symbol.bound) symbol.bound->collect_symbols(names);
    names.erase(name);
  }
  return names;
}

// The number N where the name goes on with `_N` at `begin`, N being written without leading zeros; else 0.
size_t suffix_of(const std::string& name, size_t begin) {
  constexpr size_t kMaxDigits = 9;
  const size_t first = begin + 1;
  if (name.size() <= first || name.size() > first + kMaxDigits || name[begin] != '_' || name[first] == '0')
    return 0;
  size_t number = 0;
  for (size_t i = first; i < name.size(); ++i) {
    if (name[i] < '0' || name[i] > '9') return 0;
    number = number * 10 + static_cast<size_t>(name[i] - '0');
  }
  return number;
}

void substitute(std::vector<Dim>& dims, const std::map<std::string, Dim>& sizes) {
  for (Dim& dim : dims) {
    if (!dim.is_constant()) dim = dim.substitute(sizes);
  }
}

}  // namespace

std::set<std::string> mentioned_symbols(const Graph& graph, const Node& node) {
  std::set<std::string> names;
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (ValueId id : *ids) {
      if (id != kNoValue) collect(graph[id], names);
    }
  }
  for (const auto& [name, attribute] : node.attributes) {
    if (const auto* dims = std::get_if<std::vector<Dim>>(&attribute)) {
      for (const Dim& dim : *dims) dim.collect_symbols(names);
    } else if (const auto* body = std::get_if<GraphPtr>(&attribute)) {
      names.merge(free_symbols(**body));
    }
  }
  return names;
}

void substitute_symbols(Graph& graph, const std::map<std::string, Dim>& sizes) {
  for (Value& value : graph.values) {
    if (value.shape) substitute(*value.shape, sizes);
    if (value.elements) substitute(*value.elements, sizes);
  }
  for (auto& [name, symbol] : graph.data_symbols) {
    if (symbol.bound) symbol.bound = symbol.bound->substitute(sizes);
  }
  for (SizeRelation& relation : graph.relations) {
    relation.left = relation.left.substitute(sizes);
    relation.right = relation.right.substitute(sizes);
  }
  for (Node& node : graph.nodes) {
    for (auto& [name, attribute] : node.attributes) {
      if (auto* dims = std::get_if<std::vector<Dim>>(&attribute)) substitute(*dims, sizes);
      else if (auto* body = std::get_if<GraphPtr>(&attribute)) substitute_symbols(**body, sizes);
    }
  }
}

std::string Origin::str() const {
  std::string result = text("node '", node, "'");
  if (!op_type.empty()) {
    result += " (" + printable(op_type);
    if (opset > 0) result += ", opset " + std::to_string(opset);
    result += ")";
  }
  if (!file.empty()) result += " of " + printable(file);
  return result;
}

ValueId Graph::add_value(std::string name, DType dtype, std::optional<Shape> shape) {
  Value value;
  value.name = std::move(name);
  value.dtype = dtype;
  value.shape = std::move(shape);
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size()) - 1;
}

struct IndexedNames::Index {
  const Graph* graph;
  Index* outer;
  size_t count = 0;                                   // values that the index holds
  std::unordered_map<std::string, size_t> free_from;  // per name the least suffix that may be free

  // The name if it is free, else the name with the least suffix that makes it free.
  std::string free_name(const std::string& base) {
    if (graph->values.size() < count) forget();
    for (; count < graph->values.size(); ++count) free_from.emplace(graph->values[count].name, 1);
    const auto known = free_from.find(base);
    if (known == free_from.end()) return base;
    for (size_t& suffix = known->second;; ++suffix) {
      std::string name = base + "_" + std::to_string(suffix);
      if (free_from.count(name) == 0) return name;
    }
  }

  void forget() {
    count = 0;
    free_from.clear();
  }
};

namespace {

thread_local IndexedNames::Index* innermost = nullptr;

IndexedNames::Index* index_of(const Graph& graph) {
  IndexedNames::Index* each = innermost;
  while (each != nullptr && each->graph != &graph) each = each->outer;
  return each;
}

}  // namespace

IndexedNames::IndexedNames(const Graph& graph)
    : outer_(innermost), index_(new Index{&graph, innermost, 0, {}}) {
  innermost = index_.get();
}

IndexedNames::~IndexedNames() { innermost = outer_; }

void forget_names(const Graph& graph) {
  if (IndexedNames::Index* index = index_of(graph)) index->forget();
}

ValueId Graph::fresh_value(const std::string& base, DType dtype, std::optional<Shape> shape) {
  if (IndexedNames::Index* index = index_of(*this))
    return add_value(index->free_name(base), dtype, std::move(shape));
  bool is_taken = false;
  std::vector<bool> suffixes;  // whether each is taken; as many as the graph has values suffice
  for (const Value& value : values) {
    const std::string& name = value.name;
    if (name.compare(0, base.size(), base) != 0) continue;
    is_taken = is_taken || name.size() == base.size();
    if (const size_t suffix = suffix_of(name, base.size()); suffix > 0 && suffix <= values.size()) {
      suffixes.resize(std::max(suffixes.size(), suffix + 1));
      suffixes[suffix] = true;
    }
  }
  if (!is_taken) return add_value(base, dtype, std::move(shape));
  size_t suffix = 1;
  while (suffix < suffixes.size() && suffixes[suffix]) ++suffix;
  return add_value(base + "_" + std::to_string(suffix), dtype, std::move(shape));
}

ValueId Graph::add_constant(const std::string& base, TensorPtr data) {
  data = held(std::move(data), base);
  ValueId id = fresh_value(base, data->dtype, shape_of(data->shape));
  Value& value = (*this)[id];
  if (!is_float(data->dtype) && data->shape.size() <= 1 && data->count() <= 64) {
    value.elements.emplace();
    for (int64_t i = 0; i < data->count(); ++i) value.elements->push_back(data->as_int(i));
  }
  value.constant = std::move(data);
  return id;
}

ValueId Graph::find(const std::string& name) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == name) return static_cast<ValueId>(i);
  }
  return kNoValue;
}

std::vector<int> Graph::producers() const {
  std::vector<int> result(values.size(), -1);
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (ValueId id : nodes[n].outputs) {
      if (id != kNoValue) result.at(static_cast<size_t>(id)) = static_cast<int>(n);
    }
  }
  return result;
}

std::vector<std::vector<int>> Graph::consumers() const {
  std::vector<std::vector<int>> result(values.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (ValueId id : nodes[n].inputs) {
      if (id == kNoValue) continue;
      auto& readers = result.at(static_cast<size_t>(id));
      if (readers.empty() || readers.back() != static_cast<int>(n)) {
        readers.push_back(static_cast<int>(n));
      }
    }
  }
  return result;
}

int64_t int_attribute(const Node& node, const std::string& name) {
  return typed_attribute<int64_t>(node, name, "an integer");
}

double float_attribute(const Node& node, const std::string& name) {
  return typed_attribute<double>(node, name, "a number");
}

std::string string_attribute(const Node& node, const std::string& name) {
  return typed_attribute<std::string>(node, name, "a text");
}

std::vector<int64_t> ints_attribute(const Node& node, const std::string& name) {
  return typed_attribute<std::vector<int64_t>>(node, name, "a list of integers");
}

bool has_attribute(const Node& node, const std::string& name) { return node.attributes.count(name) > 0; }

}  // namespace tc
