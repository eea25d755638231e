// The constants of a plan, each stored once.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/constant.h"
#include "ir/loop.h"
#include "ir/tensor.h"

namespace tc {

// How a constant is stored whose elements are only moved: the packing, and the stored type and shape.
struct StoredForm {
  DType dtype = DType::F32;
  Packing packing;
  std::vector<Affine> shape;
};

// Gives a number to each form of a constant tensor that kernels read, and keeps what is needed to make that
// form. Large tensors are not packed here.
class ConstantStore {
 public:
  // The number of the unpacked tensor.
  int index_of(const TensorPtr& tensor);
  // The number of the tensor packed as `packing` says, in the form that the kernel's buffer holds.
  int index_of(const TensorPtr& tensor, const Packing& packing, const Kernel& kernel);

  // A form of the tensor that is stored already and only moves its elements, or nothing.
  std::optional<StoredForm> moved_form(const TensorPtr& tensor) const;

  const PlanConstant& operator[](int index) const { return constants_.at(static_cast<size_t>(index)); }
  // All of them, in order of their numbers.
  const std::vector<PlanConstant>& all() const { return constants_; }

 private:
  int content_of(const TensorPtr& tensor);
  int known_content(const Tensor& tensor) const;  // -1 where there is none
  int stored(int content, const std::string& how, const std::function<PlanConstant()>& make);

  std::vector<PlanConstant> constants_;
  std::map<std::pair<const Tensor*, std::string>, int> known_;  // numbers by tensor and recipe
  std::vector<TensorPtr> kept_;                                 // keeps the keys of known_ alive
  std::vector<TensorPtr> contents_;                             // one tensor for all that have equal bytes
  std::map<size_t, std::vector<int>> by_hash_;                  // positions in contents_
  std::map<std::pair<int, std::string>, int> stored_;           // numbers by position in contents_ and recipe
  std::map<int, StoredForm> moved_;  // by position in contents_: the first such form
};

}  // namespace tc
