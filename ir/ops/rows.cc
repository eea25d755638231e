// Helpers that the files of op rows share.
#include "ir/ops/rows.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "ir/ops/depends_on_data.h"
#include "ir/ops/equation.h"
#include "ir/ops/selection.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// Iterators of the spatial axes, from the last: of the result, and of the window.
const char* const kOutputLetters[] = {"z", "y", "x"};
const char* const kKernelLetters[] = {"q", "r", "s"};

// A tensor with more elements than this is data, not a shape.
constexpr int64_t kMaxElements = 1024;

// How many letters of a node's name the names of its sizes begin with, at most.
constexpr size_t kLongestStem = 40;

// `convert` returns nothing where the content is not known.
Normalize input_to(int input, std::string attribute,
                   std::function<std::optional<Attribute>(const Node&, const Value&)> convert,
                   bool sizes = false) {
  return [=](Graph& graph, Node& node) {
    if (!input_given(node, input)) return;
    std::optional<Attribute> content = convert(node, graph[node.inputs[input]]);
    if (!content) {
      const DependsOnData error(node, graph, node.inputs[input], attribute);
      throw sizes ? error.sizes() : error;
    }
    node.attributes[attribute] = std::move(*content);
    node.inputs[input] = kNoValue;
    while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();
  };
}

// Which types of operands a formula needs.
struct FormulaTypes {
  bool floats = false, logic = false, arithmetic = false;
};

void collect_types(const Formula& formula, FormulaTypes& types) {
  static const std::set<std::string> for_all = {"neg", "abs", "sign", "add", "max", "min", "mod", "select"};
  static const std::set<std::string> for_integers = {"and", "or", "xor", "not", "bitnot", "shl", "shr"};
  if (formula.kind == Formula::Kind::Call) {
    if (for_integers.count(formula.name)) types.logic = true;
    else if (for_all.count(formula.name)) types.arithmetic = types.arithmetic || formula.name != "select";
    else if (!conversion(formula.name)) types.floats = true;
  }
  if (formula.kind == Formula::Kind::Binary) {
    types.arithmetic =
        types.arithmetic || !(formula.binary >= BinaryOp::Eq && formula.binary <= BinaryOp::Ge);
  }
  for (const FormulaPtr& operand : formula.operands) collect_types(*operand, types);
}

}  // namespace

std::string fresh_symbol(const Graph& graph, const Node& node) {
  std::set<std::string> taken;
  for (const Value& value : graph.values) {
    for (const Dim& dim : value.shape.value_or(Shape())) dim.collect_symbols(taken);
    for (const Dim& dim : value.elements.value_or(std::vector<Dim>())) dim.collect_symbols(taken);
  }
  for (const auto& [name, range] : graph.symbols) taken.insert(name);
  for (const auto& [name, symbol] : graph.data_symbols) taken.insert(name);
  std::string base;
  for (char c : node.origin.node) {
    if (base.size() >= kLongestStem) break;
    if (std::isalnum(static_cast<unsigned char>(c))) base += c;
    else if (!base.empty() && base.back() != '_') base += '_';
  }
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0]))) base = "size_" + base;
  // Names in the enclosing graphs end differently: the importer separates the names of nested graphs by
  // slashes.
  const auto depth = std::count(graph.name.begin(), graph.name.end(), '/');
  const std::string end = depth > 0 ? text("_in", depth) : "";
  std::string name = base + "_count" + end;
  for (int suffix = 1; taken.count(name); ++suffix) name = text(base, "_count_", suffix, end);
  return name;
}

void require_float(InferContext& context) { check_types(context, {kFloats, {}, false}); }

void require_one_type(InferContext& context, bool (*fits)(DType), const char* what) {
  check_types(context, {{what, fits}});
}

bool input_given(const Node& node, int input) {
  return input < static_cast<int>(node.inputs.size()) && node.inputs[input] != kNoValue;
}

bool output_wanted(const Node& node, size_t output) {
  return output < node.outputs.size() && node.outputs[output] != kNoValue;
}

std::optional<std::vector<Dim>> known_elements(const Value& value) {
  if (value.elements) return value.elements;
  if (!value.constant || is_float(value.dtype)) return std::nullopt;
  const Tensor& tensor = *value.constant;
  if (tensor.shape.size() > 1 || tensor.count() > kMaxElements) return std::nullopt;
  std::vector<Dim> result;
  for (int64_t i = 0; i < tensor.count(); ++i) result.push_back(tensor.as_int(i));
  return result;
}

std::string choice_attribute(const Node& node, const std::string& name,
                             const std::vector<std::string>& known) {
  const std::string value = string_attribute(node, name);
  check_choice(node, name, value, known);
  return value;
}

WindowSubscripts window_subscripts(size_t axes) {
  WindowSubscripts result;
  for (size_t i = 3 - axes; i < 3; ++i) {
    const std::string o = kOutputLetters[i], k = kKernelLetters[i];
    result.output += "," + o;
    result.kernel += "," + k;
    result.input += "," + o + "*stride_" + o + "+" + k + "*dilation_" + o + "-pad_" + o;
  }
  return result;
}

void bind_window(const Window& window, EquationNames& names) {
  const size_t axes = window.kernel.size();
  for (size_t i = 0; i < axes; ++i) {
    const std::string o = kOutputLetters[3 - axes + i], k = kKernelLetters[3 - axes + i];
    names.extents[o] = window.output[i];
    names.extents[k] = Dim(window.kernel[i]);
    names.integers["stride_" + o] = window.strides[i];
    names.integers["dilation_" + o] = window.dilations[i];
    names.integers["pad_" + o] = window.before[i];
  }
}

std::vector<AttributeRow> window_attributes(bool sized_by_attribute) {
  return {
      {"auto_pad", std::string("NOTSET"), false, "", one_of({"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"})},
      {"dilations", std::vector<int64_t>(), false, "", positive()},
      {"kernel_shape", std::vector<int64_t>(), sized_by_attribute, "", positive()},
      {"pads", std::vector<int64_t>(), false, "", from_to(-kFurthestPad, kFurthestPad)},
      {"strides", std::vector<int64_t>(), false, "", positive()}};
}

std::vector<int64_t> fixed(const Node& node, const std::vector<Dim>& dims, const char* what) {
  std::vector<int64_t> result;
  for (const Dim& dim : dims) {
    if (!dim.is_constant()) {
      throw NeedsNumbers(node, text(what, " depends on '", dim.str(), "'; it must be a constant"), {dim});
    }
    result.push_back(dim.constant());
  }
  return result;
}

Normalize input_to_dims(int input, std::string attribute) {
  return input_to(
      input, attribute,
      [=](const Node&, const Value& value) -> std::optional<Attribute> { return known_elements(value); },
      /*sizes=*/true);
}

Normalize input_to_ints(int input, std::string attribute) {
  return input_to(input, attribute, [=](const Node& node, const Value& value) -> std::optional<Attribute> {
    auto known = known_elements(value);
    if (!known) return std::nullopt;
    return fixed(node, *known, attribute.c_str());
  });
}

Normalize input_to_floats(int input, std::string attribute) {
  return input_to(input, attribute, [=](const Node&, const Value& value) -> std::optional<Attribute> {
    if (!value.constant || value.constant->count() > kMaxElements) return std::nullopt;
    std::vector<double> result;
    for (int64_t i = 0; i < value.constant->count(); ++i) result.push_back(value.constant->as_double(i));
    return result;
  });
}

Normalize all_of(std::vector<Normalize> steps) {
  return [=](Graph& graph, Node& node) {
    for (const Normalize& step : steps) step(graph, node);
  };
}

Normalize drop_attributes(std::vector<std::string> names) {
  return [=](Graph&, Node& node) {
    for (const std::string& name : names) node.attributes.erase(name);
  };
}

std::string dtype_text_of_onnx(const Node& node, int64_t number) {
  static const std::map<int64_t, DType> types = {
      {1, DType::F32},         {2, DType::U8},        {3, DType::I8},          {4, DType::U16},
      {5, DType::I16},         {6, DType::I32},       {7, DType::I64},         {9, DType::Bool},
      {10, DType::F16},        {11, DType::F64},      {12, DType::U32},        {13, DType::U64},
      {16, DType::BF16},       {17, DType::F8E4M3FN}, {18, DType::F8E4M3FNUZ}, {19, DType::F8E5M2},
      {20, DType::F8E5M2FNUZ}, {21, DType::U4},       {22, DType::I4},         {23, DType::F4E2M1},
      {24, DType::F8E8M0},     {25, DType::U2},       {26, DType::I2}};
  auto found = types.find(number);
  if (found == types.end()) {
    fail(ErrorKind::Unsupported, node.origin.str(), ": element type number ", number, " is not supported");
  }
  return name_of(found->second);
}

Normalize dtype_attribute(std::string attribute) {
  return [=](Graph&, Node& node) {
    auto found = node.attributes.find(attribute);
    if (found == node.attributes.end() || !std::holds_alternative<int64_t>(found->second)) return;
    found->second = dtype_text_of_onnx(node, std::get<int64_t>(found->second));
  };
}

std::vector<int64_t> per_axis(const Node& node, const std::string& name, size_t rank, int64_t fallback) {
  std::vector<int64_t> result =
      has_attribute(node, name) ? ints_attribute(node, name) : std::vector<int64_t>();
  if (result.empty()) result.assign(rank, fallback);
  if (result.size() != rank) {
    fail(ErrorKind::Shape, node.origin.str(), ": attribute ", name, " has ", result.size(), " numbers; ",
         rank, " are needed");
  }
  return result;
}

void check_kernel_extent(const Node& node, int64_t extent, size_t axis) {
  constexpr int64_t kLargest = int64_t{1} << 31;
  if (extent >= 1 && extent <= kLargest) return;
  fail(ErrorKind::Shape, node.origin.str(), ": the size of the kernel along spatial axis ", axis, " is ",
       extent, "; it may be 1 to ", kLargest);
}

Window window_of(const Node& node, const std::vector<Dim>& spatial, const std::vector<int64_t>& kernel,
                 bool ceil_mode) {
  const size_t rank = spatial.size();
  Window window;
  window.kernel = kernel;
  window.strides = per_axis(node, "strides", rank, 1);
  window.dilations = per_axis(node, "dilations", rank, 1);
  std::vector<int64_t> pads = per_axis(node, "pads", 2 * rank, 0);
  // Some operators with windows have no such attribute.
  const std::string mode = node.op->attribute("auto_pad") ? string_attribute(node, "auto_pad") : "NOTSET";
  for (size_t i = 0; i < rank; ++i) {
    check_kernel_extent(node, kernel[i], i);
    const int64_t reach = window.dilations[i] * (kernel[i] - 1) + 1, stride = window.strides[i];
    int64_t before = pads[i], after = pads[rank + i];
    if (mode == "VALID") before = after = 0;
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      Dim total =
          max(Dim(0), (ceil_div(spatial[i], Dim(stride)) - Dim(1)) * Dim(stride) + Dim(reach) - spatial[i]);
      if (stride == 1) total = Dim(reach - 1);
      if (!total.is_constant()) {
        throw NeedsNumbers(
            node, text("auto_pad ", mode, " with stride ", stride, " needs a fixed size of spatial axis ", i),
            {spatial[i]});
      }
      const int64_t small = total.constant() / 2, large = total.constant() - small;
      before = mode == "SAME_UPPER" ? small : large;
      after = mode == "SAME_UPPER" ? large : small;
    }
    window.before.push_back(before);
    window.after.push_back(after);
    const Dim moves = spatial[i] + Dim(before + after - reach);
    Dim size = (ceil_mode ? ceil_div(moves, Dim(stride)) : floor_div(moves, Dim(stride))) + Dim(1);
    if (ceil_mode && size.is_constant() && (size.constant() - 1) * stride >= spatial[i].constant() + before) {
      // A window that would start in the padding after the input does not count.
      size = size - Dim(1);
    } else if (ceil_mode && !size.is_constant() && after + stride > reach) {
      // The same for symbolic sizes: as many windows as start before the padding.
      size = ceil_div(spatial[i] + Dim(before), Dim(stride));
    }
    // An empty axis may give an empty result.
    const bool nothing = size == Dim(0) && spatial[i] == Dim(0);
    if (size.is_constant() && size.constant() < 1 && !nothing) {
      fail(ErrorKind::Shape, node.origin.str(), ": a window that reaches over ", reach,
           " elements does not fit spatial axis ", i, " of size ", spatial[i].str(), " with padding ", before,
           " and ", after);
    }
    window.output.push_back(size);
  }
  return window;
}

ValueId NodeBuilder::add(const std::string& op, std::vector<ValueId> inputs,
                         std::map<std::string, Attribute> attributes) {
  return add_many(op, std::move(inputs), 1, std::move(attributes))[0];
}

std::vector<ValueId> NodeBuilder::add_many(const std::string& op, std::vector<ValueId> inputs, int outputs,
                                           std::map<std::string, Attribute> attributes) {
  std::vector<ValueId> made;
  const std::string base = model_.origin.node.empty() ? op : model_.origin.node;
  for (int i = 0; i < outputs; ++i) made.push_back(graph_.fresh_value(base, DType::F32));
  add_to(op, std::move(inputs), made, std::move(attributes));
  return made;
}

void NodeBuilder::add_to(const std::string& op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                         std::map<std::string, Attribute> attributes) {
  Node node;
  node.op = find_op(op);
  TC_CHECK(node.op, "a row for ", op);
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.attributes = std::move(attributes);
  node.origin = model_.origin;
  infer_node(graph_, node);
  nodes_.push_back(std::move(node));
}

void NodeBuilder::give(size_t output, ValueId value) {
  if (output_wanted(model_, output)) add_to("Identity", {value}, {model_.outputs[output]});
}

ValueId NodeBuilder::integer(DType dtype, int64_t value) {
  auto tensor = std::make_shared<Tensor>(dtype, std::vector<int64_t>());
  tensor->set_int(0, value);
  return constant(tensor);
}

Dim NodeBuilder::size(ValueId value, const std::optional<Dim>& bound) {
  const auto known = known_elements(graph_[value]);
  if (known && known->size() == 1) return (*known)[0];
  const std::string name = fresh_symbol(graph_, model_);
  const ValueId holder = graph_.fresh_value(name, DType::I64, Shape{});
  graph_.data_symbols[name] = {holder, bound};
  add_to("DataSize", {value}, {holder}, {{"symbol", name}});
  return Dim::symbol(name);
}

ValueId NodeBuilder::cast(ValueId value, DType to) {
  return dtype(value) == to ? value : add("Cast", {value}, {{"to", std::string(name_of(to))}});
}

ValueId NodeBuilder::number(DType dtype, double value) { return constant(number_tensor(dtype, {}, {value})); }

ValueId NodeBuilder::constant(TensorPtr tensor) { return graph_.add_constant("constant", std::move(tensor)); }

TensorPtr number_tensor(DType dtype, const std::vector<int64_t>& shape, const std::vector<double>& values) {
  auto tensor = std::make_shared<Tensor>(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) tensor->set(static_cast<int64_t>(i), values[i]);
  return tensor;
}

TensorPtr int_tensor(const std::vector<int64_t>& shape, const std::vector<int64_t>& values) {
  auto tensor = std::make_shared<Tensor>(DType::I64, shape);
  for (size_t i = 0; i < values.size(); ++i) tensor->set_int(static_cast<int64_t>(i), values[i]);
  return tensor;
}

namespace {

// A Dim without floor that is negative exactly where the size is: m * floor(a/c) + k >= 0 if and only if a >=
// c * ceil(-k/m).
std::optional<Dim> without_floor(const Dim& size) {
  int64_t constant = 0;
  const Dim::Term* rounded = nullptr;
  for (const Dim::Term& term : size.terms()) {
    if (term.factors.empty()) constant = term.coefficient;
    else if (!rounded && term.factors.size() == 1 && term.factors[0]->kind == Dim::AtomKind::FloorDiv &&
             term.coefficient > 0)
      rounded = &term;
    else return std::nullopt;
  }
  if (!rounded || !rounded->factors[0]->right.is_constant() || rounded->factors[0]->right.constant() < 1)
    return std::nullopt;
  return rounded->factors[0]->left -
         rounded->factors[0]->right * ceil_div(Dim(-constant), Dim(rounded->coefficient));
}

}  // namespace

void require_not_negative(InferContext& context, const Dim& size, const std::string& what) {
  if (dim_range(size, context.graph()).low >= 0) return;
  if (const auto simpler = without_floor(size)) return require_not_negative(context, *simpler, what);
  // factor * symbol + constant
  int64_t constant = 0;
  const Dim::Term* growing = nullptr;
  for (const Dim::Term& term : size.terms()) {
    if (term.factors.empty()) constant = term.coefficient;
    else if (!growing && term.factors.size() == 1 && term.factors[0]->kind == Dim::AtomKind::Symbol &&
             term.coefficient > 0)
      growing = &term;
    else
      return context.require_at_most(Dim(0), size,
                                     text(what, " is too small"));  // not a bound of one symbol: runs check
  }
  const auto symbol =
      growing ? context.graph().symbols.find(growing->factors[0]->name) : context.graph().symbols.end();
  const int64_t least = growing ? (-constant + growing->coefficient - 1) / growing->coefficient : 0;
  if (symbol == context.graph().symbols.end() || least > symbol->second.second) {
    context.unsupported(what, " may be too small for some sizes", how_to_bind(context.graph(), {size}));
  }
  symbol->second.first = std::max(symbol->second.first, least);
}

void add_size(Graph& graph, Node& node, const Dim& bound) {
  const size_t place = static_cast<size_t>(node.op->outputs) - 1;
  if (node.outputs.size() > place) {
    fail(ErrorKind::Model, node.origin.str(), " has ", node.outputs.size(), " outputs; ", place,
         place == 1 ? " is possible" : " are possible");
  }
  const std::string name = fresh_symbol(graph, node);
  node.outputs.resize(place, kNoValue);
  node.outputs.push_back(graph.fresh_value(name, DType::I64, Shape{}));
  node.attributes["symbol"] = name;
  graph.data_symbols[name] = {node.outputs.back(), bound};
}

Dim infer_size(InferContext& context) {
  const std::string name = string_attribute(context.node(), "symbol");
  if (!context.graph().data_symbols.count(name)) {
    context.fail_at(ErrorKind::Model, text("names size '", name, "', which its graph does not declare"));
  }
  const int place = context.node().op->outputs - 1;
  context.set_output(place, DType::I64, {});
  context.set_elements(place, {Dim::symbol(name)});
  return Dim::symbol(name);
}

void infer_same(InferContext& context) { context.set_output(0, context.dtype(0), context.shape(0)); }

OpRow elementwise(const ElementwiseRow& entry) {
  auto formula = parse_formula(entry.formula);
  OpRow row;
  row.name = entry.name;
  row.category = "elementwise";
  row.doc = entry.doc;
  row.equation = entry.formula;
  row.onnx = {{entry.name, entry.since, nullptr, entry.domain}};
  row.onnx.insert(row.onnx.end(), entry.more_names.begin(), entry.more_names.end());
  row.minimum_inputs = row.maximum_inputs = entry.inputs;
  row.attributes = entry.attributes;
  row.elementwise = true;
  row.traits.unary = unary_function(*formula);
  row.traits.binary = binary_function(*formula);
  FormulaTypes types;
  collect_types(*formula, types);
  // Formulas of logic work on bools if the result is bool, else on integers.
  const TypeSet logic = entry.result == ResultType::Bool ? kBools : kIntegers;
  row.types = {{types.floats ? kFloats : types.logic ? logic : types.arithmetic ? kNumbers : kAnyType}};
  return row;
}

ValueId forwards_same_shape(const Graph& graph, const Node& node) {
  const Value& in = graph[node.inputs[0]];
  const Value& out = graph[node.outputs[0]];
  const bool same = in.shape && out.shape && *in.shape == *out.shape && in.dtype == out.dtype;
  return same ? node.inputs[0] : kNoValue;
}

ValueId forwards_only_input(const Graph& graph, const Node& node) {
  return node.inputs.size() == 1 ? forwards_same_shape(graph, node) : kNoValue;
}

OpRow onnx_row(const std::string& category, const OnnxName& name, const std::string& doc,
               const InputCount& inputs, std::vector<AttributeRow> attributes) {
  OpRow row;
  row.name = name.name;
  row.category = category;
  row.doc = doc;
  row.onnx = {name};
  row.minimum_inputs = inputs.minimum;
  row.maximum_inputs = inputs.maximum;
  row.attributes = std::move(attributes);
  return row;
}

OpRow movement(const std::string& name, const std::string& doc) {
  OpRow row;
  row.name = name;
  row.category = "movement";
  row.traits.movement = OpTraits::Movement::Other;
  row.doc = doc;
  row.onnx = {{name, 1}};
  return row;
}

}  // namespace tc
