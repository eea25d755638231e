// The table of the passes over a kernel's code.
#include "codegen/llvm/passes/pass.h"

#include <llvm/CodeGen/Passes.h>

#include "codegen/llvm/module_compiler.h"
#include "codegen/llvm/passes/branchless_borders.h"
#include "codegen/llvm/passes/carry_addresses.h"
#include "codegen/llvm/passes/drop_unused_products.h"
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

constexpr const char* kOrdered = "in-order cores with vectors; RISC-V vectors";
constexpr const char* kRiscv = "RISC-V vectors";
constexpr int kRegistersOfAvx512 = 32;

bool riscv_ordered(const Target& target) { return orders_code(target) && target.is_riscv(); }
bool joins_vectors(const Target& target) { return riscv_ordered(target) && target.broadcast_operand; }
bool is_cortex_m(const Target& target) { return target.arch == Arch::ArmM; }
bool is_scalar_cortex_m(const Target& target) { return is_cortex_m(target) && target.vector_bits == 0; }
bool is_vector_cortex_m(const Target& target) { return is_cortex_m(target) && target.vector_bits > 0; }
bool carries_addresses(const Target& target) {
  return target.word_bits == 32 && (is_cortex_m(target) ? target.vector_bits > 0 : target.vector_bits == 0);
}
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
       "Lowers chains of maxima that propagate NaN to maxima that ignore it and a sum of squares that keeps it.",
       kRiscv, riscv_ordered, Stage::First, on_function<lower_maximum_chains>},
      {"expand_rounding",
       "Lowers roundings of floats to integers to additions, where LLVM would call a function of a library.",
       "Cortex-M", is_cortex_m, Stage::First, for_target<expand_rounding>},
      {"sink_extensions",
       "Sinks the extensions of a 64-bit product's factors to the product, so that both are one instruction.",
       "Cortex-M", is_cortex_m, Stage::Last, on_function<sink_extensions>},
      {"scalarise_epilogues",
       "Scalarises the epilogues of sums lane by lane, so that few results are live in registers.",
       "Cortex-M without vectors", is_scalar_cortex_m, Stage::Last, on_function<scalarise_epilogues>},
      {"drop_unused_products",
       "Removes from pieces of assembly the products whose sums nothing reads, and their loads.",
       "Cortex-M with vectors", is_vector_cortex_m, Stage::Last, on_function<drop_unused_products>},
      {"carry_addresses", "Has loops carry addresses as pointers that they add to, and count down to zero.",
       "Cortex-M with vectors; RISC-V of 32 bits without", carries_addresses, Stage::Last,
       on_function<carry_addresses>},
      {"pipeline_epilogues",
       "Software-pipelines loops over tiles with short sums of bytes: epilogues overlap the next sums.",
       "x86-64 with AVX-512", has_avx512_registers, Stage::Last, on_function<pipeline_epilogues>},
      {"split_masked_by_register",
       "Splits masked loads and stores of two registers into one for each, and omits those without active lanes.",
       "x86-64 with AVX2", has_avx2_registers, Stage::Last, on_function<split_masked_by_register>},
      {"join_vectors", "Joins two vector accumulators that are multiplied by the same elements.", kRiscv,
       joins_vectors, Stage::Last, for_target<join_vectors>},
      {"branchless_borders",
       "Chooses the address of a load at a border, in its buffer or in zeros, by a mask instead of a branch.",
       kRiscv, riscv_ordered, Stage::Last, for_target<branchless_borders>},
      {"if_convert_borders",
       "If-converts branches at borders where vectors do not fit the registers, with unused memory for "
       "skipped accesses.",
       kOrdered, orders_code, Stage::Last, for_target<if_convert_borders>},
      {"spill_accumulators_early",
       "Stores the accumulators of a tile where their results go, and reloads each before its long epilogue.",
       kOrdered, orders_code, Stage::Last, for_target<spill_accumulators_early>},
      {"reduce_register_pressure",
       "Moves computations next to their stores, and loads values again, where they do not fit the vector registers.",
       kOrdered, orders_code, Stage::Last, for_target<reduce_register_pressure>},
      {"interleave_chains", "Interleaves chains of operations of which each waits for the one before it.",
       kOrdered, orders_code, Stage::Last,
       [](Function& function, PassContext& context) {
         context.interleaved = interleave_chains(function, context.target);
       }},
      {"pipeline_operand_loads",
       "Software-pipelines the loads of a sum's loop: each iteration loads the next one's first operands.",
       kOrdered, orders_code, Stage::Last, for_target<pipeline_operand_loads>},
      {"order_instructions",
       "Moves loads ahead of their uses as far as registers allow, and spreads prefetches.", kOrdered,
       orders_code, Stage::Last,
       [](Function& function, PassContext& context) {
         order_instructions(function, context.target, context.interleaved);
       }},
      {"hoist_machine_invariants",
       "Hoists loop-invariant instructions as far as the registers have room for their results.", kRiscv,
       riscv_ordered, Stage::Machine, nullptr,
       [](const Target& target) { return create_hoist_machine_invariants(target.vector_registers); },
       &llvm::MachineCSEID, &llvm::EarlyMachineLICMID},
      {"tie_accumulators", "Has each multiply-add overwrite its accumulator.", kRiscv, riscv_ordered,
       Stage::Machine, nullptr, [](const Target&) { return create_tie_accumulators(); },
       &llvm::PeepholeOptimizerID},
      {"encode_products", "Replaces the instructions that stand for a vendor's by the vendor's.", kRiscv,
       riscv_ordered, Stage::Machine, nullptr,
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
