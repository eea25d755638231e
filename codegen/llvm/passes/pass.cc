// The table of the passes over a kernel's code.
#include "codegen/llvm/passes/pass.h"

#include <llvm/CodeGen/Passes.h>

#include "codegen/llvm/module_compiler.h"
#include "codegen/llvm/passes/branchless_borders.h"
#include "codegen/llvm/passes/if_convert_borders.h"
#include "codegen/llvm/passes/expand_rounding.h"
#include "codegen/llvm/passes/encode_products.h"
#include "codegen/llvm/passes/scalarise_epilogues.h"
#include "codegen/llvm/passes/reduce_register_pressure.h"
#include "codegen/llvm/passes/order_instructions.h"
#include "codegen/llvm/passes/interleave_chains.h"
#include "codegen/llvm/passes/join_vectors.h"
#include "codegen/llvm/passes/hoist_machine_invariants.h"
#include "codegen/llvm/passes/split_masked_by_register.h"
#include "codegen/llvm/passes/lower_maximum_chains.h"
#include "codegen/llvm/passes/pipeline_epilogues.h"
#include "codegen/llvm/passes/sink_extensions.h"
#include "codegen/llvm/passes/spill_accumulators_early.h"
#include "codegen/llvm/passes/pipeline_operand_loads.h"
#include "codegen/llvm/passes/tie_accumulators.h"
#include "ir/error.h"

namespace tc {
namespace {

using llvm::Function;
using Stage = CodePass::Stage;

constexpr const char* kOrdered = "vectors, in order or RISC-V's";
constexpr const char* kRiscv = "RISC-V vectors";
constexpr int kRegistersOfAvx512 = 32;

bool riscv_ordered(const Target& target) { return orders_code(target) && target.is_riscv(); }
bool joins_vectors(const Target& target) { return riscv_ordered(target) && target.broadcast_operand; }
bool is_cortex_m(const Target& target) { return target.arch == Arch::ArmM; }
bool is_scalar_cortex_m(const Target& target) { return is_cortex_m(target) && target.vector_bits == 0; }
bool has_avx512_registers(const Target& target) {
  return target.arch == Arch::X86_64 && target.vector_registers >= kRegistersOfAvx512;
}
bool has_avx2_registers(const Target& target) {
  return target.arch == Arch::X86_64 && target.vector_registers < kRegistersOfAvx512;
}

// A pass that needs nothing but the function, and one that needs the target.
template <void (*kPass)(Function&)>
void on_function(Function& function, PassContext&) {
  kPass(function);
}
template <void (*kPass)(Function&, const Target&)>
void for_target(Function& function, PassContext& context) {
  kPass(function, context.target);
}

}  // namespace

const std::vector<CodePass>& code_pass_table() {
  static const std::vector<CodePass> table = {
      {"lower_maximum_chains",
       "Carries the largest number and a sum of squares in place of each maximum in which NaN has to win.",
       kRiscv, riscv_ordered, Stage::First, on_function<lower_maximum_chains>},
      {"expand_rounding",
       "Rounds floats to whole numbers by sums where there is no instruction, which needs no function of a library.",
       "Cortex-M", is_cortex_m, Stage::First, for_target<expand_rounding>},
      {"sink_extensions",
       "Extends the factors of a long product where the product is, so that it is one instruction.",
       "Cortex-M", is_cortex_m, Stage::Last, on_function<sink_extensions>},
      {"scalarise_epilogues",
       "Computes and stores what follows a sum one lane after the other, so that few results wait in registers.",
       "Cortex-M without vectors", is_scalar_cortex_m, Stage::Last, on_function<scalarise_epilogues>},
      {"pipeline_epilogues",
       "Lets the short sums of bytes of one tile run beside the scaling and the stores of the tile before.",
       "x86-64 with AVX-512", has_avx512_registers, Stage::Last, on_function<pipeline_epilogues>},
      {"split_masked_by_register",
       "Splits masked loads and stores of two registers into one for each, and leaves out one without lanes.",
       "x86-64 with AVX2", has_avx2_registers, Stage::Last, on_function<split_masked_by_register>},
      {"join_vectors", "Joins two vectors of a tile whose sums are multiplied by the same elements.", kRiscv,
       joins_vectors, Stage::Last, for_target<join_vectors>},
      {"branchless_borders",
       "Makes the address of a load at a border, its buffer's or that of zeros, by a mask in place of a branch.",
       kRiscv, riscv_ordered, Stage::Last, for_target<branchless_borders>},
      {"if_convert_borders",
       "Where vectors do not fit the registers, runs what a branch leaves out at a border as well, on unused memory.",
       kOrdered, orders_code, Stage::Last, for_target<if_convert_borders>},
      {"spill_accumulators_early",
       "Stores the sums of a tile where their results go, and loads each before its long epilogue.", kOrdered,
       orders_code, Stage::Last, for_target<spill_accumulators_early>},
      {"reduce_register_pressure",
       "Computes or loads values again where they would not fit the vector registers until their last use.",
       kOrdered, orders_code, Stage::Last, for_target<reduce_register_pressure>},
      {"interleave_chains", "Interleaves chains of operations of which each waits for the one before it.",
       kOrdered, orders_code, Stage::Last,
       [](Function& function, PassContext& context) {
         context.interleaved = interleave_chains(function, context.target);
       }},
      {"pipeline_operand_loads", "Has each trip of a sum's loop load what the next trip reads first.",
       kOrdered, orders_code, Stage::Last, for_target<pipeline_operand_loads>},
      {"order_instructions",
       "Moves loads ahead of their use as far as registers allow, and spreads prefetches.", kOrdered,
       orders_code, Stage::Last,
       [](Function& function, PassContext& context) {
         order_instructions(function, context.target, context.interleaved);
       }},
      {"hoist_machine_invariants",
       "Takes computations out of loops where the registers have room for their results.", kRiscv,
       riscv_ordered, Stage::Machine, nullptr,
       [](const Target& target) { return create_hoist_machine_invariants(target.vector_registers); },
       &llvm::MachineCSEID, &llvm::EarlyMachineLICMID},
      {"tie_accumulators", "Lets each multiply-add overwrite the sum that it adds to.", kRiscv, riscv_ordered,
       Stage::Machine, nullptr, [](const Target&) { return create_tie_accumulators(); },
       &llvm::PeepholeOptimizerID},
      {"encode_products", "Writes vendors' instructions in place of those of LLVM's that stand for them.",
       "RISC-V vectors", riscv_ordered, Stage::Machine, nullptr,
       [](const Target& target) { return create_encode_products(target); }, &llvm::PatchableFunctionID},
  };
  return table;
}

const CodePass& code_pass(const std::string& name) {
  std::string names;
  for (const CodePass& pass : code_pass_table()) {
    if (name == pass.name) return pass;
    names += (names.empty() ? "" : ", ") + std::string(pass.name);
  }
  fail(ErrorKind::Model, "there is no pass over code that is called '", name, "'; the passes are ", names);
}

}  // namespace tc
