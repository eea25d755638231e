// What each instruction of a block has to come after.
#include "codegen/llvm/pass_support/dependences.h"

#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>

#include <memory>
#include <string>
#include <vector>

namespace tc {
namespace {

// A function of one block with the graph of its instructions.
struct Graph {
  explicit Graph(const std::string& body) {
    llvm::SMDiagnostic error;
    module = llvm::parseAssemblyString("define void @kernel(ptr noalias %in, ptr noalias %out, i64 %i) {\n" +
                                           body + "  ret void\n}\n!0 = !{!\"prefetch\"}\n!1 = !{}\n",
                                       error, context);
    EXPECT_NE(module, nullptr) << error.getMessage().str();
    block = &module->getFunction("kernel")->getEntryBlock();
    dependences = std::make_unique<Dependences>(*block);
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  llvm::BasicBlock* block = nullptr;
  std::unique_ptr<Dependences> dependences;
};

using Places = std::vector<size_t>;
constexpr auto kNonePasses = [](const llvm::Instruction&, const llvm::Instruction&) { return false; };

TEST(Dependences, AnInstructionComesAfterItsOperands) {
  const Graph graph("  %a = load i64, ptr %in\n  %b = add i64 %a, %i\n  %c = mul i64 %b, %a\n");
  const Dependences& found = *graph.dependences;
  EXPECT_EQ(found.size(), 3U) << "the block's end is none of them";
  EXPECT_EQ(found.operands(0), Places());
  EXPECT_EQ(found.operands(1), Places({0}));
  EXPECT_EQ(found.operands(2), Places({1, 0}));
  EXPECT_EQ(found.after_operands(1), 1U);
  EXPECT_EQ(found.place(graph.block->getTerminator()), 3U);
  EXPECT_FALSE(found.contains(graph.block->getParent()->getArg(2)));
}

// To both buffers are written, and both are read again.
const char* const kAccesses =
    "  store i64 1, ptr %in\n  store i64 2, ptr %out\n  %a = load i64, ptr %in\n  %b = load i64, ptr %out\n"
    "  %sum = add i64 %a, %b\n  store i64 %sum, ptr %in\n";

TEST(Dependences, AccessesOfABufferKeepTheirOrder) {
  const Graph graph(kAccesses);
  const Dependences& found = *graph.dependences;
  EXPECT_EQ(found.conflicts(0), Places({2, 5}));
  EXPECT_EQ(found.conflicts(2), Places({0, 5}));
  EXPECT_EQ(found.conflicts(3), Places({1}));
  EXPECT_EQ(found.conflicts(4), Places());
  EXPECT_EQ(found.free_from(2), 1U);
  EXPECT_EQ(found.free_from(3), 2U);
  EXPECT_EQ(found.free_from(5), 3U);
  EXPECT_EQ(found.needs(kNonePasses)[5], Places({4, 0, 2}));
  EXPECT_EQ(found.needs([](const auto&, const llvm::Instruction& earlier) {
    return llvm::isa<llvm::LoadInst>(earlier);
  })[5],
            Places({4, 0}));
}

TEST(Dependences, PrefetchesHoldNoAccessBack) {
  const Graph graph("  %t = load volatile i8, ptr %in, !tc.role !0\n  %a = load i8, ptr %in\n");
  EXPECT_EQ(graph.dependences->free_from(1), 0U);
  EXPECT_EQ(Graph("  %t = load volatile i8, ptr %in\n  %a = load i8, ptr %in\n").dependences->free_from(1),
            1U);
}

TEST(Dependences, InvariantLoadsPassStores) {
  const Graph graph("  store i8 1, ptr %in\n  %a = load i8, ptr %in, !invariant.load !1\n");
  EXPECT_EQ(graph.dependences->free_from(1), 0U);
}

TEST(Dependences, AnAddressMovesTogetherWithItsAccess) {
  const Graph graph(
      "  %n = add i64 %i, 8\n  %m = add i64 %i, 16\n  %place = getelementptr i8, ptr %in, i64 %n\n"
      "  %hidden = call ptr asm \"\", \"=r,0\"(ptr %place)\n  %a = load i8, ptr %hidden\n");
  EXPECT_EQ(graph.dependences->after_operands(4), 1U);
}

TEST(Dependences, RaisingTakesOperandsAlong) {
  const Graph graph(
      "  %n = add i64 %i, 8\n  %m = add i64 %i, 16\n  %k = mul i64 %m, %i\n  %l = add i64 %k, %m\n");
  const std::vector<llvm::Instruction*>& all = graph.dependences->instructions();
  raise(*all[3], *all[0]);
  std::string order;
  for (const llvm::Instruction& each : *graph.block) order += each.getName().str();
  EXPECT_EQ(order, "mkln");
}

}  // namespace
}  // namespace tc
