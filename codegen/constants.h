// Constants as an object file of our own making: hundreds of megabytes never pass through LLVM.
#pragma once

#include <string>
#include <vector>

#include "codegen/codegen.h"

namespace tc {

// Byte offsets of the constants in one block, each aligned to 64, and the block's size at the end.
std::vector<int64_t> constant_offsets(const std::vector<TensorPtr>& constants);

// A relocatable ELF file for the target with the block in read-only data under one hidden symbol.
Bytes constants_object(const std::vector<TensorPtr>& constants, const Target& target,
                       const std::string& symbol);

}  // namespace tc
