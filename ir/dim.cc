// Dimensions of tensors: integers, or expressions of named symbols such as `batch` and `seq`.
#include "ir/dim.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/error.h"
#include "ir/text_cursor.h"

namespace tc {
namespace {

// Expressions beyond these sizes come from broken or hostile models.
constexpr size_t kMaxTerms = 1024;
constexpr size_t kLongestAtom = 1 << 14;

[[noreturn]] void overflow() {
  fail(ErrorKind::Shape, "a dimension does not fit 64 bits; the model's shapes are too large");
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) overflow();
  return result;
}

int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) overflow();
  return result;
}

int64_t checked_negate(int64_t a) { return checked_multiply(a, -1); }

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == -1) return checked_negate(a);
  int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// In 0 .. |b| - 1.
int64_t remainder_of(int64_t a, int64_t b) {
  if (b == -1 || b == 1) return 0;
  int64_t remainder = a % b;
  return remainder < 0 ? remainder + (b < 0 ? -b : b) : remainder;
}

std::string monomial_text(const Dim::Monomial& factors) {
  std::string result;
  for (const auto& factor : factors) {
    if (!result.empty()) result += "*";
    result += factor->text;
  }
  return result;
}

// Sorts by text, the constant (empty text) last.
bool text_before(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return !a.empty() && b.empty();
  return a < b;
}

std::string symbol_text(const std::string& name) {
  bool reserved = name == "floor" || name == "mod" || name == "min" || name == "max";
  return is_identifier(name) && !reserved ? name : quote(name);
}

// Operand of a quotient: in parentheses where it is a sum or a product.
std::string operand_text(const Dim& dim) {
  std::string text = dim.str();
  bool simple = dim.is_constant() ? dim.constant() >= 0
                                  : dim.terms().size() == 1 && dim.terms()[0].coefficient == 1 &&
                                        dim.terms()[0].factors.size() == 1;
  return simple ? text : "(" + text + ")";
}

// How often a proof may replace a minimum or maximum by one of its operands: enough for minima of minima.
constexpr int kReplacements = 3;
// Proofs give up on sums of more terms, which come from generated or hostile models.
constexpr size_t kMaxProvedTerms = 16;

// True where no values of the symbols make it negative; false where unknown.
bool is_nonnegative(const Dim& dim, int replacements = kReplacements);
bool is_nonnegative(const Dim::Atom& atom, int replacements) {
  switch (atom.kind) {
    case Dim::AtomKind::Symbol:
    case Dim::AtomKind::Mod: return true;
    case Dim::AtomKind::FloorDiv:
    case Dim::AtomKind::Min:
      return is_nonnegative(atom.left, replacements) && is_nonnegative(atom.right, replacements);
    case Dim::AtomKind::Max:
      return is_nonnegative(atom.left, replacements) || is_nonnegative(atom.right, replacements);
  }
  return false;
}
bool is_nonnegative(const Dim& dim, int replacements) {
  const bool plain = std::all_of(dim.terms().begin(), dim.terms().end(), [&](const Dim::Term& term) {
    return term.coefficient > 0 &&
           std::all_of(term.factors.begin(), term.factors.end(),
                       [&](const Dim::AtomPtr& factor) { return is_nonnegative(*factor, replacements); });
  });
  if (plain) return true;
  if (replacements == 0 || dim.terms().size() > kMaxProvedTerms) return false;
  // -min(a, b) is at least -a and at least -b; max(a, b) is at least a and at least b.
  for (const Dim::Term& term : dim.terms()) {
    const Dim::AtomKind replaceable = term.coefficient < 0 ? Dim::AtomKind::Min : Dim::AtomKind::Max;
    if (term.factors.size() != 1 || term.factors[0]->kind != replaceable) continue;
    const Dim::Atom& atom = *term.factors[0];
    const Dim rest = dim - Dim(term.coefficient) * atom_dim(term.factors[0]);
    for (const Dim& side : {atom.left, atom.right}) {
      if (is_nonnegative(rest + Dim(term.coefficient) * side, replacements - 1)) return true;
    }
  }
  return false;
}

// a / b where every factor of b is also a factor of a; else nothing.
std::optional<Dim::Monomial> divide_monomial(const Dim::Monomial& a, const Dim::Monomial& b) {
  Dim::Monomial rest = a;
  for (const auto& factor : b) {
    auto found = std::find_if(rest.begin(), rest.end(),
                              [&](const auto& other) { return other->text == factor->text; });
    if (found == rest.end()) return std::nullopt;
    rest.erase(found);
  }
  return rest;
}

// The term of highest degree, the first of them by text.
const Dim::Term& leading_term(const Dim& dim) {
  const auto& terms = dim.terms();
  return *std::max_element(terms.begin(), terms.end(),
                           [](const auto& a, const auto& b) { return a.factors.size() < b.factors.size(); });
}

}  // namespace

Dim normalized(std::vector<Dim::Term> terms) {
  std::map<std::string, Dim::Term> sums;
  for (auto& term : terms) {
    std::sort(term.factors.begin(), term.factors.end(),
              [](const auto& a, const auto& b) { return a->text < b->text; });
    auto [found, added] = sums.emplace(monomial_text(term.factors), term);
    if (!added) {
      found->second.coefficient = checked_add(found->second.coefficient, term.coefficient);
    }
  }
  Dim result;
  std::vector<std::pair<std::string, Dim::Term>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return text_before(a.first, b.first); });
  for (auto& [text, term] : sorted) {
    if (term.coefficient != 0) result.terms_.push_back(std::move(term));
  }
  if (result.terms_.size() > kMaxTerms) {
    fail(ErrorKind::Shape, "a dimension is an expression of more than ", kMaxTerms, " terms");
  }
  return result;
}

Dim atom_dim(Dim::AtomPtr atom) { return normalized({{{std::move(atom)}, 1}}); }

namespace {

Dim make_atom(Dim::AtomKind kind, std::string name, Dim left, Dim right, std::string text) {
  if (text.size() > kLongestAtom) {
    fail(ErrorKind::Shape, "a dimension is an expression of more than ", kLongestAtom, " characters");
  }
  Dim::Atom atom{kind, std::move(name), std::move(left), std::move(right), std::move(text)};
  return atom_dim(std::make_shared<const Dim::Atom>(std::move(atom)));
}

// a with the terms that b's single term divides moved to `quotient` (a = quotient * b + result).
Dim split_divisible(const Dim& a, const Dim::Term& divisor, Dim* quotient) {
  std::vector<Dim::Term> divided, rest;
  for (const auto& term : a.terms()) {
    auto factors = divide_monomial(term.factors, divisor.factors);
    if (factors && term.coefficient % divisor.coefficient == 0) {
      divided.push_back({*factors, floor_divide(term.coefficient, divisor.coefficient)});
    } else {
      rest.push_back(term);
    }
  }
  *quotient = normalized(std::move(divided));
  return normalized(std::move(rest));
}

// a / b as a polynomial, where it is one.
std::optional<Dim> exact_quotient(const Dim& a, const Dim& b) {
  const Dim::Term divisor = leading_term(b);
  Dim quotient, rest = a;
  for (size_t step = 0; step < 64 && !rest.terms().empty(); ++step) {
    const Dim::Term term = leading_term(rest);
    auto factors = divide_monomial(term.factors, divisor.factors);
    if (!factors || term.coefficient % divisor.coefficient != 0) return std::nullopt;
    Dim part = normalized({{*factors, floor_divide(term.coefficient, divisor.coefficient)}});
    quotient = quotient + part;
    rest = rest - part * b;
  }
  if (!rest.terms().empty()) return std::nullopt;
  return quotient;
}

// floor(a/b) of a positive integer b; the terms that b divides are taken out of the floor.
Dim floor_div_constant(const Dim& a, int64_t b) {
  Dim quotient;
  Dim rest = split_divisible(a, {{}, b}, &quotient);
  std::vector<Dim::Term> symbolic;
  int64_t constant = 0, common = b;
  for (const auto& term : rest.terms()) {
    if (term.factors.empty()) {
      constant = term.coefficient;
    } else {
      symbolic.push_back(term);
      common = std::gcd(common, term.coefficient);
    }
  }
  quotient = quotient + Dim(floor_divide(constant, b));
  constant = remainder_of(constant, b);
  if (symbolic.empty()) return quotient;
  // floor((g*s + c) / (g*d)) = floor((s + floor(c/g)) / d)
  for (auto& term : symbolic) term.coefficient /= common;
  Dim left = normalized(std::move(symbolic)) + Dim(constant / common), right(b / common);
  if (right == Dim(1)) return quotient + left;
  std::string text = "floor(" + operand_text(left) + "/" + right.str() + ")";
  return quotient + make_atom(Dim::AtomKind::FloorDiv, "", left, right, text);
}

// The operands of minima (or maxima) of minima (or maxima).
void collect_operands(Dim::AtomKind kind, const Dim& dim, std::vector<Dim>& operands) {
  const bool nested = dim.terms().size() == 1 && dim.terms()[0].coefficient == 1 &&
                      dim.terms()[0].factors.size() == 1 && dim.terms()[0].factors[0]->kind == kind;
  if (!nested) {
    operands.push_back(dim);
    return;
  }
  collect_operands(kind, dim.terms()[0].factors[0]->left, operands);
  collect_operands(kind, dim.terms()[0].factors[0]->right, operands);
}

Dim make_bound(Dim::AtomKind kind, const Dim& a, const Dim& b) {
  return make_atom(kind, "", a, b,
                   (kind == Dim::AtomKind::Max ? "max(" : "min(") + a.str() + ", " + b.str() + ")");
}

// The minimum or maximum. It is commutative and associative, so its operands are kept in one order, without
// duplicates and without those that another operand makes redundant: equal Dims have equal texts.
Dim bound(Dim::AtomKind kind, const Dim& a, const Dim& b) {
  const auto covers = [&](const Dim& x, const Dim& y) {
    return is_nonnegative(kind == Dim::AtomKind::Max ? x - y : y - x);
  };
  if (covers(a, b)) return a;
  if (covers(b, a)) return b;
  std::vector<Dim> given, kept;
  collect_operands(kind, a, given);
  collect_operands(kind, b, given);
  if (given.size() > kMaxProvedTerms) return make_bound(kind, a, b);
  for (const Dim& operand : given) {
    if (std::any_of(kept.begin(), kept.end(), [&](const Dim& other) { return covers(other, operand); }))
      continue;
    std::erase_if(kept, [&](const Dim& other) { return covers(operand, other); });
    kept.push_back(operand);
  }
  std::sort(kept.begin(), kept.end(),
            [](const Dim& x, const Dim& y) { return text_before(x.str(), y.str()); });
  Dim result = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) result = make_bound(kind, result, kept[i]);
  return result;
}

[[noreturn]] void division_by_zero(const Dim& a) {
  fail(ErrorKind::Shape, "the dimension ", a.str(), " is divided by zero");
}

}  // namespace

Dim::Dim(int64_t value) {
  if (value != 0) terms_.push_back({{}, value});
}

Dim Dim::symbol(const std::string& name) {
  return make_atom(AtomKind::Symbol, name, {}, {}, symbol_text(name));
}

int64_t Dim::constant() const {
  TC_CHECK(is_constant(), "of `", str(), "`");
  return terms_.empty() ? 0 : terms_[0].coefficient;
}

bool Dim::is_symbol() const {
  return terms_.size() == 1 && terms_[0].coefficient == 1 && terms_[0].factors.size() == 1 &&
         terms_[0].factors[0]->kind == AtomKind::Symbol;
}

void Dim::collect_symbols(std::set<std::string>& names) const {
  for (const auto& term : terms_) {
    for (const auto& factor : term.factors) {
      if (factor->kind == AtomKind::Symbol) {
        names.insert(factor->name);
      } else {
        factor->left.collect_symbols(names);
        factor->right.collect_symbols(names);
      }
    }
  }
}

int64_t Dim::evaluate(const std::map<std::string, int64_t>& symbols) const {
  auto atom_value = [&](const Atom& atom) -> int64_t {
    if (atom.kind == AtomKind::Symbol) {
      auto found = symbols.find(atom.name);
      if (found == symbols.end()) {
        fail(ErrorKind::Shape, "the size of symbol '", atom.name, "' is not known");
      }
      return found->second;
    }
    int64_t left = atom.left.evaluate(symbols), right = atom.right.evaluate(symbols);
    switch (atom.kind) {
      case AtomKind::Min: return std::min(left, right);
      case AtomKind::Max: return std::max(left, right);
      default: break;
    }
    if (right == 0) division_by_zero(atom.left);
    return atom.kind == AtomKind::Mod ? remainder_of(left, right) : floor_divide(left, right);
  };
  int64_t sum = 0;
  for (const auto& term : terms_) {
    int64_t product = term.coefficient;
    for (const auto& factor : term.factors) product = checked_multiply(product, atom_value(*factor));
    sum = checked_add(sum, product);
  }
  return sum;
}

Dim Dim::substitute(const std::map<std::string, Dim>& symbols) const {
  auto replaced = [&](const AtomPtr& atom) -> Dim {
    if (atom->kind == AtomKind::Symbol) {
      auto found = symbols.find(atom->name);
      return found == symbols.end() ? atom_dim(atom) : found->second;
    }
    Dim left = atom->left.substitute(symbols), right = atom->right.substitute(symbols);
    switch (atom->kind) {
      case AtomKind::FloorDiv: return floor_div(left, right);
      case AtomKind::Mod: return mod(left, right);
      case AtomKind::Min: return min(left, right);
      default: return max(left, right);
    }
  };
  Dim sum;
  for (const auto& term : terms_) {
    Dim product(term.coefficient);
    for (const auto& factor : term.factors) product = product * replaced(factor);
    sum = sum + product;
  }
  return sum;
}

std::string Dim::str() const {
  if (terms_.empty()) return "0";
  std::string result;
  for (const auto& term : terms_) {
    bool negative = term.coefficient < 0;
    uint64_t magnitude =
        negative ? 0 - static_cast<uint64_t>(term.coefficient) : static_cast<uint64_t>(term.coefficient);
    if (result.empty()) {
      if (negative) result += "-";
    } else {
      result += negative ? " - " : " + ";
    }
    if (term.factors.empty()) {
      result += std::to_string(magnitude);
    } else {
      if (magnitude != 1) result += std::to_string(magnitude) + "*";
      result += monomial_text(term.factors);
    }
  }
  return result;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return checked_add(a.constant(), b.constant());
  std::vector<Dim::Term> terms = a.terms_;
  terms.insert(terms.end(), b.terms_.begin(), b.terms_.end());
  return normalized(std::move(terms));
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return checked_multiply(a.constant(), b.constant());
  if (a.terms_.size() * b.terms_.size() > kMaxTerms) {
    fail(ErrorKind::Shape, "a dimension is an expression of more than ", kMaxTerms, " terms");
  }
  std::vector<Dim::Term> terms;
  for (const auto& left : a.terms_) {
    for (const auto& right : b.terms_) {
      Dim::Term term{left.factors, checked_multiply(left.coefficient, right.coefficient)};
      term.factors.insert(term.factors.end(), right.factors.begin(), right.factors.end());
      if (term.factors.size() > 64) {
        fail(ErrorKind::Shape, "a dimension is a product of more than 64 factors");
      }
      terms.push_back(std::move(term));
    }
  }
  return normalized(std::move(terms));
}

Dim floor_div(const Dim& a, const Dim& b) {
  if (b == Dim(0)) division_by_zero(a);
  if (b.is_constant()) {
    int64_t divisor = b.constant();
    return divisor < 0 ? floor_div_constant(a * Dim(-1), checked_negate(divisor))
                       : floor_div_constant(a, divisor);
  }
  if (auto quotient = exact_quotient(a, b)) return *quotient;
  Dim quotient, rest = a;
  if (b.terms().size() == 1) rest = split_divisible(a, b.terms()[0], &quotient);
  std::string text = "floor(" + operand_text(rest) + "/" + operand_text(b) + ")";
  return quotient + make_atom(Dim::AtomKind::FloorDiv, "", rest, b, text);
}

Dim ceil_div(const Dim& a, const Dim& b) {
  if (b.is_constant() && b.constant() < 0) return ceil_div(a * Dim(-1), b * Dim(-1));
  return floor_div(a + b - Dim(1), b);
}

Dim mod(const Dim& a, const Dim& b) {
  if (b == Dim(0)) division_by_zero(a);
  Dim rest = a;
  if (b.is_constant()) {
    int64_t divisor = b.constant();
    if (divisor < 0) return mod(a, Dim(checked_negate(divisor)));
    std::vector<Dim::Term> terms;
    for (const auto& term : a.terms()) {
      terms.push_back({term.factors, remainder_of(term.coefficient, divisor)});
    }
    rest = normalized(std::move(terms));
    if (rest.is_constant()) return rest;
  } else {
    if (exact_quotient(a, b)) return 0;
    Dim quotient;
    if (b.terms().size() == 1) rest = split_divisible(a, b.terms()[0], &quotient);
  }
  std::string text = "mod(" + rest.str() + ", " + b.str() + ")";
  return make_atom(Dim::AtomKind::Mod, "", rest, b, text);
}

Dim min(const Dim& a, const Dim& b) { return bound(Dim::AtomKind::Min, a, b); }
Dim max(const Dim& a, const Dim& b) { return bound(Dim::AtomKind::Max, a, b); }

namespace {

Dim parse_sum(TextCursor& cursor);

Dim parse_factor(TextCursor& cursor) {
  TextCursor::Nesting nesting(cursor);
  if (cursor.peek_number()) return cursor.integer();
  if (cursor.peek_char() == '"') return Dim::symbol(cursor.quoted());
  if (cursor.try_token("(")) {
    Dim inner = parse_sum(cursor);
    cursor.expect(")");
    return inner;
  }
  std::string name = cursor.identifier();
  bool call = (name == "floor" || name == "mod" || name == "min" || name == "max");
  if (!call) return Dim::symbol(name);
  cursor.expect("(");
  Dim left = parse_sum(cursor);
  cursor.expect(name == "floor" ? "/" : ",");
  Dim right = parse_sum(cursor);
  cursor.expect(")");
  if (name == "floor") return floor_div(left, right);
  if (name == "mod") return mod(left, right);
  return name == "min" ? min(left, right) : max(left, right);
}

Dim parse_product(TextCursor& cursor) {
  Dim product = parse_factor(cursor);
  while (cursor.try_token("*")) product = product * parse_factor(cursor);
  return product;
}

Dim parse_sum(TextCursor& cursor) {
  bool negative = !cursor.peek_number() && cursor.try_token("-");
  Dim sum = parse_product(cursor);
  if (negative) sum = sum * Dim(-1);
  while (true) {
    if (cursor.try_token("+")) {
      sum = sum + parse_product(cursor);
    } else if (cursor.try_token("-")) {
      sum = sum - parse_product(cursor);
    } else {
      return sum;
    }
  }
}

}  // namespace

namespace {

bool mentions(const Dim& dim, const std::map<std::string, Dim>& bounds) {
  std::set<std::string> names;
  dim.collect_symbols(names);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return bounds.count(name) > 0; });
}

// An upper bound of the value (`most`), or a lower one; see largest().
Dim extreme(const Dim& dim, const std::map<std::string, Dim>& bounds, bool most);

// The same for an atom that mentions a symbol of `bounds`.
Dim extreme(const Dim::Atom& atom, const std::map<std::string, Dim>& bounds, bool most) {
  const auto left = [&] { return extreme(atom.left, bounds, most); };
  const auto right = [&](bool larger) { return extreme(atom.right, bounds, larger); };
  switch (atom.kind) {
    case Dim::AtomKind::Symbol: return most ? bounds.at(atom.name) : Dim(0);
    case Dim::AtomKind::Min: return min(left(), right(most));
    case Dim::AtomKind::Max: return max(left(), right(most));
    case Dim::AtomKind::Mod: return most ? max(right(true) - Dim(1), Dim(0)) : Dim(0);
    case Dim::AtomKind::FloorDiv: {
      // A divisor is at least 1 wherever the division is defined.
      const Dim divisor = right(!most);
      return floor_div(left(), divisor == Dim(0) ? Dim(1) : divisor);
    }
  }
  fail(ErrorKind::Internal, "a dimension of no kind");
}

Dim extreme(const Dim& dim, const std::map<std::string, Dim>& bounds, bool most) {
  Dim result;
  for (const Dim::Term& term : dim.terms()) {
    // No factor is negative, so a product is largest where its factors are largest.
    Dim product = term.coefficient;
    for (const Dim::AtomPtr& atom : term.factors) {
      const Dim factor = atom_dim(atom);
      product = product *
                (mentions(factor, bounds) ? extreme(*atom, bounds, most == (term.coefficient > 0)) : factor);
    }
    result = result + product;
  }
  return result;
}

}  // namespace

Dim largest(const Dim& dim, const std::map<std::string, Dim>& bounds) {
  return mentions(dim, bounds) ? extreme(dim, bounds, true) : dim;
}

Dim parse_dim(TextCursor& cursor) { return parse_sum(cursor); }

Dim parse_dim(const std::string& text) {
  TextCursor cursor(text, "dimension '" + printable(text, 80) + "'");
  Dim result = parse_sum(cursor);
  if (!cursor.at_end()) cursor.error("expected the end");
  return result;
}

std::string str(const Shape& shape) {
  std::string result = "[";
  for (size_t i = 0; i < shape.size(); ++i) result += (i ? ", " : "") + shape[i].str();
  return result + "]";
}

bool is_constant(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.is_constant(); });
}

Dim element_count(const Shape& shape) {
  Dim count(1);
  for (const Dim& dim : shape) count = count * dim;
  return count;
}

std::vector<int64_t> constant_shape(const Shape& shape) {
  std::vector<int64_t> result;
  for (const Dim& dim : shape) {
    TC_CHECK(dim.is_constant(), "in shape ", str(shape));
    result.push_back(dim.constant());
  }
  return result;
}

Shape shape_of(const std::vector<int64_t>& dims) { return Shape(dims.begin(), dims.end()); }

}  // namespace tc
