// int8x3: a sum of products with operands as two digits to base 256.
#include "scheduler/primitives/terms_product.h"

namespace tc {

Primitive int8x3_primitive() {
  return terms_primitive(
      "int8x3",
      "O += I * K  ->  three products of digits, added up in whole numbers, on the target's "
      "matrix unit: each number as two digits to base 256, I in units of a band's largest / "
      "127 / 256, K of a feature's. The product of the low digits is left out.");
}

}  // namespace tc
