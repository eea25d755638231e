#include "frontend/pipeline/small_constants.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace tc {
namespace {

// Whether all elements have the same bytes.
bool is_even(const Tensor& tensor) {
  const std::vector<uint8_t>& bytes = tensor.bytes;
  const auto size = static_cast<std::ptrdiff_t>(tensor.count() > 0 ? bytes.size() / tensor.count() : 0);
  return size > 0 && std::equal(bytes.begin() + size, bytes.end(), bytes.begin());
}

// The constant as an expression.
ExprPtr number_of(const Tensor& tensor) {
  return is_float(tensor.dtype) ? constant(tensor.dtype, tensor.as_double(0))
                                : int_constant(tensor.dtype, tensor.as_int(0));
}

// The integers in the shortest signed type that holds them; null where it is not shorter.
TensorPtr shortened(const Tensor& tensor) {
  if (tensor.dtype != DType::I64 && tensor.dtype != DType::I32 && tensor.dtype != DType::I16) return nullptr;
  int64_t low = 0, high = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    low = std::min(low, tensor.as_int(i));
    high = std::max(high, tensor.as_int(i));
  }
  for (const DType dtype : {DType::I8, DType::I16, DType::I32}) {
    const int64_t end = int64_t{1} << (8 * size_of(dtype) - 1);
    if (size_of(dtype) >= size_of(tensor.dtype)) return nullptr;
    if (low < -end || high >= end) continue;
    auto result = std::make_shared<Tensor>(dtype, tensor.shape);
    for (int64_t i = 0; i < tensor.count(); ++i) result->set_int(i, tensor.as_int(i));
    return result;
  }
  return nullptr;
}

using ChangeLoad = std::function<ExprPtr(const Expr& load)>;

// The expression with each load, also those in subscripts, replaced by what `change` makes of it.
ExprPtr with_loads(const ExprPtr& expr, const ChangeLoad& change) {
  return rewrite(expr, [&](const ExprPtr& each) -> ExprPtr {
    if (each->kind != Expr::Kind::Load) return nullptr;
    Expr load = *each;
    for (Subscript& subscript : load.access.index) {
      if (subscript.dynamic) subscript.dynamic = with_loads(subscript.dynamic, change);
    }
    return change(load);
  });
}

void change_loads(Kernel& kernel, const ChangeLoad& change) {
  for (Statement& statement : kernel.statements) {
    statement.value = with_loads(statement.value, change);
    for (Subscript& subscript : statement.write.index) {
      if (subscript.dynamic) subscript.dynamic = with_loads(subscript.dynamic, change);
    }
  }
}

// Removes a buffer that no statement writes; loads of it become the number.
void replace_buffer(Kernel& kernel, int buffer, const ExprPtr& number) {
  const auto moved = [&](int other) { return other > buffer ? other - 1 : other; };
  change_loads(kernel, [&](Expr load) -> ExprPtr {
    if (load.access.buffer == buffer) return number;
    load.access.buffer = moved(load.access.buffer);
    return std::make_shared<Expr>(std::move(load));
  });
  for (Statement& statement : kernel.statements) statement.write.buffer = moved(statement.write.buffer);
  kernel.buffers.erase(kernel.buffers.begin() + buffer);
}

// Makes the buffer one of shorter integers.
void shorten_buffer(Kernel& kernel, int buffer, DType dtype) {
  DType& own = kernel.buffers[static_cast<size_t>(buffer)].dtype;
  const DType whole = std::exchange(own, dtype);
  change_loads(kernel, [&](Expr load) -> ExprPtr {
    const bool is_changed = load.access.buffer == buffer;
    if (is_changed) load.dtype = dtype;
    const ExprPtr result = std::make_shared<Expr>(std::move(load));
    return is_changed ? cast(whole, result) : result;
  });
}

}  // namespace

std::map<std::string, TensorPtr> shrink_constants(const Graph& graph, KernelPart& part) {
  Kernel& kernel = part.kernel;
  std::map<std::string, TensorPtr> result;
  std::vector<ValueId> arguments;
  size_t number = 0;  // of the argument
  for (int i = 0; i < static_cast<int>(kernel.buffers.size());) {
    const Buffer& buffer = kernel.buffers[static_cast<size_t>(i)];
    if (!is_argument(buffer)) {
      ++i;
      continue;
    }
    const ValueId value = part.arguments.at(number++);
    const TensorPtr tensor = buffer.scope == Scope::Constant ? graph[value].constant : nullptr;
    const bool is_plain = tensor && tensor->dtype == buffer.dtype && !is_storage(buffer.dtype);
    if (is_plain && is_even(*tensor)) {
      replace_buffer(kernel, i, number_of(*tensor));
      continue;
    }
    if (const TensorPtr made = is_plain ? shortened(*tensor) : nullptr) {
      result[buffer.name] = made;
      shorten_buffer(kernel, i, made->dtype);
    }
    arguments.push_back(value);
    ++i;
  }
  part.arguments = std::move(arguments);
  return result;
}

}  // namespace tc
