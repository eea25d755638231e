// Steps of a plan as rows of a table.
#include "codegen/llvm/artefact/step_table.h"

#include <algorithm>
#include <cstddef>

#include "codegen/llvm/artefact/step_emitter.h"
#include "ir/error.h"
#include "ir/interrupt.h"
#include "ir/scratch.h"
#include "runtime/abi.h"

namespace tc {
namespace {

// A row's kind is in the lower 16 bits of its first word; calls of n arguments have kCall + n.
enum Kind : uint64_t { kEnd, kIf, kElse, kCopy, kCall };
constexpr uint64_t kSingleThread = 1 << 16;
constexpr uint64_t kUpperHalf = 32;  // of the first word: the function's index

// Tables of addresses: the function's own, the run's inputs, the run's outputs. Then the places in the
// function's own table.
enum Table : uint64_t { kOwn, kInputs, kOutputs };
enum Own : uint64_t { kArena, kConstants, kScratch };

constexpr uint64_t kHead = 2, kWordsOfLocation = 2;
constexpr uint64_t kWordsOfIf = kHead + kWordsOfLocation + 1, kWordsOfElse = kHead + 1;
constexpr uint64_t kWordsOfCopy = kHead + 2 * kWordsOfLocation + 1;

}  // namespace

StepTable::StepTable(ModuleCompiler& compiler, const Plan& plan, const ConstantsBase& constants,
                     llvm::Function* copy, const std::vector<int64_t>& constant_offsets,
                     std::function<llvm::Function*(const PlanStep&)> callee)
    : compiler_(compiler),
      plan_(plan),
      constants_(constants),
      copy_(copy),
      constant_offsets_(constant_offsets),
      callee_(std::move(callee)),
      builder_(compiler.context()),
      pointer_(llvm::PointerType::getUnqual(compiler.context())),
      i32_(builder_.getInt32Ty()),
      i64_(builder_.getInt64Ty()) {}

// --- rows ------------------------------------------------------------------------------------

bool StepTable::holds(const Location& location) {
  return location.kind != Location::Kind::Segment && location.offset.is_constant();
}

bool StepTable::holds(const PlanStep& step) const {
  const auto all = [&](const auto& list) {
    return std::all_of(list.begin(), list.end(), [&](const auto& each) { return holds(each); });
  };
  if (!all(step.locations) || (step.scratch && !holds(*step.scratch))) return false;
  switch (step.kind) {
    case PlanStep::Kind::Call:
      return step.parameters.empty() && !alternates(plan_.kernels.at(static_cast<size_t>(step.kernel)));
    case PlanStep::Kind::Copy: return step.bytes.is_constant();
    case PlanStep::Kind::If: return !step.locations.empty() && all(step.body) && all(step.otherwise);
    case PlanStep::Kind::Loop:
    case PlanStep::Kind::Bind:
    case PlanStep::Kind::Grow:
    case PlanStep::Kind::Check: return false;
  }
  return false;
}

void StepTable::add_location(const Location& location) {
  const uint64_t index = static_cast<uint64_t>(location.index);
  int64_t offset = location.offset.constant();
  uint64_t place = 0;
  switch (location.kind) {
    case Location::Kind::Input:
      TC_CHECK(index < plan_.inputs.size(), "in the plan of '", plan_.model, "'");
      place = (kInputs << kUpperHalf) | index;
      break;
    case Location::Kind::Output:
      TC_CHECK(index < plan_.outputs.size(), "in the plan of '", plan_.model, "'");
      place = (kOutputs << kUpperHalf) | index;
      break;
    case Location::Kind::Constant:
      TC_CHECK(index + 1 < constant_offsets_.size(), "in the plan of '", plan_.model, "'");
      place = (kOwn << kUpperHalf) | kConstants;
      offset += constant_offsets_[index];
      break;
    case Location::Kind::Arena: place = (kOwn << kUpperHalf) | kArena; break;
    case Location::Kind::Segment: TC_CHECK(false, "in the plan of '", plan_.model, "'"); break;
  }
  add(place);
  add(static_cast<uint64_t>(offset));
}

uint64_t StepTable::function_index(llvm::Function* callee) {
  const auto [found, is_new] = indices_.try_emplace(callee, functions_.size());
  if (is_new) functions_.push_back(callee);
  return found->second;
}

// Steps have the numbers of all_steps().
void StepTable::add_step(const PlanStep& step, uint32_t& number) {
  interruption_point();
  const uint32_t own = number++;
  const uint64_t single = step.single_thread ? kSingleThread : 0;
  if (step.kind == PlanStep::Kind::Call) {
    llvm::Function* callee = callee_(step);
    types_[step.locations.size()] = callee->getFunctionType();
    add((kCall + step.locations.size()) | single | (function_index(callee) << kUpperHalf));
    add(own);
    if (step.scratch) {
      add_location(*step.scratch);
    } else {
      add((kOwn << kUpperHalf) | kScratch);
      add(0);
    }
    for (const Location& location : step.locations) add_location(location);
    return;
  }
  if (step.kind == PlanStep::Kind::Copy) {
    TC_CHECK(step.locations.size() == 2, "in step '", step.label, "'");
    add(kCopy | single);
    add(own);
    for (const Location& location : step.locations) add_location(location);
    add(static_cast<uint64_t>(step.bytes.constant()));
    return;
  }
  TC_CHECK(step.kind == PlanStep::Kind::If && step.locations.size() == 1, "in step '", step.label, "'");
  add(kIf);
  add(own);
  add_location(step.locations[0]);
  add(0);
  const size_t body = rows_.size();
  for (const PlanStep& inner : step.body) add_step(inner, number);
  add(kElse);
  add(own);
  add(0);
  const size_t otherwise = rows_.size();
  rows_[body - 1] = otherwise - body;
  for (const PlanStep& inner : step.otherwise) add_step(inner, number);
  rows_[otherwise - 1] = rows_.size() - otherwise;
  add(kEnd);
  add(own);
}

uint32_t StepTable::execute(Builder& builder, llvm::Value* frame, const PlanStep* begin, const PlanStep* end,
                            uint32_t number) {
  if (walk_ == nullptr) {
    walk_ = internal_function(compiler_, "walk", builder.getVoidTy(), {pointer_, pointer_, pointer_});
    walk_->addFnAttr(llvm::Attribute::NoInline);
  }
  rows_.clear();
  for (const PlanStep* step = begin; step != end; ++step) add_step(*step, number);
  llvm::Constant* words = llvm::ConstantDataArray::get(compiler_.context(), rows_);
  auto* rows = new llvm::GlobalVariable(compiler_.module(), words->getType(), true,
                                        llvm::GlobalValue::InternalLinkage, words, "rows");
  builder.CreateCall(walk_, {frame, rows, builder.CreateConstInBoundsGEP1_64(i64_, rows, rows_.size())});
  return number;
}

// --- the function that executes them ---------------------------------------------------------

llvm::Value* StepTable::Cursor::word(Builder& builder, uint64_t index) const {
  return builder.CreateLoad(builder.getInt64Ty(),
                            builder.CreateConstInBoundsGEP1_64(builder.getInt64Ty(), row, index));
}

llvm::BasicBlock* StepTable::block(const char* name) {
  return llvm::BasicBlock::Create(compiler_.context(), name, walk_);
}

// The address of the location whose first word has that index.
llvm::Value* StepTable::address(const Cursor& cursor, uint64_t index) {
  llvm::Value* place = cursor.word(builder_, index);
  llvm::Value* number = builder_.CreateLShr(place, builder_.getInt64(kUpperHalf));
  llvm::Value* table = builder_.CreateLoad(pointer_, builder_.CreateInBoundsGEP(pointer_, tables_, number));
  llvm::Value* in_table = builder_.CreateZExt(builder_.CreateTrunc(place, i32_), i64_);
  llvm::Value* base = builder_.CreateLoad(pointer_, builder_.CreateInBoundsGEP(pointer_, table, in_table));
  return builder_.CreatePtrAdd(base, cursor.word(builder_, index + 1));
}

llvm::Value* StepTable::after(const Cursor& cursor, llvm::Value* words) {
  return builder_.CreateInBoundsGEP(i64_, cursor.row, words);
}

llvm::Value* StepTable::flag(const Cursor& cursor) {
  llvm::Value* bit = builder_.CreateAnd(cursor.word(builder_, 0), builder_.getInt64(kSingleThread));
  return builder_.CreateICmpNE(bit, builder_.getInt64(0));
}

void StepTable::guarded_by_flag(llvm::Value* single, const std::function<void()>& body) {
  frame_->guarded(builder_.CreateOr(builder_.CreateNot(single), frame_->first()), body);
}

void StepTable::emit_call(const Cursor& cursor, size_t arguments, const Finish& finish) {
  llvm::Value* single = flag(cursor);
  guarded_by_flag(single, [&] {
    std::vector<llvm::Value*> values;
    for (size_t i = 0; i < arguments; ++i)
      values.push_back(address(cursor, kHead + kWordsOfLocation * (i + 1)));
    values.push_back(llvm::ConstantPointerNull::get(pointer_));  // no parameters
    values.push_back(builder_.CreateSelect(frame_->first(), address(cursor, kHead), scratch_));
    values.push_back(builder_.CreateSelect(single, builder_.getInt32(0), frame_->thread()));
    values.push_back(builder_.CreateSelect(single, builder_.getInt32(1), frame_->threads()));
    llvm::Value* index = builder_.CreateLShr(cursor.word(builder_, 0), builder_.getInt64(kUpperHalf));
    llvm::Value* place = builder_.CreateInBoundsGEP(pointer_, table_of_functions_, index);
    llvm::Value* callee = builder_.CreateLoad(pointer_, place);
    builder_.CreateCall(types_.at(arguments), callee, values)->addFnAttr(llvm::Attribute::NoUnwind);
  });
  finish(after(cursor, builder_.getInt64(kHead + kWordsOfLocation * (arguments + 1))));
}

void StepTable::emit_copy(const Cursor& cursor, const Finish& finish) {
  llvm::Value* single = flag(cursor);
  guarded_by_flag(single, [&] {
    const auto chosen = [&](uint64_t of_single, llvm::Value* of_all) {
      return builder_.CreateSelect(single, builder_.getInt64(of_single), builder_.CreateZExt(of_all, i64_));
    };
    llvm::Value* thread = chosen(0, frame_->thread());
    llvm::Value* threads = chosen(1, frame_->threads());
    const auto [begin, end] = copied_part(builder_, cursor.word(builder_, kWordsOfCopy - 1), thread, threads);
    builder_.CreateCall(copy_,
                        {address(cursor, kHead), address(cursor, kHead + kWordsOfLocation), begin, end});
  });
  finish(after(cursor, builder_.getInt64(kWordsOfCopy)));
}

void StepTable::emit_if(const Cursor& cursor, const Finish& finish) {
  llvm::Value* condition = builder_.CreateLoad(builder_.getInt8Ty(), address(cursor, kHead));
  llvm::Value* holds = builder_.CreateICmpNE(condition, builder_.getInt8(0));
  llvm::Value* left_out =
      builder_.CreateSelect(holds, builder_.getInt64(0), cursor.word(builder_, kWordsOfIf - 1));
  finish(after(cursor, builder_.CreateAdd(left_out, builder_.getInt64(kWordsOfIf))));
}

// void walk(const tc_frame* frame, const int64_t* row, const int64_t* end)
void StepTable::finish() {
  if (walk_ == nullptr) return;
  llvm::BasicBlock* entry = block("entry");
  builder_.SetInsertPoint(entry);
  frame_ = std::make_unique<RunFrame>(builder_, walk_->getArg(0));
  frame_->load_threads();
  frame_->compare_threads();
  scratch_ = frame_->field(pointer_, offsetof(tc_frame, scratch), "scratch");
  llvm::Value* step_done = frame_->field(pointer_, offsetof(tc_frame, step_done), "step_done");
  llvm::Value* profiled = builder_.CreateAnd(frame_->first(), builder_.CreateIsNotNull(step_done));
  const auto filled = [&](const std::vector<llvm::Value*>& values) {
    llvm::Value* table = builder_.CreateAlloca(llvm::ArrayType::get(pointer_, values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      builder_.CreateStore(values[i], builder_.CreateConstInBoundsGEP1_64(pointer_, table, i));
    }
    return table;
  };
  static_assert(kArena == 0 && kConstants == 1 && kScratch == 2 && kOwn == 0 && kInputs == 1 &&
                kOutputs == 2);
  llvm::Value* arena = frame_->field(pointer_, offsetof(tc_frame, arena), "arena");
  llvm::Value* inputs = frame_->field(pointer_, offsetof(tc_frame, inputs), "inputs");
  llvm::Value* outputs = frame_->field(pointer_, offsetof(tc_frame, outputs), "outputs");
  llvm::Value* own = filled({arena, constants_.address(builder_), scratch_});
  tables_ = filled({own, inputs, outputs});
  auto* type = llvm::ArrayType::get(pointer_, functions_.size());
  table_of_functions_ =
      new llvm::GlobalVariable(compiler_.module(), type, true, llvm::GlobalValue::InternalLinkage,
                               llvm::ConstantArray::get(type, functions_), "functions");

  llvm::BasicBlock *head = block("head"), *choose = block("choose"), *done = block("done");
  llvm::BasicBlock *leave = block("leave"), *wrong = block("wrong");
  builder_.CreateBr(head);
  builder_.SetInsertPoint(head);
  llvm::PHINode* row = builder_.CreatePHI(pointer_, 0);
  row->addIncoming(walk_->getArg(1), entry);
  builder_.CreateCondBr(builder_.CreateICmpEQ(row, walk_->getArg(2)), leave, choose);

  builder_.SetInsertPoint(done);  // after each step all threads meet, and a profiler is told
  llvm::PHINode* next = builder_.CreatePHI(pointer_, 0);
  const Cursor cursor{row};
  frame_->wait_for_threads();
  frame_->guarded(profiled, [&] {
    auto* told = llvm::FunctionType::get(builder_.getVoidTy(), {pointer_, i32_}, false);
    builder_.CreateCall(told, step_done,
                        {walk_->getArg(0), builder_.CreateTrunc(cursor.word(builder_, 1), i32_)});
  });
  row->addIncoming(next, builder_.GetInsertBlock());
  builder_.CreateBr(head);

  builder_.SetInsertPoint(choose);
  llvm::Value* kind = builder_.CreateAnd(cursor.word(builder_, 0), builder_.getInt64(0xffff));
  llvm::SwitchInst* kinds = builder_.CreateSwitch(kind, wrong);
  // `is_step`: the row is all of a step, or its end.
  const auto add_kind = [&](uint64_t number, const char* name, bool is_step, const auto& emit) {
    llvm::BasicBlock* begin = block(name);
    kinds->addCase(builder_.getInt64(number), begin);
    builder_.SetInsertPoint(begin);
    emit(Finish([&](llvm::Value* following) {
      (is_step ? next : row)->addIncoming(following, builder_.GetInsertBlock());
      builder_.CreateBr(is_step ? done : head);
    }));
  };
  for (const auto& [arguments, callee] : types_) {
    add_kind(kCall + arguments, "call", true,
             [&, count = arguments](const Finish& to) { emit_call(cursor, count, to); });
  }
  add_kind(kCopy, "copy", true, [&](const Finish& to) { emit_copy(cursor, to); });
  add_kind(kIf, "if", false, [&](const Finish& to) { emit_if(cursor, to); });
  add_kind(kElse, "else", false, [&](const Finish& to) {
    to(after(cursor,
             builder_.CreateAdd(cursor.word(builder_, kWordsOfElse - 1), builder_.getInt64(kWordsOfElse))));
  });
  add_kind(kEnd, "end", true, [&](const Finish& to) { to(after(cursor, builder_.getInt64(kHead))); });

  builder_.SetInsertPoint(wrong);
  builder_.CreateUnreachable();
  builder_.SetInsertPoint(leave);
  builder_.CreateRetVoid();
}

}  // namespace tc
