// Constants as an object file that tc writes itself: hundreds of megabytes pass neither through LLVM nor
// through the memory of the linker, which runs in a child process.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/backend/backend.h"
#include "codegen/backend/packed_constants_file.h"

namespace tc {

// The section of the constants in objects: one that linkers put next to other read-only data.
constexpr const char* kObjectConstantsSection = ".rodata.tc_constants";

// Whether code for the target needs addresses of 64 bits to reach constants of so many bytes. They are then
// in a section that linkers keep away from all others, so that 32 bits still reach everything else.
bool are_far(int64_t bytes, const Target& target);

// How the object file of constants_object() holds the bytes of the constants.
enum class BlockIs : uint8_t {
  Following,  // directly after the bytes of the object
  LeftOut,    // room that linkers reserve in read-only data and leave as it is
  Mapped,     // left out, and aligned to a huge page where it is large
  // Mapped, and kept by linkers that drop unused sections; on RISC-V not aligned to a huge page.
  Kept,
};
// A relocatable ELF file for the target with the constants as read-only data, in a section of its own under
// one hidden symbol; without the bytes of the constants themselves. An Unsupported error where code for the
// target cannot address a block of that size.
Bytes constants_object(const ConstantsFile& constants, const Target& target, const std::string& section_name,
                       BlockIs block);

// A file with the block, which the runtime maps where code looks for it by the address in a variable.
struct WeightsFile {
  std::string name;  // made of the checksum, so that equal blocks have equal names
  uint64_t checksum = 0;
  int64_t bytes = 0;  // of the block
};
WeightsFile weights_file(const ConstantsFile& constants);
// Writes that file into the folder. A file of the same name is kept if it has these bytes, as that of another
// artefact may, and else replaced.
void write_weights(const ConstantsFile& constants, const WeightsFile& file, const std::string& folder);

// Copies the block to the room in a linked file's section of that name.
void fill_in_constants(const ConstantsFile& constants, const std::string& path, const std::string& section);

}  // namespace tc
