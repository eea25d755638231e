// Affine integer expressions of named variables: the subscripts and bounds of the loop IR.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tc {

// constant + sum of coefficient * variable. Variables are iterators or parameters of a kernel, identified by
// name. Terms are sorted by name and have no zero coefficients. Arithmetic is checked.
class Affine {
 public:
  Affine() = default;
  Affine(int64_t constant) : constant_(constant) {}  // NOLINT
  Affine(int constant) : constant_(constant) {}
  static Affine variable(const std::string& name, int64_t coefficient = 1);

  int64_t constant() const { return constant_; }
  int64_t coefficient(const std::string& name) const;  // 0 where absent
  const std::vector<std::pair<std::string, int64_t>>& terms() const { return terms_; }
  bool is_constant() const { return terms_.empty(); }
  // The single variable of an expression that is exactly `1*name + 0`, else the empty string.
  std::string as_variable() const;

  // Whether the value is a multiple of the positive number whatever the variables are; if so, `divided_by`
  // gives the value divided by it.
  bool is_multiple_of(int64_t number) const;
  Affine divided_by(int64_t number) const;

  // Replaces variables; those not in the map stay.
  Affine substitute(const std::map<std::string, Affine>& values) const;
  // Value with every variable bound; Internal error for a missing one.
  int64_t evaluate(const std::map<std::string, int64_t>& values) const;

  // `2*x + s - 1`: the largest coefficient first.
  std::string str() const;

  friend Affine operator+(const Affine& a, const Affine& b);
  friend Affine operator-(const Affine& a, const Affine& b);
  friend Affine operator*(const Affine& a, int64_t factor);
  friend bool operator==(const Affine& a, const Affine& b) {
    return a.constant_ == b.constant_ && a.terms_ == b.terms_;
  }
  friend bool operator!=(const Affine& a, const Affine& b) { return !(a == b); }

 private:
  int64_t constant_ = 0;
  std::vector<std::pair<std::string, int64_t>> terms_;
};

// A range of integers, both ends included; empty where low > high.
struct Interval {
  int64_t low, high;
};
// The range of the expression where each variable moves in its interval; saturates at +-2^62.
// Variables without an interval make the result unbounded.
Interval range_of(const Affine& affine, const std::map<std::string, Interval>& variables);

// Reads what str() writes.
Affine parse_affine(const std::string& text);

}  // namespace tc
