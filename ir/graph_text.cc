// The text form of graphs, both ways.
//
//   graph net {
//     symbol batch in [1, 64]
//     size count of found in [0, 3*batch]
//     input x f32[batch, 3]
//     constant w f32[3, 100] #9ae16a3b2f90404f
//     constant b f32[2] = [0.5, -1]
//     y f32[batch, 100], _ = Gemm(x, w) {alpha = 0.5, transB = 1} from "gemm_1" "Gemm" 13 "net.onnx"
//     output y
//   }
//
// Names that are not identifiers, or are keywords of this form, are quoted; `_` is a value that is left out.
#include <cstdio>
#include <limits>
#include <set>

#include "ir/error.h"
#include "ir/graph.h"
#include "ir/hash.h"
#include "ir/ops/op.h"
#include "ir/text_cursor.h"

namespace tc {
namespace {

constexpr int64_t kMaxElements = 16;             // of constants whose elements are written out
constexpr int64_t kMaxZeros = int64_t{1} << 24;  // elements of constants that are read back as zeros

std::string name_text(const std::string& name) {
  static const std::set<std::string> words = {"graph",  "symbol",  "input", "constant",
                                              "output", "capture", "size",  "_"};
  return is_identifier(name) && !words.count(name) ? name : quote(name);
}

// A float always has a point, an exponent or a word such as `inf`, so that it does not read as an integer.
std::string float_text(double value) {
  std::string text = number_text(value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

template <class Items, class Text>
std::string list(const Items& items, Text text) {
  std::string result = "[";
  const char* separator = "";
  for (const auto& item : items) {
    result += separator + text(item);
    separator = ", ";
  }
  return result + "]";
}

std::string str(const Tensor& tensor) {
  std::string result = name_of(tensor.dtype);
  result += str(shape_of(tensor.shape));
  if (tensor.count() > kMaxElements) {
    char digits[17];
    const auto* bytes = reinterpret_cast<const char*>(tensor.bytes.data());
    snprintf(digits, sizeof digits, "%016llx",
             static_cast<unsigned long long>(fnv1a({bytes, tensor.bytes.size()})));
    return result + " #" + digits;
  }
  result += " = [";
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (i) result += ", ";
    if (tensor.dtype == DType::F32) {
      result += number_text(static_cast<float>(tensor.as_double(i)));
    } else if (is_float(tensor.dtype)) {
      result += number_text(tensor.as_double(i));
    } else {
      result += std::to_string(tensor.as_int(i));
    }
  }
  return result + "]";
}

void print(const Graph& graph, int depth, std::string& out);

std::string str(const Attribute& attribute, int depth) {
  struct Visitor {
    int depth;
    std::string operator()(int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const { return float_text(value); }
    std::string operator()(const std::string& value) const { return quote(value); }
    std::string operator()(const std::vector<int64_t>& values) const {
      return list(values, [](int64_t value) { return std::to_string(value); });
    }
    std::string operator()(const std::vector<double>& values) const {
      return "floats" + list(values, float_text);
    }
    std::string operator()(const std::vector<std::string>& values) const {
      return "strings" + list(values, [](const std::string& value) { return quote(value); });
    }
    std::string operator()(const TensorPtr& value) const { return "tensor " + str(*value); }
    std::string operator()(const GraphPtr& value) const {
      std::string result;
      print(*value, depth, result);
      return result;
    }
    std::string operator()(const std::vector<Dim>& values) const { return "dims" + str(values); }
  };
  return std::visit(Visitor{depth}, attribute);
}

std::string typed_name(const Value& value) {
  std::string result = name_text(value.name) + " " + name_of(value.dtype);
  result += value.shape ? str(*value.shape) : "[?]";
  if (value.elements && !value.constant) result += " elements " + str(*value.elements);
  return result;
}

std::string str(const Node& node, const Graph& graph, int depth) {
  std::string result;
  for (ValueId id : node.outputs) {
    if (!result.empty()) result += ", ";
    result += id == kNoValue ? "_" : typed_name(graph[id]);
  }
  result += " = " + (node.op ? node.op->name : std::string("_")) + "(";
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ValueId id = node.inputs[i];
    result += (i ? ", " : "") + (id == kNoValue ? "_" : name_text(graph[id].name));
  }
  result += ")";
  const char* separator = " {";
  for (const auto& [name, attribute] : node.attributes) {
    result += separator + name_text(name) + " = " + str(attribute, depth);
    separator = ", ";
  }
  if (!node.attributes.empty()) result += "}";
  const Origin& origin = node.origin;
  if (!origin.node.empty()) {
    result += text(" from ", quote(origin.node), " ", quote(origin.op_type), " ", origin.opset, " ",
                   quote(origin.file));
  }
  return result;
}

void print(const Graph& graph, int depth, std::string& out) {
  std::string indent(static_cast<size_t>(2 * depth + 2), ' ');
  out += "graph " + name_text(graph.name) + " {\n";
  for (const auto& [name, range] : graph.symbols) {
    out += text(indent, "symbol ", name_text(name), " in [", range.first, ", ", range.second, "]\n");
  }
  for (const auto& [name, symbol] : graph.data_symbols) {
    out += text(indent, "size ", name_text(name), " of ", name_text(graph[symbol.source].name));
    if (symbol.bound) out += text(" in [0, ", symbol.bound->str(), "]");
    out += "\n";
  }
  for (ValueId id : graph.inputs) out += indent + "input " + typed_name(graph[id]) + "\n";
  for (const auto& [outer, id] : graph.captures) {
    out += indent + "capture " + typed_name(graph[id]) + " of " + quote(outer) + "\n";
  }
  std::set<ValueId> inputs(graph.inputs.begin(), graph.inputs.end());
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (!value.constant || inputs.count(static_cast<ValueId>(i))) continue;
    out += indent + "constant " + name_text(value.name) + " " + str(*value.constant) + "\n";
  }
  for (const Node& node : graph.nodes) out += indent + str(node, graph, depth + 1) + "\n";
  out += indent + "output";
  for (ValueId id : graph.outputs) out += " " + name_text(graph[id].name);
  out += "\n" + indent.substr(2) + "}";
}

class Parser {
 public:
  explicit Parser(const std::string& text) : cursor_(text, "graph text") {}

  Graph run() {
    Graph graph = this->graph();
    if (!cursor_.at_end()) cursor_.error("expected the end");
    return graph;
  }

 private:
  Graph graph() {
    TextCursor::Nesting nesting(cursor_);
    cursor_.expect("graph");
    Graph graph;
    std::map<std::string, ValueId> values;
    std::map<std::string, std::string> sources;  // value of each size by name: the values are defined later
    graph.name = name();
    cursor_.expect("{");
    while (!cursor_.try_token("}")) {
      if (cursor_.try_token("symbol")) {
        std::string symbol = name();
        cursor_.expect("in");
        cursor_.expect("[");
        int64_t low = cursor_.integer();
        cursor_.expect(",");
        graph.symbols[symbol] = {low, cursor_.integer()};
        cursor_.expect("]");
      } else if (cursor_.try_token("size")) {
        const std::string size = name();
        cursor_.expect("of");
        sources[size] = name();
        graph.data_symbols[size] = {kNoValue, std::nullopt};
        if (!cursor_.try_token("in")) continue;
        cursor_.expect("[");
        cursor_.expect("0");
        cursor_.expect(",");
        graph.data_symbols[size].bound = parse_dim(cursor_);
        cursor_.expect("]");
      } else if (cursor_.try_token("input")) {
        graph.inputs.push_back(value(graph, values));
      } else if (cursor_.try_token("capture")) {
        ValueId id = value(graph, values);
        cursor_.expect("of");
        graph.captures.emplace_back(cursor_.quoted(), id);
      } else if (cursor_.try_token("constant")) {
        std::string constant = name();
        ValueId id = define(graph, values, constant);
        TensorPtr data = tensor();
        graph[id].dtype = data->dtype;
        graph[id].shape = shape_of(data->shape);
        graph[id].constant = data;
      } else if (cursor_.try_token("output")) {
        while (cursor_.peek_char() != '}') graph.outputs.push_back(known(values));
      } else {
        node(graph, values);
      }
    }
    for (const auto& [size, source] : sources) {
      const auto found = values.find(source);
      if (found == values.end())
        cursor_.error("value '", source, "', which gives size '", size, "', is not defined");
      graph.data_symbols[size].source = found->second;
    }
    return graph;
  }

  std::string name() { return cursor_.peek_char() == '"' ? cursor_.quoted() : cursor_.identifier(); }

  DType dtype() {
    size_t start = cursor_.position();
    std::string word = cursor_.identifier();
    try {
      return dtype_from_name(word);
    } catch (const Error& error) {
      cursor_.set_position(start);
      cursor_.error(error.what());
    }
  }

  ValueId define(Graph& graph, std::map<std::string, ValueId>& values, const std::string& name) {
    ValueId id = graph.add_value(name, DType::F32);
    if (!values.emplace(name, id).second) cursor_.error("value '", name, "' is defined twice");
    return id;
  }

  ValueId value(Graph& graph, std::map<std::string, ValueId>& values) {
    ValueId id = define(graph, values, name());
    DType type = dtype();
    graph[id].dtype = type;
    if (!cursor_.try_token("[?]")) graph[id].shape = shape();
    if (cursor_.try_token("elements")) graph[id].elements = shape();
    return id;
  }

  ValueId known(const std::map<std::string, ValueId>& values) {
    std::string wanted = name();
    auto found = values.find(wanted);
    if (found == values.end()) cursor_.error("value '", wanted, "' is not defined before this");
    return found->second;
  }

  template <class Item>
  void items(Item item) {
    cursor_.expect("[");
    if (cursor_.try_token("]")) return;
    do {
      item();
    } while (cursor_.try_token(","));
    cursor_.expect("]");
  }

  Shape shape() {
    Shape result;
    items([&] { result.push_back(parse_dim(cursor_)); });
    return result;
  }

  double float_number() {
    if (cursor_.try_token("inf")) return std::numeric_limits<double>::infinity();
    if (cursor_.try_token("-inf")) return -std::numeric_limits<double>::infinity();
    if (cursor_.try_token("nan")) return std::numeric_limits<double>::quiet_NaN();
    return number_value(cursor_.number());
  }

  TensorPtr tensor() {
    DType type = dtype();
    Shape dims = shape();
    if (!is_constant(dims)) cursor_.error("the shape of a constant holds symbols");
    if (checked_count(constant_shape(dims)) > kMaxZeros)
      cursor_.error("the constant is too large for a text");
    auto result = std::make_shared<Tensor>(type, constant_shape(dims));
    if (cursor_.try_token("#")) {
      // The data are not in the text: the constant is read as zeros.
      cursor_.word();
      return result;
    }
    cursor_.expect("=");
    int64_t count = 0;
    items([&] {
      if (count >= result->count()) cursor_.error("the constant has too many elements");
      if (is_float(type)) {
        result->set(count++, float_number());
      } else {
        result->set_int(count++, cursor_.integer());
      }
    });
    if (count != result->count()) cursor_.error("the constant has too few elements");
    return result;
  }

  Attribute attribute() {
    if (cursor_.peek_char() == '"') return cursor_.quoted();
    if (cursor_.peek("graph")) return std::make_shared<Graph>(graph());
    if (cursor_.try_token("tensor")) return tensor();
    if (cursor_.try_token("dims")) return shape();
    if (cursor_.try_token("floats")) {
      std::vector<double> values;
      items([&] { values.push_back(float_number()); });
      return values;
    }
    if (cursor_.try_token("strings")) {
      std::vector<std::string> values;
      items([&] { values.push_back(cursor_.quoted()); });
      return values;
    }
    if (cursor_.peek_char() == '[') {
      std::vector<int64_t> values;
      items([&] { values.push_back(cursor_.integer()); });
      return values;
    }
    size_t start = cursor_.position();
    if (cursor_.peek_number()) {
      std::string digits = cursor_.number();
      if (digits.find_first_of(".e") == std::string::npos) {
        cursor_.set_position(start);
        return cursor_.integer();
      }
      return number_value(digits);
    }
    return float_number();
  }

  void node(Graph& graph, std::map<std::string, ValueId>& values) {
    Node made;
    do {
      made.outputs.push_back(cursor_.try_token("_") ? kNoValue : value(graph, values));
    } while (cursor_.try_token(","));
    cursor_.expect("=");
    std::string op = cursor_.identifier();
    made.op = find_op(op);
    if (!made.op) cursor_.error("there is no op '", op, "'");
    cursor_.expect("(");
    while (!cursor_.try_token(")")) {
      if (!made.inputs.empty()) cursor_.expect(",");
      made.inputs.push_back(cursor_.try_token("_") ? kNoValue : known(values));
    }
    if (cursor_.try_token("{")) {
      do {
        std::string key = name();
        cursor_.expect("=");
        made.attributes[key] = attribute();
      } while (cursor_.try_token(","));
      cursor_.expect("}");
    }
    if (cursor_.try_token("from")) {
      made.origin.node = cursor_.quoted();
      made.origin.op_type = cursor_.quoted();
      made.origin.opset = static_cast<int>(cursor_.integer());
      made.origin.file = cursor_.quoted();
    }
    graph.nodes.push_back(std::move(made));
  }

  TextCursor cursor_;
};

}  // namespace

std::string str(const Graph& graph) {
  std::string result;
  print(graph, 0, result);
  return result + "\n";
}

Graph parse_graph(const std::string& text) { return Parser(text).run(); }

}  // namespace tc
