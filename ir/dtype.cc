// Element types of tensors.
#include "ir/dtype.h"

#include "ir/error.h"

namespace tc {
namespace {

struct DTypeRow {
  const char* name;
  int64_t bits;
  bool is_float, is_signed;
};

constexpr DTypeRow kRows[] = {
#define X(enumerator, text, bits, is_float, is_signed) {text, bits, is_float, is_signed},
    TC_FOR_EACH_DTYPE(X)
#undef X
};

const DTypeRow& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

int64_t size_of(DType dtype) { return (row(dtype).bits + 7) / 8; }
int64_t bits_of(DType dtype) { return row(dtype).bits; }
const char* name_of(DType dtype) { return row(dtype).name; }
bool is_float(DType dtype) { return row(dtype).is_float; }
bool is_signed(DType dtype) { return row(dtype).is_signed; }
bool is_narrow_float(DType dtype) { return is_float(dtype) && bits_of(dtype) <= 8; }
bool is_storage(DType dtype) { return bits_of(dtype) < (is_float(dtype) ? 32 : 8); }

DType computed_type(DType dtype) {
  if (!is_storage(dtype)) return dtype;
  return is_float(dtype) ? DType::F32 : is_signed(dtype) ? DType::I8 : DType::U8;
}

DType dtype_from_name(std::string_view name) {
  std::string known;
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (name == kRows[i].name) return static_cast<DType>(i);
    known += text(i ? ", " : "", kRows[i].name);
  }
  fail(ErrorKind::Model, "unknown element type '", name, "'; the types are ", known);
}

}  // namespace tc
