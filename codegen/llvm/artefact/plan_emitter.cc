// A plan's code: run(), bind() and the descriptor of runtime/abi.h.
#include "codegen/llvm/artefact/plan_emitter.h"

#include <algorithm>
#include <cstddef>

#include "codegen/llvm/artefact/constants.h"
#include "codegen/llvm/artefact/step_emitter.h"
#include "codegen/llvm/artefact/dim_emitter.h"
#include "codegen/llvm/artefact/run_frame.h"
#include "ir/error.h"
#include "ir/in_place.h"
#include "ir/plan_steps.h"
#include "ir/scratch.h"
#include "runtime/abi.h"

namespace tc {
namespace {

static_assert(TC_F32 == static_cast<int>(DType::F32) && TC_BOOL == static_cast<int>(DType::Bool) &&
              TC_U2 == static_cast<int>(DType::U2));

bool mentions(const Dim& dim, const std::set<std::string>& symbols) {
  std::set<std::string> names;
  dim.collect_symbols(names);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return symbols.count(name) > 0; });
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
  PlanEmitter(ModuleCompiler& compiler, const Plan& plan, const PlanNames& names, const std::string& features,
              const WeightsFile* weights)
      : compiler_(compiler),
        module_(compiler.module()),
        plan_(plan),
        names_(names),
        features_(features),
        weights_(weights),
        builder_(compiler.context()),
        pointer_(llvm::PointerType::getUnqual(compiler.context())),
        i32_(builder_.getInt32Ty()),
        i64_(builder_.getInt64Ty()),
        sized_(plan.sized_scratch != Dim(0)),
        first_needs_less_(first_scratch_bytes(plan) < plan_scratch_bytes(plan)),
        in_place_(inputs_in_place(plan)),
        has_pairs_(std::any_of(in_place_.begin(), in_place_.end(), [](int input) { return input >= 0; })),
        offsets_(constant_offsets(plan.constants)) {}

  void emit() {
    emit_shared();
    emit_bind();
    if (sized_) emit_scratch();
    run_ = function("run", builder_.getVoidTy(), {pointer_});
    StepEmitter(compiler_, plan_, names_, constants_, copy_).emit_run(run_);
    emit_descriptor();
  }

  // int PREFIX_run(const void* inputs..., void* outputs..., void* arena), where there are states int
  // PREFIX_reset(void* arena), and a block for the arena.
  void emit_bare(const std::string& prefix) {
    emit_shared();
    const size_t ports = plan_.inputs.size() + plan_.outputs.size() - 2 * plan_.states.size();
    run_ = bare_function(prefix + "_run", ports + 1);
    StepEmitter(compiler_, plan_, names_, constants_, copy_).emit_bare_run(run_);
    if (!plan_.states.empty()) emit_reset(bare_function(prefix + "_reset", 1));

    auto* type = llvm::ArrayType::get(builder_.getInt8Ty(), static_cast<uint64_t>(bare_arena_bytes(plan_)));
    auto* arena = new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::ExternalLinkage,
                                           llvm::ConstantAggregateZero::get(type), prefix + "_arena");
    arena->setAlignment(llvm::Align(kBareArenaAlignment));
    arena->setSection(".bss." + prefix + "_arena");  // its own: linkers drop it where nothing names it
  }

 private:
  llvm::Function* bare_function(const std::string& name, size_t pointers) {
    llvm::Function* made = function(name, i32_, std::vector<llvm::Type*>(pointers, pointer_));
    made->setLinkage(llvm::GlobalValue::ExternalLinkage);
    made->addRetAttr(llvm::Attribute::SExt);  // as C's int on RISC-V
    return made;
  }

  // Gives the states in the arena their first values.
  void emit_reset(llvm::Function* reset) {
    builder_.SetInsertPoint(llvm::BasicBlock::Create(compiler_.context(), "entry", reset));
    RunFrame(builder_).check_pointers({{reset->getArg(0), kBareArenaAlignment}});
    const std::vector<int64_t> offsets = bare_state_offsets(plan_);
    const llvm::MaybeAlign aligned(4);  // all states are at multiples of 16
    for (size_t i = 0; i < plan_.states.size(); ++i) {
      const KeptState& state = plan_.states[i];
      const auto bytes = static_cast<uint64_t>(state_bytes(plan_, state));
      llvm::Value* to = builder_.CreatePtrAdd(reset->getArg(0), i64(offsets[i]));
      if (state.initial.empty()) {
        builder_.CreateMemSet(to, builder_.getInt8(0), bytes, aligned);
        continue;
      }
      TC_CHECK(state.initial.size() == bytes, "for the first value of state '", state.name, "'");
      llvm::Constant* data = llvm::ConstantDataArray::get(compiler_.context(), state.initial);
      auto* made = new llvm::GlobalVariable(module_, data->getType(), true,
                                            llvm::GlobalValue::InternalLinkage, data, "first_values");
      made->setAlignment(llvm::Align(4));
      builder_.CreateMemCpy(to, aligned, made, aligned, bytes);
    }
    builder_.CreateRet(builder_.getInt32(static_cast<uint32_t>(BareStatus::Done)));
  }

  llvm::Function* function(const std::string& name, llvm::Type* result,
                           const std::vector<llvm::Type*>& arguments) {
    return internal_function(compiler_, name, result, arguments);
  }

  llvm::BasicBlock* block(const std::string& name) {
    return llvm::BasicBlock::Create(compiler_.context(), name, builder_.GetInsertBlock()->getParent());
  }

  llvm::ConstantInt* i64(int64_t value) { return builder_.getInt64(static_cast<uint64_t>(value)); }

  ConstantsBase constants_inside() {
    auto* symbol = new llvm::GlobalVariable(module_, builder_.getInt8Ty(), true,
                                            llvm::GlobalValue::ExternalLinkage, nullptr, names_.constants());
    symbol->setVisibility(llvm::GlobalValue::HiddenVisibility);
    // Its address, and the offsets into it, then take 64 bits.
    if (are_far(offsets_.back(), compiler_.target())) symbol->setCodeModel(llvm::CodeModel::Large);
    return {symbol, false};
  }

  // A variable for the address at which the runtime maps their file. It has contents in the artefact, since
  // the runtime checks what the descriptor leads to before it loads the file.
  ConstantsBase constants_beside() {
    auto* variable =
        new llvm::GlobalVariable(module_, pointer_, false, llvm::GlobalValue::InternalLinkage,
                                 llvm::ConstantPointerNull::get(pointer_), names_.constants() + "_at");
    variable->setExternallyInitialized(true);
    variable->setSection(".data");
    variable->setAlignment(llvm::Align(sizeof(uint64_t)));
    return {variable, true};
  }

  // Where constants are, and void copy(to, from, begin, end): 64 bytes at a time, then single bytes.
  void emit_shared() {
    constants_ = weights_ == nullptr ? constants_inside() : constants_beside();
    copy_ = function("copy", builder_.getVoidTy(), {pointer_, pointer_, i64_, i64_});
    builder_.SetInsertPoint(llvm::BasicBlock::Create(compiler_.context(), "entry", copy_));
    if (has_pairs_) return_if_same();
    llvm::Value* end = copy_->getArg(3);
    llvm::Value* next = copy_loop(copy_->getArg(2), end, 64);
    copy_loop(next, end, 1);
    builder_.CreateRetVoid();
  }

  // In copy(): returns where both addresses are the same, as those of an input and an output that share
  // memory.
  void return_if_same() {
    llvm::BasicBlock *same = block("same"), *differ = block("differ");
    builder_.CreateCondBr(builder_.CreateICmpEQ(copy_->getArg(0), copy_->getArg(1)), same, differ);
    builder_.SetInsertPoint(same);
    builder_.CreateRetVoid();
    builder_.SetInsertPoint(differ);
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
    llvm::Value* value =
        builder_.CreateAlignedLoad(type, builder_.CreatePtrAdd(copy_->getArg(1), place), llvm::Align(1));
    builder_.CreateAlignedStore(value, builder_.CreatePtrAdd(copy_->getArg(0), place), llvm::Align(1));
    place->addIncoming(next, body);
    builder_.CreateBr(head);
    builder_.SetInsertPoint(after);
    return place;
  }

  // int64_t bind(const int64_t* symbols, int64_t* output_dims)
  void emit_bind() {
    bind_ = function("bind", i64_, {pointer_, pointer_});
    builder_.SetInsertPoint(llvm::BasicBlock::Create(compiler_.context(), "entry", bind_));
    DimEmitter dims(builder_, true);
    load_symbols(builder_, plan_, bind_->getArg(0), dims);
    llvm::Value* bad = builder_.getFalse();
    // Sizes that only a run computes count as large as they may become.
    std::map<std::string, llvm::Value*> most;
    for (const auto& [name, bound] : plan_.data_symbols) most[name] = dims.emit(bound);
    dims.symbols.insert(most.begin(), most.end());
    for (const auto& [name, range] : plan_.symbols) {
      llvm::Value* value = dims.symbols.at(name);
      bad = builder_.CreateOr(bad, builder_.CreateICmpSLT(value, i64(range.first)));
      bad = builder_.CreateOr(bad, builder_.CreateICmpSGT(value, i64(range.second)));
    }
    const bool tabled = copy_constant_sizes();
    int64_t index = 0;
    auto size = [&](const Dim& dim) {
      llvm::Value* value = dims.emit(dim);
      bad = builder_.CreateOr(bad, builder_.CreateICmpSLT(value, i64(0)));
      return value;
    };
    for (const PortInfo& port : plan_.outputs) {
      for (const Dim& exact : port.shape) {
        if (tabled && exact.is_constant()) {
          ++index;
          continue;
        }
        const Dim dim = largest(exact, plan_.data_symbols);
        llvm::Value* most = mentions(dim, plan_.unbounded) ? i64(-1) : size(dim);
        builder_.CreateStore(most, builder_.CreateConstInBoundsGEP1_64(i64_, bind_->getArg(1),
                                                                       static_cast<uint64_t>(index++)));
      }
    }
    llvm::Value* arena = size(plan_.arena_bytes);
    if (dims.overflowed() != nullptr) bad = builder_.CreateOr(bad, dims.overflowed());
    builder_.CreateRet(builder_.CreateSelect(bad, i64(-1), arena));
  }

  // Has bind() copy the outputs' sizes that are numbers from a table, where there are many, since LLVM would
  // compile a store for each. Returns whether it does.
  bool copy_constant_sizes() {
    constexpr size_t kMaxStores = 1024;
    std::vector<uint64_t> sizes;
    for (const PortInfo& port : plan_.outputs) {
      for (const Dim& dim : port.shape)
        sizes.push_back(dim.is_constant() ? static_cast<uint64_t>(dim.constant()) : 0);
    }
    if (sizes.size() <= kMaxStores) return false;
    llvm::Constant* words = llvm::ConstantDataArray::get(compiler_.context(), sizes);
    auto* made = new llvm::GlobalVariable(module_, words->getType(), true, llvm::GlobalValue::InternalLinkage,
                                          words, "sizes");
    const auto bytes = static_cast<int64_t>(sizes.size() * sizeof(int64_t));
    builder_.CreateCall(copy_, {bind_->getArg(1), made, i64(0), i64(bytes)});
    return true;
  }

  // int64_t scratch(const int64_t* symbols)
  void emit_scratch() {
    sized_scratch_ = function("scratch", i64_, {pointer_});
    builder_.SetInsertPoint(llvm::BasicBlock::Create(compiler_.context(), "entry", sized_scratch_));
    DimEmitter dims(builder_, true);
    load_symbols(builder_, plan_, sized_scratch_->getArg(0), dims);
    llvm::Value* bytes = dims.emit(plan_.sized_scratch);
    builder_.CreateRet(
        dims.overflowed() == nullptr ? bytes : builder_.CreateSelect(dims.overflowed(), i64(-1), bytes));
  }

  llvm::Constant* string(const std::string& value) {
    const auto found = strings_.find(value);
    if (found != strings_.end()) return found->second;
    llvm::Constant* data = llvm::ConstantDataArray::getString(compiler_.context(), value);
    auto* global = new llvm::GlobalVariable(module_, data->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                            data, "text");
    global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
    global->setAlignment(llvm::Align(1));
    return strings_[value] = global;
  }

  llvm::Constant* number(int32_t value) { return builder_.getInt32(static_cast<uint32_t>(value)); }
  llvm::Constant* record(const std::vector<llvm::Constant*>& fields) {
    return llvm::ConstantStruct::getAnon(compiler_.context(), fields);
  }

  // A table of equal records; null for none.
  llvm::Constant* table(const std::vector<llvm::Constant*>& rows, const char* name) {
    if (rows.empty()) return llvm::ConstantPointerNull::get(pointer_);
    auto* type = llvm::ArrayType::get(rows[0]->getType(), rows.size());
    return new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::InternalLinkage,
                                    llvm::ConstantArray::get(type, rows), name);
  }

  bool computed_by_run(const Dim& dim) const {
    return mentions(dim, plan_.unbounded) ||
           (!plan_.data_symbols.empty() && largest(dim, plan_.data_symbols) != dim);
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

  // The fields that only descriptors from version 4 on have.
  void add_newer_fields(std::vector<llvm::Constant*>& fields, int32_t version) {
    llvm::Constant* null = llvm::ConstantPointerNull::get(pointer_);
    if (sized_) fields.push_back(sized_scratch_);
    else if (version >= 5) fields.push_back(null);
    if (version >= 5) fields.push_back(i64(first_scratch_bytes(plan_)));
    std::vector<llvm::Constant*> pairs;
    for (const int input : in_place_) pairs.push_back(number(input));
    if (version >= 6) fields.push_back(has_pairs_ ? table(pairs, "in_place") : null);
    if (weights_ == nullptr) return;
    fields.push_back(string(weights_->name));
    fields.push_back(builder_.getInt64(weights_->checksum));
    fields.push_back(constants_.global);
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
    llvm::Constant* null = llvm::ConstantPointerNull::get(pointer_);
    // The last fields are left out where they are not needed, so that models which do not need them keep
    // their bytes.
    const size_t size = weights_ != nullptr ? sizeof(tc_descriptor)
                        : has_pairs_        ? offsetof(tc_descriptor, weights_file)
                        : first_needs_less_ ? offsetof(tc_descriptor, in_place)
                        : sized_            ? offsetof(tc_descriptor, first_scratch_bytes)
                                            : offsetof(tc_descriptor, scratch);
    const int32_t version = weights_ != nullptr ? 7
                            : has_pairs_        ? 6
                            : first_needs_less_ ? 5
                            : sized_            ? 4
                                                : version_of(plan_.steps);
    std::vector<llvm::Constant*> fields = {number(static_cast<int32_t>(TC_ABI_MAGIC)),
                                           number(version),
                                           i64(static_cast<int64_t>(size)),
                                           string(plan_.model),
                                           string(plan_.target),
                                           string(features_),
                                           string(plan_.provenance),
                                           count(inputs.size()),
                                           count(outputs.size()),
                                           count(symbols.size()),
                                           count(labels.size()),
                                           table(inputs, "inputs"),
                                           table(outputs, "outputs"),
                                           table(symbols, "symbols"),
                                           table(labels, "steps"),
                                           bind_,
                                           run_,
                                           i64(plan_scratch_bytes(plan_)),
                                           weights_ == nullptr ? constants_.global : null,
                                           i64(weights_ == nullptr ? offsets_.back() : weights_->bytes),
                                           number(0),
                                           number(plan_.segments)};
    add_newer_fields(fields, version);
    llvm::Constant* descriptor = record(fields);
    const auto layout =
        module_.getDataLayout().getStructLayout(llvm::cast<llvm::StructType>(descriptor->getType()));
    TC_CHECK(layout->getSizeInBytes() == size, "as the descriptor's size");
    auto* global =
        new llvm::GlobalVariable(module_, descriptor->getType(), true, llvm::GlobalValue::ExternalLinkage,
                                 descriptor, names_.descriptor);
    global->setAlignment(llvm::Align(16));
    // The code that opens files, and the main of executables, know only this name. It is weak: a program may
    // have several models.
    if (names_.descriptor != TC_DESCRIPTOR_SYMBOL) {
      llvm::GlobalAlias::create(global->getValueType(), 0, llvm::GlobalValue::WeakAnyLinkage,
                                TC_DESCRIPTOR_SYMBOL, global, &module_);
    }
  }

  ModuleCompiler& compiler_;
  llvm::Module& module_;
  const Plan& plan_;
  const PlanNames& names_;
  const std::string& features_;
  const WeightsFile* const weights_;  // null: the constants are inside the artefact
  Builder builder_;
  llvm::PointerType* pointer_;
  llvm::Type *i32_, *i64_;
  const bool sized_;             // how much scratch memory a run takes depends on its sizes
  const bool first_needs_less_;  // thread 0 has scratch memory in the arena
  const std::vector<int> in_place_;
  const bool has_pairs_;  // of an input and an output that may share memory
  std::vector<int64_t> offsets_;
  std::map<std::string, llvm::Constant*> strings_;

  ConstantsBase constants_;
  llvm::Function *copy_ = nullptr, *bind_ = nullptr, *sized_scratch_ = nullptr, *run_ = nullptr;
};

}  // namespace

void emit_plan(ModuleCompiler& compiler, const Plan& plan, const PlanNames& names,
               const std::string& features, const WeightsFile* weights) {
  PlanEmitter(compiler, plan, names, features, weights).emit();
}

void emit_bare_plan(ModuleCompiler& compiler, const Plan& plan, const PlanNames& names,
                    const std::string& prefix) {
  PlanEmitter(compiler, plan, names, "", nullptr).emit_bare(prefix);
}

}  // namespace tc
