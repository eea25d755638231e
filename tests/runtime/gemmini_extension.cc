// Gemmini for the simulator Spike: the instructions that accelerators/gemmini16.py encodes, as Gemmini's
// public documentation describes them. Others end the program as an illegal instruction, and so does what
// leaves the memories.
#include <riscv/extension.h>
#include <riscv/mmu.h>
#include <riscv/processor.h>
#include <riscv/trap.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr unsigned kSize = 16;  // rows and columns of the array, elements of a row
constexpr uint32_t kScratchpadRows = 256 * 1024 / kSize, kAccumulatorRows = 64 * 1024 / (4 * kSize);
constexpr uint32_t kNothing = 0xffffffff;  // an address: zeros

// A register with an address and a number of columns and rows.
struct Block {
  explicit Block(reg_t bits)
      : address(static_cast<uint32_t>(bits)),
        columns(static_cast<unsigned>(bits >> 32 & 0xffff)),
        rows(static_cast<unsigned>(bits >> 48)) {}
  bool in_accumulators() const { return (address >> 31 & 1) != 0; }
  bool adds() const { return (address >> 30 & 1) != 0; }
  bool is_whole() const { return (address >> 29 & 1) != 0; }
  uint32_t row() const { return address & 0x1fffffff; }

  uint32_t address;
  unsigned columns, rows;
};

class Gemmini : public extension_t {
 public:
  std::vector<insn_desc_t> get_instructions(const processor_t&) override {
    return {{0x0000307b, 0x00007fff, execute, execute, execute, execute, execute, execute, execute, execute}};
  }
  std::vector<disasm_insn_t*> get_disasms(const processor_t*) override { return {}; }
  const char* name() const override { return "gemmini"; }

 private:
  static reg_t execute(processor_t* processor, insn_t instruction, reg_t pc) {
    auto* gemmini = static_cast<Gemmini*>(processor->get_extension("gemmini"));
    const reg_t first = processor->get_state()->XPR[instruction.rs1()];
    const reg_t second = processor->get_state()->XPR[instruction.rs2()];
    if (!gemmini->run(*processor, static_cast<unsigned>(instruction.bits() >> 25 & 0x7f), first, second))
      throw trap_illegal_instruction(instruction.bits());
    return pc + 4;
  }

  bool run(processor_t& processor, unsigned function, reg_t first, reg_t second) {
    switch (function) {
      case 0: return configure(first, second);
      case 2: return load(processor, first, Block(second));
      case 3: return store(processor, first, Block(second));
      case 4: return multiply(Block(first), Block(second));
      case 6:
        weights_ = Block(first);
        result_ = Block(second);
        return true;
      default: return false;
    }
  }

  bool configure(reg_t first, reg_t second) {
    switch (first & 3) {
      case 0:
        if ((first >> 2 & 1) == 0) return false;  // weights stay in the array
        step_of_activations_ = static_cast<uint32_t>(first >> 16 & 0xffff);
        step_of_results_ = static_cast<uint32_t>(second >> 48);
        return true;
      case 1: load_step_ = second; return first >> 32 == 0x3f800000;
      case 2: store_step_ = second & 0xffffffff; return true;
      default: return false;
    }
  }

  static bool fits(const Block& block, uint32_t step = 1) {
    const uint64_t rows = block.in_accumulators() ? kAccumulatorRows : kScratchpadRows;
    return block.columns <= kSize && block.rows <= kSize && block.rows > 0 &&
           block.row() + uint64_t{block.rows - 1} * step < rows;
  }

  bool load(processor_t& processor, reg_t from, const Block& to) {
    if (!fits(to)) return false;
    for (unsigned i = 0; i < to.rows; ++i) {
      for (unsigned k = 0; k < to.columns; ++k) {
        const reg_t at = from + i * load_step_;
        if (to.in_accumulators()) {
          int32_t& sum = sums_[to.row() + i][k];
          const int32_t value =
              from == 0 ? 0 : static_cast<int32_t>(processor.get_mmu()->load<uint32_t>(at + 4 * k));
          sum = to.adds() ? sum + value : value;
        } else {
          bytes_[to.row() + i][k] =
              from == 0 ? int8_t{0} : static_cast<int8_t>(processor.get_mmu()->load<uint8_t>(at + k));
        }
      }
    }
    return true;
  }

  bool store(processor_t& processor, reg_t to, const Block& from) {
    if (!fits(from) || !from.in_accumulators() || !from.is_whole()) return false;
    for (unsigned i = 0; i < from.rows; ++i) {
      for (unsigned k = 0; k < from.columns; ++k)
        processor.get_mmu()->store<uint32_t>(to + i * store_step_ + 4 * k,
                                             static_cast<uint32_t>(sums_[from.row() + i][k]));
    }
    return true;
  }

  bool multiply(const Block& activations, const Block& bias) {
    if (!fits(activations, step_of_activations_) || !fits(weights_) || !fits(result_, step_of_results_) ||
        activations.in_accumulators() || weights_.in_accumulators() || !result_.in_accumulators() ||
        bias.address != kNothing)
      return false;
    for (unsigned x = 0; x < result_.rows; ++x) {
      for (unsigned n = 0; n < result_.columns; ++n) {
        int32_t value = 0;
        for (unsigned k = 0; k < kSize && x < activations.rows; ++k) {
          if (k >= activations.columns || k >= weights_.rows || n >= weights_.columns) continue;
          value += bytes_[activations.row() + x * step_of_activations_][k] * bytes_[weights_.row() + k][n];
        }
        int32_t& sum = sums_[result_.row() + x * step_of_results_][n];
        sum = result_.adds() ? sum + value : value;
      }
    }
    return true;
  }

  int8_t bytes_[kScratchpadRows][kSize] = {};
  int32_t sums_[kAccumulatorRows][kSize] = {};
  reg_t load_step_ = 0, store_step_ = 0;
  uint32_t step_of_activations_ = 1, step_of_results_ = 1;
  Block weights_{0}, result_{0};
};

REGISTER_EXTENSION(gemmini, []() -> extension_t* { return new Gemmini; })

}  // namespace
