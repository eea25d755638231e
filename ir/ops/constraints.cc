// The verifier of nodes: every row's constraints are checked here, for all rows alike.
#include "ir/ops/constraints.h"

#include <algorithm>

#include "ir/ops/rows.h"

namespace tc {
namespace {

constexpr size_t kMaxRank = 16;
constexpr int64_t kLargestWindow = int64_t{1} << 31;
// Errors show at most so much of a list or a text.
constexpr size_t kMaxShown = 16, kLongestShown = 80;

bool is_index(DType type) { return type == DType::I32 || type == DType::I64; }
bool is_number(DType type) { return type != DType::Bool; }
bool is_bool(DType type) { return type == DType::Bool; }
bool is_byte(DType type) { return type == DType::I8 || type == DType::U8; }
bool is_wide(DType type) { return is_float(type) || (is_integer(type) && size_of(type) >= 4); }

std::string list_text(const std::vector<int64_t>& numbers) {
  std::string result;
  for (size_t i = 0; i < numbers.size() && i < kMaxShown; ++i) result += text(i ? ", " : "", numbers[i]);
  return "[" + result + (numbers.size() > kMaxShown ? ", …]" : "]");
}

std::string shortened(const std::string& words) {
  return words.size() <= kLongestShown ? words : words.substr(0, kLongestShown) + "…";
}

// --- operands ------------------------------------------------------------------------------------

void check_outputs(const Node& node) {
  const OpRow& row = *node.op;
  if (row.outputs >= 0 && static_cast<int>(node.outputs.size()) > row.outputs) {
    fail(ErrorKind::Unsupported, node.origin.str(), " has ", node.outputs.size(), " outputs; of ", row.name,
         " ", row.outputs, row.outputs == 1 ? " is" : " are", " supported");
  }
}

// Checks that every attribute is one of the row's and has its kind, and that required ones are present.
void check_kinds(const Node& node) {
  for (const auto& [name, value] : node.attributes) {
    const AttributeRow* row = node.op->attribute(name);
    if (!row)
      fail(ErrorKind::Unsupported, node.origin.str(), ": attribute '", shortened(name), "' is not supported");
    const bool dims = std::holds_alternative<std::vector<int64_t>>(row->fallback) &&
                      std::holds_alternative<std::vector<Dim>>(value);
    if (row->fallback.index() != value.index() && !dims) {
      fail(ErrorKind::Model, node.origin.str(), ": attribute '", name, "' is of the wrong kind");
    }
  }
  for (const AttributeRow& row : node.op->attributes) {
    if (row.required && !node.attributes.count(row.name)) {
      fail(ErrorKind::Model, node.origin.str(), " lacks attribute '", row.name, "', which ", node.op->name,
           " needs");
    }
  }
}

// --- attributes ----------------------------------------------------------------------------------

// The numbers of an attribute that is a number or a list; of dimensions only the known ones.
struct Numbers {
  std::vector<int64_t> all;
  bool list = false;

  std::string str() const { return list ? list_text(all) : text(all.at(0)); }
};

Numbers numbers_of(const Attribute& attribute) {
  if (const auto* number = std::get_if<int64_t>(&attribute)) return {{*number}, false};
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute)) return {*list, true};
  Numbers result{{}, true};
  if (const auto* dims = std::get_if<std::vector<Dim>>(&attribute)) {
    for (const Dim& dim : *dims) {
      if (dim.is_constant()) result.all.push_back(dim.constant());
    }
  }
  return result;
}

void check_range(const InferContext& context, const AttributeRow& row, const Numbers& numbers, int64_t least,
                 int64_t most, const std::string& where) {
  for (int64_t number : numbers.all) {
    if (number >= least && number <= most) continue;
    const std::string allowed = most < least        ? "no number"
                                : most == INT64_MAX ? text(least, " or more")
                                                    : text(least, " to ", most);
    context.error("attribute '", row.name, "' is ", numbers.str(), "; ", where,
                  numbers.list ? "each number may be " : "it may be ", allowed);
  }
}

// `input 0 of shape […]`, or nothing where the node has no such input.
std::optional<std::string> shaped_input(const InferContext& context, int input) {
  if (!context.has_input(input)) return std::nullopt;
  return text("input ", input, " of shape ", str(context.shape(input)));
}

void check_permutation(const InferContext& context, const AttributeRow& row, const Numbers& numbers) {
  const auto who = shaped_input(context, row.rule.input);
  if (!who || numbers.all.empty()) return;
  const size_t rank = context.shape(row.rule.input).size();
  std::vector<int64_t> sorted = numbers.all;
  std::sort(sorted.begin(), sorted.end());
  bool valid = sorted.size() == rank;
  for (size_t i = 0; i < sorted.size(); ++i) valid = valid && sorted[i] == static_cast<int64_t>(i);
  if (valid) return;
  context.error(
      "attribute '", row.name, "' is ", numbers.str(), "; for ", *who,
      rank == 0 ? " it may only be empty" : text(" each number from 0 to ", rank - 1, " is needed once"));
}

void check_attribute(const InferContext& context, const AttributeRow& row) {
  using Kind = AttributeRule::Kind;
  const AttributeRule& rule = row.rule;
  if (rule.kind == Kind::Any) return;
  const auto given = context.node().attributes.find(row.name);
  const Attribute& value = given == context.node().attributes.end() ? row.fallback : given->second;
  if (rule.kind == Kind::Choice) {
    if (const auto* words = std::get_if<std::string>(&value))
      check_choice(context.node(), row.name, *words, rule.choices);
    return;
  }
  const Numbers numbers = numbers_of(value);
  if (rule.kind == Kind::Permutation) return check_permutation(context, row, numbers);
  if (rule.kind == Kind::Range) {
    // A default may be outside the range, meaning "not given".
    if (given != context.node().attributes.end())
      check_range(context, row, numbers, rule.least, rule.most, "");
    return;
  }
  const auto who = shaped_input(context, rule.input);
  if (!who) return;
  const int64_t rank = static_cast<int64_t>(context.shape(rule.input).size());
  check_range(context, row, numbers, rule.least - rank, rank - 1 + rule.most, text("for ", *who, " "));
}

// --- results -------------------------------------------------------------------------------------

// Checks that the number of elements, with symbols at their least values, is not too large for the arithmetic
// of sizes.
void check_size(const InferContext& context, const Shape& shape) {
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  int64_t count = 1;
  for (const Dim& dim : shape) {
    const int64_t extent =
        dim.is_constant() ? dim.constant() : std::max<int64_t>(dim_range(dim, context.graph()).low, 0);
    if (extent == 0) return;
    if (__builtin_mul_overflow(count, extent, &count) || count > kMaxElements) {
      context.error("the result would have shape ", str(shape),
                    "; a tensor of more than 2^40 elements is not supported");
    }
  }
}

}  // namespace

const TypeSet kAnyType;
const TypeSet kFloats{"a float type", is_float};
const TypeSet kNumbers{"a number type", is_number};
const TypeSet kIntegers{"an integer type", is_integer};
const TypeSet kBools{"bool", is_bool};
const TypeSet kIndices{"i32 or i64", is_index};
const TypeSet kBytes{"i8 or u8", is_byte};
const TypeSet kWideNumbers{"a float type or an integer type of 32 or 64 bits", is_wide};

AttributeRule axis_of(int input, int64_t below, int64_t above) {
  return {AttributeRule::Kind::Axis, input, -below, above, {}};
}
AttributeRule permutation_of(int input) { return {AttributeRule::Kind::Permutation, input, 0, 0, {}}; }
AttributeRule from_to(int64_t least, int64_t most) {
  return {AttributeRule::Kind::Range, 0, least, most, {}};
}
AttributeRule at_least(int64_t least) { return from_to(least, INT64_MAX); }
AttributeRule positive() { return from_to(1, kLargestWindow); }
AttributeRule one_of(std::vector<std::string> choices) {
  return {AttributeRule::Kind::Choice, 0, 0, 0, std::move(choices)};
}

void check_types(const InferContext& context, const TypeRule& rule) {
  std::vector<int> inputs = rule.inputs;
  for (int i = 0; rule.inputs.empty() && i < context.input_count(); ++i) inputs.push_back(i);
  int first = -1;
  for (int i : inputs) {
    if (!context.has_input(i)) continue;
    const DType type = context.dtype(i);
    if (rule.types.has && !rule.types.has(type)) {
      context.error("input ", i, " has type ", name_of(type), "; ", rule.types.words, " is needed");
    }
    if (first < 0) first = i;
    if (rule.same && type != context.dtype(first)) {
      context.error("input ", first, " has type ", name_of(context.dtype(first)), " and input ", i,
                    " has type ", name_of(type), "; they must be the same");
    }
  }
}

void check_choice(const Node& node, const std::string& attribute, const std::string& value,
                  const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  std::string list;
  for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
  fail(ErrorKind::Unsupported, node.origin.str(), ": attribute '", attribute, "' is '", shortened(value),
       "'; it may be ", list);
}

void check_inputs(const Node& node, bool all) {
  const OpRow& row = *node.op;
  const int given = static_cast<int>(node.inputs.size()), least = row.minimum_inputs,
            most = row.maximum_inputs;
  // Captures follow a control node's own inputs.
  const bool too_many = all && row.kind != OpRow::Kind::Control && most >= 0 && given > most;
  if (given < least || too_many) {
    fail(ErrorKind::Model, node.origin.str(), " has ", given, " inputs; ", row.name, " takes ", least,
         most == least ? ""
         : most < 0    ? " or more"
                       : text(" to ", most));
  }
  for (int i = 0; i < least; ++i) {
    if (!input_given(node, i))
      fail(ErrorKind::Model, node.origin.str(), " leaves out input ", i, ", which ", row.name, " needs");
  }
}

void check_operands(const InferContext& context) {
  const OpRow& row = *context.node().op;
  check_inputs(context.node(), /*all=*/true);
  check_outputs(context.node());
  check_kinds(context.node());
  for (const TypeRule& rule : row.types) check_types(context, rule);
  for (const AttributeRow& attribute : row.attributes) check_attribute(context, attribute);
}

void check_result(const InferContext& context, const Shape& shape) {
  if (shape.size() > kMaxRank)
    context.error("a tensor of rank ", shape.size(), " is over the limit of ", kMaxRank);
  for (const Dim& dim : shape) {
    if (dim.is_constant() && dim.constant() < 0) {
      context.error("the result would have shape ", str(shape), ", with a negative dimension");
    }
    context.require_at_most(Dim(0), dim,
                            text("the result would have shape ", str(shape), ", with a negative dimension"));
  }
  check_size(context, shape);
}

void check_results(const InferContext& context) {
  for (ValueId id : context.node().outputs) {
    if (id == kNoValue || context.graph()[id].shape) continue;
    fail(ErrorKind::Model, context.node().origin.str(), " has an output '", context.graph()[id].name,
         "', which ", context.node().op->name, " does not give");
  }
}

}  // namespace tc
