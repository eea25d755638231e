// Element types of tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tc {

// X(enumerator, text, bytes, is_float, is_signed)
#define TC_FOR_EACH_DTYPE(X)      \
  X(F32, "f32", 4, true, true)    \
  X(F64, "f64", 8, true, true)    \
  X(F16, "f16", 2, true, true)    \
  X(BF16, "bf16", 2, true, true)  \
  X(I8, "i8", 1, false, true)     \
  X(I16, "i16", 2, false, true)   \
  X(I32, "i32", 4, false, true)   \
  X(I64, "i64", 8, false, true)   \
  X(U8, "u8", 1, false, false)    \
  X(U16, "u16", 2, false, false)  \
  X(U32, "u32", 4, false, false)  \
  X(U64, "u64", 8, false, false)  \
  X(Bool, "bool", 1, false, false)

enum class DType : uint8_t {
#define X(name, ...) name,
  TC_FOR_EACH_DTYPE(X)
#undef X
};

int64_t size_of(DType dtype);
const char* name_of(DType dtype);
bool is_float(DType dtype);
bool is_signed(DType dtype);
inline bool is_integer(DType dtype) { return !is_float(dtype) && dtype != DType::Bool; }

// The type whose text is `name`; throws a Model error naming the known types otherwise.
DType dtype_from_name(std::string_view name);

}  // namespace tc
