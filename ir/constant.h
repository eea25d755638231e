// A constant of a plan: what it is made from and how. Its bytes are made on demand.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ir/loop.h"
#include "ir/tensor.h"

namespace tc {

// Packed constants may be several times as large as the model's file. A plan therefore shares the originals
// with the graph, and makes the bytes of one constant on demand.
class PlanConstant {
 public:
  // The tensor as it is.
  explicit PlanConstant(TensorPtr plain);
  // What the kernel's buffer, which has a packing, holds.
  PlanConstant(TensorPtr original, const Kernel& kernel, const std::string& buffer);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t byte_count() const { return byte_count_; }
  // What its offset in the artefact is a multiple of.
  int64_t alignment() const { return alignment_; }
  // Aligns it for loads of single elements alone.
  void pack_tightly() { alignment_ = std::max<int64_t>(1, size_of(dtype_)); }
  // The bytes: packed now, or the plain tensor itself without a copy.
  TensorPtr make() const;
  // Drops the reference to the original; make() cannot be called from then on.
  void release() { original_.reset(); }

 private:
  TensorPtr original_;
  std::shared_ptr<const Kernel> packing_;  // a kernel of this one constant alone; null: not packed
  std::string buffer_;
  DType dtype_;
  std::vector<int64_t> shape_;
  int64_t byte_count_;
  int64_t alignment_ = 64;
};

}  // namespace tc
