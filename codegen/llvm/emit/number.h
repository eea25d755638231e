// LLVM values that read like numbers: operators for code that generates arithmetic.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>

namespace tc {

// A scalar or vector of floats, integers (signed where it matters) or conditions. Operations emit
// instructions at the builder's insertion point; constants take the other operand's type.
class Number {
 public:
  Number() = default;
  Number(llvm::IRBuilder<>& builder, llvm::Value* value) : builder_(&builder), value_(value) {}
  llvm::Value* value() const { return value_; }

  // A constant of this number's type.
  Number same(double value) const;
  Number nan() const;

  Number operator-() const;
  Number operator!() const;
  Number operator+(const Number& other) const;
  Number operator-(const Number& other) const;
  Number operator*(const Number& other) const;
  Number operator/(const Number& other) const;
  Number operator+(double other) const { return *this + same(other); }
  Number operator-(double other) const { return *this - same(other); }
  Number operator*(double other) const { return *this * same(other); }
  Number operator&(const Number& other) const;
  Number operator|(const Number& other) const;
  Number operator^(const Number& other) const;
  Number operator&(int64_t other) const { return *this & integer(other); }
  Number operator|(int64_t other) const { return *this | integer(other); }

  // Comparisons are false for NaN, `!=` is true.
  Number operator<(const Number& other) const;
  Number operator>(const Number& other) const { return other < *this; }
  Number operator==(const Number& other) const;
  Number operator!=(const Number& other) const;
  Number operator<(double other) const { return *this < same(other); }
  Number operator>(double other) const { return *this > same(other); }
  Number operator>=(double other) const;
  Number operator==(double other) const { return *this == same(other); }
  Number operator!=(double other) const { return *this != same(other); }

  // Floats.
  Number abs() const;
  Number sqrt() const;
  Number round_even() const;
  Number copy_sign(const Number& sign) const;
  Number sign_bit() const;
  Number is_nan() const;
  Number bits() const;            // as integers of the same width
  Number extend_float() const;    // f32 to f64
  Number truncate_float() const;  // f64 to f32

  // Integers.
  Number minus(int64_t other) const { return *this - integer(other); }
  Number times(int64_t other) const;
  Number shift_left(int64_t count) const;
  Number shift_right(int64_t count) const;
  Number shift_right_signed(int64_t count) const;
  Number as_float() const;  // the bits of a float of the same width
  Number to_float() const;  // the value, in the float of the same width
  Number to_double() const;
  Number extend() const;  // i32 to i64, signed
  // Elements of a table of this number's float type, one per lane.
  Number gather(llvm::Value* table, const Number& index) const;

 private:
  Number integer(int64_t value) const;
  Number wrap(llvm::Value* value) const { return Number(*builder_, value); }
  bool is_float() const { return value_->getType()->isFPOrFPVectorTy(); }
  llvm::Type* shaped(llvm::Type* scalar) const;

  llvm::IRBuilder<>* builder_ = nullptr;
  llvm::Value* value_ = nullptr;

  friend Number fma(const Number& a, const Number& b, const Number& c);
  friend Number select(const Number& condition, const Number& a, const Number& b);
};

// a * b + c, rounded once.
Number fma(const Number& a, const Number& b, const Number& c);
Number select(const Number& condition, const Number& a, const Number& b);

}  // namespace tc
