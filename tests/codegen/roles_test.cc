// What the emitter says that instructions are for, and what LLVM's simplifications leave of it.
#include "codegen/llvm/role_metadata.h"

#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>

#include <memory>
#include <sstream>
#include <string>

#include "codegen/llvm/kernel_code.h"
#include "scheduler/scheduler.h"

namespace tc {
namespace {

TEST(Roles, AnInstructionKeepsWhatItIsForInACopyAndInText) {
  for (const Role role : {Role::Prefetch, Role::Product, Role::BroadcastProduct, Role::MatrixProduct,
                          Role::ByteProduct, Role::Widening, Role::Rounding}) {
    llvm::LLVMContext context;
    llvm::SMDiagnostic error;
    const std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(
        "define i8 @f(ptr %p) {\n  %a = load i8, ptr %p\n  ret i8 %a\n}\n", error, context);
    ASSERT_NE(module, nullptr) << error.getMessage().str();
    llvm::Instruction& load = module->getFunction("f")->getEntryBlock().front();
    EXPECT_EQ(role_of(load), Role::None);
    set_role(&load, role);
    EXPECT_EQ(role_of(load), role);
    EXPECT_EQ(adds_product(load),
              role == Role::Product || role == Role::BroadcastProduct || role == Role::MatrixProduct);
    llvm::Instruction* copy = load.clone();
    EXPECT_EQ(role_of(*copy), role);
    set_role(copy, Role::None);
    EXPECT_EQ(role_of(*copy), Role::None);
    copy->deleteValue();
  }
}

TEST(Roles, OtherMetadataIsNoRole) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  const std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(
      "define void @f(ptr %p) {\n  %a = load i8, ptr %p, !tc.role !0\n  %b = load i8, ptr %p, !tc.role !1\n"
      "  %c = load i8, ptr %p, !invariant.load !0\n  ret void\n}\n!0 = !{}\n!1 = !{!\"no word of ours\"}\n",
      error, context);
  ASSERT_NE(module, nullptr) << error.getMessage().str();
  for (const llvm::Instruction& each : llvm::instructions(*module->getFunction("f")))
    EXPECT_EQ(role_of(each), Role::None);
}

// How many lines of the kernel's code, behind LLVM's simplifications and a first pass of ours, have `word`,
// and how many of these have a role.
struct Counts {
  int all = 0, marked = 0;
};
Counts count(const std::string& kernel, const std::string& word, const char* target = "rv64gcv_zvl256b") {
  const Target processor = parse_target(target);
  const std::string code = kernel_after_pass(default_schedule(parse_kernel(kernel), processor, 1).finish(),
                                             processor, "kernel", "spill_accumulators_early");
  std::istringstream lines(code);
  Counts result;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(word) == std::string::npos) continue;
    ++result.all;
    result.marked += line.find("!tc.role") != std::string::npos;
  }
  return result;
}

void expect_all_marked(const Counts& counts) {
  EXPECT_GT(counts.all, 0);
  EXPECT_EQ(counts.marked, counts.all);
}

const char* const kProduct =
    "kernel \"product\"\n  input A f32[128, 300]\n  constant B f32[300, 256]\n  output C f32[128, 256]\n"
    "  init[m:128, n:256]: C[m, n] = 0\n  macc[m:128, n:256, k:300]: C[m, n] += A[m, k] * B[k, n]\n";

TEST(Roles, LLVMLeavesThoseOfFloats) {
  for (const char* target : {"rv64gcv_zvl256b", "cortex-a53"}) {
    SCOPED_TRACE(target);
    expect_all_marked(count(kProduct, "llvm.fmuladd", target));
  }
  expect_all_marked(count(kProduct, "load volatile i8"));
  expect_all_marked(count(kProduct, "call void @llvm.prefetch", "cortex-a53"));
}

TEST(Roles, LLVMLeavesThoseOfBytes) {
  const std::string kernel =
      "kernel \"product\"\n  input A u8[64, 64]\n  constant B i8[64, 64]\n  output C i32[64, 64]\n"
      "  init[m:64, n:64]: C[m, n] = 0\n  macc[m:64, n:64, k:64]: C[m, n] += i32(A[m, k]) * i32(B[k, n])\n";
  expect_all_marked(count(kernel, "llvm.riscv.vwmacc"));
  const Counts widening = count(kernel, "to <16 x i16>");
  expect_all_marked(widening);
}

}  // namespace
}  // namespace tc
