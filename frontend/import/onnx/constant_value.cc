#include "frontend/import/onnx/constant_value.h"

#include "ir/error.h"

namespace tc {
namespace {

TensorPtr floats(std::vector<int64_t> shape, const std::vector<double>& values) {
  auto tensor = std::make_shared<Tensor>(DType::F32, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor->set(static_cast<int64_t>(i), values[i]);
  return tensor;
}

TensorPtr integers(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  auto tensor = std::make_shared<Tensor>(DType::I64, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor->set_int(static_cast<int64_t>(i), values[i]);
  return tensor;
}

}  // namespace

TensorPtr tensor_of(const Node& node, const Attribute& attribute) {
  if (const auto* tensor = std::get_if<TensorPtr>(&attribute)) return *tensor;
  if (const auto* number = std::get_if<double>(&attribute)) return floats({}, {*number});
  if (const auto* integer = std::get_if<int64_t>(&attribute)) return integers({}, {*integer});
  if (const auto* list = std::get_if<std::vector<double>>(&attribute))
    return floats({static_cast<int64_t>(list->size())}, *list);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute))
    return integers({static_cast<int64_t>(list->size())}, *list);
  fail(ErrorKind::Unsupported, node.origin.str(), ": a constant of strings is not supported");
}

}  // namespace tc
