// Loads of a sum's next trip, made at the end of the trip before.
#include "codegen/llvm/passes/pipeline_operand_loads.h"

#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include <string>

namespace tc {
namespace {

// Sums in as many groups of 16 lanes: each trip adds the elements of a row times a vector of weights. `last`
// is the last trip's number.
std::string sums(int columns, const std::string& last, const std::string& inside = "") {
  std::string phis, body, stores;
  for (int i = 0; i < columns; ++i) {
    const std::string n = std::to_string(i);
    phis += "  %s" + n + " = phi <16 x float> [ zeroinitializer, %entry ], [ %t" + n + ", %trip ]\n";
    body += "  %p" + n + " = getelementptr i8, ptr %row, i64 " + std::to_string(64 * i) + "\n  %a" + n +
            " = load float, ptr %p" + n + "\n";
    body += "  %e" + n + " = insertelement <16 x float> poison, float %a" + n + ", i64 0\n";
    body += "  %v" + n + " = shufflevector <16 x float> %e" + n +
            ", <16 x float> poison, <16 x i32> zeroinitializer\n";
    body += "  %t" + n + " = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v" + n +
            ", <16 x float> %w, <16 x float> %s" + n + "), !tc.role !0\n";
    stores += "  %q" + n + " = getelementptr i8, ptr %out, i64 " + std::to_string(64 * i) +
              "\n  store <16 x float> %t" + n + ", ptr %q" + n + "\n";
  }
  return "declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)\n"
         "define void @kernel(ptr noalias %in, ptr noalias %weights, ptr noalias %out, i64 %last) {\n"
         "entry:\n  br label %trip\n"
         "trip:\n  %i = phi i64 [ 0, %entry ], [ %next, %trip ]\n" +
         phis +
         "  %b = mul nuw nsw i64 %i, 12544\n  %row = getelementptr i8, ptr %in, i64 %b\n"
         "  %c = shl nsw i64 %i, 6\n  %place = getelementptr i8, ptr %weights, i64 %c\n  %w = load <16 x float>, ptr %place\n" +
         body + inside + "  %next = add nuw nsw i64 %i, 1\n  %more = icmp ult i64 %i, " + last +
         "\n  br i1 %more, label %trip, label %end\n"
         "end:\n" +
         stores + "  ret void\n}\n!0 = !{!\"broadcast product\"}\n";
}

struct Result {
  int before = 0, next = 0, own = 0,
      behind = 0;    // loads before the loop, in it of the next trip and of its own, and behind it
  int products = 0;  // of numbers, for addresses
  bool loops = false;
  std::string text, problem;
};

Result pipelined(const std::string& body, const char* target = "rv64gcv_zvl256b") {
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  const std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(body, error, context);
  Result result;
  if (module == nullptr) {
    result.problem = error.getMessage().str();
    return result;
  }
  llvm::Function& function = *module->getFunction("kernel");
  pipeline_operand_loads(function, parse_target(target));
  llvm::raw_string_ostream problem(result.problem);
  llvm::verifyFunction(function, &problem);
  for (const llvm::BasicBlock& block : function) {
    for (const llvm::Instruction& each : block) {
      result.products += each.getOpcode() == llvm::Instruction::Mul;
      result.loops |= llvm::is_contained(llvm::successors(&block), &block);
      if (!llvm::isa<llvm::LoadInst>(each)) continue;
      const bool is_carried = std::any_of(each.user_begin(), each.user_end(), [](const llvm::User* user) {
        return llvm::isa<llvm::PHINode>(user);
      });
      if (block.getName() == "trip") {
        (is_carried ? result.next : result.own) += 1;
      } else {
        (block.getName() == "entry" ? result.before : result.behind) += 1;
      }
    }
  }
  llvm::raw_string_ostream text(result.text);
  function.print(text);
  return result;
}

// In the 14 cycles of a load from the second cache, at two for each product, there are products of seven
// elements.
TEST(PipelineOperandLoads, TheFirstElementsAndWeightsAreLoadedByTheTripBefore) {
  for (const char* last : {"5", "15", "%last"}) {
    const Result result = pipelined(sums(14, last));
    EXPECT_EQ(result.problem, "");
    EXPECT_EQ(result.before, 8);
    EXPECT_EQ(result.next, 8);
    EXPECT_EQ(result.own, 7);
    EXPECT_EQ(result.products, 0) << "addresses are pointers that move by an addition";
  }
}

TEST(PipelineOperandLoads, TheLastOfFewTripsLoadsNothingForANextOne) {
  const Result result = pipelined(sums(14, "5"));
  EXPECT_TRUE(result.loops);
  EXPECT_EQ(result.behind, 7);
  EXPECT_NE(result.text.find("icmp ult i64 %next, 5\n"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("icmp", result.text.find("icmp") + 1), std::string::npos)
      << "no test whether there is but one trip\n"
      << result.text;
}

TEST(PipelineOperandLoads, TheLastOfManyTripsLoadsItsOwnAgain) {
  const Result result = pipelined(sums(14, "15"));
  EXPECT_EQ(result.next, 8);
  EXPECT_EQ(result.behind, 0);
  EXPECT_NE(result.text.find(" = sext i1 %more to i64"), std::string::npos) << result.text;
}

TEST(PipelineOperandLoads, TwoTripsAreNoLoop) {
  const Result result = pipelined(sums(14, "1"));
  EXPECT_EQ(result.problem, "");
  EXPECT_FALSE(result.loops);
  EXPECT_EQ(result.text.find("phi"), std::string::npos) << result.text;
}

TEST(PipelineOperandLoads, TheOnlyTripOfAnUnknownNumberIsTheLastOne) {
  const Result result = pipelined(sums(14, "%last"));
  EXPECT_EQ(result.behind, 7);
  EXPECT_NE(result.text.find("icmp ult i64 0, %last\n"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("label %trip, label %trip.last\n"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("and i64"), std::string::npos) << result.text;
}

// As where a window's row fits a border's map once: the trip ran twice, and the second one read beyond its
// operands.
TEST(PipelineOperandLoads, TheOnlyTripOfAKnownNumberIsTheLastOne) {
  const Result result = pipelined(sums(14, "0"));
  EXPECT_EQ(result.problem, "");
  EXPECT_NE(result.text.find("br i1 false, label %trip, label %trip.last\n"), std::string::npos)
      << result.text;
}

TEST(PipelineOperandLoads, TheLastTripOfLongCodeLoadsItsOwnAgain) {
  std::string more;
  for (int i = 0; i < 1600; ++i)
    more += "  %n" + std::to_string(i) + " = add i64 %i, " + std::to_string(i) + "\n";
  const Result result = pipelined(sums(14, "%last", more));
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.next, 8);
  EXPECT_EQ(result.behind, 0);
  EXPECT_NE(result.text.find(" = sext i1 %more to i64"), std::string::npos);
  EXPECT_NE(result.text.find(", 12544\n"), std::string::npos);
  EXPECT_EQ(result.text.find("select"), std::string::npos);
}

TEST(PipelineOperandLoads, VectorsThatFindNoRegistersAreLoadedByTheirOwnTrip) {
  // 15 sums of two registers each leave two, and those of one group stay free.
  const Result result = pipelined(sums(15, "%last"));
  EXPECT_EQ(result.next, 7);
  EXPECT_EQ(result.own, 9);
}

TEST(PipelineOperandLoads, SingleRegistersLeaveThreeFree) {
  // Of 32: with the weights 28 sums take 29, and those of one more leave two.
  EXPECT_EQ(pipelined(sums(28, "%last"), "rv64gcv_zvl1024b").own + 1,
            pipelined(sums(29, "%last"), "rv64gcv_zvl1024b").own - 1);
}

TEST(PipelineOperandLoads, NoLoadPassesAWriteOfItsBuffer) {
  const Result result = pipelined(sums(14, "%last", "  store float 1.0, ptr %row\n"));
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.next, 1) << "the weights alone";
  EXPECT_EQ(result.own, 14);
}

TEST(PipelineOperandLoads, WhatIsNoSumStaysAsItIs) {
  std::string copy =
      "define void @kernel(ptr noalias %in, ptr noalias %weights, ptr noalias %out) {\nentry:\n  br label %trip\n"
      "trip:\n  %i = phi i64 [ 0, %entry ], [ %next, %trip ]\n  %c = shl nsw i64 %i, 6\n  %from = getelementptr i8, ptr %in, i64 %c\n"
      "  %a = load <16 x float>, ptr %from\n  %to = getelementptr i8, ptr %out, i64 %c\n  store <16 x float> %a, ptr %to\n"
      "  %next = add nuw nsw i64 %i, 1\n  %more = icmp ult i64 %i, 15\n  br i1 %more, label %trip, label %end\nend:\n  ret void\n}\n";
  const Result result = pipelined(copy);
  EXPECT_TRUE(result.loops);
  EXPECT_EQ(result.next, 0);
  EXPECT_EQ(result.own, 1);
}

}  // namespace
}  // namespace tc
