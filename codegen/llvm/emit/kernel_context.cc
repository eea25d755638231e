// What the emitters of one kernel share: builder, buffers, loop variables, integer arithmetic.
#include "codegen/llvm/emit/kernel_context.h"

#include <algorithm>

#include "codegen/llvm/emit/matrix_plan.h"
#include "ir/error.h"
#include "ir/scratch.h"
#include "ir/target/register_groups.h"

namespace tc {
namespace {

// A buffer of this size is a few vectors.
constexpr int64_t kBytesOfSums = 64;

// Whether the buffer may hold the sums of one register tile of a unit that adds up in general-purpose
// registers: it becomes a variable of the function, which LLVM keeps in registers.
bool is_small_buffer_of_sums(const Target& target, const Buffer& buffer) {
  if (!sums_are_scalars(target.matrix) || buffer.dtype != DType::I32) return false;
  int64_t bytes = size_of(buffer.dtype);
  for (const Affine& extent : buffer.shape) {
    if (!extent.is_constant() || extent.constant() > kBytesOfSums) return false;
    bytes *= extent.constant();
  }
  return bytes <= kBytesOfSums;
}

}  // namespace

llvm::Type* value_type(llvm::LLVMContext& context, DType dtype) {
  switch (dtype) {
    case DType::F32: return llvm::Type::getFloatTy(context);
    case DType::F64: return llvm::Type::getDoubleTy(context);
    case DType::Bool: return llvm::Type::getInt1Ty(context);
    default: return llvm::Type::getIntNTy(context, static_cast<unsigned>(size_of(dtype) * 8));
  }
}

llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype) {
  return dtype == DType::Bool ? llvm::Type::getInt8Ty(context) : value_type(context, dtype);
}

llvm::Type* widen(llvm::Type* scalar, int lanes) {
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
}

int lanes_of(llvm::Value* value) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector == nullptr ? 1 : static_cast<int>(vector->getNumElements());
}

KernelContext::KernelContext(ModuleCompiler& compiler, const ScheduledKernel& scheduled)
    : compiler(compiler),
      scheduled(scheduled),
      kernel(scheduled.kernel),
      target(compiler.target()),
      builder(compiler.context()),
      matrix_operands(tc::matrix_operands(scheduled)) {
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  builder.setFastMathFlags(flags);
  declare_function();
}

// Whether products of integers are summed up.
static bool adds_up_integers(const Statement& statement) {
  const Expr& value = *statement.value;
  return statement.reduction == Reduction::Sum && value.dtype == DType::I32 &&
         value.kind == Expr::Kind::Binary && value.binary == BinaryOp::Mul;
}

// Bytes from one element to the next along each dimension.
void KernelContext::find_strides(const Buffer& buffer, BufferSlot& slot) {
  slot.stride.assign(buffer.shape.size(), 0);
  slot.symbolic_stride.assign(buffer.shape.size(), nullptr);
  int64_t constant = size_of(buffer.dtype);
  llvm::Value* symbolic = nullptr;
  for (size_t d = buffer.shape.size(); d-- > 0;) {
    if (symbolic == nullptr) {
      slot.stride[d] = constant;
    } else {
      slot.symbolic_stride[d] = symbolic;
    }
    if (d == 0) break;
    const Affine& extent = buffer.shape[d];
    if (symbolic == nullptr && extent.is_constant()) {
      constant *= std::max<int64_t>(1, extent.constant());
      continue;
    }
    if (symbolic == nullptr) symbolic = i64(constant);
    symbolic = builder.CreateNSWMul(symbolic, value_of(extent), buffer.name + ".stride");
  }
}

// void NAME(buffer pointers..., const int64_t* parameters, uint8_t* scratch, i32 thread, i32 threads); binds
// parameters, pointers and strides in the entry block. A kernel with loops that alternate takes one more
// number after its parameters: that of its run. Where it is odd, these loops go backwards.
void KernelContext::declare_function() {
  llvm::LLVMContext& context = compiler.context();
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  std::vector<llvm::Type*> types;
  std::vector<size_t> arguments;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const Scope scope = kernel.buffers[i].scope;
    if (scope == Scope::Input || scope == Scope::Output || scope == Scope::Constant) {
      types.push_back(pointer);
      arguments.push_back(i);
    }
    TC_CHECK(scope != Scope::Local, "for buffer '", kernel.buffers[i].name, "' of kernel '", kernel.name,
             "': the scheduler decides between Stack and Register");
  }
  types.insert(types.end(), {pointer, pointer, builder.getInt32Ty(), builder.getInt32Ty()});
  function =
      llvm::Function::Create(llvm::FunctionType::get(builder.getVoidTy(), types, false),
                             llvm::Function::ExternalLinkage, compiler.module().getName(), compiler.module());
  compiler.set_attributes(*function);
  // LLVM's MachineCombiner would reassociate these sums: more partial sums would be live than there are
  // registers.
  if (std::any_of(kernel.statements.begin(), kernel.statements.end(), adds_up_integers))
    function->addFnAttr("tc-sums-in-order");
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));

  const unsigned count = static_cast<unsigned>(arguments.size());
  llvm::Value* parameters = function->getArg(count);
  parameters->setName("parameters");
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Parameter& parameter = kernel.parameters[i];
    llvm::Value* address = builder.CreateConstInBoundsGEP1_64(builder.getInt64Ty(), parameters, i);
    variables[parameter.name] = builder.CreateLoad(builder.getInt64Ty(), address, parameter.name);
    ranges[parameter.name] = {parameter.minimum, parameter.maximum};
  }
  if (alternates(scheduled)) {
    llvm::Value* address =
        builder.CreateConstInBoundsGEP1_64(builder.getInt64Ty(), parameters, kernel.parameters.size());
    backwards = builder.CreateTrunc(builder.CreateLoad(builder.getInt64Ty(), address, "run"),
                                    builder.getInt1Ty(), "backwards");
  }
  llvm::Value* scratch = function->getArg(count + 1);
  scratch->setName("scratch");
  function->getArg(count + 2)->setName("thread");
  function->getArg(count + 3)->setName("threads");

  buffers.resize(kernel.buffers.size());
  const std::map<int, int64_t> offsets = scratch_layout(kernel);
  llvm::Value* next = scratch;  // the next free address, where sizes decide
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const Buffer& buffer = kernel.buffers[i];
    BufferSlot& slot = buffers[i];
    slot.shape = buffer.shape;
    if (buffer.scope == Scope::Register) continue;
    if (buffer.scope == Scope::Stack && scheduled.scratch_by_sizes) {
      slot.pointer = next;
      next =
          builder.CreateInBoundsGEP(builder.getInt8Ty(), next, rounded_bytes(buffer), buffer.name + ".end");
    } else if (buffer.scope == Scope::Stack && is_small_buffer_of_sums(target, buffer)) {
      llvm::AllocaInst* sums =
          builder.CreateAlloca(llvm::ArrayType::get(builder.getInt8Ty(), kBytesOfSums), nullptr, buffer.name);
      sums->setAlignment(llvm::Align(16));
      slot.pointer = sums;
    } else if (buffer.scope == Scope::Stack) {
      slot.pointer = builder.CreateConstInBoundsGEP1_64(
          builder.getInt8Ty(), scratch, static_cast<uint64_t>(offsets.at(static_cast<int>(i))), buffer.name);
    }
    find_strides(buffer, slot);
  }
  for (size_t a = 0; a < arguments.size(); ++a) {
    const Buffer& buffer = kernel.buffers[arguments[a]];
    llvm::Argument* argument = function->getArg(static_cast<unsigned>(a));
    argument->setName(buffer.name);
    buffers[arguments[a]].pointer = argument;
    argument->addAttr(llvm::Attribute::NoAlias);
    argument->addAttr(llvm::Attribute::NoCapture);
    if (buffer.scope != Scope::Output) argument->addAttr(llvm::Attribute::ReadOnly);
  }
}

llvm::Value* KernelContext::rounded_bytes(const Buffer& buffer) {
  llvm::Value* bytes = i64(static_cast<int64_t>(size_of(buffer.dtype)));
  for (const Affine& extent : buffer.shape) {
    llvm::Value* size = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value_of(extent), i64(0));
    bytes = builder.CreateNSWMul(bytes, size);
  }
  return builder.CreateAnd(builder.CreateNSWAdd(bytes, i64(63)), i64(-64));
}

llvm::ConstantInt* KernelContext::i64(int64_t value) {
  return builder.getInt64(static_cast<uint64_t>(value));
}

llvm::BasicBlock* KernelContext::block(const std::string& name) {
  return llvm::BasicBlock::Create(compiler.context(), name, function);
}

llvm::Value* KernelContext::add(llvm::Value* a, llvm::Value* b) {
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(a); constant && constant->isZero()) {
    return b;
  }
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(b); constant && constant->isZero()) {
    return a;
  }
  return builder.CreateNSWAdd(a, b);
}

llvm::Value* KernelContext::multiply(llvm::Value* a, int64_t factor) {
  if (factor == 1) return a;
  if (factor == 0) return i64(0);
  return builder.CreateNSWMul(a, i64(factor));
}

llvm::Value* KernelContext::value_of(const Affine& affine) {
  llvm::Value* sum = i64(0);
  for (const auto& [name, coefficient] : affine.terms()) {
    const auto found = variables.find(name);
    TC_CHECK(found != variables.end(), "in kernel '", kernel.name, "': unknown variable '", name, "' in '",
             affine.str(), "'");
    sum = add(sum, multiply(found->second, coefficient));
  }
  return add(sum, i64(affine.constant()));
}

// The quotient or remainder of non-negative numbers of 32 bits. For longer ones LLVM calls a library
// function where addresses have 32 bits.
static llvm::Value* divide_short(Builder& builder, llvm::Value* a, llvm::Value* b, bool modulus) {
  llvm::Value *dividend = builder.CreateTrunc(a, builder.getInt32Ty()),
              *divisor = builder.CreateTrunc(b, builder.getInt32Ty());
  llvm::Value* result =
      modulus ? builder.CreateURem(dividend, divisor) : builder.CreateUDiv(dividend, divisor);
  return builder.CreateZExt(result, a->getType());
}

llvm::Value* KernelContext::value_of(const LoopExpr& expr) {
  using Kind = LoopExpr::Kind;
  if (expr.kind == Kind::Const) return i64(expr.value);
  if (expr.kind == Kind::Variable) {
    const auto found = variables.find(expr.name);
    TC_CHECK(found != variables.end(), "in kernel '", kernel.name, "': unknown loop variable '", expr.name,
             "'");
    return found->second;
  }
  if (expr.kind == Kind::Select) {
    llvm::Value* condition = value_of(*expr.operands[0]);
    llvm::Value* a = value_of(*expr.operands[1]);
    return builder.CreateSelect(condition, a, value_of(*expr.operands[2]));
  }
  TC_CHECK(!expr.operands.empty(), "in a loop expression");
  llvm::Value* a = value_of(*expr.operands[0]);
  for (size_t i = 1; i < expr.operands.size(); ++i) {
    llvm::Value* b = value_of(*expr.operands[i]);
    switch (expr.kind) {
      case Kind::Add: a = add(a, b); break;
      case Kind::Sub: a = builder.CreateNSWSub(a, b); break;
      case Kind::Mul: a = builder.CreateNSWMul(a, b); break;
      case Kind::FloorDiv:
      case Kind::Mod: {
        TC_CHECK(expr.operands[i]->kind == Kind::Const && expr.operands[i]->value > 0,
                 "as the divisor of a loop expression");
        const Interval range = range_of(*expr.operands[0], ranges);
        const bool modulus = expr.kind == Kind::Mod;
        if (range.low >= 0) {
          const bool is_short = target.word_bits == 32 && range.high <= INT32_MAX;
          a = is_short  ? divide_short(builder, a, b, modulus)
              : modulus ? builder.CreateURem(a, b)
                        : builder.CreateUDiv(a, b);
          break;
        }
        llvm::Value* remainder = builder.CreateSRem(a, b);
        llvm::Value* negative = builder.CreateICmpSLT(remainder, i64(0));
        remainder = builder.CreateSelect(negative, builder.CreateAdd(remainder, b), remainder);
        a = modulus ? remainder : builder.CreateSDiv(builder.CreateSub(a, remainder), b);
        break;
      }
      case Kind::Min: a = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b); break;
      case Kind::Max: a = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, b); break;
      case Kind::Eq: a = builder.CreateICmpEQ(a, b); break;
      case Kind::Le: a = builder.CreateICmpSLE(a, b); break;
      case Kind::Lt: a = builder.CreateICmpSLT(a, b); break;
      case Kind::Ge: a = builder.CreateICmpSGE(a, b); break;
      case Kind::Gt: a = builder.CreateICmpSGT(a, b); break;
      case Kind::And: a = builder.CreateAnd(a, b); break;
      case Kind::Or: a = builder.CreateOr(a, b); break;
      default: fail(ErrorKind::Internal, "internal error: loop expression of an unknown kind");
    }
  }
  return a;
}

llvm::Value* KernelContext::zero_block(int64_t bytes) {
  if (zeros_ == nullptr || zeros_bytes_ < bytes) {
    const int64_t size = std::max<int64_t>({bytes, 2 * zeros_bytes_, 256});
    auto* type = llvm::ArrayType::get(builder.getInt8Ty(), static_cast<uint64_t>(size));
    auto* grown =
        new llvm::GlobalVariable(compiler.module(), type, /*isConstant=*/false,
                                 llvm::GlobalValue::InternalLinkage, llvm::ConstantAggregateZero::get(type));
    grown->setAlignment(llvm::Align(64));
    if (zeros_ != nullptr) {
      zeros_->replaceAllUsesWith(grown);
      zeros_->eraseFromParent();
    }
    grown->setName(function->getName() + ".zeros");
    zeros_ = grown;
    zeros_bytes_ = size;
  }
  return zeros_;
}

// Whether a loop's variable, also after the last trip, is a number of 31 bits: with addresses of 32 bits it
// then takes one register, not two.
static bool counts_in_word(const KernelContext::LoopHead& head, const Target& target) {
  if (target.word_bits != 32) return false;
  const auto* first = llvm::dyn_cast<llvm::ConstantInt>(head.lower);
  const auto* last = llvm::dyn_cast<llvm::ConstantInt>(head.upper);
  if (first != nullptr && last != nullptr)
    return first->getSExtValue() >= 0 && last->getSExtValue() <= INT32_MAX - head.step;
  return head.range && head.range->low >= 0 && head.range->high <= INT32_MAX - head.step;
}

KernelContext::LoopResult KernelContext::loop(const LoopHead& head, const std::vector<llvm::Value*>& carried,
                                              const LoopBody& body) {
  const auto& [name, lower, upper, step, may_be_empty, range] = head;
  llvm::IntegerType* type = counts_in_word(head, target) ? builder.getInt32Ty() : builder.getInt64Ty();
  const auto in_type = [&](llvm::Value* value) { return builder.CreateZExtOrTrunc(value, type); };
  llvm::Value* first = in_type(lower);
  llvm::BasicBlock* before = builder.GetInsertBlock();
  llvm::BasicBlock* header = block(name);
  llvm::BasicBlock* inside = block(name + ".body");
  llvm::BasicBlock* after = block(name + ".end");
  if (may_be_empty) {
    builder.CreateCondBr(builder.CreateICmpSLE(lower, upper), header, after);
  } else {
    builder.CreateBr(header);
  }
  builder.SetInsertPoint(header);
  llvm::PHINode* counter = builder.CreatePHI(type, 2, name);
  counter->addIncoming(first, before);
  std::vector<llvm::PHINode*> phis;
  std::vector<llvm::Value*> current;
  for (llvm::Value* value : carried) {
    phis.push_back(builder.CreatePHI(value->getType(), 2));
    phis.back()->addIncoming(value, before);
    current.push_back(phis.back());
  }
  llvm::Value* variable = builder.CreateZExt(counter, builder.getInt64Ty());
  builder.CreateBr(inside);
  builder.SetInsertPoint(inside);
  const std::vector<llvm::Value*> results = body(variable, header, current);
  TC_CHECK(results.size() == carried.size(), "as the values carried by a loop");
  llvm::BasicBlock* latch = builder.GetInsertBlock();
  llvm::Value* after_this =
      builder.CreateNSWAdd(counter, llvm::ConstantInt::get(type, static_cast<uint64_t>(step)));
  llvm::Value* next = builder.CreateZExt(after_this, builder.getInt64Ty());
  builder.CreateCondBr(builder.CreateICmpSLE(after_this, in_type(upper)), header, after);
  counter->addIncoming(after_this, latch);
  for (size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(results[i], latch);

  builder.SetInsertPoint(after);
  LoopResult result;
  if (!may_be_empty) {
    result.next = next;
    result.carried = results;
    return result;
  }
  auto merge = [&](llvm::Value* skipped, llvm::Value* ran) -> llvm::Value* {
    if (skipped == ran) return ran;
    llvm::PHINode* phi = builder.CreatePHI(ran->getType(), 2);
    phi->addIncoming(skipped, before);
    phi->addIncoming(ran, latch);
    return phi;
  };
  result.next = merge(lower, next);
  for (size_t i = 0; i < phis.size(); ++i) result.carried.push_back(merge(carried[i], results[i]));
  return result;
}

}  // namespace tc
