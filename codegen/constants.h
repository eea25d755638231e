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

// A file without a name in the temporary folder, written at offsets by several threads at once. That it has no
// room is a Device error.
class ConstantsFile {
 public:
  // A block of `bytes` bytes, all 0, that code finds under `symbol`.
  ConstantsFile(std::string symbol, int64_t bytes);
  ~ConstantsFile();
  // The same block of the same file under another symbol.
  ConstantsFile(const ConstantsFile& other, std::string symbol);
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

// The section of the constants in objects: one that linkers put beside other read-only data.
constexpr const char* kObjectConstantsSection = ".rodata.tc_constants";

// A relocatable ELF file for the target with the block in read-only data, in a section of its own under one
// hidden symbol. The block itself is still to come.
enum class BlockIs : uint8_t {
  Following,   // directly behind these bytes
  LeftOut,     // room that linkers reserve in read-only data and leave as it is
  Mapped,      // left out, and where it is large at the beginning of a huge page
  Kept,        // mapped, and not dropped by a linker that drops what is unused; on RISC-V nothing is left empty before it
};
Bytes constants_object(const ConstantsFile& constants, const Target& target, const std::string& section_name,
                       BlockIs block);

// Copies the block to the room in a linked file's section of that name.
void fill_in_constants(const ConstantsFile& constants, const std::string& path, const std::string& section);

}  // namespace tc
