// The order of instructions for processors that execute them in order.
#include "codegen/llvm/passes/pass.h"

#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include <functional>
#include <sstream>
#include <string>

namespace tc {
namespace {

// What `told` says of a function after the pass.
std::string after_pass(const std::string& body, const char* target,
                       const std::function<std::string(const llvm::Function&)>& told) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  const std::string text =
      "declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)\n"
      "declare <32 x float> @llvm.fmuladd.v32f32(<32 x float>, <32 x float>, <32 x float>)\n"
      "declare <16 x float> @llvm.experimental.vp.strided.load.v16f32.p0.i64(ptr, i64, <16 x i1>, i32)\n"
      "declare void @llvm.experimental.vp.strided.store.v16f32.p0.i64(<16 x float>, ptr, i64, <16 x i1>, i32)\n"
      "declare <16 x float> @llvm.masked.gather.v16f32.v16p0(<16 x ptr>, i32, <16 x i1>, <16 x float>)\n"
      "define void @kernel(ptr noalias %in, ptr noalias %weights, ptr noalias %out) {\n" +
      body +
      "  ret void\n}\n!0 = !{!\"prefetch\"}\n!1 = !{!\"product\"}\n!2 = !{!\"broadcast product\"}\n"
      "!3 = !{!\"widening\"}\n";
  const std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, error, context);
  if (module == nullptr) return error.getMessage().str();
  llvm::Function& function = *module->getFunction("kernel");
  // Those that put it in order: all that follow the joining of vectors.
  const Target processor = parse_target(target);
  PassContext shared{processor};
  for (const CodePass& pass : code_pass_table()) {
    if (pass.stage == CodePass::Stage::Last && pass.runs(processor) &&
        pass.name != std::string("join_vectors"))
      pass.run(function, shared);
  }
  return told(function);
}

// What a function consists of after the pass: the names of values, `store` and `prefetch`, and `again` for a
// second load of one.
std::string order_of(const std::string& body, const char* target = "rv64gcv_zvl256b") {
  return after_pass(body, target, [](const llvm::Function& function) {
    std::string result;
    for (const llvm::Instruction& each : function.getEntryBlock()) {
      const auto* load = llvm::dyn_cast<llvm::LoadInst>(&each);
      if (llvm::isa<llvm::StoreInst>(each)) result += "store ";
      else if (load != nullptr && load->isVolatile()) result += "prefetch ";
      else if (each.hasName()) result += each.getName().str() + " ";
      else if (load != nullptr) result += "again ";
    }
    return result;
  });
}

// The core that the pass has a function tuned for; empty where it leaves that to the target.
std::string core_of(const std::string& body) {
  return after_pass(body, "rv64gcv_zvl256b", [](const llvm::Function& function) {
    return function.getFnAttribute("tune-cpu").getValueAsString().str();
  });
}

std::string multiply_add(const std::string& name, const std::string& a, const std::string& sum) {
  return "  %" + name + " = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %" + a + ", <16 x float> %" +
         a + ", <16 x float> %" + sum + ")\n";
}

TEST(InOrder, LoadsComeBeforeWorkThatDoesNotNeedThem) {
  std::string body =
      "  %a = load <16 x float>, ptr %in\n" + multiply_add("s1", "a", "a") + multiply_add("s2", "a", "s1");
  body += "  %place = getelementptr i8, ptr %weights, i64 64\n  %b = load <16 x float>, ptr %place\n";
  body += multiply_add("s3", "b", "s2") + "  store <16 x float> %s3, ptr %out\n";
  EXPECT_EQ(order_of(body), "place b a s1 s2 s3 store ");
}

TEST(InOrder, NoLoadPassesAStoreToItsBuffer) {
  std::string body = "  %a = load <16 x float>, ptr %in\n" + multiply_add("s1", "a", "a") +
                     "  store <16 x float> %s1, ptr %out\n";
  body += "  %b = load <16 x float>, ptr %out\n" + multiply_add("s2", "b", "s1") +
          "  store <16 x float> %s2, ptr %out\n";
  EXPECT_EQ(order_of(body), "a s1 store b s2 store ");
}

TEST(InOrder, VectorsThatFillTheRegistersAreNotLoadedEarly) {
  // 14 sums and a vector of weights are 30 registers of 32 at 256 bits.
  std::string body;
  const auto number = [](const char* name, int i) { return name + std::to_string(i); };
  for (int i = 0; i < 14; ++i) {
    body += "  %" + number("p", i) + " = getelementptr i8, ptr %in, i64 " + std::to_string(64 * i) + "\n";
    body += "  %" + number("a", i) + " = load volatile <16 x float>, ptr %" + number("p", i) + "\n";
  }
  for (const char* step : {"u", "v", "w"}) {
    const std::string weights = std::string("weights_") + step;
    body += "  %" + weights + " = load <16 x float>, ptr %weights\n";
    for (int i = 0; i < 14; ++i) {
      const std::string sum = *step == 'u' ? number("a", i) : number(*step == 'v' ? "u" : "v", i);
      body += multiply_add(number(step, i), weights, sum);
    }
  }
  for (int i = 0; i < 14; ++i) body += "  store volatile <16 x float> %" + number("w", i) + ", ptr %out\n";
  const std::string order = order_of(body);
  const size_t second = order.find("weights_v"), third = order.find("weights_w");
  EXPECT_GT(second, order.find("u13"));
  EXPECT_GT(third, order.find("v13"));
}

TEST(InOrder, WhatIsMadeOfASumFollowsIt) {
  std::string body = "  %a = load <16 x float>, ptr %in\n" + multiply_add("s1", "a", "a");
  for (int i = 2; i < 12; ++i)
    body += multiply_add("s" + std::to_string(i), "a", i == 2 ? "a" : "s" + std::to_string(i - 1));
  body += "  %r = fadd <16 x float> %s1, %a\n  store <16 x float> %r, ptr %out\n";
  body += "  %place = getelementptr i8, ptr %out, i64 64\n  store <16 x float> %s11, ptr %place\n";
  const std::string order = order_of(body);
  EXPECT_LT(order.find(" r "), order.find("s9"));
}

// `count` vectors are loaded, and all are used once in each of the rounds.
std::string rounds(int count, const std::string& rounds) {
  std::string body;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    body += "  %p" + n + " = getelementptr i8, ptr %in, i64 " + std::to_string(64 * i) + "\n";
    body += "  %a" + n + " = load <16 x float>, ptr %p" + n + "\n";
  }
  for (const char round : rounds) {
    for (int i = 0; i < count; ++i) {
      const std::string n = std::to_string(i), name = round + n;
      body +=
          multiply_add(name, "a" + n, "a" + n) + "  store volatile <16 x float> %" + name + ", ptr %out\n";
    }
  }
  return body;
}

int count_of(const std::string& text, const std::string& word) {
  int result = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++result;
  return result;
}

TEST(InOrder, WhatDoesNotFitIsLoadedAgain) {
  // 20 vectors are 40 registers at 256 bits: one group stays free, so that five or more of them come again.
  const std::string order = order_of(rounds(20, "xy"));
  EXPECT_GE(count_of(order, "again"), 5) << order;
  EXPECT_LE(count_of(order, "again"), 20) << order;
  EXPECT_LT(order.find("x0 "), order.find("a19")) << order;  // what a store needs comes right before it
  EXPECT_EQ(count_of(order_of(rounds(12, "xy")), "again"), 0);
}

TEST(InOrder, WhatAStoreMayChangeIsNotLoadedAgain) {
  std::string body = rounds(20, "xy");
  for (size_t at = body.find("ptr %out"); at != std::string::npos; at = body.find("ptr %out", at))
    body.replace(at, 8, "ptr %in");
  EXPECT_EQ(count_of(order_of(body), "again"), 0);
}

TEST(InOrder, AddressesOfManyStepsAreOfTheirBuffer) {
  std::string body = rounds(20, "xy");
  std::string steps = "%far";
  for (int i = 0; i < 8; ++i) {
    const std::string name = "%far" + std::to_string(i);
    body = "  " + steps + " = getelementptr i8, ptr " + (i == 7 ? "%out" : name) + ", i64 64\n" + body;
    steps = name;
  }
  for (size_t at = body.find(", ptr %out\n"); at != std::string::npos; at = body.find(", ptr %out\n", at))
    body.replace(at, 10, ", ptr %far");
  EXPECT_GE(count_of(order_of(body), "again"), 5);
}

// Two columns of a depthwise convolution: all elements are loaded first, and each with a prefetch. 15 vectors
// and two sums are 68 registers at 128 bits, yet no step needs more than one element and two weights beside
// the sums.
TEST(InOrder, StepsThatShareVectorsComeTogether) {
  std::string body;
  const auto step = [&](const std::string& sum, int k, int element) {
    const std::string n = std::to_string(k),
                      before = k == 0 ? "zeroinitializer" : "%" + sum + std::to_string(k - 1);
    body += "  %" + sum + n + " = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a" +
            std::to_string(element) + ", <16 x float> %w" + n + ", <16 x float> " + before +
            "), !tc.role !1\n";
  };
  for (const char* name : {"a", "w"}) {
    for (int i = 0; i < (*name == 'a' ? 8 : 7); ++i) {
      const std::string n = name + std::to_string(i);
      body += "  %p" + n + " = getelementptr i8, ptr %" + (*name == 'a' ? "in" : "weights") + ", i64 " +
              std::to_string(64 * i) + "\n";
      body += "  %" + n + " = load <16 x float>, ptr %p" + n + "\n";
      if (*name == 'a') body += "  %t" + n + " = load volatile i8, ptr %p" + n + ", !tc.role !0\n";
    }
  }
  for (int k = 0; k < 7; ++k) step("u", k, k);
  for (int k = 0; k < 7; ++k) step("v", k, k + 1);
  body +=
      "  store <16 x float> %u6, ptr %out\n  %next = getelementptr i8, ptr %out, i64 64\n  store <16 x float> %v6, ptr %next\n";
  const std::string order = order_of(body, "rv64gcv");
  EXPECT_EQ(count_of(order, "again"), 0) << order;
  for (int k = 0; k < 5; ++k) {
    const std::string n = std::to_string(k);
    EXPECT_LT(order.find("v" + n + " "), order.find("u" + std::to_string(k + 2) + " ")) << order;
    EXPECT_LT(order.find("u" + n + " "), order.find(" a" + std::to_string(k + 3) + " ")) << order;
  }
  EXPECT_EQ(count_of(order, "prefetch"), 8) << order;
}

TEST(InOrder, StridedLoadsPassStoresToOtherBuffers) {
  const auto order = [](const char* buffer) {
    std::string body =
        "  %a = load <16 x float>, ptr %in\n" + multiply_add("s1", "a", "a") + multiply_add("s2", "a", "s1");
    body +=
        "  store <16 x float> %s2, ptr %out\n  %far = call <16 x float> @llvm.experimental.vp.strided.load.v16f32.p0.i64(ptr " +
        std::string(buffer) + ", i64 256, <16 x i1> splat (i1 true), i32 16)\n";
    body += multiply_add("s3", "far", "s2") +
            "  %next = getelementptr i8, ptr %out, i64 64\n  store <16 x float> %s3, ptr %next\n";
    return order_of(body);
  };
  EXPECT_LT(order("%weights").find("far"), order("%weights").find("store")) << order("%weights");
  EXPECT_GT(order("%out").find("far"), order("%out").find("store")) << order("%out");
}

TEST(InOrder, LoadsPassStridedStoresToOtherBuffers) {
  const auto order = [](const char* buffer) {
    std::string body =
        "  %a = load <16 x float>, ptr %in\n" + multiply_add("s1", "a", "a") + multiply_add("s2", "a", "s1");
    body += "  call void @llvm.experimental.vp.strided.store.v16f32.p0.i64(<16 x float> %s2, ptr " +
            std::string(buffer) + ", i64 256, <16 x i1> splat (i1 true), i32 16)\n";
    body += "  %place = getelementptr i8, ptr %weights, i64 64\n  %b = load <16 x float>, ptr %place\n" +
            multiply_add("s3", "b", "s2");
    return order_of(body + "  store <16 x float> %s3, ptr %out\n");
  };
  EXPECT_LT(order("%out").find("b "), order("%out").find("s2 ")) << order("%out");
  EXPECT_GT(order("%weights").find("b "), order("%weights").find("s2 ")) << order("%weights");
}

// A gather from one scalar base reads that base's buffer; one from a vector of bases may read any.
TEST(InOrder, GathersFromOneBasePassStoresToOtherBuffers) {
  const auto order = [](const std::string& base) {
    std::string body =
        "  %a = load <16 x float>, ptr %in\n" + multiply_add("s1", "a", "a") + multiply_add("s2", "a", "s1");
    body +=
        "  %bases0 = insertelement <16 x ptr> poison, ptr %weights, i64 0\n  %bases1 = insertelement <16 x ptr> %bases0, ptr %in, i64 1\n";
    body += "  store <16 x float> %s2, ptr %out\n  %places = getelementptr float, " + base +
            ", <16 x i64> splat (i64 7)\n";
    body +=
        "  %far = call <16 x float> @llvm.masked.gather.v16f32.v16p0(<16 x ptr> %places, i32 4, <16 x i1> splat (i1 true), <16 x float> poison)\n";
    return order_of(body + multiply_add("s3", "far", "s2") +
                    "  %next = getelementptr i8, ptr %out, i64 64\n  store <16 x float> %s3, ptr %next\n");
  };
  EXPECT_LT(order("ptr %weights").find("far"), order("ptr %weights").find("store")) << order("ptr %weights");
  EXPECT_GT(order("ptr %out").find("far"), order("ptr %out").find("store")) << order("ptr %out");
  EXPECT_GT(order("<16 x ptr> %bases1").find("far"), order("<16 x ptr> %bases1").find("store"))
      << order("<16 x ptr> %bases1");
}

// Where a block of channels is one register, two stay free beside sums and weights.
TEST(InOrder, SingleRegistersLeaveTwoFree) {
  const auto sums = [](int count) {
    std::string body =
        "  %e = load float, ptr %in\n  %i = insertelement <32 x float> poison, float %e, i64 0\n"
        "  %splat = shufflevector <32 x float> %i, <32 x float> poison, <32 x i32> zeroinitializer\n";
    const auto number = [](char letter, int i) { return letter + std::to_string(i); };
    for (int i = 0; i < count; ++i)
      body += "  %" + number('a', i) + " = load volatile <32 x float>, ptr %in\n";
    for (const char step : {'u', 'v'}) {
      const std::string place = std::string("place_") + step, weights = std::string("weights_") + step;
      body +=
          "  %" + place + " = getelementptr i8, ptr %weights, i64 " + (step == 'u' ? "128" : "256") + "\n";
      body += "  %" + weights + " = load <32 x float>, ptr %" + place + "\n";
      for (int i = 0; i < count; ++i) {
        body += "  %" + number(step, i) + " = call <32 x float> @llvm.fmuladd.v32f32(<32 x float> %" +
                weights + ", <32 x float> %splat, <32 x float> %" + number(step == 'u' ? 'a' : 'u', i) +
                "), !tc.role !2\n";
      }
    }
    for (int i = 0; i < count; ++i)
      body += "  store volatile <32 x float> %" + number('v', i) + ", ptr %out\n";
    return order_of(body, "rv64gcv_zvl1024b");
  };
  EXPECT_GT(sums(29).find("weights_v"), sums(29).find("u27 "));
  EXPECT_LT(sums(28).find("weights_v"), sums(28).find("u27 "));
}

TEST(InOrder, TouchesAreSpread) {
  std::string body =
      "  %t1 = load volatile i8, ptr %in, !tc.role !0\n  %t2 = load volatile i8, ptr %in, !tc.role !0\n  %a = load <16 x float>, ptr %in\n";
  for (int i = 1; i < 9; ++i)
    body += multiply_add("s" + std::to_string(i), "a", i == 1 ? "a" : "s" + std::to_string(i - 1));
  body += "  store <16 x float> %s8, ptr %out\n";
  EXPECT_EQ(order_of(body), "a s1 s2 prefetch s3 s4 s5 s6 prefetch s7 s8 store ");
}

TEST(InOrder, WideningComesAheadOfProducts) {
  const auto order = [](const std::string& role) {
    std::string body = "  %b = load <16 x i8>, ptr %weights\n  %a = load <16 x float>, ptr %in\n";
    for (int i = 1; i < 9; ++i)
      body += multiply_add("s" + std::to_string(i), "a", i == 1 ? "a" : "s" + std::to_string(i - 1));
    body +=
        "  %wide = zext <16 x i8> %b to <16 x i16>" + role + "\n  %square = mul <16 x i16> %wide, %wide\n";
    return order_of(
        body +
        "  store volatile <16 x i16> %square, ptr %out\n  store volatile <16 x float> %s8, ptr %out\n");
  };
  // Three multiply-adds of two cycles each hide its latency.
  EXPECT_NE(order(", !tc.role !3").find("s5 wide s6 s7 s8 square"), std::string::npos)
      << order(", !tc.role !3");
  EXPECT_NE(order("").find("s8 wide square"), std::string::npos) << order("");
}

// A prefetch waits for the memory port, which a strided access takes for 16 cycles, and would hold back the
// sums behind itself.
TEST(InOrder, PrefetchesComeRightBeforeStridedAccesses) {
  std::string body =
      "  %t1 = load volatile i8, ptr %in, !tc.role !0\n  %t2 = load volatile i8, ptr %in, !tc.role !0\n  %a = load <16 x float>, ptr %in\n";
  body +=
      "  %far = call <16 x float> @llvm.experimental.vp.strided.load.v16f32.p0.i64(ptr %weights, i64 256, <16 x i1> splat (i1 true), i32 16)\n";
  for (int i = 1; i < 9; ++i)
    body += multiply_add("s" + std::to_string(i), "a", i == 1 ? "a" : "s" + std::to_string(i - 1));
  body += multiply_add("s9", "far", "s8") + "  store <16 x float> %s9, ptr %out\n";
  const std::string order = order_of(body);
  EXPECT_EQ(count_of(order, "prefetch"), 2) << order;
  const size_t first = order.find("prefetch prefetch ");
  ASSERT_NE(first, std::string::npos) << order;
  const std::string behind = order.substr(first + std::string("prefetch prefetch ").size());
  EXPECT_TRUE(behind.empty() || behind.starts_with("far ")) << order;
}

// A load of four registers takes the memory port for eight cycles: elements that the next product waits for
// come before it.
TEST(InOrder, ElementsComeBeforeWideLoads) {
  constexpr int kSteps = 4, kRows = 4;
  std::string body;
  for (int step = 0; step < kSteps; ++step) {
    const std::string k = std::to_string(step);
    body += "  %pw" + k + " = getelementptr i8, ptr %weights, i64 " + std::to_string(128 * step) + "\n";
    body += "  %w" + k + " = load <32 x float>, ptr %pw" + k + "\n";
    for (int row = 0; row < kRows; ++row) {
      const std::string n = k + std::to_string(row), before = std::to_string(step - 1) + std::to_string(row);
      body += "  %pe" + n + " = getelementptr i8, ptr %in, i64 " + std::to_string(4 * (kSteps * row + step)) +
              "\n";
      body += "  %e" + n + " = load float, ptr %pe" + n + "\n";
      body += "  %i" + n + " = insertelement <32 x float> poison, float %e" + n + ", i64 0\n";
      body += "  %b" + n + " = shufflevector <32 x float> %i" + n +
              ", <32 x float> poison, <32 x i32> zeroinitializer\n";
      body += "  %s" + n + " = call <32 x float> @llvm.fmuladd.v32f32(<32 x float> %w" + k +
              ", <32 x float> %b" + n + ", <32 x float> " +
              (step == 0 ? "splat (float 1.0)" : "%s" + before) + "), !tc.role !2\n";
    }
  }
  for (int row = 0; row < kRows; ++row) {
    body += "  %o" + std::to_string(row) + " = getelementptr i8, ptr %out, i64 " + std::to_string(128 * row) +
            "\n";
    body += "  store <32 x float> %s" + std::to_string(kSteps - 1) + std::to_string(row) + ", ptr %o" +
            std::to_string(row) + "\n";
  }
  const std::string order = order_of(body);
  std::istringstream words(order);
  std::string last, word;
  while (words >> word) {
    if (word[0] != 'e' && word[0] != 'w' && word[0] != 's') continue;  // addresses and splats
    EXPECT_FALSE(last[0] == 'w' && word[0] == 'e') << last << " before " << word << " in " << order;
    last = word;
  }
}

// `count` vectors, of each of which eight operations in a row make what is stored.
std::string chains(int count, const std::string& letters) {
  std::string body;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i), name = letters.substr(static_cast<size_t>(i), 1);
    body += "  %p" + n + " = getelementptr i8, ptr %in, i64 " + std::to_string(64 * i) + "\n";
    body += "  %l" + n + " = load <16 x float>, ptr %p" + n + "\n";
    for (int step = 0; step < 8; ++step) {
      const std::string before = step == 0 ? "l" + n : name + std::to_string(step - 1);
      body += "  %" + name + std::to_string(step) + " = fmul <16 x float> %" + before + ", %" + before + "\n";
    }
    body += "  %o" + n + " = getelementptr i8, ptr %out, i64 " + std::to_string(64 * i) + "\n";
    body += "  store <16 x float> %" + name + "7, ptr %o" + n + "\n";
  }
  return body;
}

TEST(InOrder, LongChainsComeInTurns) {
  const std::string order = order_of(chains(4, "abcd"));
  EXPECT_NE(order.find("a0 b0 a1 b1 a2 b2"), std::string::npos) << order;
  EXPECT_NE(order.find("c4 d4 c5 d5"), std::string::npos) << order;
  EXPECT_LT(order.find("b7"), order.find("c0")) << order;
}

TEST(InOrder, ChainsThatFillTheRegistersStayBehindEachOther) {
  // 15 vectors that live throughout are 30 registers of 32 at 256 bits: two chains have no room.
  std::string before, after;
  for (int i = 0; i < 15; ++i) {
    const std::string n = std::to_string(i);
    before += "  %v" + n + " = load volatile <16 x float>, ptr %in\n";
    after += "  store volatile <16 x float> %v" + n + ", ptr %out\n";
  }
  const std::string order = order_of(before + chains(2, "ab") + after);
  EXPECT_EQ(order.find("a0 b0"), std::string::npos) << order;
}

// `count` sums of the block, each of which goes through operations that need a register for each of them, and
// is stored.
std::string long_epilogues(int count, int operations) {
  std::string body =
      "  %e = load float, ptr %in\n  %i = insertelement <16 x float> poison, float %e, i64 0\n"
      "  %splat = shufflevector <16 x float> %i, <16 x float> poison, <16 x i32> zeroinitializer\n"
      "  %w = load <16 x float>, ptr %weights\n";
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    body += "  %a" + n + " = load volatile <16 x float>, ptr %in\n";
    body +=
        "  %s" + n +
        " = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %w, <16 x float> %splat, <16 x float> %a" +
        n + "), !tc.role !2\n";
  }
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    std::string last = "s" + n;
    for (int k = 0; k < operations; ++k) {
      const std::string name = "x" + n + "_" + std::to_string(k);
      body += "  %" + name + " = fmul <16 x float> %" + last + ", %s" + n + "\n";
      last = name;
    }
    body += "  %o" + n + " = getelementptr i8, ptr %out, i64 " + std::to_string(64 * i) + "\n";
    body += "  store <16 x float> %" + last + ", ptr %o" + n + "\n";
  }
  return body;
}

TEST(InOrder, SumsWaitWhereTheirResultsGo) {
  // 14 sums are 28 registers of 32 at 256 bits: all but the first are stored, and loaded when the results
  // before them are there.
  const std::string order = order_of(long_epilogues(14, 12));
  EXPECT_EQ(count_of(order, "store"), 14 + 13) << order;
  EXPECT_EQ(count_of(order, "again"), 13) << order;
  EXPECT_LT(order.find("store"), order.find("x0_0")) << order;
  // Few sums, and short epilogues, stay in registers.
  EXPECT_EQ(count_of(order_of(long_epilogues(4, 12)), "again"), 0);
  EXPECT_EQ(count_of(order_of(long_epilogues(14, 3)), "store"), 14);
}

TEST(InOrder, UpperHalvesStayBehindLowerOnes) {
  // Six vectors of four registers: their upper halves would take as many again, all at once.
  std::string body, after;
  const auto lanes = [](int first) {
    std::string result = "<16 x i32> <";
    for (int i = 0; i < 16; ++i) result += (i > 0 ? ", i32 " : "i32 ") + std::to_string(first + i);
    return result + ">";
  };
  for (int i = 0; i < 6; ++i) body += "  %v" + std::to_string(i) + " = load volatile <32 x float>, ptr %in\n";
  for (const char half : {'l', 'u'}) {
    for (int i = 0; i < 6; ++i) {
      const std::string n = std::to_string(i), name = half + n;
      body += "  %" + name + " = shufflevector <32 x float> %v" + n + ", <32 x float> poison, " +
              lanes(half == 'u' ? 16 : 0) + "\n";
      body += "  %f" + name + " = fadd <16 x float> %" + name + ", %" + name + "\n";
      body += "  %p" + name + " = getelementptr i8, ptr %out, i64 " +
              std::to_string(64 * i + (half == 'u' ? 4096 : 0)) + "\n";
      body += "  store <16 x float> %f" + name + ", ptr %p" + name + "\n";
    }
  }
  const std::string order = order_of(body);
  EXPECT_LT(order.find("fl5"), order.find("u0 ")) << order;
  EXPECT_LT(order.find("fu0"), order.find("u3 ")) << order;
}

// A sum of `count` vectors, each loaded, that goes through `further` multiply-adds of a value that is there.
std::string sum_of(int count, int further) {
  std::string body = "  %s0 = load <16 x float>, ptr %weights\n", last = "s0";
  for (int i = 1; i <= count; ++i) {
    const std::string n = std::to_string(i), sum = "s" + n;
    body += "  %p" + n + " = getelementptr i8, ptr %in, i64 " + std::to_string(64 * i) + "\n  %a" + n +
            " = load <16 x float>, ptr %p" + n + "\n";
    body += "  %" + sum + " = fadd <16 x float> %" + last + ", %a" + n + "\n";
    last = sum;
  }
  for (int i = 1; i <= further; ++i) {
    const std::string sum = "f" + std::to_string(i);
    body += multiply_add(sum, "s0", last);
    last = sum;
  }
  return body + "  store <16 x float> %" + last + ", ptr %out\n";
}

TEST(InOrder, FunctionsAreTunedForACoreInOrderUnlessLoadsDecide) {
  EXPECT_EQ(core_of(sum_of(10, 10)), "sifive-x280");
  EXPECT_EQ(core_of(sum_of(10, 2)), "");
  // Too few operations to decide.
  EXPECT_EQ(core_of(sum_of(5, 2)), "sifive-x280");
}

TEST(InOrder, FunctionsWithStridedStoresAreNotTunedForACoreInOrder) {
  const std::string store =
      "  call void @llvm.experimental.vp.strided.store.v16f32.p0.i64(<16 x float> %s1, ptr %out, i64 256, "
      "<16 x i1> splat (i1 true), i32 16)\n";
  EXPECT_EQ(core_of(sum_of(5, 2) + store), "");
}

}  // namespace
}  // namespace tc
