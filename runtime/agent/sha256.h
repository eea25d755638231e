// SHA-256 (FIPS 180-4).
#pragma once

#include <cstdint>
#include <string>

namespace tc::agent {

// 64 digits of lower-case hex.
std::string sha256(const void* data, int64_t bytes);

}  // namespace tc::agent
