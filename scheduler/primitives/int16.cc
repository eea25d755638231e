// int16: a sum of products with operands as whole numbers of 16 bits.
#include "scheduler/primitives/terms_product.h"

namespace tc {

Primitive int16_primitive() {
  return terms_primitive(
      "int16",
      "O += I * K  ->  O += i16(I) * i16(K), added up in whole numbers, on the target's matrix "
      "unit: I in units of a band's largest / 16383, K in units such that the magnitudes of a "
      "feature's numbers add up to 131000 at most.");
}

}  // namespace tc
