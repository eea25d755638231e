// One row per target; each architecture's file fills its own. Internal to ir/target.
#pragma once

#include <string>
#include <vector>

#include "ir/target/core_row.h"
#include "ir/target/target.h"

namespace tc::targets {

struct Row {
  Target target;
  std::string description;  // one line, for people
  // The row's own features, by LLVM's names; runs_here checks them.
  std::vector<std::string> required;
  // Those of `required` that may nevertheless be switched off.
  std::vector<std::string> optional;
};

std::vector<Row> x86_rows();
std::vector<Row> riscv_rows();
std::vector<Row> aarch64_rows();
std::vector<Row> cortex_m_rows();

// The cores of an architecture, and the core with a given name or null.
std::vector<const CoreRow*> cores_of(Arch arch);
const CoreRow* core_of(Arch arch, const std::string& name);
// Fills in the target's core from the row, as costs of the target's vectors. The target's instruction set
// must have been filled in.
void use_core(Target& target, const CoreRow& row);
// A row for a target that has the core's name and also requires the core's features.
Row named_core(Target target, const CoreRow& core, std::vector<std::string> required);
// The names in a list as LLVM spells it: "+zba,+zbb".
std::vector<std::string> names_of(const std::string& features);

// The features that may follow a target's name with + or -, by LLVM's names.
std::vector<std::string> x86_features();
std::vector<std::string> riscv_features();
std::vector<std::string> riscv32_features();
std::vector<std::string> aarch64_features();
std::vector<std::string> cortex_m_features();

// Narrow products of the same shape and route. A machine has those whose features it has.
struct ProductGroup {
  const char* feature;  // without it the machine has none of them
  ProductRoute route;   // Tiles: a program must ask the operating system for their registers
  // Of an accumulator. A row of columns may take several instructions; 0 columns: as many as a vector holds.
  int rows, columns;
  int registers;  // in the unit
  std::vector<NarrowProduct> instructions;
};

// The groups of an architecture. A machine uses the first group of tiles or vectors whose feature it has, and
// no other, even if it has none of that group's instructions: a vendor's group has the vendor's feature, and
// comes before those of other machines. Register tiles use all groups of lanes, and of those the first row
// that fits. Pointers to the rows stay valid.
const std::vector<ProductGroup>& x86_products();
const std::vector<ProductGroup>& riscv_products();
const std::vector<ProductGroup>& riscv32_products();
const std::vector<ProductGroup>& aarch64_products();
const std::vector<ProductGroup>& cortex_m_products();
const std::vector<ProductGroup>& narrow_products(Arch arch);

// The matrix unit of a target with these features.
MatrixUnit matrix_unit(Arch arch, const std::vector<std::string>& features);
// The narrow products of its register tiles.
std::vector<const NarrowProduct*> lane_products(Arch arch, const std::vector<std::string>& features);
// The LLVM features for the unit that only choose among equivalent instructions: "+fast-dpwssd".
std::string tuning_features(const MatrixUnit& unit);
// Whether LLVM does not know the feature: all instructions that need it are encoded.
bool is_encoded_feature(Arch arch, const std::string& feature);
// Whether only code that uses tiles, which the operating system grants, needs the feature.
bool needs_tile_unit(Arch arch, const std::string& feature);
// The features that the architecture's rows of narrow products need, in alphabetical order.
std::vector<std::string> product_features(Arch arch);

// The features of `arch` that this machine has, by LLVM's names; empty where it is another machine.
std::vector<std::string> detected_features(Arch arch);

// The features of 64-bit Arm, by LLVM's names, that Linux reports in two words of the auxiliary vector.
std::vector<std::string> arm_features(uint64_t hwcap, uint64_t hwcap2);

bool is_this_machine(Arch arch);

// The name of the row for this machine, with the detected extras after it.
std::string native_name();
// The core that Linux's /proc/cpuinfo names on Arm and RISC-V; empty where it has no row. On machines with
// several kinds of cores it is the first listed core that has a row.
std::string core_of_cpuinfo(Arch arch, const std::string& text);
// This machine's core where it is known and `find_core` asks for it, and its cache sizes, clock and number of
// cores, where the operating system tells them.
void describe_this_machine(Target& target, bool find_core);

}  // namespace tc::targets
