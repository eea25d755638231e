// Element types of tensors.
#include "ir/dtype.h"

#include "ir/error.h"

namespace tc {
namespace {

struct DTypeRow {
  const char* name;
  int64_t bytes;
  bool is_float, is_signed;
};

constexpr DTypeRow kRows[] = {
#define X(enumerator, text, bytes, is_float, is_signed) {text, bytes, is_float, is_signed},
    TC_FOR_EACH_DTYPE(X)
#undef X
};

const DTypeRow& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

int64_t size_of(DType dtype) { return row(dtype).bytes; }
const char* name_of(DType dtype) { return row(dtype).name; }
bool is_float(DType dtype) { return row(dtype).is_float; }
bool is_signed(DType dtype) { return row(dtype).is_signed; }

DType dtype_from_name(std::string_view name) {
  std::string known;
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (name == kRows[i].name) return static_cast<DType>(i);
    known += text(i ? ", " : "", kRows[i].name);
  }
  fail(ErrorKind::Model, "unknown element type '", name, "'; the types are ", known);
}

}  // namespace tc
