// Words of C: types, literals, names and comments.
#pragma once

#include <set>
#include <string>

#include "codegen/backend/c_names.h"
#include "ir/loop.h"

namespace tc::c {

// C's type that holds a value while computing: as in memory, but a bool is an int.
std::string value_type(DType dtype);
// The unsigned integer type of the same size.
std::string unsigned_type(DType dtype);

// The type of a vector of so many lanes; for one lane, the value's type. Lanes of bool are numbers of 32
// bits, 0 or -1.
std::string vector_type(DType dtype, int lanes);
// Whether compilers may have vectors of that many lanes; vectors of other counts are arrays.
bool has_vectors(int lanes);

std::string literal(DType dtype, double value);   // of float types
std::string literal(DType dtype, int64_t value);  // of others
std::string literal(const Expr& constant);        // of kind Const

// Text that stays inside a comment.
std::string in_comment(const std::string& text);

// The name; or a similar one where it is a keyword of C, or a name of the headers that sources include.
std::string c_name_of(const std::string& name);

// Names of one function; each is given once.
class Names {
 public:
  // The name itself where it is free, else with a number.
  std::string fresh(const std::string& wish);

 private:
  std::set<std::string> taken_;
};

}  // namespace tc::c
