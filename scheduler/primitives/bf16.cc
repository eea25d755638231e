// bf16: a sum of products with operands rounded to bf16.
#include "scheduler/primitives/terms_product.h"

namespace tc {

Primitive bf16_primitive() {
  return terms_primitive(
      "bf16",
      "O += I * K  ->  O += bf16(I) * bf16(K), added up in f32, on the target's matrix unit. "
      "K is rounded while compiling.");
}

}  // namespace tc
