// Einstein summation: `bij,bjk->bik`, a sum of products with axes named by letters.
#include <algorithm>
#include <bitset>
#include <limits>
#include <set>

#include "ir/ops/depends_on_data.h"
#include "ir/ops/equation.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

// A letter's name: the letter itself, or b0, b1, … for the axes of an ellipsis, numbered from the first axis
// of the longest one.
using Letters = std::vector<std::string>;

// An equation in which every ellipsis is resolved.
struct Einsum {
  std::vector<Letters> operands;
  Letters output;
};

// The letters of one operand, with `...` before letter `before` if there is an ellipsis.
struct Term {
  Letters letters;
  std::optional<size_t> ellipsis;
};

class EinsumParser {
 public:
  explicit EinsumParser(const Node& node) : node_(node), given_(string_attribute(node, "equation")) {}

  // Resolves each ellipsis by the ranks of the operands.
  Einsum parse(const std::vector<const Shape*>& shapes) {
    split();
    if (terms_.size() != shapes.size()) {
      error("names ", terms_.size(), terms_.size() == 1 ? " operand" : " operands", ", but the node has ",
            shapes.size());
    }
    std::vector<size_t> own;
    size_t axes = 0;
    for (size_t i = 0; i < terms_.size(); ++i) {
      own.push_back(axes_of_ellipsis(i, *shapes[i]));
      axes = std::max(axes, own.back());
    }
    Einsum result;
    for (size_t i = 0; i < terms_.size(); ++i) result.operands.push_back(resolved(terms_[i], axes, own[i]));
    if (output_ && !output_->ellipsis && axes > 0) {
      error("has `...` for ", axes, axes == 1 ? " axis" : " axes",
            " of the operands, but none in its output");
    }
    const Term output = output_ ? *output_ : implicit_output();
    check_output(output);
    result.output = resolved(output, axes, axes);
    return result;
  }

 private:
  template <class... Parts>
  [[noreturn]] void error(const Parts&... parts) const {
    fail(ErrorKind::Model, node_.origin.str(), ": equation '", given_, "' ", text(parts...));
  }

  void split() {
    std::string left;
    std::optional<std::string> right;
    size_t begin = given_.find("->");
    left = given_.substr(0, begin);
    if (begin != std::string::npos) right = given_.substr(begin + 2);
    if (!right && left.find_first_not_of(" ") == std::string::npos) error("is empty");
    size_t from = 0;
    while (true) {
      const size_t comma = left.find(',', from);
      terms_.push_back(term(from, comma == std::string::npos ? left.size() : comma));
      if (comma == std::string::npos) break;
      from = comma + 1;
    }
    if (right) output_ = term(begin + 2, given_.size());
  }

  // The characters from `at` to `end`.
  Term term(size_t at, size_t end) const {
    Term result;
    for (; at < end; ++at) {
      const char c = given_[at];
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (c == ' ') continue;
      if (letter) {
        result.letters.push_back(std::string(1, c));
      } else if (c == '.' && at + 3 <= end && given_.compare(at, 3, "...") == 0) {
        if (result.ellipsis) error("has two `...` for one tensor, at character ", at);
        result.ellipsis = result.letters.size();
        at += 2;
      } else {
        error("has '", c, "' at character ", at, "; it may have letters, `...`, commas and one `->`");
      }
    }
    return result;
  }

  size_t axes_of_ellipsis(size_t operand, const Shape& shape) const {
    const Term& term = terms_[operand];
    const size_t named = term.letters.size();
    if (term.ellipsis ? shape.size() < named : shape.size() != named) {
      fail(ErrorKind::Shape, node_.origin.str(), ": operand ", operand, " has shape ", str(shape),
           " of rank ", shape.size(), "; equation '", given_, "' gives it ", named,
           named == 1 ? " letter" : " letters", term.ellipsis ? " and `...`" : "");
    }
    return shape.size() - named;
  }

  static Letters resolved(const Term& term, size_t axes, size_t own) {
    Letters result = term.letters;
    if (!term.ellipsis) return result;
    Letters batch;
    for (size_t i = axes - own; i < axes; ++i) batch.push_back(text("b", i));
    result.insert(result.begin() + static_cast<std::ptrdiff_t>(*term.ellipsis), batch.begin(), batch.end());
    return result;
  }

  // The ellipsis, then the letters that occur once, in alphabetical order, capitals first.
  Term implicit_output() const {
    std::map<std::string, int> count;
    Term result;
    for (const Term& term : terms_) {
      if (term.ellipsis) result.ellipsis = 0;
      for (const std::string& letter : term.letters) ++count[letter];
    }
    for (const auto& [letter, times] : count) {
      if (times == 1) result.letters.push_back(letter);
    }
    return result;
  }

  void check_output(const Term& output) const {
    for (size_t i = 0; i < output.letters.size(); ++i) {
      const std::string& letter = output.letters[i];
      const bool known = std::any_of(terms_.begin(), terms_.end(), [&](const Term& term) {
        return std::count(term.letters.begin(), term.letters.end(), letter) > 0;
      });
      if (!known) error("has `", letter, "` in its output, but in no operand");
      if (std::count(output.letters.begin(), output.letters.end(), letter) > 1)
        error("has `", letter, "` twice in its output");
    }
  }

  const Node& node_;
  const std::string given_;
  std::vector<Term> terms_;
  std::optional<Term> output_;
};

// The equation with the extents from the operands' shapes.
struct Bound {
  Einsum einsum;
  std::vector<const Shape*> shapes;
  LetterExtents extents;
};

// The letter as errors show it.
std::string quoted(const std::string& letter) {
  return letter.size() == 1 ? "`" + letter + "`" : text("axis ", letter.substr(1), " of `...`");
}

Bound bind(const Node& node, std::vector<const Shape*> shapes) {
  Bound bound{EinsumParser(node).parse(shapes), std::move(shapes), {}};
  auto error = [&](const std::string& message, const Dim& before, const Dim& now) {
    if (!(before - now).is_constant())
      throw UnprovedSizes(text(node.origin.str(), ": ", message), before, now);
    fail(ErrorKind::Shape, node.origin.str(), ": ", message);
  };
  // A letter that occurs twice in one operand runs along the operand's diagonal.
  for (size_t i = 0; i < bound.shapes.size(); ++i) {
    LetterExtents diagonals;
    for (size_t axis = 0; axis < bound.shapes[i]->size(); ++axis) {
      const std::string& letter = bound.einsum.operands[i][axis];
      diagonals.bind(quoted(letter), {text("operand ", i), bound.shapes[i], axis}, false, error);
      bound.extents.bind(quoted(letter), {text("operand ", i), bound.shapes[i], axis}, true, error);
    }
  }
  return bound;
}

const Dim& extent_of(const Bound& bound, const std::string& letter) { return bound.extents[quoted(letter)]; }

std::vector<const Shape*> shapes_of(const Graph& graph, const Node& node) {
  std::vector<const Shape*> shapes;
  for (ValueId id : node.inputs) shapes.push_back(&*graph[id].shape);
  return shapes;
}

void infer_einsum(InferContext& context) {
  std::vector<const Shape*> shapes;
  for (int i = 0; i < context.input_count(); ++i) shapes.push_back(&context.shape(i));
  const Bound bound = bind(context.node(), std::move(shapes));
  const DType type = context.dtype(0);
  Shape shape;
  for (const std::string& letter : bound.einsum.output) shape.push_back(extent_of(bound, letter));
  context.set_output(0, type, shape);
}

std::string joined(const Letters& letters) {
  std::string result;
  for (const std::string& letter : letters) result += (result.empty() ? "" : ",") + letter;
  return result;
}

void lower_einsum(LowerContext& context) {
  const Bound bound = bind(context.node(), shapes_of(context.graph(), context.node()));
  EquationNames names;
  names.type = LowerContext::compute_type(context.dtype(0));
  names.buffers["O"] = context.output(0);
  std::set<std::string> summed;
  std::string value;
  for (size_t i = 0; i < bound.shapes.size(); ++i) {
    Letters subscripts = bound.einsum.operands[i];
    for (size_t axis = 0; axis < subscripts.size(); ++axis) {
      const Dim& extent = extent_of(bound, subscripts[axis]);
      names.extents[subscripts[axis]] = extent;
      summed.insert(subscripts[axis]);
      if ((*bound.shapes[i])[axis] != extent) subscripts[axis] = "0";
    }
    const std::string operand = text("A", i);
    names.buffers[operand] = context.input(static_cast<int>(i));
    value += (i == 0 ? "" : " * ") + operand + "[" + joined(subscripts) + "]";
  }
  for (const std::string& letter : bound.einsum.output) summed.erase(letter);
  const bool sums = std::any_of(summed.begin(), summed.end(),
                                [&](const std::string& letter) { return names.extents[letter] != Dim(1); });
  const std::string base = bound.shapes.size() > 1 ? "macc" : sums ? "sum" : "copy";
  lower_equation(context, "O[" + joined(bound.einsum.output) + (sums ? "] += " : "] = ") + value, names,
                 base);
}

// --- several operands: two at a time -----------------------------------------------------------------

using LetterSet = std::bitset<128>;

// More operands than this are multiplied from the left.
constexpr size_t kMaxOrdered = 10;
// The extent assumed for a letter that is known only at run time, to choose an order.
constexpr double kLikelyExtent = 128;

// Writes an einsum as a tree of einsums of one or two operands.
class PairwiseExpansion {
 public:
  PairwiseExpansion(Graph& graph, const Node& node)
      : node_(node), bound_(bind(node, shapes_of(graph, node))), build_(graph, node) {
    for (const Letters& operand : bound_.einsum.operands) {
      for (const std::string& letter : operand) number(letter);
    }
    for (const Letters& operand : bound_.einsum.operands) operands_.push_back(set_of(operand));
    output_ = set_of(bound_.einsum.output);
  }

  // Returns no nodes where the node already is a product of two operands or a sum of one.
  std::vector<Node> run() {
    const size_t count = operands_.size();
    bool alone = count <= 2;
    for (size_t i = 0; i < count && count == 2; ++i) alone = alone && (operands_[i] & ~kept_of({i})).none();
    if (alone || all_.size() > 52) return {};
    std::vector<size_t> all;
    for (size_t i = 0; i < count; ++i) all.push_back(i);
    contract(all, true);
    return build_.take();
  }

 private:
  struct Operand {
    ValueId value;
    Letters letters;
  };

  void number(const std::string& letter) {
    if (numbers_.try_emplace(letter, all_.size()).second) all_.push_back(letter);
  }
  LetterSet set_of(const Letters& letters) const {
    LetterSet result;
    for (const std::string& letter : letters) result.set(numbers_.at(letter));
    return result;
  }
  double points(const LetterSet& letters) const {
    double result = 1;
    for (size_t i = 0; i < all_.size(); ++i) {
      if (!letters[i]) continue;
      const Dim& extent = extent_of(bound_, all_[i]);
      result *= extent.is_constant() ? static_cast<double>(extent.constant()) : kLikelyExtent;
    }
    return result;
  }

  // The letters of the members' product that are still needed outside of it.
  LetterSet kept_of(const std::vector<size_t>& members) const {
    LetterSet inside, outside = output_;
    for (size_t i = 0; i < operands_.size(); ++i) {
      (std::count(members.begin(), members.end(), i) ? inside : outside) |= operands_[i];
    }
    return inside & outside;
  }

  // The members of the left side of the last multiplication, chosen for the least work in all; the other
  // members are its right side.
  std::vector<size_t> first_part(const std::vector<size_t>& members) {
    if (members.size() > kMaxOrdered) return {members.begin(), members.end() - 1};
    return best(members).second;
  }

  // The least work of the members' product, and the members of one side of its last multiplication.
  std::pair<double, std::vector<size_t>> best(const std::vector<size_t>& members) {
    if (members.size() < 2) return {0, {}};
    auto [found, fresh] = orders_.try_emplace(members);
    if (!fresh) return found->second;
    std::pair<double, std::vector<size_t>> least{std::numeric_limits<double>::infinity(), {members[0]}};
    // Every split into two parts occurs once, with the first member in the first part.
    for (size_t mask = 1; mask + 1 < size_t{1} << members.size(); mask += 2) {
      std::vector<size_t> part, rest;
      for (size_t i = 0; i < members.size(); ++i) (mask >> i & 1 ? part : rest).push_back(members[i]);
      const double work = best(part).first + best(rest).first + points(kept_of(part) | kept_of(rest));
      if (work < least.first) least = {work, part};
    }
    return orders_[members] = least;
  }

  // The letters as the new equations spell them: those of the old equation, and fresh ones for the axes of an
  // ellipsis.
  std::string spelled(const Letters& letters) const {
    std::string result;
    for (const std::string& letter : letters) {
      const size_t number = numbers_.at(letter);
      result += static_cast<char>(number < 26 ? 'a' + number : 'A' + (number - 26));
    }
    return result;
  }

  // Adds one node; the last one makes the output.
  Operand add(const std::vector<Operand>& from, Letters letters, bool last) {
    std::string equation;
    std::vector<ValueId> inputs;
    for (const Operand& operand : from) {
      equation += (inputs.empty() ? "" : ",") + spelled(operand.letters);
      inputs.push_back(operand.value);
    }
    if (last) letters = bound_.einsum.output;
    const std::map<std::string, Attribute> attributes = {{"equation", equation + "->" + spelled(letters)}};
    if (!last) return {build_.add(node_.op->name, inputs, attributes), letters};
    build_.add_to(node_.op->name, inputs, {node_.outputs[0]}, attributes);
    return {node_.outputs[0], letters};
  }

  // Contracts an operand, or multiplies several.
  Operand contract(const std::vector<size_t>& members, bool last) {
    const LetterSet kept = kept_of(members);
    if (members.size() == 1) {
      Operand operand{node_.inputs[members[0]], bound_.einsum.operands[members[0]]};
      if ((operands_[members[0]] & ~kept).none()) return operand;
      return add({operand}, chosen(operand.letters, kept), false);
    }
    const std::vector<size_t> part = first_part(members);
    std::vector<size_t> rest;
    for (size_t i : members) {
      if (!std::count(part.begin(), part.end(), i)) rest.push_back(i);
    }
    const Operand left = contract(part, false), right = contract(rest, false);
    // The order for matrix products: letters of both operands first, then those of one.
    const LetterSet in_left = set_of(left.letters), in_right = set_of(right.letters);
    Letters letters = chosen(left.letters, kept & in_right);
    for (const std::string& letter : chosen(left.letters, kept & ~in_right)) letters.push_back(letter);
    for (const std::string& letter : chosen(right.letters, kept & ~in_left)) letters.push_back(letter);
    return add({left, right}, letters, last);
  }

  // Those of the letters that are in the set, each once.
  Letters chosen(const Letters& letters, const LetterSet& set) const {
    Letters result;
    for (const std::string& letter : letters) {
      if (set[numbers_.at(letter)] && !std::count(result.begin(), result.end(), letter))
        result.push_back(letter);
    }
    return result;
  }

  const Node& node_;
  const Bound bound_;
  NodeBuilder build_;
  std::map<std::string, size_t> numbers_;
  Letters all_;  // by number
  std::vector<LetterSet> operands_;
  LetterSet output_;
  std::map<std::vector<size_t>, std::pair<double, std::vector<size_t>>> orders_;
};

std::vector<Node> expand_einsum(Graph& graph, const Node& node) {
  return PairwiseExpansion(graph, node).run();
}

}  // namespace

void register_einsum_ops(OpTable& table) {
  OpRow row;
  row.name = "Einsum";
  row.category = "matrix product";
  row.doc =
      "Sum of products of any number of operands, with axes named by letters as numpy.einsum takes them.";
  row.equation = "O[i,k] += A[i,j] * B[j,k]";
  row.onnx = {{"Einsum", 12}};
  row.maximum_inputs = -1;
  row.attributes = {{"equation", std::string(), true, "for instance `ij,jk->ik`"}};
  row.types = {{kNumbers}};
  row.traits.contraction = OpTraits::Contraction::Product;
  row.infer = infer_einsum;
  row.lower = lower_einsum;
  row.expand = expand_einsum;
  table.add(std::move(row));
}

}  // namespace tc
