// bf16x3: a sum of products with operands as sums of two bf16 numbers.
#include "scheduler/primitives/terms_product.h"

namespace tc {

Primitive bf16x3_primitive() {
  return terms_primitive(
      "bf16x3",
      "O += I * K  ->  H = bf16(I); L = bf16(I - H); O += H * KH + H * KL + L * KH, where KH "
      "+ KL is K, on the target's matrix unit. K is divided while compiling.");
}

}  // namespace tc
