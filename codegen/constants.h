// Constants as a file, and as an object file of our own making: hundreds of megabytes pass neither through
// LLVM nor through the memory of this process, its linker included.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen/codegen.h"

namespace tc {

// Byte offsets of the constants in one block, each aligned to 64, and the block's size at the end.
std::vector<int64_t> constant_offsets(const std::vector<PlanConstant>& constants);

// A file without a name in the temporary folder. It is written and read at offsets, by several threads at once.
// Errors are Device errors.
class ConstantsFile {
 public:
  // A block of `bytes` bytes, all 0, that code finds under `symbol`.
  ConstantsFile(std::string symbol, int64_t bytes);
  ~ConstantsFile();
  ConstantsFile(const ConstantsFile&) = delete;
  ConstantsFile& operator=(const ConstantsFile&) = delete;

  const std::string& symbol() const { return symbol_; }
  int64_t byte_count() const { return byte_count_; }
  void write(int64_t offset, const Bytes& bytes);
  // Calls take(data, size) with the bytes from first to last, in pieces.
  void read(const std::function<void(const uint8_t*, size_t)>& take) const;

 private:
  std::string symbol_;
  int64_t byte_count_;
  int descriptor_;
};

// A relocatable ELF file for the target with the block in read-only data under one hidden symbol, of which the
// block itself is still to come.
enum class BlockIs : uint8_t {
  Following,   // directly behind these bytes
  LeftOut,     // room that linkers reserve in read-only data and leave as it is
};
Bytes constants_object(const ConstantsFile& constants, const Target& target, BlockIs block);

// Copies the block to where the linker left room for it in the file, which it wrote together with `map`
// (its option -Map) from an object at `object` with the block left out.
void fill_in_constants(const ConstantsFile& constants, const std::string& path, const std::string& map,
                       const std::string& object);

}  // namespace tc
