// A plan's code: run(), bind() and the descriptor of runtime/abi.h.
#include "codegen/plan_emitter.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "codegen/constants.h"
#include "codegen/dims.h"
#include "codegen/run_frame.h"
#include "ir/error.h"
#include "ir/plan_steps.h"
#include "runtime/abi.h"

namespace tc {
namespace {

static_assert(TC_F32 == static_cast<int>(DType::F32) && TC_BOOL == static_cast<int>(DType::Bool) &&
              TC_U2 == static_cast<int>(DType::U2));

bool mentions(const Dim& dim, const std::set<std::string>& symbols) {
  std::set<std::string> names;
  dim.collect_symbols(names);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return symbols.count(name) > 0; });
}

// The least version of the interface that has what the steps need.
int32_t version_of(const PlanSteps& steps) {
  int32_t version = 1;
  for (const PlanStep& step : steps) {
    if (step.kind == PlanStep::Kind::Bind) version = std::max(version, step.bound ? 2 : 3);
    if (step.kind == PlanStep::Kind::Grow || step.kind == PlanStep::Kind::Check) version = 3;
    version = std::max({version, version_of(step.body), version_of(step.otherwise)});
  }
  return version;
}

class PlanEmitter {
 public:
  PlanEmitter(Unit& unit, const Plan& plan, const PlanNames& names, const std::string& features)
      : unit_(unit),
        module_(unit.module()),
        plan_(plan),
        names_(names),
        features_(features),
        builder_(unit.context()),
        pointer_(llvm::PointerType::getUnqual(unit.context())),
        i32_(builder_.getInt32Ty()),
        i64_(builder_.getInt64Ty()),
        sized_(plan.sized_scratch != Dim(0)),
        first_needs_less_(first_scratch_bytes(plan) < plan_scratch_bytes(plan)),
        offsets_(constant_offsets(plan.constants)) {}

  void emit() {
    emit_shared();
    emit_bind();
    if (sized_) emit_scratch();
    emit_run();
    emit_descriptor();
  }

  // int PREFIX_run(const void* inputs..., void* outputs..., void* arena), and a block for the arena.
  void emit_bare(const std::string& prefix) {
    emit_shared();
    const size_t inputs = plan_.inputs.size(), outputs = plan_.outputs.size();
    run_ = function(prefix + "_run", i32_, std::vector<llvm::Type*>(inputs + outputs + 1, pointer_));
    run_->setLinkage(llvm::GlobalValue::ExternalLinkage);
    run_->addRetAttr(llvm::Attribute::SExt);   // as C's int on RISC-V
    builder_.SetInsertPoint(llvm::BasicBlock::Create(unit_.context(), "entry", run_));
    make_room_for_parameters();
    std::vector<std::pair<llvm::Value*, int64_t>> pointers;   // with what they are aligned to
    for (const auto* ports : {&plan_.inputs, &plan_.outputs}) {
      for (const PortInfo& port : *ports) {
        pointers.emplace_back(run_->getArg(static_cast<unsigned>(pointers.size())), static_cast<int64_t>(size_of(port.dtype)));
        (ports == &plan_.inputs ? inputs_ : outputs_).push_back(pointers.back().first);
      }
    }
    arena_ = run_->getArg(static_cast<unsigned>(pointers.size()));
    pointers.emplace_back(arena_, kBareArenaAlignment);
    frame_.emplace(builder_);
    frame_->check_pointers(pointers);
    frame_->load_threads();
    frame_->compare_threads();
    scratch_ = builder_.CreatePtrAdd(arena_, i64(bare_scratch_offset(plan_)));
    profiled_ = builder_.getFalse();
    DimEmitter dims(builder_, false);
    steps(plan_.steps, dims);
    builder_.CreateRet(builder_.getInt32(static_cast<uint32_t>(BareStatus::Done)));

    auto* type = llvm::ArrayType::get(builder_.getInt8Ty(), static_cast<uint64_t>(bare_arena_bytes(plan_)));
    auto* arena = new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::ExternalLinkage,
                                           llvm::ConstantAggregateZero::get(type), prefix + "_arena");
    arena->setAlignment(llvm::Align(kBareArenaAlignment));
    arena->setSection(".bss." + prefix + "_arena");   // its own: linkers drop it where nothing names it
  }

 private:
  llvm::Function* function(const std::string& name, llvm::Type* result,
                           std::vector<llvm::Type*> arguments) {
    auto* made = llvm::Function::Create(llvm::FunctionType::get(result, arguments, false),
                                        llvm::GlobalValue::InternalLinkage, name, module_);
    unit_.set_attributes(*made);
    return made;
  }

  llvm::BasicBlock* block(const std::string& name) {
    return llvm::BasicBlock::Create(unit_.context(), name, builder_.GetInsertBlock()->getParent());
  }

  llvm::ConstantInt* i64(int64_t value) { return builder_.getInt64(static_cast<uint64_t>(value)); }

  void load_symbols(DimEmitter& dims, llvm::Value* symbols) {
    int64_t index = 0;
    for (const auto& [name, range] : plan_.symbols) {
      llvm::Value* address = builder_.CreateConstInBoundsGEP1_64(
          i64_, symbols, static_cast<uint64_t>(index++));
      dims.symbols[name] = builder_.CreateLoad(i64_, address, name);
    }
  }

  // The constants' symbol, and void copy(to, from, begin, end): 64 bytes at a time, then single bytes.
  void emit_shared() {
    constants_ = new llvm::GlobalVariable(module_, builder_.getInt8Ty(), true,
                                          llvm::GlobalValue::ExternalLinkage, nullptr,
                                          names_.constants());
    constants_->setVisibility(llvm::GlobalValue::HiddenVisibility);
    copy_ = function("copy", builder_.getVoidTy(), {pointer_, pointer_, i64_, i64_});
    builder_.SetInsertPoint(llvm::BasicBlock::Create(unit_.context(), "entry", copy_));
    llvm::Value* end = copy_->getArg(3);
    llvm::Value* next = copy_loop(copy_->getArg(2), end, 64);
    copy_loop(next, end, 1);
    builder_.CreateRetVoid();
  }

  llvm::Value* copy_loop(llvm::Value* begin, llvm::Value* end, int64_t step) {
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    llvm::BasicBlock* head = block("head");
    llvm::BasicBlock* body = block("body");
    llvm::BasicBlock* after = block("after");
    builder_.CreateBr(head);
    builder_.SetInsertPoint(head);
    llvm::PHINode* place = builder_.CreatePHI(i64_, 2);
    place->addIncoming(begin, before);
    llvm::Value* next = builder_.CreateNSWAdd(place, i64(step));
    builder_.CreateCondBr(builder_.CreateICmpSLE(next, end), body, after);
    builder_.SetInsertPoint(body);
    llvm::Type* type = step == 1
                           ? static_cast<llvm::Type*>(builder_.getInt8Ty())
                           : llvm::FixedVectorType::get(builder_.getInt8Ty(), static_cast<unsigned>(step));
    llvm::Value* value = builder_.CreateAlignedLoad(
        type, builder_.CreatePtrAdd(copy_->getArg(1), place), llvm::Align(1));
    builder_.CreateAlignedStore(value, builder_.CreatePtrAdd(copy_->getArg(0), place),
                                llvm::Align(1));
    place->addIncoming(next, body);
    builder_.CreateBr(head);
    builder_.SetInsertPoint(after);
    return place;
  }

  // int64_t bind(const int64_t* symbols, int64_t* output_dims)
  void emit_bind() {
    bind_ = function("bind", i64_, {pointer_, pointer_});
    builder_.SetInsertPoint(llvm::BasicBlock::Create(unit_.context(), "entry", bind_));
    DimEmitter dims(builder_, true);
    load_symbols(dims, bind_->getArg(0));
    llvm::Value* bad = builder_.getFalse();
    // The sizes that a run computes count as the largest.
    std::map<std::string, llvm::Value*> most;
    for (const auto& [name, bound] : plan_.data_symbols) most[name] = dims.emit(bound);
    dims.symbols.insert(most.begin(), most.end());
    for (const auto& [name, range] : plan_.symbols) {
      llvm::Value* value = dims.symbols.at(name);
      bad = builder_.CreateOr(bad, builder_.CreateICmpSLT(value, i64(range.first)));
      bad = builder_.CreateOr(bad, builder_.CreateICmpSGT(value, i64(range.second)));
    }
    int64_t index = 0;
    auto size = [&](const Dim& dim) {
      llvm::Value* value = dims.emit(dim);
      bad = builder_.CreateOr(bad, builder_.CreateICmpSLT(value, i64(0)));
      return value;
    };
    for (const PortInfo& port : plan_.outputs) {
      for (const Dim& exact : port.shape) {
        const Dim dim = largest(exact, plan_.data_symbols);
        llvm::Value* most = mentions(dim, plan_.unbounded) ? i64(-1) : size(dim);
        builder_.CreateStore(most, builder_.CreateConstInBoundsGEP1_64(
                                       i64_, bind_->getArg(1), static_cast<uint64_t>(index++)));
      }
    }
    llvm::Value* arena = size(plan_.arena_bytes);
    if (dims.overflowed() != nullptr) bad = builder_.CreateOr(bad, dims.overflowed());
    builder_.CreateRet(builder_.CreateSelect(bad, i64(-1), arena));
  }

  // int64_t scratch(const int64_t* symbols)
  void emit_scratch() {
    sized_scratch_ = function("scratch", i64_, {pointer_});
    builder_.SetInsertPoint(llvm::BasicBlock::Create(unit_.context(), "entry", sized_scratch_));
    DimEmitter dims(builder_, true);
    load_symbols(dims, sized_scratch_->getArg(0));
    llvm::Value* bytes = dims.emit(plan_.sized_scratch);
    builder_.CreateRet(dims.overflowed() == nullptr ? bytes : builder_.CreateSelect(dims.overflowed(), i64(-1), bytes));
  }

  // void run(const tc_frame* frame)
  void emit_run() {
    run_ = function("run", builder_.getVoidTy(), {pointer_});
    builder_.SetInsertPoint(llvm::BasicBlock::Create(unit_.context(), "entry", run_));
    frame_.emplace(builder_, run_->getArg(0));
    llvm::Value* inputs = frame_->field(pointer_, offsetof(tc_frame, inputs), "inputs");
    llvm::Value* outputs = frame_->field(pointer_, offsetof(tc_frame, outputs), "outputs");
    arena_ = frame_->field(pointer_, offsetof(tc_frame, arena), "arena");
    scratch_ = frame_->field(pointer_, offsetof(tc_frame, scratch), "scratch");
    llvm::Value* symbols = frame_->field(pointer_, offsetof(tc_frame, symbols), "symbols");
    frame_->load_threads();
    step_done_ = frame_->field(pointer_, offsetof(tc_frame, step_done), "step_done");
    auto ports = [&](llvm::Value* table, size_t count) {
      std::vector<llvm::Value*> result;
      for (size_t i = 0; i < count; ++i) {
        result.push_back(builder_.CreateLoad(
            pointer_, builder_.CreateConstInBoundsGEP1_64(pointer_, table, i)));
      }
      return result;
    };
    inputs_ = ports(inputs, plan_.inputs.size());
    outputs_ = ports(outputs, plan_.outputs.size());
    frame_->compare_threads();
    profiled_ = builder_.CreateAnd(frame_->first(), builder_.CreateIsNotNull(step_done_));
    make_room_for_parameters();
    DimEmitter dims(builder_, false);
    load_symbols(dims, symbols);
    steps(plan_.steps, dims);
    if (!plan_.data_symbols.empty() || !plan_.unbounded.empty()) frame_->guarded(frame_->first(), [&] { store_output_dims(dims); });
    builder_.CreateRetVoid();
  }

  void make_room_for_parameters() {
    size_t most_parameters = 1;
    for (const ScheduledKernel& kernel : plan_.kernels) {
      most_parameters = std::max(most_parameters, kernel.kernel.parameters.size() + (alternates(kernel) ? 1 : 0));
    }
    parameters_ = builder_.CreateAlloca(llvm::ArrayType::get(i64_, most_parameters));
  }

  // The sizes that the run has computed, and the others.
  void store_output_dims(DimEmitter& dims) {
    llvm::Value* sizes = frame_->field(pointer_, offsetof(tc_frame, output_dims), "output_dims");
    uint64_t index = 0;
    for (const PortInfo& port : plan_.outputs) {
      for (const Dim& dim : port.shape) {
        builder_.CreateStore(dims.emit(dim), builder_.CreateConstInBoundsGEP1_64(i64_, sizes, index++));
      }
    }
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      if (!plan_.outputs[i].data) continue;
      llvm::Value* data = frame_->field(pointer_, offsetof(tc_frame, output_data), "output_data");
      builder_.CreateStore(address(*plan_.outputs[i].data, dims), builder_.CreateConstInBoundsGEP1_64(pointer_, data, i));
    }
  }

  // All threads read the size, which they agree on, and return together where it is out of bounds.
  void bind(const PlanStep& item, uint32_t number, DimEmitter& dims) {
    TC_CHECK(item.locations.size() == 1 && dims.symbols.count(item.symbol) == 0, "in step '", item.label, "'");
    llvm::Value* size = builder_.CreateLoad(i64_, address(item.locations[0], dims), item.symbol);
    llvm::Value* bound = item.bound ? dims.emit(*item.bound) : i64(INT64_MAX);
    frame_->check_bound(number, size, bound);
    dims.symbols[item.symbol] = size;
  }

  // Steps have the numbers of all_steps().
  void steps(const PlanSteps& list, DimEmitter& dims) {
    std::vector<std::string> bound;
    for (const PlanStep& item : list) {
      const uint32_t number = next_step_++;
      if (item.kind == PlanStep::Kind::Bind) {
        bind(item, number, dims);
        bound.push_back(item.symbol);
      }
      if (item.kind == PlanStep::Kind::Grow) frame_->grow(item, number, dims, plan_.memory_limit);
      if (item.kind == PlanStep::Kind::Check) frame_->check_relation(item, number, dims);
      step(item, dims);
      frame_->guarded(profiled_, [&] {
        auto* type = llvm::FunctionType::get(builder_.getVoidTy(), {pointer_, i32_}, false);
        builder_.CreateCall(type, step_done_, {run_->getArg(0), builder_.getInt32(number)});
      });
    }
    if (&list == &plan_.steps) return;   // their sizes are those of the outputs
    for (const std::string& symbol : bound) dims.symbols.erase(symbol);
  }

  void step(const PlanStep& item, DimEmitter& dims) {
    switch (item.kind) {
      case PlanStep::Kind::Call: call(item, dims); break;
      case PlanStep::Kind::Copy: copy(item, dims); break;
      case PlanStep::Kind::Loop: repeat(item, dims); break;
      case PlanStep::Kind::If: branch(item, dims); break;
      case PlanStep::Kind::Bind:
      case PlanStep::Kind::Grow:
      case PlanStep::Kind::Check: break;
    }
    frame_->meet();
  }

  llvm::Value* address(const Location& location, DimEmitter& dims) {
    llvm::Value* base = nullptr;
    int64_t fixed = 0;
    const size_t index = static_cast<size_t>(location.index);
    switch (location.kind) {
      case Location::Kind::Input:
        TC_CHECK(index < inputs_.size(), "in the plan of '", plan_.model, "'");
        base = inputs_[index];
        break;
      case Location::Kind::Output:
        TC_CHECK(index < outputs_.size(), "in the plan of '", plan_.model, "'");
        base = outputs_[index];
        break;
      case Location::Kind::Constant:
        TC_CHECK(index + 1 < offsets_.size(), "in the plan of '", plan_.model, "'");
        base = constants_;
        fixed = offsets_[index];
        break;
      case Location::Kind::Arena: base = arena_; break;
      case Location::Kind::Segment:
        TC_CHECK(location.index >= 0 && location.index < plan_.segments, "in the plan of '", plan_.model, "'");
        base = frame_->segment(location.index);
        break;
    }
    llvm::Value* offset = builder_.CreateAdd(dims.emit(location.offset), i64(fixed));
    return builder_.CreatePtrAdd(base, offset);
  }

  llvm::Function* kernel_function(const PlanStep& item) {
    const size_t index = static_cast<size_t>(item.kernel);
    TC_CHECK(item.kernel >= 0 && index < plan_.kernels.size(), "in step '", item.label, "'");
    const std::string name = names_.kernel(index);
    if (llvm::Function* known = module_.getFunction(name)) return known;
    std::vector<llvm::Type*> types(item.locations.size(), pointer_);
    types.insert(types.end(), {pointer_, pointer_, i32_, i32_});
    auto* made = llvm::Function::Create(llvm::FunctionType::get(builder_.getVoidTy(), types, false),
                                        llvm::GlobalValue::ExternalLinkage, name, module_);
    made->setVisibility(llvm::GlobalValue::HiddenVisibility);
    made->addFnAttr(llvm::Attribute::NoUnwind);
    return made;
  }

  void call(const PlanStep& item, DimEmitter& dims) {
    llvm::Function* callee = kernel_function(item);
    const Kernel& kernel = plan_.kernels[static_cast<size_t>(item.kernel)].kernel;
    const auto is_argument = [](const Buffer& buffer) {
      return buffer.scope == Scope::Input || buffer.scope == Scope::Output ||
             buffer.scope == Scope::Constant;
    };
    const auto wanted = std::count_if(kernel.buffers.begin(), kernel.buffers.end(), is_argument);
    TC_CHECK(static_cast<size_t>(wanted) == item.locations.size() &&
                 callee->arg_size() == item.locations.size() + 4 &&
                 kernel.parameters.size() == item.parameters.size(),
             "in step '", item.label, "': arguments of kernel '", kernel.name, "'");
    const int64_t own = scratch_bytes(plan_.kernels[static_cast<size_t>(item.kernel)]);
    TC_CHECK(item.scratch || own <= first_scratch_bytes(plan_), "in step '", item.label, "': ", own, " bytes of scratch memory");
    const auto scratch = [&] {
      if (!item.scratch) return scratch_;
      llvm::Value* in_arena = address(*item.scratch, dims);
      return item.single_thread ? in_arena : builder_.CreateSelect(frame_->first(), in_arena, scratch_);
    };
    auto emit = [&] {
      std::vector<llvm::Value*> arguments;
      for (const Location& location : item.locations) arguments.push_back(address(location, dims));
      for (size_t i = 0; i < item.parameters.size(); ++i) {
        builder_.CreateStore(dims.emit(item.parameters[i]),
                             builder_.CreateConstInBoundsGEP1_64(i64_, parameters_, i));
      }
      if (alternates(plan_.kernels[static_cast<size_t>(item.kernel)])) {
        builder_.CreateStore(iteration_, builder_.CreateConstInBoundsGEP1_64(i64_, parameters_, item.parameters.size()));
      }
      arguments.push_back(parameters_);
      arguments.push_back(scratch());
      arguments.push_back(item.single_thread ? builder_.getInt32(0) : frame_->thread());
      arguments.push_back(item.single_thread ? builder_.getInt32(1) : frame_->threads());
      builder_.CreateCall(callee, arguments);
    };
    if (item.single_thread) {
      frame_->guarded(frame_->first(), emit);
    } else {
      emit();
    }
  }

  // Threads copy equal parts in units of 4 KiB, so that small copies are thread 0's.
  void copy(const PlanStep& item, DimEmitter& dims) {
    TC_CHECK(item.locations.size() == 2, "in step '", item.label, "'");
    llvm::Value* bytes = dims.emit(item.bytes);
    llvm::Value* thread = item.single_thread ? i64(0) : builder_.CreateZExt(frame_->thread(), i64_);
    llvm::Value* threads = item.single_thread ? i64(1) : builder_.CreateZExt(frame_->threads(), i64_);
    constexpr int64_t kUnit = 4096;
    llvm::Value* units = builder_.CreateUDiv(builder_.CreateAdd(bytes, i64(kUnit - 1)), i64(kUnit));
    llvm::Value* share = builder_.CreateUDiv(
        builder_.CreateAdd(units, builder_.CreateSub(threads, i64(1))), threads);
    auto limit = [&](llvm::Value* part) {
      llvm::Value* place = builder_.CreateMul(builder_.CreateMul(part, share), i64(kUnit));
      return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, place, bytes);
    };
    auto emit = [&] {
      llvm::Value* begin = limit(thread);
      llvm::Value* end = limit(builder_.CreateAdd(thread, i64(1)));
      builder_.CreateCall(copy_, {address(item.locations[0], dims), address(item.locations[1], dims),
                                  begin, end});
    };
    if (item.single_thread) {
      frame_->guarded(frame_->first(), emit);
    } else {
      emit();
    }
  }

  void repeat(const PlanStep& item, DimEmitter& dims) {
    TC_CHECK(dims.symbols.count(item.symbol) == 0, "in step '", item.label, "': loop symbol '",
             item.symbol, "' hides another");
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
    dims.symbols[item.symbol] = counter;
    llvm::Value* outer = std::exchange(iteration_, counter);
    steps(item.body, dims);
    iteration_ = outer;
    dims.symbols.erase(item.symbol);
    counter->addIncoming(builder_.CreateNSWAdd(counter, i64(1)), builder_.GetInsertBlock());
    builder_.CreateBr(head);
    builder_.SetInsertPoint(after);
  }

  void branch(const PlanStep& item, DimEmitter& dims) {
    TC_CHECK(item.locations.size() == 1, "in step '", item.label, "'");
    llvm::Value* value = builder_.CreateLoad(builder_.getInt8Ty(), address(item.locations[0], dims));
    llvm::BasicBlock* yes = block("if.then");
    llvm::BasicBlock* no = block("if.else");
    llvm::BasicBlock* after = block("if.end");
    builder_.CreateCondBr(builder_.CreateICmpNE(value, builder_.getInt8(0)), yes, no);
    builder_.SetInsertPoint(yes);
    steps(item.body, dims);
    builder_.CreateBr(after);
    builder_.SetInsertPoint(no);
    steps(item.otherwise, dims);
    builder_.CreateBr(after);
    builder_.SetInsertPoint(after);
  }

  llvm::Constant* string(const std::string& value) {
    const auto found = strings_.find(value);
    if (found != strings_.end()) return found->second;
    llvm::Constant* data = llvm::ConstantDataArray::getString(unit_.context(), value);
    auto* global = new llvm::GlobalVariable(module_, data->getType(), true,
                                            llvm::GlobalValue::PrivateLinkage, data, "text");
    global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
    global->setAlignment(llvm::Align(1));
    return strings_[value] = global;
  }

  llvm::Constant* number(int32_t value) { return builder_.getInt32(static_cast<uint32_t>(value)); }
  llvm::Constant* record(const std::vector<llvm::Constant*>& fields) {
    return llvm::ConstantStruct::getAnon(unit_.context(), fields);
  }

  // A table of equal records; null for none.
  llvm::Constant* table(const std::vector<llvm::Constant*>& rows, const char* name) {
    if (rows.empty()) return llvm::ConstantPointerNull::get(pointer_);
    auto* type = llvm::ArrayType::get(rows[0]->getType(), rows.size());
    return new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::InternalLinkage,
                                    llvm::ConstantArray::get(type, rows), name);
  }

  bool computed_by_run(const Dim& dim) const {
    return mentions(dim, plan_.unbounded) || (!plan_.data_symbols.empty() && largest(dim, plan_.data_symbols) != dim);
  }

  llvm::Constant* port(const PortInfo& info, bool input) {
    std::vector<llvm::Constant*> dims;
    for (const Dim& dim : info.shape) {
      int64_t value = 0;
      int32_t symbol = -1;
      if (dim.is_constant()) {
        value = dim.constant();
      } else if (computed_by_run(dim)) {
        symbol = -3;
      } else if (dim.is_symbol()) {
        const auto found = plan_.symbols.find(dim.str());
        TC_CHECK(found != plan_.symbols.end(), "for the port '", info.name, "': symbol ", dim.str());
        symbol = static_cast<int32_t>(std::distance(plan_.symbols.begin(), found));
      } else {
        TC_CHECK(!input, "for the input '", info.name, "': its dimension ", dim.str(),
                 " is neither a number nor a symbol");
        symbol = -2;
      }
      dims.push_back(record({i64(value), number(symbol), number(0)}));
    }
    return record({string(info.name), number(static_cast<int32_t>(info.dtype)),
                   number(static_cast<int32_t>(info.shape.size())), table(dims, "dims")});
  }

  // Field by field as tc_descriptor declares them.
  void emit_descriptor() {
    std::vector<llvm::Constant*> inputs, outputs, symbols, labels;
    for (const PortInfo& info : plan_.inputs) inputs.push_back(port(info, true));
    for (const PortInfo& info : plan_.outputs) outputs.push_back(port(info, false));
    for (const auto& [name, range] : plan_.symbols) {
      symbols.push_back(record({string(name), i64(range.first), i64(range.second)}));
    }
    for (const PlanStep* item : all_steps(plan_)) labels.push_back(string(item->label));
    auto count = [&](size_t value) { return number(static_cast<int32_t>(value)); };
    // Without the last fields where they are not needed: models that do not change stay as they were.
    const size_t size = first_needs_less_ ? sizeof(tc_descriptor)
                        : sized_          ? offsetof(tc_descriptor, first_scratch_bytes)
                                          : offsetof(tc_descriptor, scratch);
    const int32_t version = first_needs_less_ ? 5 : sized_ ? 4 : version_of(plan_.steps);
    std::vector<llvm::Constant*> fields = {
        number(static_cast<int32_t>(TC_ABI_MAGIC)), number(version),
        i64(static_cast<int64_t>(size)), string(plan_.model), string(plan_.target), string(features_),
        string(plan_.provenance), count(inputs.size()), count(outputs.size()),
        count(symbols.size()), count(labels.size()), table(inputs, "inputs"),
        table(outputs, "outputs"), table(symbols, "symbols"), table(labels, "steps"), bind_, run_,
        i64(plan_scratch_bytes(plan_)), constants_, i64(offsets_.back()), number(0), number(plan_.segments)};
    if (sized_) fields.push_back(sized_scratch_);
    else if (first_needs_less_) fields.push_back(llvm::ConstantPointerNull::get(pointer_));
    if (first_needs_less_) fields.push_back(i64(first_scratch_bytes(plan_)));
    llvm::Constant* descriptor = record(fields);
    const auto layout = module_.getDataLayout().getStructLayout(
        llvm::cast<llvm::StructType>(descriptor->getType()));
    TC_CHECK(layout->getSizeInBytes() == size, "as the descriptor's size");
    auto* global = new llvm::GlobalVariable(module_, descriptor->getType(), true,
                                            llvm::GlobalValue::ExternalLinkage, descriptor,
                                            names_.descriptor);
    global->setAlignment(llvm::Align(16));
    // What opens files, and the main of executables, know this name alone. It is weak: a program may have several models.
    if (names_.descriptor != TC_DESCRIPTOR_SYMBOL) {
      llvm::GlobalAlias::create(global->getValueType(), 0, llvm::GlobalValue::WeakAnyLinkage, TC_DESCRIPTOR_SYMBOL, global, &module_);
    }
  }

  Unit& unit_;
  llvm::Module& module_;
  const Plan& plan_;
  const PlanNames& names_;
  const std::string& features_;
  Builder builder_;
  llvm::PointerType* pointer_;
  llvm::Type *i32_, *i64_;
  const bool sized_;   // the sizes of a run tell how much scratch memory it takes
  const bool first_needs_less_;   // thread 0 has scratch memory in the arena
  std::vector<int64_t> offsets_;
  std::map<std::string, llvm::Constant*> strings_;

  llvm::GlobalVariable* constants_ = nullptr;
  llvm::Function *copy_ = nullptr, *bind_ = nullptr, *sized_scratch_ = nullptr, *run_ = nullptr;
  std::optional<RunFrame> frame_;   // of run()
  llvm::Value* iteration_ = i64(0);   // of the innermost loop of the plan
  llvm::Value *arena_ = nullptr, *scratch_ = nullptr, *step_done_ = nullptr, *profiled_ = nullptr, *parameters_ = nullptr;
  std::vector<llvm::Value*> inputs_, outputs_;
  uint32_t next_step_ = 0;
};

}  // namespace

void emit_plan(Unit& unit, const Plan& plan, const PlanNames& names, const std::string& features) {
  PlanEmitter(unit, plan, names, features).emit();
}

void emit_bare_plan(Unit& unit, const Plan& plan, const PlanNames& names, const std::string& prefix) {
  PlanEmitter(unit, plan, names, "").emit_bare(prefix);
}

}  // namespace tc
