// The C functions that generated code calls. A source file defines those that its code uses, each once.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/loop.h"

namespace tc::c {

// Scalars and vectors of loop IR's types with the meaning of ir/loop.h. A number of lanes of 1 means
// scalars. The public methods return an expression of C, and add the definitions of the functions that it
// calls; the private ones return names of functions.
class Functions {
 public:
  // The operands are atoms or calls.
  std::string unary(UnaryOp op, DType dtype, int lanes, const std::string& a);
  std::string binary(BinaryOp op, DType dtype, int lanes, const std::string& a, const std::string& b);
  std::string cast(DType from, DType to, int lanes, const std::string& a);
  // `next` combined with the reduction's result so far.
  std::string combine(Reduction reduction, DType dtype, int lanes, const std::string& before,
                      const std::string& next);
  // The lanes of a vector combined.
  std::string reduce(Reduction reduction, DType dtype, int lanes, const std::string& vector);

  std::string splat(DType dtype, int lanes, const std::string& scalar);
  // a * b + c of vectors of floats; `axpy` takes a scalar a.
  std::string multiply_add(DType dtype, int lanes, const std::string& a, const std::string& b,
                           const std::string& c);
  std::string axpy(DType dtype, int lanes, const std::string& a, const std::string& b, const std::string& c);
  // a where the lane of the mask is set, else b.
  std::string select(DType dtype, int lanes, const std::string& mask, const std::string& a,
                     const std::string& b);
  std::string any(int lanes, const std::string& mask);
  // ramp() has the lanes base + step * lane, of i64; at_least_zero() is the mask of lanes in which that is
  // not negative.
  std::string ramp(int lanes, const std::string& base, int64_t step);
  std::string at_least_zero(int lanes, const std::string& base, int64_t step);

  // Lanes that are adjacent in memory, from an address on.
  std::string load(DType dtype, int lanes, const std::string& address);
  std::string store(DType dtype, int lanes, const std::string& address, const std::string& value);
  // Lanes anywhere in memory: `step` elements from one to the next, or at `places`, a vector of i64 that
  // counts elements. Where there is a mask and it is not set, a lane is not read, which gives 0, or not
  // written.
  struct Lanes {
    std::string step, places, mask;
  };
  std::string load(DType dtype, int lanes, const std::string& address, const Lanes& where);
  std::string store(DType dtype, int lanes, const std::string& address, const std::string& value,
                    const Lanes& where);
  // One lane of a vector, to read or to assign to.
  std::string lane(DType dtype, int lanes, const std::string& vector, int lane);

  // Integer helpers: tc_minimum, tc_maximum and tc_floor_divide of int64_t.
  void use_integers();

  // Declares the type of a vector.
  void use_type(DType dtype, int lanes);
  // Whether the name has no definition yet; the caller then has to define it.
  bool begins(const std::string& name) { return known_.insert(name).second; }
  void define(const std::string& text) { definitions_.push_back(text); }
  // All definitions, each after those that it uses.
  std::string definitions() const;

 private:
  // The body, in several lines, of a function of the vector `a` for compilers with vectors; empty where
  // there is none.
  std::string vector_body(UnaryOp op, DType dtype, int lanes);
  std::string load_run(DType dtype, int lanes, const std::string& address, const std::string& mask);
  std::string store_run(DType dtype, int lanes, const std::string& address, const std::string& value,
                        const std::string& mask);
  // Names of scalar functions, whose definitions are added.
  std::string scalar(UnaryOp op, DType dtype);
  std::string scalar(BinaryOp op, DType dtype);
  std::string scalar_cast(DType from, DType to);
  std::string encode(DType to);    // of a double
  std::string decode(DType from);  // to a float

  std::set<std::string> known_;
  std::vector<std::string> definitions_;
};

// Shl or Shr of a vector of integers by a number of bits below those of its lanes.
std::string shift(Functions& functions, BinaryOp op, DType dtype, int lanes, const std::string& a,
                  int64_t bits);

// byte_products.cc. The products of two vectors of i32, as numbers of 64 bits, shifted right by `bits` (32 at
// most) and cut to 32 bits.
std::string multiply_shift(Functions& functions, int lanes, const std::string& a, const std::string& b,
                           int64_t bits);
// Words of four bytes: the name of a function that reads one, and a vector of them.
std::string load_word(Functions& functions);
std::string load_words(Functions& functions, int lanes, const std::string& address);
// `sums` of i32, to each of which the products of the four bytes of the word `a` with those of the lane's
// word of `b` are added.
std::string add_byte_products(Functions& functions, int lanes, std::pair<DType, DType> types,
                              const std::string& sums, const std::string& a, const std::string& b);

// The body of a scalar function as an expression of `a` (and `b`), with the meaning of the operator.
std::string scalar_expression(UnaryOp op, DType dtype);
std::string scalar_expression(BinaryOp op, DType dtype);
std::string cast_expression(DType from, DType to);  // between types that C has, but for bool
// One expression of GCC's and Clang's vectors `a` and `b`; empty where one is not enough.
std::string vector_expression(UnaryOp op, DType dtype, int lanes);
std::string vector_expression(BinaryOp op, DType dtype, int lanes);

}  // namespace tc::c
