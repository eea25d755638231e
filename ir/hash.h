// A hash that is the same on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace tc {

// FNV-1a (Fowler, Noll, Vo), 64 bits: for names and look-ups, not against who chooses the bytes.
inline uint64_t fnv1a(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace tc
