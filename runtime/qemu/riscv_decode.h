// Classifies RV64GCV instruction words and names the registers that they read and write.
#pragma once

#include <array>
#include <cstdint>

namespace tc::qemu {

// The classes by which executed instructions are counted; every instruction is in exactly one.
enum class Class : uint8_t {
  kScalarInteger,        // integer arithmetic, address computation, fences, system and CSR accesses
  kScalarFloatMultiply,  // fmul, fmadd, fmsub, fnmadd, fnmsub of any width
  kScalarFloatOther,     // every other scalar float instruction except loads and stores
  kScalarLoad,           // integer and float loads, load-reserved
  kScalarStore,          // integer and float stores, store-conditional, atomic read-modify-write
  kVectorConfig,         // vsetvli, vsetivli, vsetvl
  kVectorLoad,
  kVectorStore,
  kVectorMultiply,  // vector multiplies and multiply-adds, integer and float, widening or not
  kVectorOther,     // every other vector arithmetic, mask and permutation instruction
  kBranch,          // conditional branches, jumps, calls and returns
  kUnknown,         // words without a row in the decode table
};
inline constexpr int kClassCount = 12;

// The name of each class in the plugin's output, in the order of `Class`.
extern const std::array<const char*, kClassCount> kClassNames;

// How an instruction occupies the core of the cycle model (see cycle_model.h for the costs).
enum class Timing : uint8_t {
  kInteger,
  kIntegerMultiply,
  kIntegerDivide,
  kFloat,        // add, multiply, multiply-add, conversion
  kFloatSimple,  // sign injection, minimum, comparison, moves between register files
  kFloatDivide,  // division and square root
  kLoad,
  kStore,
  kConditionalBranch,
  kJump,
  kSystem,  // fences, CSR accesses, ecall: waits for all earlier instructions
  kVectorConfig,
  kVectorArithmetic,  // sums, products and conversions: one pass over the register group
  kVectorSimple,      // the same for integers (not products), comparisons, merges, slides, moves
  kVectorWidening,    // destination or source is a group of twice the size
  kVectorMatrix,      // smt.vmadot: small matrices in vector registers, the sums in two
  kVectorDivide,
  kVectorReduction,
  kVectorOrderedReduction,  // one element after the other
  kVectorGather,            // any element can go anywhere: costs grow with the group's square
  kVectorMask,              // one mask register, whatever the group's size
  kVectorScalarMove,        // element 0 to or from a scalar register
  kVectorMoveWhole,         // whole registers, by an immediate count
  kVectorUnitAccess,        // contiguous memory
  kVectorWholeAccess,       // contiguous memory, by an immediate register count
  kVectorMaskAccess,        // vlm, vsm
  kVectorElementAccess,     // strided, indexed and segment accesses: one element per cycle
};
inline constexpr int kTimingCount = static_cast<int>(Timing::kVectorElementAccess) + 1;

// Registers are numbered x0..x31 = 0..31, f0..f31 = 32..63, v0..v31 = 64..95.
inline constexpr uint8_t kNoRegister = 255;
inline constexpr uint8_t kFloatBase = 32;
inline constexpr uint8_t kVectorBase = 64;
inline constexpr int kRegisterCount = 96;

// One decoded instruction: all that the counters and the cycle model need.
struct Instruction {
  Class kind = Class::kUnknown;
  Timing timing = Timing::kInteger;
  uint8_t destination = kNoRegister;
  std::array<uint8_t, 4> sources = {kNoRegister, kNoRegister, kNoRegister, kNoRegister};
  uint8_t length = 4;                 // bytes of the instruction
  uint8_t element_bytes_log2 = 0;     // of a unit-stride vector access
  uint8_t fields = 1;                 // segment fields, or registers of a whole-register move
  bool is_double = false;             // a scalar float operation of 64 bits
  bool jumps_backward = false;        // of a conditional branch
  bool has_immediate_length = false;  // vsetivli
  bool keeps_length = false;          // vsetvli x0, x0
  bool has_static_type = false;       // vsetvli and vsetivli
  uint8_t immediate_length = 0;       // the vector length that vsetivli asks for
  uint16_t vector_type = 0;           // the vtype that vsetvli and vsetivli set
};

// Decodes one instruction word; `length` is 2 or 4 bytes. A word without a row in the table is of class
// kUnknown.
Instruction decode(uint32_t word, int length);

}  // namespace tc::qemu
