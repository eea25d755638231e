// Affine integer expressions of named variables: the subscripts and bounds of the loop IR.
#include "ir/affine.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/text_cursor.h"

namespace tc {
namespace {

constexpr int64_t kUnbounded = int64_t{1} << 62;

int64_t checked_add(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) {
    fail(ErrorKind::Shape, "a subscript overflows 64 bits: ", a, " + ", b);
  }
  return result;
}

int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) {
    fail(ErrorKind::Shape, "a subscript overflows 64 bits: ", a, " * ", b);
  }
  return result;
}

int64_t saturate(__int128 value) {
  if (value > kUnbounded) return kUnbounded;
  if (value < -kUnbounded) return -kUnbounded;
  return static_cast<int64_t>(value);
}

}  // namespace

Affine Affine::variable(const std::string& name, int64_t coefficient) {
  Affine result;
  if (coefficient != 0) result.terms_.emplace_back(name, coefficient);
  return result;
}

int64_t Affine::coefficient(const std::string& name) const {
  for (const auto& [variable, value] : terms_) {
    if (variable == name) return value;
  }
  return 0;
}

bool Affine::is_multiple_of(int64_t number) const {
  return constant_ % number == 0 && std::all_of(terms_.begin(), terms_.end(),
                                                [&](const auto& term) { return term.second % number == 0; });
}

Affine Affine::divided_by(int64_t number) const {
  TC_CHECK(is_multiple_of(number), str(), " by ", number);
  Affine result(constant_ / number);
  for (const auto& [name, coefficient] : terms_) result.terms_.emplace_back(name, coefficient / number);
  return result;
}

std::string Affine::as_variable() const {
  bool single = constant_ == 0 && terms_.size() == 1 && terms_[0].second == 1;
  return single ? terms_[0].first : "";
}

Affine operator+(const Affine& a, const Affine& b) {
  Affine result;
  result.constant_ = checked_add(a.constant_, b.constant_);
  result.terms_.reserve(a.terms_.size() + b.terms_.size());
  auto left = a.terms_.begin(), right = b.terms_.begin();
  while (left != a.terms_.end() || right != b.terms_.end()) {
    if (right == b.terms_.end() || (left != a.terms_.end() && left->first < right->first)) {
      result.terms_.push_back(*left++);
    } else if (left == a.terms_.end() || right->first < left->first) {
      result.terms_.push_back(*right++);
    } else {
      int64_t sum = checked_add(left->second, right->second);
      if (sum != 0) result.terms_.emplace_back(left->first, sum);
      ++left;
      ++right;
    }
  }
  return result;
}

Affine operator*(const Affine& a, int64_t factor) {
  Affine result;
  if (factor == 0) return result;
  result.constant_ = checked_multiply(a.constant_, factor);
  for (const auto& [name, coefficient] : a.terms_) {
    result.terms_.emplace_back(name, checked_multiply(coefficient, factor));
  }
  return result;
}

Affine operator-(const Affine& a, const Affine& b) { return a + b * -1; }

Affine Affine::substitute(const std::map<std::string, Affine>& values) const {
  Affine result(constant_);
  for (const auto& [name, coefficient] : terms_) {
    auto found = values.find(name);
    result = result + (found == values.end() ? variable(name, coefficient) : found->second * coefficient);
  }
  return result;
}

int64_t Affine::evaluate(const std::map<std::string, int64_t>& values) const {
  int64_t result = constant_;
  for (const auto& [name, coefficient] : terms_) {
    auto found = values.find(name);
    TC_CHECK(found != values.end(), "a value for variable '", name, "' of `", str(), "`");
    result = checked_add(result, checked_multiply(coefficient, found->second));
  }
  return result;
}

std::string Affine::str() const {
  // As unsigned, so that the smallest integer has a magnitude.
  auto magnitude_of = [](int64_t value) {
    return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  };
  auto terms = terms_;
  std::stable_sort(terms.begin(), terms.end(), [&](const auto& a, const auto& b) {
    return magnitude_of(a.second) > magnitude_of(b.second);
  });
  std::string result;
  for (const auto& [name, coefficient] : terms) {
    uint64_t magnitude = magnitude_of(coefficient);
    if (result.empty()) {
      if (coefficient < 0) result += "-";
    } else {
      result += coefficient < 0 ? " - " : " + ";
    }
    if (magnitude != 1) result += std::to_string(magnitude) + "*";
    result += name;
  }
  if (result.empty()) return std::to_string(constant_);
  if (constant_ > 0) result += " + " + std::to_string(constant_);
  if (constant_ < 0) result += " - " + std::to_string(magnitude_of(constant_));
  return result;
}

Interval range_of(const Affine& affine, const std::map<std::string, Interval>& variables) {
  __int128 low = affine.constant(), high = affine.constant();
  for (const auto& [name, coefficient] : affine.terms()) {
    auto found = variables.find(name);
    if (found == variables.end()) return {-kUnbounded, kUnbounded};
    __int128 a = static_cast<__int128>(coefficient) * found->second.low;
    __int128 b = static_cast<__int128>(coefficient) * found->second.high;
    low += std::min(a, b);
    high += std::max(a, b);
  }
  return {saturate(low), saturate(high)};
}

Affine parse_affine(TextCursor& cursor) {
  Affine result;
  int64_t sign = cursor.peek_number() ? 1 : cursor.try_token("-") ? -1 : 1;
  do {
    int64_t coefficient = 1;
    std::string name;
    if (cursor.peek_number()) {
      coefficient = cursor.integer();
      if (cursor.try_token("*")) name = cursor.identifier();
    } else {
      name = cursor.identifier();
      if (cursor.try_token("*")) coefficient = cursor.integer();
    }
    coefficient = checked_multiply(coefficient, sign);
    result = result + (name.empty() ? Affine(coefficient) : Affine::variable(name, coefficient));
    // `+ {` starts the dynamic part of a subscript.
    size_t before = cursor.position();
    if (cursor.try_token("+")) {
      sign = 1;
      if (cursor.peek_char() == '{') {
        cursor.set_position(before);
        break;
      }
    } else if (cursor.try_token("-")) {
      sign = -1;
    } else {
      break;
    }
  } while (true);
  return result;
}

Affine parse_affine(const std::string& text) {
  TextCursor cursor(text, "affine expression");
  Affine result = parse_affine(cursor);
  if (!cursor.at_end()) cursor.error("expected the end");
  return result;
}

}  // namespace tc
