// The frame of runtime/abi.h, in LLVM IR.
#include "codegen/llvm/artefact/run_frame.h"

#include <cstddef>

#include "ir/error.h"
#include "runtime/abi.h"

namespace tc {
namespace {

// The value, or -1 where an intermediate result overflows.
llvm::Value* checked_size(Builder& builder, const Dim& dim, const DimEmitter& known) {
  DimEmitter checked(builder, true);
  checked.symbols = known.symbols;
  llvm::Value* value = checked.emit(dim);
  return checked.overflowed()
             ? builder.CreateSelect(checked.overflowed(), builder.getInt64(~uint64_t{0}), value)
             : value;
}

}  // namespace

std::pair<llvm::Value*, llvm::Value*> copied_part(Builder& builder, llvm::Value* bytes, llvm::Value* thread,
                                                  llvm::Value* threads) {
  llvm::Value *unit = builder.getInt64(4096), *one = builder.getInt64(1);
  llvm::Value* units = builder.CreateUDiv(builder.CreateAdd(bytes, builder.getInt64(4095)), unit);
  llvm::Value* share = builder.CreateUDiv(builder.CreateAdd(units, builder.CreateSub(threads, one)), threads);
  const auto limit = [&](llvm::Value* part) {
    llvm::Value* place = builder.CreateMul(builder.CreateMul(part, share), unit);
    return builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, place, bytes);
  };
  llvm::Value* begin = limit(thread);
  return {begin, limit(builder.CreateAdd(thread, one))};
}

llvm::Value* ConstantsBase::address(Builder& builder) const {
  if (!is_variable) return global;
  llvm::LoadInst* loaded = builder.CreateLoad(global->getValueType(), global, "constants");
  loaded->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(builder.getContext(), {}));
  return loaded;
}

RunFrame::RunFrame(Builder& builder, llvm::Value* frame)
    : builder_(builder), frame_(frame), pointer_(llvm::PointerType::getUnqual(builder.getContext())) {}

RunFrame::RunFrame(Builder& builder) : RunFrame(builder, nullptr) {}

void RunFrame::check_pointers(const std::vector<std::pair<llvm::Value*, int64_t>>& pointers) const {
  llvm::Value *null = builder_.getFalse(), *low_bits = builder_.getInt64(0);
  for (const auto& [pointer, alignment] : pointers) {
    llvm::Value* number = builder_.CreatePtrToInt(pointer, builder_.getInt64Ty());
    null = builder_.CreateOr(null, builder_.CreateIsNull(pointer));
    low_bits = builder_.CreateOr(
        low_bits, builder_.CreateAnd(number, builder_.getInt64(static_cast<uint64_t>(alignment - 1))));
  }
  leave_where(null, BareStatus::Null);
  leave_where(builder_.CreateIsNotNull(low_bits), BareStatus::Misaligned);
}

void RunFrame::load_threads() {
  if (frame_ == nullptr) {
    thread_ = builder_.getInt32(0);
    threads_ = builder_.getInt32(1);
    return;
  }
  thread_ = field(builder_.getInt32Ty(), offsetof(tc_frame, thread), "thread");
  threads_ = field(builder_.getInt32Ty(), offsetof(tc_frame, threads), "threads");
  barrier_ = field(pointer_, offsetof(tc_frame, barrier), "barrier");
}

void RunFrame::compare_threads() {
  first_ = builder_.CreateICmpEQ(thread_, builder_.getInt32(0));
  several_ = builder_.CreateICmpSGT(threads_, builder_.getInt32(1));
}

llvm::Value* RunFrame::field(llvm::Type* type, size_t offset, const char* name) const {
  TC_CHECK(frame_ != nullptr, "for ", name, ": there is no runtime");
  return builder_.CreateLoad(type, builder_.CreatePtrAdd(frame_, builder_.getInt64(offset)), name);
}

llvm::BasicBlock* RunFrame::block(const char* name) const {
  return llvm::BasicBlock::Create(builder_.getContext(), name, builder_.GetInsertBlock()->getParent());
}

void RunFrame::guarded(llvm::Value* condition, const std::function<void()>& body) const {
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    if (known->isOne()) body();
    return;
  }
  llvm::BasicBlock* then = block("then");
  llvm::BasicBlock* after = block("after");
  builder_.CreateCondBr(condition, then, after);
  builder_.SetInsertPoint(then);
  body();
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

void RunFrame::wait_for_threads() const {
  guarded(several_, [&] {
    builder_.CreateCall(llvm::FunctionType::get(builder_.getVoidTy(), {pointer_}, false), barrier_, {frame_});
  });
}

void RunFrame::leave_where(llvm::Value* condition, BareStatus status) const {
  llvm::BasicBlock* leave = block("leave");
  llvm::BasicBlock* after = block("go.on");
  builder_.CreateCondBr(condition, leave, after);
  builder_.SetInsertPoint(leave);
  builder_.CreateRet(builder_.getInt32(static_cast<uint32_t>(status)));
  builder_.SetInsertPoint(after);
}

void RunFrame::leave_where(llvm::Value* condition, const std::function<void()>& tell) const {
  if (frame_ == nullptr) return leave_where(condition, BareStatus::WrongSize);
  llvm::BasicBlock* leave = block("leave");
  llvm::BasicBlock* after = block("go.on");
  builder_.CreateCondBr(condition, leave, after);
  builder_.SetInsertPoint(leave);
  guarded(first_, tell);
  if (after->getParent()->getReturnType()->isVoidTy()) builder_.CreateRetVoid();
  else builder_.CreateRet(builder_.getInt32(1));
  builder_.SetInsertPoint(after);
}

void RunFrame::call(size_t offset, const char* name, std::vector<llvm::Value*> arguments) const {
  arguments.insert(arguments.begin(), frame_);
  std::vector<llvm::Type*> types;
  for (llvm::Value* argument : arguments) types.push_back(argument->getType());
  auto* type = llvm::FunctionType::get(builder_.getVoidTy(), types, false);
  builder_.CreateCall(type, field(pointer_, offset, name), arguments);
}

llvm::Value* RunFrame::segment(int index) const {
  llvm::Value* table = field(pointer_, offsetof(tc_frame, segments), "segments");
  return builder_.CreateLoad(
      pointer_, builder_.CreateConstInBoundsGEP1_64(pointer_, table, static_cast<uint64_t>(index)),
      "segment");
}

void RunFrame::check_bound(uint32_t step, llvm::Value* size, llvm::Value* bound) const {
  llvm::Value* wrong = builder_.CreateOr(builder_.CreateICmpSLT(size, builder_.getInt64(0)),
                                         builder_.CreateICmpSGT(size, bound));
  leave_where(wrong, [&] {
    call(offsetof(tc_frame, wrong_size), "wrong_size", {builder_.getInt32(step), size, bound});
  });
}

void RunFrame::grow(const PlanStep& item, uint32_t step, const DimEmitter& dims, int64_t memory_limit) const {
  guarded(first_, [&] {
    call(offsetof(tc_frame, grow), "grow",
         {builder_.getInt32(step), builder_.getInt32(static_cast<uint32_t>(item.segment)),
          checked_size(builder_, item.bytes, dims), checked_size(builder_, item.left, dims),
          builder_.getInt64(static_cast<uint64_t>(memory_limit))});
  });
  wait_for_threads();
  leave_where(builder_.CreateIsNull(segment(item.segment)), [] {});
}

void RunFrame::check_relation(const PlanStep& item, uint32_t step, const DimEmitter& dims) const {
  DimEmitter checked(builder_, true);
  checked.symbols = dims.symbols;
  llvm::Value *left = checked.emit(item.left), *right = checked.emit(item.right);
  llvm::Value* wrong = item.equal ? builder_.CreateICmpNE(left, right) : builder_.CreateICmpSGT(left, right);
  if (checked.overflowed()) wrong = builder_.CreateOr(wrong, checked.overflowed());
  leave_where(wrong, [&] {
    call(offsetof(tc_frame, unrelated), "unrelated", {builder_.getInt32(step), left, right});
  });
}

}  // namespace tc
