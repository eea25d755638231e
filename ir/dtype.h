// Element types of tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tc {

// X(enumerator, text, bits, is_float, is_signed). An element of fewer than 8 bits takes a whole byte.
#define TC_FOR_EACH_DTYPE(X)                 \
  X(F32, "f32", 32, true, true)              \
  X(F64, "f64", 64, true, true)              \
  X(F16, "f16", 16, true, true)              \
  X(BF16, "bf16", 16, true, true)            \
  X(I8, "i8", 8, false, true)                \
  X(I16, "i16", 16, false, true)             \
  X(I32, "i32", 32, false, true)             \
  X(I64, "i64", 64, false, true)             \
  X(U8, "u8", 8, false, false)               \
  X(U16, "u16", 16, false, false)            \
  X(U32, "u32", 32, false, false)            \
  X(U64, "u64", 64, false, false)            \
  X(Bool, "bool", 8, false, false)           \
  X(F8E4M3FN, "f8e4m3fn", 8, true, true)     \
  X(F8E4M3FNUZ, "f8e4m3fnuz", 8, true, true) \
  X(F8E5M2, "f8e5m2", 8, true, true)         \
  X(F8E5M2FNUZ, "f8e5m2fnuz", 8, true, true) \
  X(F8E8M0, "f8e8m0", 8, true, false)        \
  X(F4E2M1, "f4e2m1", 4, true, true)         \
  X(I4, "i4", 4, false, true)                \
  X(U4, "u4", 4, false, false)               \
  X(I2, "i2", 2, false, true)                \
  X(U2, "u2", 2, false, false)

enum class DType : uint8_t {
#define X(name, ...) name,
  TC_FOR_EACH_DTYPE(X)
#undef X
};

int64_t size_of(DType dtype);  // bytes of an element
int64_t bits_of(DType dtype);
const char* name_of(DType dtype);
bool is_float(DType dtype);
bool is_signed(DType dtype);
// True for floats of 8 and 4 bits (ir/narrow_float.h).
bool is_narrow_float(DType dtype);
// True for types that are only loaded, stored and cast: narrow floats, f16, bf16, integers of less than 8
// bits.
bool is_storage(DType dtype);
// The type in which values of the type are computed: f32, i8 or u8 for storage types, else the type itself.
DType computed_type(DType dtype);
inline bool is_integer(DType dtype) { return !is_float(dtype) && dtype != DType::Bool; }

// The type whose text is `name`; throws a Model error naming the known types otherwise.
DType dtype_from_name(std::string_view name);

}  // namespace tc
