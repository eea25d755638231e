#include "ir/target/byte_products.h"

namespace tc {

int byte_products(const Target& target) {
  constexpr int kTogether = 4, kLeastBits = 256;
  return target.arch == Arch::X86_64 && target.vector_bits >= kLeastBits ? kTogether : 0;
}

bool has_byte_instruction(const Target& target, int64_t lanes, DType a, DType b) {
  return is_signed(a) != is_signed(b) && lanes <= target.byte_lanes;
}

}  // namespace tc
