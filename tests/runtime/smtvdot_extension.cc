// SpacemiT's matrix instruction for the simulator Spike, as the public specification describes it ("RISC-V
// Integrated Matrix Extension", SpacemiT, program model and instructions), at a vector length of 256 bits:
// `smt.vmadot`, and its forms that take rows s to s + 3 of the eight rows in two registers. What the
// specification leaves out ends the program as an illegal instruction.
#include <riscv/extension.h>
#include <riscv/processor.h>
#include <riscv/trap.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr unsigned kBytes = 32, kRows = 4, kDepth = 8;
constexpr uint32_t kOpcode = 0x2b, kPlain = 0x71, kSliding = 0x73;  // custom-1, and the upper seven bits

bool is_ready(processor_t& processor) {
  auto& unit = processor.VU;
  return processor.get_state()->sstatus->enabled(SSTATUS_VS) && !unit.vill && unit.VLEN == 8 * kBytes &&
         unit.vsew == 8 && unit.vflmul <= 1 && unit.vl->read() == kBytes && unit.vstart->read() == 0;
}

bool multiply(processor_t& processor, uint32_t word) {
  const bool slides = word >> 25 == kSliding;
  const unsigned vd = word >> 7 & 31, vs2 = word >> 20 & 31, signs = word >> 12 & 3;
  // Where rows slide, the lowest bit of vs1 belongs to the distance: 1 to 3, encoded as 0 to 2.
  const unsigned vs1 = word >> 15 & (slides ? 30 : 31), slide = slides ? (word >> 14 & 3) + 1 : 0;
  const unsigned last = slides ? vs1 + 1 : vs1;
  if (slide > 3 || (!slides && (word >> 14 & 1) != 0) || (vd & 1) != 0 || !is_ready(processor)) return false;
  if ((vd <= last && vs1 <= vd + 1) || vs2 == vd || vs2 == vd + 1) return false;
  auto* registers = static_cast<uint8_t*>(processor.VU.reg_file);
  const uint8_t* a = registers + vs1 * kBytes + slide * kDepth;
  const uint8_t* b = registers + vs2 * kBytes;
  uint32_t sums[kRows][kRows];
  std::memcpy(sums, registers + vd * kBytes, sizeof sums);
  for (unsigned i = 0; i < kRows; ++i) {
    for (unsigned j = 0; j < kRows; ++j) {
      for (unsigned k = 0; k < kDepth; ++k) {
        const uint8_t left = a[i * kDepth + k], right = b[j * kDepth + k];
        const int row = (signs & 2) != 0 ? static_cast<int8_t>(left) : left;
        const int column = (signs & 1) != 0 ? static_cast<int8_t>(right) : right;
        sums[i][j] += static_cast<uint32_t>(row * column);
      }
    }
  }
  std::memcpy(registers + vd * kBytes, sums, sizeof sums);
  return true;
}

reg_t execute(processor_t* processor, insn_t instruction, reg_t pc) {
  const auto word = static_cast<uint32_t>(instruction.bits());
  if (!multiply(*processor, word)) throw trap_illegal_instruction(word);
  return pc + 4;
}

class Smtvdot : public extension_t {
 public:
  std::vector<insn_desc_t> get_instructions(const processor_t&) override {
    std::vector<insn_desc_t> found;
    for (const uint32_t upper : {kPlain, kSliding})
      found.push_back({upper << 25 | kOpcode, 0xfe00007f, execute, execute, execute, execute, execute,
                       execute, execute, execute});
    return found;
  }
  std::vector<disasm_insn_t*> get_disasms(const processor_t*) override { return {}; }
  const char* name() const override { return "smtvdot"; }
};

REGISTER_EXTENSION(smtvdot, []() -> extension_t* { return new Smtvdot; })

}  // namespace
