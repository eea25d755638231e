// The steps of a plan as the code of run().
#include "codegen/llvm/artefact/step_emitter.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "codegen/llvm/artefact/constants.h"
#include "ir/error.h"
#include "ir/interrupt.h"
#include "runtime/abi.h"

namespace tc {
namespace {

// LLVM's time grows with the square of the number of a function's blocks. Where a plan has more steps than
// the first number, steps whose offsets and sizes are numbers become rows of a table, and the others are
// divided into functions of the second number of steps. The steps of a plan that is just not divided take
// about 0.1 s of LLVM's time. Networks have fewer than 400 steps.
constexpr int64_t kMaxStepsOfRun = 512, kStepsOfPart = 128;
constexpr int64_t kMinStepsOfTable = 4;  // consecutive ones

int64_t count_steps(const PlanSteps& list);

int64_t count_steps(const PlanStep& step) { return 1 + count_steps(step.body) + count_steps(step.otherwise); }

int64_t count_steps(const PlanSteps& list) {
  int64_t count = 0;
  for (const PlanStep& step : list) count += count_steps(step);
  return count;
}

// The number of symbols that steps define; a divided run() has a slot for each.
uint64_t count_symbols(const PlanSteps& list) {
  uint64_t count = 0;
  for (const PlanStep& step : list) {
    count += (step.symbol.empty() ? 0 : 1) + count_symbols(step.body) + count_symbols(step.otherwise);
  }
  return count;
}

}  // namespace

llvm::Function* internal_function(ModuleCompiler& compiler, const std::string& name, llvm::Type* result,
                                  const std::vector<llvm::Type*>& arguments) {
  auto* made = llvm::Function::Create(llvm::FunctionType::get(result, arguments, false),
                                      llvm::GlobalValue::InternalLinkage, name, compiler.module());
  compiler.set_attributes(*made);
  return made;
}

void load_symbols(Builder& builder, const Plan& plan, llvm::Value* table, DimEmitter& dims,
                  const std::set<std::string>* wanted) {
  uint64_t index = 0;
  for (const auto& [name, range] : plan.symbols) {
    const uint64_t at = index++;
    if (wanted != nullptr && wanted->count(name) == 0) continue;
    llvm::Value* address = builder.CreateConstInBoundsGEP1_64(builder.getInt64Ty(), table, at);
    dims.symbols[name] = builder.CreateLoad(builder.getInt64Ty(), address, name);
  }
}

void FunctionInputs::add(const Location& location) {
  add(location.offset);
  if (location.kind == Location::Kind::Input) inputs.insert(location.index);
  if (location.kind == Location::Kind::Output) outputs.insert(location.index);
}

StepEmitter::StepEmitter(ModuleCompiler& compiler, const Plan& plan, const PlanNames& names,
                         const ConstantsBase& constants, llvm::Function* copy)
    : compiler_(compiler),
      plan_(plan),
      names_(names),
      builder_(compiler.context()),
      pointer_(llvm::PointerType::getUnqual(compiler.context())),
      i32_(builder_.getInt32Ty()),
      i64_(builder_.getInt64Ty()),
      constants_(constants),
      copy_(copy),
      offsets_(constant_offsets(plan.constants)),
      scratch_bytes_(first_scratch_bytes(plan)),
      table_(compiler, plan, constants, copy, offsets_,
             [this](const PlanStep& item) { return checked_callee(item); }) {}

llvm::BasicBlock* StepEmitter::block(const std::string& name) {
  return llvm::BasicBlock::Create(compiler_.context(), name, function_.function);
}

llvm::ConstantInt* StepEmitter::i64(int64_t value) { return builder_.getInt64(static_cast<uint64_t>(value)); }

void StepEmitter::emit_run(llvm::Function* run) {
  DimEmitter dims(builder_, false);
  const bool whole = count_steps(plan_.steps) <= kMaxStepsOfRun;
  const FunctionInputs needed = needed_by_outputs();
  enter(run, dims, whole ? nullptr : &needed);
  if (!whole) {
    function_.sizes =
        builder_.CreateAlloca(llvm::ArrayType::get(i64_, std::max<uint64_t>(1, count_symbols(plan_.steps))));
  }
  steps(plan_.steps, dims);
  if (!whole) load_slots(needed.symbols, dims);
  if (!plan_.data_symbols.empty() || !plan_.unbounded.empty())
    function_.frame->guarded(function_.frame->first(), [&] { store_output_dims(dims); });
  builder_.CreateRetVoid();
  table_.finish();
}

// It is never divided: the stack size that is reported to the user assumes calls that are two functions
// deep.
void StepEmitter::emit_bare_run(llvm::Function* run) {
  function_.function = run;
  builder_.SetInsertPoint(llvm::BasicBlock::Create(compiler_.context(), "entry", run));
  make_room_for_parameters();
  // Inputs and outputs that are states are in the arena, the others are arguments.
  function_.inputs.resize(plan_.inputs.size());
  function_.outputs.resize(plan_.outputs.size());
  function_.arena = run->getArg(static_cast<unsigned>(run->arg_size() - 1));
  const std::vector<int64_t> kept = bare_state_offsets(plan_);
  for (size_t i = 0; i < plan_.states.size(); ++i) {
    const KeptState& state = plan_.states[i];
    llvm::Value* place = builder_.CreatePtrAdd(function_.arena, i64(kept[i]));
    function_.inputs.at(static_cast<size_t>(state.input)) = place;
    function_.outputs.at(static_cast<size_t>(state.output)) = place;
  }
  std::vector<std::pair<llvm::Value*, int64_t>> pointers;  // with their alignments
  for (const auto* ports : {&plan_.inputs, &plan_.outputs}) {
    for (size_t i = 0; i < ports->size(); ++i) {
      llvm::Value*& place = (ports == &plan_.inputs ? function_.inputs : function_.outputs)[i];
      if (place != nullptr) continue;
      place = run->getArg(static_cast<unsigned>(pointers.size()));
      pointers.emplace_back(place, static_cast<int64_t>(size_of((*ports)[i].dtype)));
    }
  }
  pointers.emplace_back(function_.arena, kBareArenaAlignment);
  function_.frame = std::make_unique<RunFrame>(builder_);
  function_.frame->check_pointers(pointers);
  function_.frame->load_threads();
  function_.frame->compare_threads();
  function_.scratch = builder_.CreatePtrAdd(function_.arena, i64(bare_scratch_offset(plan_)));
  function_.profiled = builder_.getFalse();
  function_.iteration = i64(0);
  DimEmitter dims(builder_, false);
  steps(plan_.steps, dims);
  builder_.CreateRet(builder_.getInt32(static_cast<uint32_t>(BareStatus::Done)));
}

void StepEmitter::enter(llvm::Function* function, DimEmitter& dims, const FunctionInputs* needed) {
  function_ = FunctionState();
  function_.function = function;
  function_.iteration = i64(0);
  builder_.SetInsertPoint(llvm::BasicBlock::Create(compiler_.context(), "entry", function));
  function_.frame = std::make_unique<RunFrame>(builder_, function->getArg(0));
  RunFrame& frame = *function_.frame;
  llvm::Value* inputs = frame.field(pointer_, offsetof(tc_frame, inputs), "inputs");
  llvm::Value* outputs = frame.field(pointer_, offsetof(tc_frame, outputs), "outputs");
  function_.arena = frame.field(pointer_, offsetof(tc_frame, arena), "arena");
  function_.scratch = frame.field(pointer_, offsetof(tc_frame, scratch), "scratch");
  llvm::Value* symbols = frame.field(pointer_, offsetof(tc_frame, symbols), "symbols");
  frame.load_threads();
  function_.step_done = frame.field(pointer_, offsetof(tc_frame, step_done), "step_done");
  const auto ports = [&](llvm::Value* table, size_t count, const std::set<int>* wanted) {
    std::vector<llvm::Value*> result(count, nullptr);
    const auto load = [&](size_t i) {
      result[i] = builder_.CreateLoad(pointer_, builder_.CreateConstInBoundsGEP1_64(pointer_, table, i));
    };
    for (size_t i = 0; wanted == nullptr && i < count; ++i) load(i);
    if (wanted == nullptr) return result;
    for (int i : *wanted) {
      if (i >= 0 && static_cast<size_t>(i) < count) load(static_cast<size_t>(i));
    }
    return result;
  };
  function_.inputs = ports(inputs, plan_.inputs.size(), needed ? &needed->inputs : nullptr);
  function_.outputs = ports(outputs, plan_.outputs.size(), needed ? &needed->outputs : nullptr);
  frame.compare_threads();
  function_.profiled = builder_.CreateAnd(frame.first(), builder_.CreateIsNotNull(function_.step_done));
  make_room_for_parameters();
  load_symbols(builder_, plan_, symbols, dims, needed ? &needed->symbols : nullptr);
}

void StepEmitter::make_room_for_parameters() {
  size_t most_parameters = 1;
  for (const ScheduledKernel& kernel : plan_.kernels) {
    most_parameters =
        std::max(most_parameters, kernel.kernel.parameters.size() + (alternates(kernel) ? 1 : 0));
  }
  function_.parameters = builder_.CreateAlloca(llvm::ArrayType::get(i64_, most_parameters));
}

FunctionInputs StepEmitter::needed_by_outputs() const {
  FunctionInputs needed;
  for (const PortInfo& port : plan_.outputs) {
    for (const Dim& dim : port.shape) needed.add(dim);
    if (port.data) needed.add(*port.data);
  }
  return needed;
}

// Stores all sizes of the outputs, those that the run has computed and the others, and where their data is.
void StepEmitter::store_output_dims(DimEmitter& dims) {
  llvm::Value* sizes = function_.frame->field(pointer_, offsetof(tc_frame, output_dims), "output_dims");
  uint64_t index = 0;
  for (const PortInfo& port : plan_.outputs) {
    for (const Dim& dim : port.shape) {
      builder_.CreateStore(dims.emit(dim), builder_.CreateConstInBoundsGEP1_64(i64_, sizes, index++));
    }
  }
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    if (!plan_.outputs[i].data) continue;
    llvm::Value* data = function_.frame->field(pointer_, offsetof(tc_frame, output_data), "output_data");
    builder_.CreateStore(address(*plan_.outputs[i].data, dims),
                         builder_.CreateConstInBoundsGEP1_64(pointer_, data, i));
  }
}

// --- lists of steps --------------------------------------------------------------------------

void StepEmitter::steps(const PlanSteps& list, DimEmitter& dims) {
  const std::vector<Piece> all = pieces(list);
  // A divided run() itself has loaded only what its outputs need.
  if (function_.sizes != nullptr && (&list == &plan_.steps || is_divided(all))) divide(all);
  else emit(all.data(), all.data() + all.size(), dims);
  if (&list == &plan_.steps) return;  // the outputs still need their symbols
  for (const PlanStep& item : list) {
    if (item.kind != PlanStep::Kind::Bind) continue;
    dims.symbols.erase(item.symbol);
    slots_.erase(item.symbol);
  }
}

// A piece for each step; but where run() is divided, consecutive steps that become rows of the table are one
// piece.
std::vector<StepEmitter::Piece> StepEmitter::pieces(const PlanSteps& list) const {
  std::vector<Piece> result;
  const PlanStep* const end = list.data() + list.size();
  for (const PlanStep* begin = list.data(); begin != end;) {
    const PlanStep* next = begin;
    int64_t count = 0;
    for (; function_.sizes != nullptr && next != end && table_.holds(*next); ++next)
      count += count_steps(*next);
    if (count >= kMinStepsOfTable) {
      result.push_back({begin, next, 1, true});
      begin = next;
      continue;
    }
    const PlanStep* const last = std::max(next, begin + 1);  // too few rows, or a step that cannot be one
    for (; begin != last; ++begin) result.push_back({begin, begin + 1, work(*begin), false});
  }
  return result;
}

// How many steps LLVM has to compile for it.
int64_t StepEmitter::work(const PlanStep& step) const {
  return 1 + work(pieces(step.body)) + work(pieces(step.otherwise));
}

int64_t StepEmitter::work(const std::vector<Piece>& list) {
  int64_t count = 0;
  for (const Piece& piece : list) count += piece.work;
  return count;
}

bool StepEmitter::is_divided(const std::vector<Piece>& list) { return work(list) > kStepsOfPart; }

void StepEmitter::emit(const Piece* begin, const Piece* end, DimEmitter& dims) {
  for (const Piece* piece = begin; piece != end; ++piece) {
    if (piece->in_table) {
      next_step_ =
          table_.execute(builder_, function_.function->getArg(0), piece->begin, piece->end, next_step_);
    } else {
      emit(piece->begin, piece->end, dims);
    }
  }
}

// Steps have the numbers of all_steps().
void StepEmitter::emit(const PlanStep* begin, const PlanStep* end, DimEmitter& dims) {
  for (const PlanStep* item = begin; item != end; ++item) {
    interruption_point();
    const uint32_t number = next_step_++;
    if (item->kind == PlanStep::Kind::Bind) bind(*item, number, dims);
    if (item->kind == PlanStep::Kind::Grow) function_.frame->grow(*item, number, dims, plan_.memory_limit);
    if (item->kind == PlanStep::Kind::Check) function_.frame->check_relation(*item, number, dims);
    step(*item, dims);
    function_.frame->guarded(function_.profiled, [&] {
      auto* type = llvm::FunctionType::get(builder_.getVoidTy(), {pointer_, i32_}, false);
      builder_.CreateCall(type, function_.step_done,
                          {function_.function->getArg(0), builder_.getInt32(number)});
    });
  }
}

void StepEmitter::divide(const std::vector<Piece>& list) {
  const Piece* const end = list.data() + list.size();
  for (const Piece* begin = list.data(); begin != end;) {
    const Piece* next = begin + 1;
    for (int64_t count = begin->work; next != end && count + next->work <= kStepsOfPart; ++next)
      count += next->work;
    llvm::Function* part = internal_function(compiler_, "part", i32_, {pointer_, pointer_});
    part->addFnAttr(llvm::Attribute::NoInline);
    llvm::Value* left = builder_.CreateCall(part, {function_.function->getArg(0), function_.sizes});
    function_.frame->leave_where(builder_.CreateICmpNE(left, builder_.getInt32(0)), [] {});
    emit_part(part, begin, next);
    begin = next;
  }
}

// int part(const tc_frame* frame, int64_t* sizes), which gives 0 where the run goes on.
void StepEmitter::emit_part(llvm::Function* part, const Piece* begin, const Piece* end) {
  FunctionInputs needed;
  for (const Piece* piece = begin; piece != end; ++piece) {
    if (!piece->in_table) add_needed(*piece->begin, needed);
  }
  if (!loop_.empty()) needed.symbols.insert(loop_);
  FunctionState caller = std::move(function_);
  const Builder::InsertPointGuard back(builder_);
  DimEmitter dims(builder_, false);
  enter(part, dims, &needed);
  function_.sizes = part->getArg(1);
  load_slots(needed.symbols, dims);
  if (!loop_.empty()) function_.iteration = dims.symbols.at(loop_);
  emit(begin, end, dims);
  builder_.CreateRet(builder_.getInt32(0));
  function_ = std::move(caller);
}

// What the step needs, and the steps inside of it that do not become functions of their own.
void StepEmitter::add_needed(const PlanStep& step, FunctionInputs& needed) const {
  for (const Location& location : step.locations) needed.add(location);
  if (step.scratch) needed.add(*step.scratch);
  for (const Dim& dim : step.parameters) needed.add(dim);
  for (const Dim* dim : {&step.bytes, &step.left, &step.right}) needed.add(*dim);
  for (const auto& [left, right] : step.sizes) {
    needed.add(left);
    needed.add(right);
  }
  for (const auto* dim : {&step.trip, &step.bound}) {
    if (*dim) needed.add(**dim);
  }
  for (const PlanSteps* list : {&step.body, &step.otherwise}) {
    const std::vector<Piece> all = pieces(*list);
    if (is_divided(all)) continue;
    for (const Piece& piece : all) {
      if (!piece.in_table) add_needed(*piece.begin, needed);
    }
  }
}

void StepEmitter::load_slots(const std::set<std::string>& symbols, DimEmitter& dims) {
  for (const std::string& symbol : symbols) {
    const auto slot = slots_.find(symbol);
    if (slot != slots_.end())
      dims.symbols[symbol] = builder_.CreateLoad(
          i64_, builder_.CreateConstInBoundsGEP1_64(i64_, function_.sizes, slot->second), symbol);
  }
}

// Gives the symbol its value, here and in its slot, from which later parts load it.
void StepEmitter::define(const std::string& symbol, llvm::Value* value, DimEmitter& dims) {
  dims.symbols[symbol] = value;
  if (function_.sizes == nullptr) return;
  slots_[symbol] = next_slot_;
  builder_.CreateStore(value, builder_.CreateConstInBoundsGEP1_64(i64_, function_.sizes, next_slot_++));
}

// --- steps -----------------------------------------------------------------------------------

// All threads read the same size, and return together where it is out of bounds.
void StepEmitter::bind(const PlanStep& item, uint32_t number, DimEmitter& dims) {
  TC_CHECK(
      item.locations.size() == 1 && dims.symbols.count(item.symbol) == 0 && slots_.count(item.symbol) == 0,
      "in step '", item.label, "'");
  llvm::Value* size = builder_.CreateLoad(i64_, address(item.locations[0], dims), item.symbol);
  llvm::Value* bound = item.bound ? dims.emit(*item.bound) : i64(INT64_MAX);
  function_.frame->check_bound(number, size, bound);
  define(item.symbol, size, dims);
}

void StepEmitter::step(const PlanStep& item, DimEmitter& dims) {
  switch (item.kind) {
    case PlanStep::Kind::Call: call(item, dims); break;
    case PlanStep::Kind::Copy: copy(item, dims); break;
    case PlanStep::Kind::Loop: repeat(item, dims); break;
    case PlanStep::Kind::If: branch(item, dims); break;
    case PlanStep::Kind::Bind:
    case PlanStep::Kind::Grow:
    case PlanStep::Kind::Check: break;
  }
  function_.frame->wait_for_threads();
}

void StepEmitter::call(const PlanStep& item, DimEmitter& dims) {
  llvm::Function* callee = checked_callee(item);
  const auto scratch = [&] {
    if (!item.scratch) return function_.scratch;
    llvm::Value* in_arena = address(*item.scratch, dims);
    return item.single_thread ? in_arena
                              : builder_.CreateSelect(function_.frame->first(), in_arena, function_.scratch);
  };
  auto emit = [&] {
    std::vector<llvm::Value*> arguments;
    for (const Location& location : item.locations) arguments.push_back(address(location, dims));
    for (size_t i = 0; i < item.parameters.size(); ++i) {
      builder_.CreateStore(dims.emit(item.parameters[i]),
                           builder_.CreateConstInBoundsGEP1_64(i64_, function_.parameters, i));
    }
    if (alternates(plan_.kernels[static_cast<size_t>(item.kernel)])) {
      builder_.CreateStore(function_.iteration, builder_.CreateConstInBoundsGEP1_64(
                                                    i64_, function_.parameters, item.parameters.size()));
    }
    arguments.push_back(function_.parameters);
    arguments.push_back(scratch());
    arguments.push_back(item.single_thread ? builder_.getInt32(0) : function_.frame->thread());
    arguments.push_back(item.single_thread ? builder_.getInt32(1) : function_.frame->threads());
    builder_.CreateCall(callee, arguments);
  };
  if (item.single_thread) {
    function_.frame->guarded(function_.frame->first(), emit);
  } else {
    emit();
  }
}

void StepEmitter::copy(const PlanStep& item, DimEmitter& dims) {
  TC_CHECK(item.locations.size() == 2, "in step '", item.label, "'");
  llvm::Value* bytes = dims.emit(item.bytes);
  llvm::Value* thread = item.single_thread ? i64(0) : builder_.CreateZExt(function_.frame->thread(), i64_);
  llvm::Value* threads = item.single_thread ? i64(1) : builder_.CreateZExt(function_.frame->threads(), i64_);
  auto emit = [&] {
    const auto [begin, end] = copied_part(builder_, bytes, thread, threads);
    builder_.CreateCall(copy_,
                        {address(item.locations[0], dims), address(item.locations[1], dims), begin, end});
  };
  if (item.single_thread) {
    function_.frame->guarded(function_.frame->first(), emit);
  } else {
    emit();
  }
}

void StepEmitter::repeat(const PlanStep& item, DimEmitter& dims) {
  TC_CHECK(dims.symbols.count(item.symbol) == 0 && slots_.count(item.symbol) == 0, "in step '", item.label,
           "': loop symbol '", item.symbol, "' hides another");
  llvm::Value* trip = item.trip ? dims.emit(*item.trip) : i64(INT64_MAX);
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  llvm::BasicBlock* head = block("loop");
  llvm::BasicBlock* body = block("loop.body");
  llvm::BasicBlock* after = block("loop.end");
  builder_.CreateBr(head);
  builder_.SetInsertPoint(head);
  llvm::PHINode* counter = builder_.CreatePHI(i64_, 2);
  counter->addIncoming(i64(0), before);
  llvm::Value* more = builder_.CreateICmpSLT(counter, trip);
  if (!item.locations.empty()) {
    llvm::Value* condition = builder_.CreateLoad(builder_.getInt8Ty(), address(item.locations[0], dims));
    more = builder_.CreateAnd(more, builder_.CreateICmpNE(condition, builder_.getInt8(0)));
  }
  builder_.CreateCondBr(more, body, after);
  builder_.SetInsertPoint(body);
  define(item.symbol, counter, dims);
  llvm::Value* outer = std::exchange(function_.iteration, counter);
  const std::string outer_loop = std::exchange(loop_, item.symbol);
  steps(item.body, dims);
  function_.iteration = outer;
  loop_ = outer_loop;
  dims.symbols.erase(item.symbol);
  slots_.erase(item.symbol);
  counter->addIncoming(builder_.CreateNSWAdd(counter, i64(1)), builder_.GetInsertBlock());
  builder_.CreateBr(head);
  builder_.SetInsertPoint(after);
}

void StepEmitter::branch(const PlanStep& item, DimEmitter& dims) {
  TC_CHECK(item.locations.empty() ? !item.sizes.empty() : item.locations.size() == 1 && item.sizes.empty(),
           "in step '", item.label, "'");
  llvm::Value* holds = builder_.getTrue();
  for (const Location& location : item.locations) {
    llvm::Value* value = builder_.CreateLoad(builder_.getInt8Ty(), address(location, dims));
    holds = builder_.CreateICmpNE(value, builder_.getInt8(0));
  }
  for (const auto& [left, right] : item.sizes)
    holds = builder_.CreateAnd(holds, builder_.CreateICmpEQ(dims.emit(left), dims.emit(right)));
  llvm::BasicBlock* yes = block("if.then");
  llvm::BasicBlock* no = block("if.else");
  llvm::BasicBlock* after = block("if.end");
  builder_.CreateCondBr(holds, yes, no);
  builder_.SetInsertPoint(yes);
  steps(item.body, dims);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(no);
  steps(item.otherwise, dims);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

llvm::Value* StepEmitter::address(const Location& location, DimEmitter& dims) {
  llvm::Value* base = nullptr;
  int64_t fixed = 0;
  const size_t index = static_cast<size_t>(location.index);
  switch (location.kind) {
    case Location::Kind::Input:
      TC_CHECK(index < function_.inputs.size() && function_.inputs[index] != nullptr, "in the plan of '",
               plan_.model, "'");
      base = function_.inputs[index];
      break;
    case Location::Kind::Output:
      TC_CHECK(index < function_.outputs.size() && function_.outputs[index] != nullptr, "in the plan of '",
               plan_.model, "'");
      base = function_.outputs[index];
      break;
    case Location::Kind::Constant:
      TC_CHECK(index + 1 < offsets_.size(), "in the plan of '", plan_.model, "'");
      base = constants_.address(builder_);
      fixed = offsets_[index];
      break;
    case Location::Kind::Arena: base = function_.arena; break;
    case Location::Kind::Segment:
      TC_CHECK(location.index >= 0 && location.index < plan_.segments, "in the plan of '", plan_.model, "'");
      base = function_.frame->segment(location.index);
      break;
  }
  llvm::Value* offset = builder_.CreateAdd(dims.emit(location.offset), i64(fixed));
  return builder_.CreatePtrAdd(base, offset);
}

// The kernel's function that the step calls, after checks that the step has the right arguments.
llvm::Function* StepEmitter::checked_callee(const PlanStep& item) {
  llvm::Function* callee = kernel_function(item);
  const Kernel& kernel = plan_.kernels[static_cast<size_t>(item.kernel)].kernel;
  const auto is_argument = [](const Buffer& buffer) {
    return buffer.scope == Scope::Input || buffer.scope == Scope::Output || buffer.scope == Scope::Constant;
  };
  const auto wanted = std::count_if(kernel.buffers.begin(), kernel.buffers.end(), is_argument);
  TC_CHECK(static_cast<size_t>(wanted) == item.locations.size() &&
               callee->arg_size() == item.locations.size() + 4 &&
               kernel.parameters.size() == item.parameters.size(),
           "in step '", item.label, "': arguments of kernel '", kernel.name, "'");
  const int64_t own = scratch_bytes(plan_.kernels[static_cast<size_t>(item.kernel)]);
  TC_CHECK(item.scratch || own <= scratch_bytes_, "in step '", item.label, "': ", own,
           " bytes of scratch memory");
  return callee;
}

llvm::Function* StepEmitter::kernel_function(const PlanStep& item) {
  const size_t index = static_cast<size_t>(item.kernel);
  TC_CHECK(item.kernel >= 0 && index < plan_.kernels.size(), "in step '", item.label, "'");
  const std::string name = names_.kernel(index);
  if (llvm::Function* known = compiler_.module().getFunction(name)) return known;
  std::vector<llvm::Type*> types(item.locations.size(), pointer_);
  types.insert(types.end(), {pointer_, pointer_, i32_, i32_});
  auto* made = llvm::Function::Create(llvm::FunctionType::get(builder_.getVoidTy(), types, false),
                                      llvm::GlobalValue::ExternalLinkage, name, compiler_.module());
  made->setVisibility(llvm::GlobalValue::HiddenVisibility);
  made->addFnAttr(llvm::Attribute::NoUnwind);
  return made;
}

}  // namespace tc
