// The decode tables of RV64GC and RVV 1.0, and the positions of the registers in each format.
#include "runtime/qemu/riscv_decode.h"

#include <span>

namespace tc::qemu {

// clang-format off
const std::array<const char*, kClassCount> kClassNames = {
    "scalar_integer", "scalar_float_multiply", "scalar_float_other", "scalar_load",
    "scalar_store",   "vector_config",         "vector_load",        "vector_store",
    "vector_multiply", "vector_other",         "branch",             "unknown"};
// clang-format on

namespace {

// Instruction formats, which differ in the positions of their registers. Names follow the formats of the ISA
// manual. In the comments, x, f and v are the register files of the destination and sources.
enum class Format : uint8_t {
  kNone,
  kU,                // x rd
  kI,                // x rd, rs1
  kR,                // x rd, rs1, rs2
  kS,                // x rs1, rs2
  kBranch,           // x rs1, rs2; the offset's sign is bit 31
  kFloatLoad,        // f rd, x rs1
  kFloatStore,       // x rs1, f rs2
  kFloat1,           // f rd, rs1
  kFloat2,           // f rd, rs1, rs2
  kFloat3,           // f rd, rs1, rs2, rs3
  kFloatToInteger1,  // x rd, f rs1
  kFloatToInteger2,  // x rd, f rs1, rs2
  kIntegerToFloat,   // f rd, x rs1
  kVectorConfig,
  kVectorLoad,         // v rd, x rs1, and for strided or indexed accesses x or v rs2
  kVectorStore,        // the same with v rd as a source
  kVector,             // v rd, v rs2, and v, x, f or no rs1 by funct3
  kVectorAdd,          // the same, with v rd also a source
  kVectorMatrix,       // v rd, also a source, v rs1, rs2
  kVectorUnary,        // v rd, v rs2
  kVectorSource1,      // v rd, and v, x, f or no rs1 by funct3
  kVectorToInteger,    // x rd, v rs2
  kVectorToFloat,      // f rd, v rs2
  kShortU,             // x 11:7 written
  kShortUpdate,        // x 11:7 read and written
  kShortStackAddress,  // x' 4:2 written, x2 read
  kShortLoad,          // x' 4:2 written, x' 9:7 read
  kShortFloatLoad,
  kShortStore,  // x' 4:2 and x' 9:7 read
  kShortFloatStore,
  kShortStackLoad,  // x 11:7 written, x2 read
  kShortFloatStackLoad,
  kShortStackStore,  // x 6:2 and x2 read
  kShortFloatStackStore,
  kShortUpdateLow,     // x' 9:7 read and written
  kShortR,             // x' 9:7 read and written, x' 4:2 read
  kShortBranch,        // x' 9:7 read; the offset's sign is bit 12
  kShortJumpRegister,  // x 11:7 read
  kShortMove,          // x 11:7 written, x 6:2 read
  kShortAdd,           // x 11:7 read and written, x 6:2 read
};

// A row of a decode table. An instruction word belongs to the first row with (word & mask) == match.
struct Row {
  uint32_t mask;
  uint32_t match;
  Class kind;
  Timing timing;
  Format format;
};

constexpr uint32_t kOpcode = 0x7f;
constexpr uint32_t kFunct3 = 0x7000;
constexpr uint32_t kOpcode3 = kOpcode | kFunct3;  // opcode and funct3
constexpr uint32_t funct3(uint32_t value) { return value << 12; }

// RV64GC, 32-bit words. Source: The RISC-V Instruction Set Manual, volume I, chapter "RV32/64G
// Instruction Set Listings": table of the base opcode map (inst[6:2]) and the listings after it.
constexpr Row kScalarRows[] = {
    // LOAD: lb lh lw ld lbu lhu lwu
    {kOpcode, 0x03, Class::kScalarLoad, Timing::kLoad, Format::kI},
    // LOAD-FP with funct3 1 to 4: flh flw fld flq
    {kOpcode3, 0x07 | funct3(1), Class::kScalarLoad, Timing::kLoad, Format::kFloatLoad},
    {kOpcode3, 0x07 | funct3(2), Class::kScalarLoad, Timing::kLoad, Format::kFloatLoad},
    {kOpcode3, 0x07 | funct3(3), Class::kScalarLoad, Timing::kLoad, Format::kFloatLoad},
    {kOpcode3, 0x07 | funct3(4), Class::kScalarLoad, Timing::kLoad, Format::kFloatLoad},
    // MISC-MEM: fence fence.i
    {kOpcode, 0x0f, Class::kScalarInteger, Timing::kSystem, Format::kNone},
    // OP-IMM, AUIPC, OP-IMM-32
    {kOpcode, 0x13, Class::kScalarInteger, Timing::kInteger, Format::kI},
    {kOpcode, 0x17, Class::kScalarInteger, Timing::kInteger, Format::kU},
    {kOpcode, 0x1b, Class::kScalarInteger, Timing::kInteger, Format::kI},
    // STORE: sb sh sw sd
    {kOpcode, 0x23, Class::kScalarStore, Timing::kStore, Format::kS},
    // STORE-FP with funct3 1 to 4: fsh fsw fsd fsq
    {kOpcode3, 0x27 | funct3(1), Class::kScalarStore, Timing::kStore, Format::kFloatStore},
    {kOpcode3, 0x27 | funct3(2), Class::kScalarStore, Timing::kStore, Format::kFloatStore},
    {kOpcode3, 0x27 | funct3(3), Class::kScalarStore, Timing::kStore, Format::kFloatStore},
    {kOpcode3, 0x27 | funct3(4), Class::kScalarStore, Timing::kStore, Format::kFloatStore},
    // AMO: funct5 00010 is lr; sc and the read-modify-write operations store
    {0xf800007f, 0x1000002f, Class::kScalarLoad, Timing::kLoad, Format::kI},
    {kOpcode, 0x2f, Class::kScalarStore, Timing::kLoad, Format::kR},
    // OP and OP-32; funct7 0000001 is the M extension: funct3 0 to 3 multiply, 4 to 7 divide
    {0xfe00407f, 0x02000033, Class::kScalarInteger, Timing::kIntegerMultiply, Format::kR},
    {0xfe00407f, 0x02004033, Class::kScalarInteger, Timing::kIntegerDivide, Format::kR},
    {0xfe00407f, 0x0200003b, Class::kScalarInteger, Timing::kIntegerMultiply, Format::kR},
    {0xfe00407f, 0x0200403b, Class::kScalarInteger, Timing::kIntegerDivide, Format::kR},
    {kOpcode, 0x33, Class::kScalarInteger, Timing::kInteger, Format::kR},
    {kOpcode, 0x37, Class::kScalarInteger, Timing::kInteger, Format::kU},
    {kOpcode, 0x3b, Class::kScalarInteger, Timing::kInteger, Format::kR},
    // MADD MSUB NMSUB NMADD
    {kOpcode, 0x43, Class::kScalarFloatMultiply, Timing::kFloat, Format::kFloat3},
    {kOpcode, 0x47, Class::kScalarFloatMultiply, Timing::kFloat, Format::kFloat3},
    {kOpcode, 0x4b, Class::kScalarFloatMultiply, Timing::kFloat, Format::kFloat3},
    {kOpcode, 0x4f, Class::kScalarFloatMultiply, Timing::kFloat, Format::kFloat3},
    // OP-FP by funct5 (bits 31:27): fadd fsub, fmul, fdiv, fsqrt, fsgnj fmin, fcvt.f.f
    {0xf800007f, 0x00000053, Class::kScalarFloatOther, Timing::kFloat, Format::kFloat2},
    {0xf800007f, 0x08000053, Class::kScalarFloatOther, Timing::kFloat, Format::kFloat2},
    {0xf800007f, 0x10000053, Class::kScalarFloatMultiply, Timing::kFloat, Format::kFloat2},
    {0xf800007f, 0x18000053, Class::kScalarFloatOther, Timing::kFloatDivide, Format::kFloat2},
    {0xf800007f, 0x58000053, Class::kScalarFloatOther, Timing::kFloatDivide, Format::kFloat1},
    {0xf800007f, 0x20000053, Class::kScalarFloatOther, Timing::kFloatSimple, Format::kFloat2},
    {0xf800007f, 0x28000053, Class::kScalarFloatOther, Timing::kFloatSimple, Format::kFloat2},
    {0xf800007f, 0x40000053, Class::kScalarFloatOther, Timing::kFloat, Format::kFloat1},
    // feq flt fle, fcvt.int.f, fcvt.f.int, fmv.x.f fclass, fmv.f.x
    {0xf800007f, 0xa0000053, Class::kScalarFloatOther, Timing::kFloatSimple, Format::kFloatToInteger2},
    {0xf800007f, 0xc0000053, Class::kScalarFloatOther, Timing::kFloat, Format::kFloatToInteger1},
    {0xf800007f, 0xd0000053, Class::kScalarFloatOther, Timing::kFloat, Format::kIntegerToFloat},
    {0xf800007f, 0xe0000053, Class::kScalarFloatOther, Timing::kFloatSimple, Format::kFloatToInteger1},
    {0xf800007f, 0xf0000053, Class::kScalarFloatOther, Timing::kFloatSimple, Format::kIntegerToFloat},
    // custom-1: SpacemiT's vmadotu vmadotus vmadotsu vmadot
    {0xfe0040ff, 0xe200002b, Class::kVectorMultiply, Timing::kVectorMatrix, Format::kVectorMatrix},
    // BRANCH, JALR, JAL, SYSTEM
    {kOpcode, 0x63, Class::kBranch, Timing::kConditionalBranch, Format::kBranch},
    {kOpcode, 0x67, Class::kBranch, Timing::kJump, Format::kI},
    {kOpcode, 0x6f, Class::kBranch, Timing::kJump, Format::kU},
    {kOpcode, 0x73, Class::kScalarInteger, Timing::kSystem, Format::kI},
};

constexpr uint32_t kQuadrant3 = 0xe003;  // the C extension's opcode and funct3
constexpr uint32_t quadrant(uint32_t opcode, uint32_t funct) { return opcode | funct << 13; }

// RV64C, 16-bit words. Source: the same volume, chapter "C" extension, table of the opcode map and
// the listings of quadrants 0, 1 and 2.
constexpr Row kCompressedRows[] = {
    // The all-zero word is illegal by definition.
    {0xffff, 0x0000, Class::kUnknown, Timing::kInteger, Format::kNone},
    // Quadrant 0: c.addi4spn c.fld c.lw c.ld, c.fsd c.sw c.sd
    {kQuadrant3, quadrant(0, 0), Class::kScalarInteger, Timing::kInteger, Format::kShortStackAddress},
    {kQuadrant3, quadrant(0, 1), Class::kScalarLoad, Timing::kLoad, Format::kShortFloatLoad},
    {kQuadrant3, quadrant(0, 2), Class::kScalarLoad, Timing::kLoad, Format::kShortLoad},
    {kQuadrant3, quadrant(0, 3), Class::kScalarLoad, Timing::kLoad, Format::kShortLoad},
    {kQuadrant3, quadrant(0, 5), Class::kScalarStore, Timing::kStore, Format::kShortFloatStore},
    {kQuadrant3, quadrant(0, 6), Class::kScalarStore, Timing::kStore, Format::kShortStore},
    {kQuadrant3, quadrant(0, 7), Class::kScalarStore, Timing::kStore, Format::kShortStore},
    // Quadrant 1: c.nop c.addi, c.addiw, c.li, c.lui c.addi16sp (x2 is rd, read as well)
    {kQuadrant3, quadrant(1, 0), Class::kScalarInteger, Timing::kInteger, Format::kShortUpdate},
    {kQuadrant3, quadrant(1, 1), Class::kScalarInteger, Timing::kInteger, Format::kShortUpdate},
    {kQuadrant3, quadrant(1, 2), Class::kScalarInteger, Timing::kInteger, Format::kShortU},
    {kQuadrant3 | 0xf80, quadrant(1, 3) | 2 << 7, Class::kScalarInteger, Timing::kInteger,
     Format::kShortUpdate},
    {kQuadrant3, quadrant(1, 3), Class::kScalarInteger, Timing::kInteger, Format::kShortU},
    // c.sub c.xor c.or c.and c.subw c.addw (bits 11:10 = 3), else c.srli c.srai c.andi
    {kQuadrant3 | 0xc00, quadrant(1, 4) | 0xc00, Class::kScalarInteger, Timing::kInteger, Format::kShortR},
    {kQuadrant3, quadrant(1, 4), Class::kScalarInteger, Timing::kInteger, Format::kShortUpdateLow},
    // c.j c.beqz c.bnez
    {kQuadrant3, quadrant(1, 5), Class::kBranch, Timing::kJump, Format::kNone},
    {kQuadrant3, quadrant(1, 6), Class::kBranch, Timing::kConditionalBranch, Format::kShortBranch},
    {kQuadrant3, quadrant(1, 7), Class::kBranch, Timing::kConditionalBranch, Format::kShortBranch},
    // Quadrant 2: c.slli c.fldsp c.lwsp c.ldsp
    {kQuadrant3, quadrant(2, 0), Class::kScalarInteger, Timing::kInteger, Format::kShortUpdate},
    {kQuadrant3, quadrant(2, 1), Class::kScalarLoad, Timing::kLoad, Format::kShortFloatStackLoad},
    {kQuadrant3, quadrant(2, 2), Class::kScalarLoad, Timing::kLoad, Format::kShortStackLoad},
    {kQuadrant3, quadrant(2, 3), Class::kScalarLoad, Timing::kLoad, Format::kShortStackLoad},
    // c.ebreak (all fields 0), c.jr c.jalr (rs2 = 0), c.mv (bit 12 = 0), c.add
    {0xffff, 0x9002, Class::kScalarInteger, Timing::kSystem, Format::kNone},
    {kQuadrant3 | 0x7c, quadrant(2, 4), Class::kBranch, Timing::kJump, Format::kShortJumpRegister},
    {kQuadrant3 | 0x1000, quadrant(2, 4), Class::kScalarInteger, Timing::kInteger, Format::kShortMove},
    {kQuadrant3, quadrant(2, 4), Class::kScalarInteger, Timing::kInteger, Format::kShortAdd},
    // c.fsdsp c.swsp c.sdsp
    {kQuadrant3, quadrant(2, 5), Class::kScalarStore, Timing::kStore, Format::kShortFloatStackStore},
    {kQuadrant3, quadrant(2, 6), Class::kScalarStore, Timing::kStore, Format::kShortStackStore},
    {kQuadrant3, quadrant(2, 7), Class::kScalarStore, Timing::kStore, Format::kShortStackStore},
};

// funct3 of OP-V: which kind of operands an arithmetic instruction has.
enum Operands : uint32_t { kIVV, kFVV, kMVV, kIVI, kIVX, kFVF, kMVX, kConfig };

constexpr uint32_t kOperation = 0xfc00707f;  // funct6, funct3 and opcode
constexpr uint32_t operation(Operands operands, uint32_t funct6) {
  return funct6 << 26 | funct3(operands) | 0x57;
}
constexpr Row one(Operands operands, uint32_t funct6, Class kind, Timing timing,
                  Format format = Format::kVector) {
  return {kOperation, operation(operands, funct6), kind, timing, format};
}
// A row with the rs1 field fixed too, for the unary encoding spaces.
constexpr Row unary(Operands operands, uint32_t funct6, uint32_t mask, uint32_t rs1, Timing timing,
                    Format format) {
  return {kOperation | mask << 15, operation(operands, funct6) | rs1 << 15, Class::kVectorOther, timing,
          format};
}

// RVV 1.0, opcode OP-V. Source: RISC-V "V" Vector Extension, version 1.0, chapter "Vector Instruction
// Listing": the table of funct6 by OPI, OPM and OPF, and the unary ones. Instructions that need no other row
// belong to the last row.
constexpr Class kMultiply = Class::kVectorMultiply;
constexpr Class kOther = Class::kVectorOther;
constexpr Row kVectorRows[] = {
    {kOpcode3, 0x57 | funct3(kConfig), Class::kVectorConfig, Timing::kVectorConfig, Format::kVectorConfig},
    // OPI: vsmul.vv vsmul.vx; the same funct6 with an immediate is vmv<n>r.v
    one(kIVV, 0x27, kMultiply, Timing::kVectorArithmetic),
    one(kIVX, 0x27, kMultiply, Timing::kVectorArithmetic),
    one(kIVI, 0x27, kOther, Timing::kVectorMoveWhole, Format::kVectorUnary),
    // OPI: vmerge and vmv.v by funct6 0x17: with bit 25 set vs2 is not read
    {kOperation | 1 << 25, operation(kIVV, 0x17) | 1 << 25, kOther, Timing::kVectorSimple,
     Format::kVectorSource1},
    {kOperation | 1 << 25, operation(kIVX, 0x17) | 1 << 25, kOther, Timing::kVectorSimple,
     Format::kVectorSource1},
    {kOperation | 1 << 25, operation(kIVI, 0x17) | 1 << 25, kOther, Timing::kVectorSimple,
     Format::kVectorSource1},
    {kOperation | 1 << 25, operation(kFVF, 0x17) | 1 << 25, kOther, Timing::kVectorSimple,
     Format::kVectorSource1},
    // OPI: vrgather, vrgatherei16
    one(kIVV, 0x0c, kOther, Timing::kVectorGather),
    one(kIVX, 0x0c, kOther, Timing::kVectorSimple),
    one(kIVI, 0x0c, kOther, Timing::kVectorSimple),
    one(kIVV, 0x0e, kOther, Timing::kVectorGather),
    // OPI: vnsrl vnsra vnclipu vnclip read a group of twice the size; vwredsumu vwredsum
    one(kIVV, 0x2c, kOther, Timing::kVectorWidening),
    one(kIVX, 0x2c, kOther, Timing::kVectorWidening),
    one(kIVI, 0x2c, kOther, Timing::kVectorWidening),
    one(kIVV, 0x2d, kOther, Timing::kVectorWidening),
    one(kIVX, 0x2d, kOther, Timing::kVectorWidening),
    one(kIVI, 0x2d, kOther, Timing::kVectorWidening),
    one(kIVV, 0x2e, kOther, Timing::kVectorWidening),
    one(kIVX, 0x2e, kOther, Timing::kVectorWidening),
    one(kIVI, 0x2e, kOther, Timing::kVectorWidening),
    one(kIVV, 0x2f, kOther, Timing::kVectorWidening),
    one(kIVX, 0x2f, kOther, Timing::kVectorWidening),
    one(kIVI, 0x2f, kOther, Timing::kVectorWidening),
    one(kIVV, 0x30, kOther, Timing::kVectorReduction),
    one(kIVV, 0x31, kOther, Timing::kVectorReduction),
    // OPM: vredsum vredand vredor vredxor vredminu vredmin vredmaxu vredmax (funct6 0 to 7)
    {0xe000707f, operation(kMVV, 0x00), kOther, Timing::kVectorReduction, Format::kVector},
    // OPM: vcpop vfirst and vmv.x.s write an integer register; vmv.s.x
    unary(kMVV, 0x10, 0x1f, 0x10, Timing::kVectorMask, Format::kVectorToInteger),
    unary(kMVV, 0x10, 0x1f, 0x11, Timing::kVectorMask, Format::kVectorToInteger),
    unary(kMVV, 0x10, 0x1f, 0x00, Timing::kVectorScalarMove, Format::kVectorToInteger),
    one(kMVX, 0x10, kOther, Timing::kVectorScalarMove, Format::kVectorSource1),
    // OPM: vzext and vsext; vmsbf vmsof vmsif, viota vid; vcompress; mask logic (0x18 to 0x1f)
    one(kMVV, 0x12, kOther, Timing::kVectorSimple, Format::kVectorUnary),
    unary(kMVV, 0x14, 0x10, 0x00, Timing::kVectorMask, Format::kVectorUnary),
    unary(kMVV, 0x14, 0x10, 0x10, Timing::kVectorSimple, Format::kVectorUnary),
    one(kMVV, 0x17, kOther, Timing::kVectorGather),
    {0xe000707f, operation(kMVV, 0x18), kOther, Timing::kVectorMask, Format::kVector},
    // OPM: vdivu vdiv vremu vrem (0x20 to 0x23)
    {0xf000707f, operation(kMVV, 0x20), kOther, Timing::kVectorDivide, Format::kVector},
    {0xf000707f, operation(kMVX, 0x20), kOther, Timing::kVectorDivide, Format::kVector},
    // OPM: vmulhu vmul vmulhsu vmulh (0x24 to 0x27)
    {0xf000707f, operation(kMVV, 0x24), kMultiply, Timing::kVectorArithmetic, Format::kVector},
    {0xf000707f, operation(kMVX, 0x24), kMultiply, Timing::kVectorArithmetic, Format::kVector},
    // OPM: vmadd vnmsub vmacc vnmsac (0x29 0x2b 0x2d 0x2f)
    {0xe400707f, operation(kMVV, 0x29), kMultiply, Timing::kVectorArithmetic, Format::kVectorAdd},
    {0xe400707f, operation(kMVX, 0x29), kMultiply, Timing::kVectorArithmetic, Format::kVectorAdd},
    // OPM: vwadd* vwsub* (0x30 to 0x37); vwmul* (0x38 to 0x3b); vwmacc* (0x3c to 0x3f)
    {0xe000707f, operation(kMVV, 0x30), kOther, Timing::kVectorWidening, Format::kVector},
    {0xe000707f, operation(kMVX, 0x30), kOther, Timing::kVectorWidening, Format::kVector},
    {0xf000707f, operation(kMVV, 0x38), kMultiply, Timing::kVectorWidening, Format::kVector},
    {0xf000707f, operation(kMVX, 0x38), kMultiply, Timing::kVectorWidening, Format::kVector},
    {0xf000707f, operation(kMVV, 0x3c), kMultiply, Timing::kVectorWidening, Format::kVectorAdd},
    {0xf000707f, operation(kMVX, 0x3c), kMultiply, Timing::kVectorWidening, Format::kVectorAdd},
    // OPF: vfredusum vfredmin vfredmax, vfredosum; vfwredusum, vfwredosum
    one(kFVV, 0x01, kOther, Timing::kVectorReduction),
    one(kFVV, 0x05, kOther, Timing::kVectorReduction),
    one(kFVV, 0x07, kOther, Timing::kVectorReduction),
    one(kFVV, 0x03, kOther, Timing::kVectorOrderedReduction),
    one(kFVV, 0x31, kOther, Timing::kVectorReduction),
    one(kFVV, 0x33, kOther, Timing::kVectorOrderedReduction),
    // OPF: vfmv.f.s, vfmv.s.f
    one(kFVV, 0x10, kOther, Timing::kVectorScalarMove, Format::kVectorToFloat),
    one(kFVF, 0x10, kOther, Timing::kVectorScalarMove, Format::kVectorSource1),
    // OPF: VFUNARY0 conversions: rs1 0 to 7 same width, 8 to 23 widening and narrowing
    unary(kFVV, 0x12, 0x18, 0x00, Timing::kVectorArithmetic, Format::kVectorUnary),
    one(kFVV, 0x12, kOther, Timing::kVectorWidening, Format::kVectorUnary),
    // OPF: VFUNARY1: vfsqrt (0); vfrsqrt7 vfrec7 vfclass
    unary(kFVV, 0x13, 0x1f, 0x00, Timing::kVectorDivide, Format::kVectorUnary),
    one(kFVV, 0x13, kOther, Timing::kVectorArithmetic, Format::kVectorUnary),
    // OPF: vfdiv, vfrdiv.vf; vfmul
    one(kFVV, 0x20, kOther, Timing::kVectorDivide),
    one(kFVF, 0x20, kOther, Timing::kVectorDivide),
    one(kFVF, 0x21, kOther, Timing::kVectorDivide),
    one(kFVV, 0x24, kMultiply, Timing::kVectorArithmetic),
    one(kFVF, 0x24, kMultiply, Timing::kVectorArithmetic),
    // OPF: vfmadd vfnmadd vfmsub vfnmsub vfmacc vfnmacc vfmsac vfnmsac (0x28 to 0x2f)
    {0xe000707f, operation(kFVV, 0x28), kMultiply, Timing::kVectorArithmetic, Format::kVectorAdd},
    {0xe000707f, operation(kFVF, 0x28), kMultiply, Timing::kVectorArithmetic, Format::kVectorAdd},
    // OPF: vfwadd* vfwsub* (0x30 to 0x37); vfwmul; vfwmacc vfwnmacc vfwmsac vfwnmsac
    {0xe000707f, operation(kFVV, 0x30), kOther, Timing::kVectorWidening, Format::kVector},
    {0xe000707f, operation(kFVF, 0x30), kOther, Timing::kVectorWidening, Format::kVector},
    one(kFVV, 0x38, kMultiply, Timing::kVectorWidening),
    one(kFVF, 0x38, kMultiply, Timing::kVectorWidening),
    {0xf000707f, operation(kFVV, 0x3c), kMultiply, Timing::kVectorWidening, Format::kVectorAdd},
    {0xf000707f, operation(kFVF, 0x3c), kMultiply, Timing::kVectorWidening, Format::kVectorAdd},
    // OPF: vfadd, vfsub, vfrsub
    one(kFVV, 0x00, kOther, Timing::kVectorArithmetic),
    one(kFVF, 0x00, kOther, Timing::kVectorArithmetic),
    one(kFVV, 0x02, kOther, Timing::kVectorArithmetic),
    one(kFVF, 0x02, kOther, Timing::kVectorArithmetic),
    one(kFVF, 0x27, kOther, Timing::kVectorArithmetic),
    // All others: integers, comparisons, extrema, signs, merges, slides.
    {kOpcode, 0x57, kOther, Timing::kVectorSimple, Format::kVector},
};

// RVV 1.0 memory accesses: LOAD-FP and STORE-FP with funct3 0, 5, 6 and 7 (element width 8 to 64).
constexpr Row kVectorMemoryRows[] = {
    {kOpcode3, 0x07 | funct3(0), Class::kVectorLoad, Timing::kVectorUnitAccess, Format::kVectorLoad},
    {kOpcode | 0x5000, 0x07 | funct3(5), Class::kVectorLoad, Timing::kVectorUnitAccess, Format::kVectorLoad},
    {kOpcode3, 0x07 | funct3(6), Class::kVectorLoad, Timing::kVectorUnitAccess, Format::kVectorLoad},
    {kOpcode3, 0x27 | funct3(0), Class::kVectorStore, Timing::kVectorUnitAccess, Format::kVectorStore},
    {kOpcode | 0x5000, 0x27 | funct3(5), Class::kVectorStore, Timing::kVectorUnitAccess,
     Format::kVectorStore},
    {kOpcode3, 0x27 | funct3(6), Class::kVectorStore, Timing::kVectorUnitAccess, Format::kVectorStore},
};

const Row* find_row(std::span<const Row> rows, uint32_t word) {
  for (const Row& row : rows) {
    if ((word & row.mask) == row.match) return &row;
  }
  return nullptr;
}

// The field of `count` bits from bit `low`.
uint32_t bits(uint32_t word, int low, int count) { return word >> low & ((1u << count) - 1); }

// The model's number of an integer register; x0 becomes kNoRegister, which is always ready and never written.
uint8_t integer(uint32_t number) { return number == 0 ? kNoRegister : static_cast<uint8_t>(number); }
uint8_t floating(uint32_t number) { return static_cast<uint8_t>(kFloatBase + number); }
uint8_t vector(uint32_t number) { return static_cast<uint8_t>(kVectorBase + number); }

// The rs1 operand of an OP-V instruction; funct3 determines its register file.
uint8_t vector_operand1(uint32_t word) {
  const uint32_t number = bits(word, 15, 5);
  switch (bits(word, 12, 3)) {
    case kIVV:
    case kFVV:
    case kMVV: return vector(number);
    case kFVF: return floating(number);
    case kIVX:
    case kMVX: return integer(number);
    default: return kNoRegister;
  }
}

void decode_vector_config(uint32_t word, Instruction& result) {
  result.destination = integer(bits(word, 7, 5));
  if (bits(word, 31, 1) == 0) {  // vsetvli
    result.sources[0] = integer(bits(word, 15, 5));
    result.has_static_type = true;
    result.vector_type = static_cast<uint16_t>(bits(word, 20, 11));
    result.keeps_length = bits(word, 15, 5) == 0 && bits(word, 7, 5) == 0;
  } else if (bits(word, 30, 1) == 1) {  // vsetivli
    result.has_static_type = true;
    result.vector_type = static_cast<uint16_t>(bits(word, 20, 10));
    result.has_immediate_length = true;
    result.immediate_length = static_cast<uint8_t>(bits(word, 15, 5));
  } else {  // vsetvl: the type is in a register
    result.sources[0] = integer(bits(word, 15, 5));
    result.sources[1] = integer(bits(word, 20, 5));
  }
}

void decode_vector_memory(uint32_t word, bool is_store, Instruction& result) {
  const uint32_t width = bits(word, 12, 3);  // 0 5 6 7: 1 2 4 8 bytes
  const uint32_t mode = bits(word, 26, 2);   // 0 unit stride, 2 strided, 1 and 3 indexed
  const uint32_t unit_mode = bits(word, 20, 5);
  result.element_bytes_log2 = static_cast<uint8_t>(width == 0 ? 0 : width - 4);
  result.fields = static_cast<uint8_t>(bits(word, 29, 3) + 1);
  result.sources[0] = integer(bits(word, 15, 5));
  if (mode == 0 && unit_mode == 0x08) {
    result.timing = Timing::kVectorWholeAccess;
  } else if (mode == 0 && unit_mode == 0x0b) {
    result.timing = Timing::kVectorMaskAccess;
  } else if (mode != 0 || result.fields > 1) {
    result.timing = Timing::kVectorElementAccess;
  }
  if (mode == 2) result.sources[1] = integer(unit_mode);
  if (mode == 1 || mode == 3) result.sources[1] = vector(unit_mode);
  if (bits(word, 25, 1) == 0) result.sources[2] = vector(0);
  (is_store ? result.sources[3] : result.destination) = vector(bits(word, 7, 5));
}

void decode_vector_arithmetic(uint32_t word, Format format, Instruction& result) {
  const uint32_t rd = bits(word, 7, 5);
  result.destination = vector(rd);
  if (format != Format::kVectorSource1) result.sources[0] = vector(bits(word, 20, 5));
  if (format == Format::kVector || format == Format::kVectorAdd || format == Format::kVectorSource1) {
    result.sources[1] = vector_operand1(word);
  }
  if (format == Format::kVectorAdd) result.sources[2] = vector(rd);
  if (format == Format::kVectorToInteger) result.destination = integer(rd);
  if (format == Format::kVectorToFloat) result.destination = floating(rd);
  // With bit 25 clear, the instruction is masked by v0. Moves of whole registers have it set.
  if (bits(word, 25, 1) == 0) result.sources[3] = vector(0);
  if (result.timing == Timing::kVectorMoveWhole) {
    result.fields = static_cast<uint8_t>(bits(word, 15, 3) + 1);
  }
}

void decode_operands(uint32_t word, Format format, Instruction& result) {
  const uint32_t rd = bits(word, 7, 5);
  const uint32_t rs1 = bits(word, 15, 5);
  const uint32_t rs2 = bits(word, 20, 5);
  // The C extension's registers: two full fields, and two of three bits that name x8 to x15.
  const uint32_t short2 = bits(word, 2, 5);
  const uint32_t low1 = bits(word, 7, 3) + 8;
  const uint32_t low2 = bits(word, 2, 3) + 8;
  auto set = [&result](uint8_t destination, uint8_t source0 = kNoRegister, uint8_t source1 = kNoRegister,
                       uint8_t source2 = kNoRegister) {
    result.destination = destination;
    result.sources = {source0, source1, source2, kNoRegister};
  };
  switch (format) {
    case Format::kNone: break;
    case Format::kU: set(integer(rd)); break;
    case Format::kI: set(integer(rd), integer(rs1)); break;
    case Format::kR: set(integer(rd), integer(rs1), integer(rs2)); break;
    case Format::kS: set(kNoRegister, integer(rs1), integer(rs2)); break;
    case Format::kBranch:
      set(kNoRegister, integer(rs1), integer(rs2));
      result.jumps_backward = bits(word, 31, 1) == 1;
      break;
    case Format::kFloatLoad: set(floating(rd), integer(rs1)); break;
    case Format::kFloatStore: set(kNoRegister, integer(rs1), floating(rs2)); break;
    case Format::kFloat1: set(floating(rd), floating(rs1)); break;
    case Format::kFloat2: set(floating(rd), floating(rs1), floating(rs2)); break;
    case Format::kFloat3: set(floating(rd), floating(rs1), floating(rs2), floating(bits(word, 27, 5))); break;
    case Format::kFloatToInteger1: set(integer(rd), floating(rs1)); break;
    case Format::kFloatToInteger2: set(integer(rd), floating(rs1), floating(rs2)); break;
    case Format::kIntegerToFloat: set(floating(rd), integer(rs1)); break;
    case Format::kVectorConfig: decode_vector_config(word, result); break;
    case Format::kVectorMatrix: set(vector(rd), vector(rs1), vector(rs2), vector(rd)); break;
    case Format::kVectorLoad: decode_vector_memory(word, false, result); break;
    case Format::kVectorStore: decode_vector_memory(word, true, result); break;
    case Format::kVector:
    case Format::kVectorAdd:
    case Format::kVectorUnary:
    case Format::kVectorSource1:
    case Format::kVectorToInteger:
    case Format::kVectorToFloat: decode_vector_arithmetic(word, format, result); break;
    case Format::kShortU: set(integer(rd)); break;
    case Format::kShortUpdate: set(integer(rd), integer(rd)); break;
    case Format::kShortStackAddress: set(integer(low2), integer(2)); break;
    case Format::kShortLoad: set(integer(low2), integer(low1)); break;
    case Format::kShortFloatLoad: set(floating(low2), integer(low1)); break;
    case Format::kShortStore: set(kNoRegister, integer(low1), integer(low2)); break;
    case Format::kShortFloatStore: set(kNoRegister, integer(low1), floating(low2)); break;
    case Format::kShortStackLoad: set(integer(rd), integer(2)); break;
    case Format::kShortFloatStackLoad: set(floating(rd), integer(2)); break;
    case Format::kShortStackStore: set(kNoRegister, integer(2), integer(short2)); break;
    case Format::kShortFloatStackStore: set(kNoRegister, integer(2), floating(short2)); break;
    case Format::kShortUpdateLow: set(integer(low1), integer(low1)); break;
    case Format::kShortR: set(integer(low1), integer(low1), integer(low2)); break;
    case Format::kShortBranch:
      set(kNoRegister, integer(low1));
      result.jumps_backward = bits(word, 12, 1) == 1;
      break;
    case Format::kShortJumpRegister:
      // c.jalr (bit 12) writes the return address to x1.
      set(bits(word, 12, 1) == 1 ? integer(1) : kNoRegister, integer(rd));
      break;
    case Format::kShortMove: set(integer(rd), integer(short2)); break;
    case Format::kShortAdd: set(integer(rd), integer(rd), integer(short2)); break;
  }
}

}  // namespace

Instruction decode(uint32_t word, int length) {
  Instruction result;
  result.length = static_cast<uint8_t>(length);
  const Row* row = nullptr;
  if (length == 2) {
    word &= 0xffff;
    row = find_row(kCompressedRows, word);
  } else if (length == 4) {
    row = find_row(kScalarRows, word);
    if (row == nullptr) row = find_row(kVectorRows, word);
    if (row == nullptr) row = find_row(kVectorMemoryRows, word);
  }
  if (row == nullptr) return result;
  result.kind = row->kind;
  result.timing = row->timing;
  // In scalar float operations, bits 26:25 are the format; 1 and 3 are the wide ones.
  result.is_double = bits(word, 25, 1) == 1;
  decode_operands(word, row->format, result);
  return result;
}

}  // namespace tc::qemu
