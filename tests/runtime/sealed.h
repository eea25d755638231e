// A library's bytes with the checksum of artefacts behind them.
#pragma once

#include <string>

#include "runtime/checksum.h"

namespace tc {

inline std::string sealed(std::string library) {
  runtime::Checksum checksum;
  runtime::Seal seal;
  memcpy(seal.mark, runtime::kSealMark, sizeof seal.mark);
  checksum.add(library.data(), library.size());
  checksum.add(seal.mark, sizeof seal.mark);
  seal.checksum = checksum.value();
  return library.append(reinterpret_cast<const char*>(&seal), sizeof seal);
}

}  // namespace tc
