// int8x6: a sum of products with operands as three digits to base 256.
#include "scheduler/primitives/terms_product.h"

namespace tc {

Primitive int8x6_primitive() {
  return terms_primitive(
      "int8x6",
      "O += I * K  ->  six products of digits, added up in whole numbers, on the target's "
      "matrix unit: each number as three digits to base 256, I in units of a band's largest / "
      "127 / 256^2, K of a feature's. What is below the lowest digit's order is left out.");
}

}  // namespace tc
