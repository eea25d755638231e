#include "ir/target/byte_products.h"

namespace tc {

int byte_products(const Target& target) {
  constexpr int kTogether = 4, kLeastBits = 256;
  return target.arch == Arch::X86_64 && target.vector_bits >= kLeastBits ? kTogether : 0;
}

bool has_byte_instruction(const Target& target, int64_t lanes, DType a, DType b) {
  constexpr int kOfEight = 8;
  const auto has = [&](const char* feature) { return ("," + target.features + ",").find(std::string(",+") + feature + ",") != std::string::npos; };
  return is_signed(a) != is_signed(b) && (has("avx512vnni") || (has("avxvnni") && lanes == kOfEight));
}

}  // namespace tc
