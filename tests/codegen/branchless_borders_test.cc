// Code without branches at borders.
#include "codegen/llvm/passes/branchless_borders.h"
#include "codegen/llvm/passes/if_convert_borders.h"

#include <gtest/gtest.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include <string>

namespace tc {
namespace {

using Pass = void (*)(llvm::Function&, const Target&);

// The function's text after the pass, or what is wrong with it. Each load and store has to be of the buffer
// that it was of.
std::string after(Pass pass, const std::string& body, const char* target = "rv64gcv_zvl256b") {
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  const std::string head =
      "@zeros = internal global [256 x i8] zeroinitializer\n"
      "define void @kernel(ptr noalias %in, ptr noalias %out, i64 %row, i64 %column) {\n";
  const std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(head + body + "}\n", error, context);
  if (module == nullptr) return error.getMessage().str();
  llvm::Function& function = *module->getFunction("kernel");
  pass(function, parse_target(target));
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (llvm::verifyFunction(function, &stream)) return text;
  for (const llvm::Instruction& each : llvm::instructions(function)) {
    const llvm::Value* place = llvm::getLoadStorePointerOperand(&each);
    const bool is_chosen = place != nullptr && llvm::isa<llvm::SelectInst>(place);
    if (place == nullptr || is_chosen) continue;
    const llvm::Value* buffer = llvm::getUnderlyingObject(place, /*MaxLookup=*/0);
    if (buffer != function.getArg(llvm::isa<llvm::StoreInst>(each) ? 1 : 0)) return "another buffer";
  }
  function.print(stream);
  return text;
}

int count_of(const std::string& text, const std::string& word) {
  int result = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++result;
  return result;
}

const std::string kChosen =
    "  %inside = icmp ult i64 %row, 14\n  %place = getelementptr i8, ptr %in, i64 %row\n  %element = getelementptr i8, ptr %place, i64 64\n"
    "  %address = select i1 %inside, ptr %element, ptr @zeros\n  %a = load <16 x float>, ptr %address\n  store <16 x float> %a, ptr %out\n  ret void\n";

TEST(ChooseAddresses, ABordersAddressIsComputedWithAMask) {
  const std::string text = after(branchless_borders, kChosen);
  EXPECT_EQ(count_of(text, "select"), 0) << text;
  EXPECT_NE(text.find(" = xor i1 %inside, true\n"), std::string::npos) << text;
  EXPECT_NE(text.find("sub i64 ptrtoint (ptr @zeros to i64), "), std::string::npos) << text;
  EXPECT_EQ(count_of(text, ", i64 64\n"), 2) << "the element's, and that of the load\n" << text;
}

TEST(ChooseAddresses, AConditionalMoveChooses) {
  EXPECT_EQ(count_of(after(branchless_borders, kChosen, "rv64gcv_zvl256b+zicond"), "select"), 1);
}

// `count` vectors are loaded, all but the last of a row are stored where there is a row, and that where there
// is a column, too.
std::string stores_at_a_border(int count, const std::string& inside = "") {
  std::string loads, stores;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i), bytes = std::to_string(64 * i);
    loads += "  %p" + n + " = getelementptr i8, ptr %in, i64 " + bytes + "\n  %a" + n +
             " = load <16 x float>, ptr %p" + n + "\n";
    (i == 0 ? loads : stores) += "  %q" + n + " = getelementptr i8, ptr %out, i64 " + bytes + "\n";
    if (i > 0) stores += "  store <16 x float> %a" + n + ", ptr %q" + n + "\n";
  }
  return loads + "  %is_row = icmp ult i64 %row, 55\n  br i1 %is_row, label %below, label %end\nbelow:\n" +
         stores + inside +
         "  %no_column = icmp uge i64 %column, 55\n  br i1 %no_column, label %end, label %beside\nbeside:\n"
         "  store <16 x float> %a0, ptr %q0\n  br label %end\nend:\n  ret void\n";
}

TEST(RunThroughBorders, WhatBranchesLeaveOutRunsAlways) {
  // 17 vectors of two registers do not fit.
  const std::string text = after(if_convert_borders, stores_at_a_border(17));
  EXPECT_EQ(count_of(text, "br "), 0) << text;
  EXPECT_EQ(count_of(text, "store <16 x float>"), 17) << text;
  EXPECT_EQ(count_of(text, "alloca"), 1) << text;
  EXPECT_NE(text.find("or i64"), std::string::npos) << "the inner branch's store has the masks of both\n"
                                                    << text;
  EXPECT_NE(text.find("sext i1 %no_column to i64"), std::string::npos) << text;
  EXPECT_NE(text.find("xor i1 %is_row, true"), std::string::npos) << text;
}

TEST(RunThroughBorders, VectorsThatFitKeepTheirBranches) {
  EXPECT_EQ(count_of(after(if_convert_borders, stores_at_a_border(16)), "br "), 3);
}

TEST(RunThroughBorders, WhatMayNotRunAlwaysKeepsItsBranch) {
  EXPECT_EQ(count_of(after(if_convert_borders, stores_at_a_border(17, "  %d = udiv i64 1, %row\n")), "br "),
            2);
  EXPECT_EQ(count_of(after(if_convert_borders, stores_at_a_border(17), "rv64gcv_zvl256b+zicond"), "br "), 3);
}

}  // namespace
}  // namespace tc
