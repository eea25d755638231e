// Elements of memory that a loop with the mark "hold" keeps in registers: its leaf adds to them in each trip,
// and the loop does not move them.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "codegen/llvm/emit/kernel_context.h"

namespace tc {

struct HeldSums {
  // Where an element lies, and the variable of the function that has its value: LLVM makes it a register.
  struct Element {
    llvm::Value* address = nullptr;
    llvm::AllocaInst* variable = nullptr;
  };
  int buffer = -1;
  llvm::BasicBlock* before = nullptr;       // the block in front of the loop, where elements are loaded
  std::map<std::string, Element> elements;  // by the text of the address
};

// What the loop can hold: the sums that no other access of the loop reads or writes, where its leaf is all
// that the loop or loops directly inside of it run, and has neither conditions nor loops of its own. Nothing
// where there are no such sums.
std::optional<HeldSums> held_sums(const Kernel& kernel, const LoopNode& loop);

// Stores all elements at the builder's insertion point, which is behind the loop.
void store_held(KernelContext& context, const HeldSums& held);

}  // namespace tc
