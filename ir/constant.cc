// A constant of a plan: what it is made from and how. Its bytes are made on demand.
#include "ir/constant.h"

#include "ir/error.h"

namespace tc {
namespace {

// A kernel with all that pack() looks at: the buffer and its packing and, where the buffer holds scales, the
// buffer and the packing of the constant that they scale.
std::shared_ptr<const Kernel> packing_alone(const Kernel& kernel, const std::string& buffer) {
  auto alone = std::make_shared<Kernel>();
  alone->name = kernel.name;
  const auto take = [&](const std::string& name) {
    const Packing* packing = packing_of(kernel, name);
    TC_CHECK(packing != nullptr && kernel.buffer_index(name) >= 0, "a packing of '", name, "'");
    alone->buffers.push_back(kernel.buffers[static_cast<size_t>(kernel.buffer_index(name))]);
    alone->packings.push_back(*packing);
  };
  take(buffer);
  if (const std::string& original = original_of(kernel, buffer); original != buffer) take(original);
  return alone;
}

}  // namespace

PlanConstant::PlanConstant(TensorPtr plain)
    : original_(std::move(plain)),
      dtype_(original_->dtype),
      shape_(original_->shape),
      byte_count_(static_cast<int64_t>(original_->bytes.size())) {}

PlanConstant::PlanConstant(TensorPtr original, const Kernel& kernel, const std::string& buffer)
    : original_(std::move(original)), packing_(packing_alone(kernel, buffer)), buffer_(buffer) {
  const Buffer& packed = packing_->buffers[0];
  dtype_ = packed.dtype;
  for (const Affine& size : packed.shape) shape_.push_back(size.evaluate({}));
  byte_count_ = checked_count(shape_) * size_of(dtype_);
}

TensorPtr PlanConstant::make() const {
  TC_CHECK(original_ != nullptr, "a constant that was not released");
  if (!packing_) return original_;
  auto made = std::make_shared<const Tensor>(pack(*packing_of(*packing_, buffer_), *packing_, *original_));
  TC_CHECK(static_cast<int64_t>(made->bytes.size()) == byte_count_, "for packed buffer '", buffer_, "'");
  return made;
}

}  // namespace tc
