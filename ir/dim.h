// Dimensions of tensors: integers, or expressions of named symbols such as `batch` and `seq`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tc {

// A polynomial with integer coefficients over atoms. An atom is a symbol, or floor(a/b), a mod b,
// min(a,b), max(a,b) of two Dims. Kept in a canonical order, so that equal text means equal Dim;
// different texts may still be equal for all values (nothing tries to prove that).
// All symbols represent integers >= 0. Arithmetic is checked: overflow throws a Shape error.
class Dim {
 public:
  enum class AtomKind { Symbol, FloorDiv, Mod, Min, Max };
  struct Atom;
  using AtomPtr = std::shared_ptr<const Atom>;
  // A product of atoms in canonical order (by text); the empty product is 1.
  using Monomial = std::vector<AtomPtr>;
  struct Term {
    Monomial factors;
    int64_t coefficient;
  };

  Dim() = default;     // 0
  Dim(int64_t value);  // NOLINT: integers are dimensions
  Dim(int value) : Dim(static_cast<int64_t>(value)) {}
  static Dim symbol(const std::string& name);

  bool is_constant() const { return terms_.empty() || (terms_.size() == 1 && terms_[0].factors.empty()); }
  int64_t constant() const;  // requires is_constant()
  // True where the Dim is exactly one symbol.
  bool is_symbol() const;

  const std::vector<Term>& terms() const { return terms_; }
  void collect_symbols(std::set<std::string>& names) const;

  // The value with the symbols bound; a missing symbol throws a Shape error naming it.
  int64_t evaluate(const std::map<std::string, int64_t>& symbols) const;
  // The Dim with some symbols replaced by Dims.
  Dim substitute(const std::map<std::string, Dim>& symbols) const;

  // `3*seq + 4*floor(batch/2) + 1`; parse_dim reads it back.
  std::string str() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b) { return a.str() == b.str(); }
  friend bool operator!=(const Dim& a, const Dim& b) { return !(a == b); }

 private:
  std::vector<Term> terms_;  // no zero coefficients; sorted by the monomials' texts
  friend Dim atom_dim(AtomPtr atom);
  friend Dim normalized(std::vector<Term> terms);
};

struct Dim::Atom {
  AtomKind kind;
  std::string name;  // Symbol only
  Dim left, right;   // operands of the other kinds
  std::string text;  // canonical
};

// Floor division and the non-negative remainder; the divisor must not be the constant 0
// (Shape error). Exact where every term divides: floor_div(4*n, 2) is 2*n.
Dim floor_div(const Dim& a, const Dim& b);
Dim ceil_div(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);

// An upper bound of `dim`, in the symbols that are not in `bounds`, where each symbol of `bounds` lies
// between 0 and the Dim that `bounds` gives for it.
Dim largest(const Dim& dim, const std::map<std::string, Dim>& bounds);

// Reads what str() writes; throws a Model error with the position otherwise.
Dim parse_dim(const std::string& text);

using Shape = std::vector<Dim>;
std::string str(const Shape& shape);  // `[1, 3, seq, 4]`
bool is_constant(const Shape& shape);
Dim element_count(const Shape& shape);
// The integers of a constant shape.
std::vector<int64_t> constant_shape(const Shape& shape);
Shape shape_of(const std::vector<int64_t>& dims);

}  // namespace tc
