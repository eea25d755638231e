// uint8: a sum of products of bytes, in the order of a matrix unit.
#include "scheduler/primitives/terms_product.h"

namespace tc {

Primitive uint8_primitive() {
  return terms_primitive(
      "uint8",
      "O += i32(I) * i32(K), of unsigned bytes and signed constants, on the target's matrix unit: the same "
      "sums, with a band of I copied to where the unit's rows are next to each other.");
}

}  // namespace tc
