#include "ir/target/byte_products.h"

namespace tc {

int byte_products(const Target& target) {
  constexpr int kTogether = 4, kLeastBits = 256;
  return target.arch == Arch::X86_64 && target.vector_bits >= kLeastBits ? kTogether : 0;
}

}  // namespace tc
