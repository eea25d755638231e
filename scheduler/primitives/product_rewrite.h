// What the algorithms share: the sum of products that they replace, its operands, names and buffers.
#pragma once

#include <string>
#include <vector>

#include "scheduler/core/rewriting.h"

namespace tc {

class ProductRewrite {
 protected:
  // For the statement with this number: the sum.
  ProductRewrite(const ScheduleState& state, size_t statement);

  // Finds the input and the constant that the statement multiplies in f32 (bytes, in i32) and sums up;
  // refuses where it does something else, or where the constant is read elsewhere or packed.
  void find_operands();
  // The same for a constant that may be packed.
  void find_product();
  // Inserts a constant for the scales of the constant's numbers, after it among the arguments; returns its
  // place.
  int insert_scales();
  // Refuses where operands or result are indexed by data.
  void refuse_dynamic() const;

  const Buffer& buffer(int which) const { return kernel_.buffers[static_cast<size_t>(which)]; }
  // The extent of an iterator of the statement; refuses a symbolic one.
  int64_t extent(const std::string& iterator) const;

  // Names that nothing in the kernel has; a statement's begins with that of the sum.
  std::string fresh(const std::string& base) const;
  std::string fresh_statement(const std::string& suffix) const;
  // Adds a private buffer called `stem`, or `stem` with a number; returns its place.
  int add_local(const std::string& stem, DType dtype, std::vector<Affine> shape);

  static Access access_at(int buffer, const std::vector<Affine>& index);
  static Affine var(const std::string& name, int64_t factor = 1) { return Affine::variable(name, factor); }

  const ScheduleState& state_;
  Kernel kernel_;
  size_t which_ = 0;  // the sum's number
  Statement macc_;    // the sum
  Access input_, constant_;
  bool bytes_ = false;  // the operands are
  // Whether a constant of f16 or bf16 that the statement converts to f32 is accepted.
  bool narrow_constants_ = false;
};

}  // namespace tc
