// An accelerator for tests: `array`, which multiplies bytes in blocks of up to 8 x 8 x 8.
#pragma once

#include "ir/accelerator.h"

namespace tc::testing {

inline AcceleratorInstruction instruction(const std::string& name, const std::string& unit,
                                          const std::string& meaning, std::vector<std::string> memories,
                                          const std::string& cycles, const std::vector<std::string>& names) {
  return {name, unit, parse_kernel("kernel " + name + "\n" + meaning), std::move(memories),
          parse_cycles(cycles, names, "cycles")};
}

inline Accelerator test_accelerator() {
  Accelerator made{"array", {{"tiles", 4096, 8}, {"sums", 2048, 8}}, {}, 8, 1};
  const std::string ij = "parameter ni = ni in [1, 512]\nparameter nj = nj in [1, 1024]\n";
  const auto copy = [&](const std::string& name, const std::string& type, const std::string& to,
                        const std::string& from) {
    made.instructions.push_back(instruction(name, to.empty() ? "store" : "load",
                                            ij + "input a " + type + "[ni, nj]\noutput b " + type +
                                                "[ni, nj]\ncopy[i:ni, j:nj]: b[i, j] = a[i, j]",
                                            {from, to}, "10 + i * ceil(j, 8)", {"i", "j"}));
  };
  copy("LOAD_U8", "u8", "tiles", "");
  copy("LOAD_I8", "i8", "tiles", "");
  copy("STORE_I32", "i32", "", "sums");
  made.instructions.push_back(instruction("CLEAR", "load",
                                          ij + "output b i32[ni, nj]\nclear[i:ni, j:nj]: b[i, j] = 0",
                                          {"sums"}, "i * j", {"i", "j"}));
  made.instructions.push_back(instruction("BORDER", "load",
                                          ij + "output b u8[ni, nj]\nclear[i:ni, j:nj]: b[i, j] = 0",
                                          {"tiles"}, "i * j", {"i", "j"}));
  made.instructions.push_back(instruction(
      "MULTIPLY", "array",
      "parameter nm = nm in [1, 8]\nparameter nn = nn in [1, 8]\nparameter nk = nk in [1, 8]\ninput a u8[nm, nk]\n"
      "input b i8[nk, nn]\noutput c i32[nm, nn]\n"
      "mac[m:nm, n:nn, k:nk]: c[m, n] += i32(a[m, k]) * i32(b[k, n])",
      {"tiles", "tiles", "sums"}, "8 + m", {"m", "n", "k"}));
  return made;
}

}  // namespace tc::testing
