// Constants as an object file of our own making: hundreds of megabytes pass neither through LLVM nor through
// the memory of this process, its linker included.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/backend/constants_file.h"
#include "codegen/codegen.h"

namespace tc {

// The section of the constants in objects: one that linkers put beside other read-only data.
constexpr const char* kObjectConstantsSection = ".rodata.tc_constants";

// Whether so many bytes of constants may lie out of reach of addresses that the target's code computes in 32
// bits. They have addresses of 64 bits then, and a section that linkers keep away from all others.
bool are_far(int64_t bytes, const Target& target);
// An Unsupported error where code for the target reaches no such block.
void check_reach(int64_t bytes, const Target& target);

// A relocatable ELF file for the target with the block in read-only data, in a section of its own under one
// hidden symbol. The block itself is still to come.
enum class BlockIs : uint8_t {
  Following,  // directly behind these bytes
  LeftOut,    // room that linkers reserve in read-only data and leave as it is
  Mapped,     // left out, and where it is large at the beginning of a huge page
  // Mapped, and not dropped by a linker that drops what is unused; on RISC-V nothing is left empty before it.
  Kept,
};
Bytes constants_object(const ConstantsFile& constants, const Target& target, const std::string& section_name,
                       BlockIs block);

// Copies the block to the room in a linked file's section of that name.
void fill_in_constants(const ConstantsFile& constants, const std::string& path, const std::string& section);

}  // namespace tc
