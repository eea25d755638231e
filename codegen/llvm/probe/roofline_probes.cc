// Code that is limited by one property of a machine.
#include "codegen/llvm/probe/roofline_probes.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <functional>

#include "codegen/llvm/emit/kernel_context.h"
#include "codegen/llvm/module_compiler.h"
#include "ir/error.h"

namespace tc {
namespace {

// More than the latency times the issue width, and few enough for 16 registers.
constexpr int kAccumulators = 12;
constexpr int kRounds = 4;  // of all accumulators, per trip

// One function under construction, with the loops that all of them are made of.
class Function {
 public:
  Function(ModuleCompiler& compiler, const std::string& name, const std::vector<llvm::Type*>& arguments)
      : compiler_(compiler), builder(compiler.context()) {
    function = llvm::Function::Create(llvm::FunctionType::get(builder.getVoidTy(), arguments, false),
                                      llvm::GlobalValue::ExternalLinkage, name, compiler.module());
    compiler.set_attributes(*function);
    builder.SetInsertPoint(llvm::BasicBlock::Create(compiler.context(), "entry", function));
  }

  // A value that LLVM knows nothing of; each number gives another one.
  llvm::Value* unknown(llvm::Type* type, int number) {
    auto* memory =
        new llvm::GlobalVariable(compiler_.module(), type, false, llvm::GlobalValue::InternalLinkage,
                                 llvm::ConstantAggregateZero::get(type), text("unknown", number));
    return builder.CreateLoad(type, memory, /*isVolatile=*/true);
  }

  // Keeps a value from being removed as unused.
  void keep(llvm::Value* value) {
    auto* memory = new llvm::GlobalVariable(compiler_.module(), value->getType(), false,
                                            llvm::GlobalValue::InternalLinkage,
                                            llvm::Constant::getNullValue(value->getType()), "kept");
    builder.CreateStore(value, memory, /*isVolatile=*/true);
  }

  using Values = std::vector<llvm::Value*>;
  using Body = std::function<Values(llvm::Value* counter, const Values& carried)>;

  // Runs the body for counter = 0, step, … below `end`, at least once; returns the carried values after it.
  Values loop(llvm::Value* end, int64_t step, const Values& start, const Body& body) {
    llvm::BasicBlock* before = builder.GetInsertBlock();
    auto* head = llvm::BasicBlock::Create(compiler_.context(), "loop", function);
    builder.CreateBr(head);
    builder.SetInsertPoint(head);
    llvm::PHINode* counter = builder.CreatePHI(builder.getInt64Ty(), 2);
    counter->addIncoming(builder.getInt64(0), before);
    std::vector<llvm::PHINode*> merged;
    Values carried;
    for (llvm::Value* value : start) {
      merged.push_back(builder.CreatePHI(value->getType(), 2));
      merged.back()->addIncoming(value, before);
      carried.push_back(merged.back());
    }
    Values next = body(counter, carried);
    llvm::Value* following = builder.CreateAdd(counter, builder.getInt64(static_cast<uint64_t>(step)));
    llvm::Value* more = builder.CreateICmpSLT(following, end);
    llvm::BasicBlock* last = builder.GetInsertBlock();
    counter->addIncoming(following, last);
    for (size_t i = 0; i < merged.size(); ++i) merged[i]->addIncoming(next[i], last);
    auto* after = llvm::BasicBlock::Create(compiler_.context(), "after", function);
    builder.CreateCondBr(more, head, after);
    builder.SetInsertPoint(after);
    return next;
  }

 private:
  ModuleCompiler& compiler_;

 public:
  Builder builder;
  llvm::Function* function = nullptr;
};

llvm::Type* pointer_type(ModuleCompiler& compiler) {
  return llvm::PointerType::getUnqual(compiler.context());
}
llvm::Type* i64_type(ModuleCompiler& compiler) { return llvm::Type::getInt64Ty(compiler.context()); }

class Maker {
 public:
  explicit Maker(const Target& target) : target_(target), features_(target, "features") {}

  Probes run() {
    if (target_.arch == Arch::X86_64) {
      if (has("fma") && has("avx2")) floats("AVX2", 256);
      if (has("avx512f")) floats("AVX-512", 512);
      x86_dots();
    } else {
      floats(target_.arch == Arch::AArch64 ? "Advanced SIMD"
             : target_.vector_bits > 0     ? "V"
                                           : "scalar",
             target_.vector_bits);
    }
    streams();
    return std::move(probes_);
  }

 private:
  bool has(const char* feature) const { return features_.has_feature(feature); }

  // Adds a probe whose one instruction is `step(builder, accumulator, a, b)`.
  using Step = std::function<llvm::Value*(Builder&, llvm::Value*, llvm::Value*, llvm::Value*)>;
  struct VectorTypes {
    llvm::Type* (*sum)(llvm::LLVMContext&, int), *(*operand)(llvm::LLVMContext&, int);  // of so many bits
  };
  void peak(const std::string& instructions, const std::string& types, int vector_bits, int64_t multiply_adds,
            const VectorTypes& vectors, const Step& step) {
    PeakProbe& probe = add(instructions, types, vector_bits, multiply_adds * kAccumulators * kRounds);
    ModuleCompiler compiler(target_, probe.symbol);
    Function made(compiler, probe.symbol, {i64_type(compiler)});
    llvm::Type* sum = vectors.sum(compiler.context(), vector_bits);
    llvm::Type* operand = vectors.operand(compiler.context(), vector_bits);
    llvm::Value* a = made.unknown(operand, 0);
    llvm::Value* b = made.unknown(operand, 1);
    Function::Values sums;
    for (int i = 0; i < kAccumulators; ++i) sums.push_back(made.unknown(sum, 2 + i));
    sums = made.loop(made.function->getArg(0), 1, sums, [&](llvm::Value*, Function::Values now) {
      for (int round = 0; round < kRounds; ++round) {
        for (llvm::Value*& value : now) value = step(made.builder, value, a, b);
      }
      return now;
    });
    for (llvm::Value* value : sums) made.keep(value);
    finish(compiler, made);
  }

  PeakProbe& add(const std::string& instructions, const std::string& types, int vector_bits, int64_t work) {
    probes_.peaks.push_back(
        {text("tc_probe_peak", probes_.peaks.size()), instructions, types, work, vector_bits});
    return probes_.peaks.back();
  }

  void finish(ModuleCompiler& compiler, Function& made) {
    made.builder.CreateRetVoid();
    compiler.optimise();
    probes_.objects.push_back(compiler.object());
  }

  void floats(const std::string& instructions, int bits) {
    const auto multiply_add = [](Builder& builder, llvm::Value* sum, llvm::Value* a, llvm::Value* b) {
      return builder.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()}, {a, b, sum});
    };
    const auto f32 = [](llvm::LLVMContext& context, int width) {
      return widen(llvm::Type::getFloatTy(context), std::max(1, width / 32));
    };
    const auto f64 = [](llvm::LLVMContext& context, int width) {
      return widen(llvm::Type::getDoubleTy(context), std::max(1, width / 64));
    };
    peak(instructions, "f32", bits, std::max(1, bits / 32), {f32, f32}, multiply_add);
    peak(instructions, "f64", bits, std::max(1, bits / 64), {f64, f64}, multiply_add);
    if (instructions == "AVX-512" && has("avx512fp16")) {
      const auto f16 = [](llvm::LLVMContext& context, int width) {
        return widen(llvm::Type::getHalfTy(context), width / 16);
      };
      peak("AVX-512-FP16", "f16", bits, bits / 16, {f16, f16}, multiply_add);
    }
  }

  // Probes of instructions that add up products of narrower operands.
  void x86_dots() {
    const auto f32 = [](llvm::LLVMContext& context, int width) {
      return widen(llvm::Type::getFloatTy(context), width / 32);
    };
    const auto bf16 = [](llvm::LLVMContext& context, int width) {
      return widen(llvm::Type::getBFloatTy(context), width / 16);
    };
    const auto i32 = [](llvm::LLVMContext& context, int width) {
      return widen(llvm::Type::getInt32Ty(context), width / 32);
    };
    const auto dot = [](llvm::Intrinsic::ID id) {
      return [id](Builder& builder, llvm::Value* sum, llvm::Value* a, llvm::Value* b) -> llvm::Value* {
        return builder.CreateIntrinsic(id, {}, {sum, a, b});
      };
    };
    if (has("avxvnni"))
      peak("AVX-VNNI", "u8 x i8 to i32", 256, 32, {i32, i32}, dot(llvm::Intrinsic::x86_avx512_vpdpbusd_256));
    if (has("avx512vnni"))
      peak("AVX-512-VNNI", "u8 x i8 to i32", 512, 64, {i32, i32},
           dot(llvm::Intrinsic::x86_avx512_vpdpbusd_512));
    if (has("avx512bf16"))
      peak("AVX-512-BF16", "bf16 to f32", 512, 32, {f32, bf16},
           dot(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512));
    if (has("amx-bf16")) tiles("bf16 to f32", 16 * 16 * 32, llvm::Intrinsic::x86_tdpbf16ps);
    if (has("amx-int8")) tiles("u8 x i8 to i32", 16 * 16 * 64, llvm::Intrinsic::x86_tdpbusd);
  }

  // AMX: six sums of 16 by 16, two operands of 16 rows by 64 bytes.
  void tiles(const std::string& types, int64_t multiply_adds, llvm::Intrinsic::ID product) {
    constexpr unsigned kSums = 6;
    PeakProbe& probe = add("AMX", types, 0, multiply_adds * kSums * kRounds);
    ModuleCompiler compiler(target_, probe.symbol);
    Function made(compiler, probe.symbol, {i64_type(compiler)});
    Builder& builder = made.builder;
    // Palette 1; bytes per row at 16, rows at 48.
    std::vector<uint8_t> configuration(64, 0);
    configuration[0] = 1;
    for (size_t tile = 0; tile < 8; ++tile) {
      configuration[16 + 2 * tile] = 64;
      configuration[48 + tile] = 16;
    }
    llvm::Constant* bytes = llvm::ConstantDataArray::get(compiler.context(), configuration);
    auto* memory = new llvm::GlobalVariable(compiler.module(), bytes->getType(), true,
                                            llvm::GlobalValue::InternalLinkage, bytes, "tiles");
    builder.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {memory});
    const auto tile = [&](unsigned number) { return builder.getInt8(static_cast<uint8_t>(number)); };
    for (unsigned i = 0; i < 8; ++i) builder.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {tile(i)});
    made.loop(made.function->getArg(0), 1, {}, [&](llvm::Value*, const Function::Values& none) {
      for (int round = 0; round < kRounds; ++round) {
        for (unsigned i = 0; i < kSums; ++i) {
          builder.CreateIntrinsic(product, {}, {tile(i), tile(kSums), tile(kSums + 1)});
        }
      }
      return none;
    });
    builder.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
    finish(compiler, made);
  }

  void streams() {
    for (const bool writes : {false, true}) {
      const char* symbol = writes ? kWriteProbe : kReadProbe;
      ModuleCompiler compiler(target_, symbol);
      Function made(compiler, symbol, {pointer_type(compiler), i64_type(compiler), i64_type(compiler)});
      Builder& builder = made.builder;
      const int64_t width = std::max(64, target_.vector_bits) / 8;
      llvm::Type* vector = widen(i64_type(compiler), static_cast<int>(width / 8));
      const int64_t copies = std::min<int64_t>(8, kProbeUnit / width);
      Function::Values start;
      for (int64_t i = 0; i < (writes ? 1 : copies); ++i)
        start.push_back(made.unknown(vector, static_cast<int>(i)));
      const auto address = [&](llvm::Value* place, int64_t copy) {
        return builder.CreatePtrAdd(
            made.function->getArg(0),
            builder.CreateAdd(place, builder.getInt64(static_cast<uint64_t>(copy * width))));
      };
      const auto once = [&](llvm::Value*, const Function::Values& before) {
        return made.loop(
            made.function->getArg(1), copies * width, before, [&](llvm::Value* place, Function::Values now) {
              for (int64_t i = 0; i < copies; ++i) {
                if (writes) {
                  builder.CreateAlignedStore(now[0], address(place, i), llvm::Align(8));
                  continue;
                }
                llvm::Value* loaded = builder.CreateAlignedLoad(vector, address(place, i), llvm::Align(8));
                llvm::Value*& sum = now[static_cast<size_t>(i)];
                sum = builder.CreateXor(sum, loaded);
              }
              return now;
            });
      };
      const Function::Values sums = made.loop(made.function->getArg(2), 1, start, once);
      for (llvm::Value* value : sums) made.keep(value);
      finish(compiler, made);
    }
  }

  const Target& target_;
  ModuleCompiler features_;
  Probes probes_;
};

}  // namespace

Probes make_probes(const Target& target) { return Maker(target).run(); }

}  // namespace tc
