// What instructions are for, as metadata on them: the emitter knows, and the passes over LLVM IR
// (codegen/llvm/passes) need not find it out again from opcodes and operands.
#pragma once

#include <llvm/IR/Instruction.h>

#include <cstdint>

namespace tc {

enum class Role : uint8_t {
  None,
  Prefetch,  // fetches a cache line; nothing uses what it returns
  // One instruction that adds products to a sum, lane by lane. Both factors are vectors, or one of them is
  // the same for all lanes (a scalar register).
  Product,
  BroadcastProduct,
  MatrixProduct,  // the same of small matrices in vector registers, one instruction a cycle
  ByteProduct,    // one instruction that adds several products of bytes to each number of a sum
  Widening,       // makes loaded bytes factors of 16 bits
  Rounding,       // makes floats, or integers made of them, integers of half as many bits
};

// Marks the instruction that made the value. LLVM keeps the mark where it moves, copies or changes an
// instruction in place, and drops it where it makes another one: roles are for instructions that LLVM's
// simplifications leave as they are (calls of intrinsics, volatile loads, conversions of loaded vectors).
// Nothing happens where LLVM folded the value into a constant.
void set_role(llvm::Value* value, Role role);
Role role_of(const llvm::Instruction& instruction);

// Whether the instruction is a step of a sum of products, one product for each lane.
inline bool adds_product(const llvm::Instruction& instruction) {
  const Role role = role_of(instruction);
  return role == Role::Product || role == Role::BroadcastProduct || role == Role::MatrixProduct;
}

}  // namespace tc
