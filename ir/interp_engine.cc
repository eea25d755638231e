// Buffers and compiled statements of the interpreters.
#include "ir/interp_engine.h"

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "ir/interrupt.h"

namespace tc::interp {
namespace {

constexpr int64_t kPoison = 0x5a5a5a5a5a5a5a5a;

Cell poison(DType dtype) {
  if (is_float(dtype)) return {.number = std::numeric_limits<double>::quiet_NaN()};
  return convert(DType::I64, dtype, {.integer = kPoison}, false);
}

bool is_argument(Scope scope) {
  return scope == Scope::Input || scope == Scope::Output || scope == Scope::Constant;
}

}  // namespace

Memory::Memory(const Kernel& kernel, const std::map<std::string, int64_t>& parameters,
               const std::map<std::string, Tensor>& buffers, bool round_to_storage,
               bool registers_are_private)
    : round_to_storage(round_to_storage) {
  for (const Buffer& buffer : kernel.buffers) {
    Storage storage;
    storage.name = buffer.name;
    storage.dtype = buffer.dtype;
    for (const Affine& size : buffer.shape) storage.shape.push_back(size.evaluate(parameters));
    auto count = static_cast<size_t>(checked_count(storage.shape));
    storage.strides.assign(storage.shape.size(), 1);
    for (size_t i = storage.shape.size(); i-- > 1;) {
      storage.strides[i - 1] = storage.strides[i] * std::max<int64_t>(storage.shape[i], 1);
    }
    storage.cells.assign(count, poison(buffer.dtype));
    auto given = buffers.find(buffer.name);
    bool is_read = buffer.scope == Scope::Input || buffer.scope == Scope::Constant;
    TC_CHECK(!is_read || given != buffers.end(), "a tensor for buffer '", buffer.name, "' of kernel '",
             kernel.name, "'");
    if (given != buffers.end() && is_argument(buffer.scope)) {
      const Tensor& tensor = given->second;
      TC_CHECK(tensor.count() == static_cast<int64_t>(count), "for buffer '", buffer.name, "' of kernel '",
               kernel.name, "': ", tensor.count(), " elements given, ", count, " needed");
      for (size_t i = 0; i < count; ++i) {
        auto index = static_cast<int64_t>(i);
        storage.cells[i] = is_float(buffer.dtype) ? Cell{.number = tensor.as_double(index)}
                                                  : Cell{.integer = tensor.as_int(index)};
      }
    }
    if (registers_are_private && buffer.scope == Scope::Register) storage.stamps.assign(count, 0);
    storages.push_back(std::move(storage));
  }
}

void Memory::finish(const Kernel& kernel, std::map<std::string, Tensor>& buffers) const {
  for (size_t b = 0; b < storages.size(); ++b) {
    const Storage& storage = storages[b];
    const Buffer& buffer = kernel.buffers[b];
    if (buffer.scope == Scope::Input || buffer.scope == Scope::Constant) continue;
    bool floating = is_float(storage.dtype);
    bool is_output = buffer.scope == Scope::Output;
    if (!is_output || !buffers.count(buffer.name)) {
      bool as_double = !is_output && floating && !round_to_storage;
      buffers[buffer.name] = Tensor(as_double ? DType::F64 : storage.dtype, storage.shape);
    }
    Tensor& tensor = buffers[buffer.name];
    for (size_t i = 0; i < storage.cells.size(); ++i) {
      auto index = static_cast<int64_t>(i);
      if (floating) {
        tensor.set(index, storage.cells[i].number);
      } else {
        tensor.set_int(index, storage.cells[i].integer);
      }
    }
  }
}

StatementProgram::StatementProgram(const Kernel& kernel, Memory& memory, const Body& body,
                                   std::vector<Loop> loops,
                                   const std::map<std::string, const int64_t*>& outer)
    : kernel_(kernel),
      memory_(memory),
      name_(body.name),
      reduction_(body.reduction),
      dtype_(body.value->dtype),
      loops_(std::move(loops)),
      outer_(outer) {
  for (const Affine& constraint : body.constraints) constraints_.push_back(make_register(constraint));
  write_ = compile(body.write);
  value_begin_ = code_.size();
  compile(*body.value);
  drop_implied_checks(write_, body.constraints);
  for (Place& place : places_) drop_implied_checks(place, body.constraints);
  is_multiply_add_ = body.reduction == Reduction::Sum && is_float(dtype_) && places_.size() == 2 &&
                     code_.size() == 3 && code_[2].code == Code::Binary &&
                     static_cast<BinaryOp>(code_[2].detail) == BinaryOp::Mul;
  stack_.resize(code_.size() + 1);
  counters_.assign(loops_.size(), 0);
  values_.assign(loops_.size() + 1, std::vector<int64_t>(registers_.size()));
}

int StatementProgram::make_register(const Affine& affine) {
  for (size_t i = 0; i < registers_.size(); ++i) {
    if (registers_[i].affine == affine) return static_cast<int>(i);
  }
  Register made;
  made.affine = affine;
  made.constant = affine.constant();
  made.steps.assign(loops_.size(), 0);
  for (const auto& [variable, coefficient] : affine.terms()) {
    auto loop = std::find_if(loops_.begin(), loops_.end(),
                             [&](const Loop& candidate) { return candidate.name == variable; });
    if (loop != loops_.end()) {
      made.steps[static_cast<size_t>(loop - loops_.begin())] = coefficient;
      continue;
    }
    auto found = outer_.find(variable);
    TC_CHECK(found != outer_.end(), "a value for variable '", variable, "' of `", affine.str(),
             "` in statement '", name_, "'");
    made.outer.emplace_back(found->second, coefficient);
  }
  registers_.push_back(std::move(made));
  return static_cast<int>(registers_.size()) - 1;
}

StatementProgram::Place StatementProgram::compile(const Access& access) {
  Place place;
  place.buffer = access.buffer;
  const Storage& storage = memory_.storages.at(static_cast<size_t>(access.buffer));
  TC_CHECK(access.index.size() == storage.shape.size(), "subscripts for buffer '", storage.name,
           "' in statement '", name_, "'");
  Affine flat;
  for (size_t i = 0; i < access.index.size(); ++i) {
    const Subscript& subscript = access.index[i];
    place.dimensions.push_back(make_register(subscript.affine));
    place.dynamic.push_back(subscript.dynamic != nullptr);
    flat = flat + subscript.affine * storage.strides[i];
    if (!subscript.dynamic) continue;
    ++place.dynamic_count;
    compile(*subscript.dynamic);
  }
  if (place.dynamic_count == 0) place.flat = make_register(flat);
  return place;
}

void StatementProgram::drop_implied_checks(Place& place, const std::vector<Affine>& constraints) const {
  const Storage& storage = memory_.storages[static_cast<size_t>(place.buffer)];
  // A constraint implies a distance to a bound where the distance is the constraint plus a number >= 0.
  auto is_implied = [&](const Affine& distance) {
    return std::any_of(constraints.begin(), constraints.end(), [&](const Affine& constraint) {
      Affine difference = distance - constraint;
      return difference.is_constant() && difference.constant() >= 0;
    });
  };
  for (size_t i = 0; i < place.dimensions.size(); ++i) {
    const Affine& index = registers_[static_cast<size_t>(place.dimensions[i])].affine;
    place.may_be_negative.push_back(!is_implied(index));
    place.may_be_large.push_back(!is_implied(Affine(storage.shape[i] - 1) - index));
  }
}

void StatementProgram::emit(Code code, DType dtype, int detail, int argument, Cell constant) {
  code_.push_back({code, dtype, static_cast<uint8_t>(detail), argument, constant});
}

void StatementProgram::compile(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::Const: {
      Cell cell = is_float(expr.dtype) ? Cell{.number = expr.number} : Cell{.integer = expr.integer};
      return emit(Code::Const, expr.dtype, 0, 0, cell);
    }
    case Expr::Kind::Load: {
      Place place = compile(expr.access);
      places_.push_back(std::move(place));
      return emit(Code::Load, expr.dtype, 0, static_cast<int>(places_.size()) - 1);
    }
    case Expr::Kind::Index: return emit(Code::Index, DType::I64, 0, make_register(expr.affine));
    case Expr::Kind::Unary:
      compile(*expr.operands[0]);
      return emit(Code::Unary, expr.operands[0]->dtype, static_cast<int>(expr.unary), 0);
    case Expr::Kind::Binary:
      compile(*expr.operands[0]);
      compile(*expr.operands[1]);
      return emit(Code::Binary, expr.operands[0]->dtype, static_cast<int>(expr.binary), 0);
    case Expr::Kind::Cast:
      compile(*expr.operands[0]);
      return emit(Code::Cast, expr.operands[0]->dtype, static_cast<int>(expr.dtype), 0);
    case Expr::Kind::Select: {
      compile(*expr.operands[0]);
      size_t skip_then = code_.size();
      emit(Code::JumpIfFalse, DType::Bool, 0, 0);
      compile(*expr.operands[1]);
      size_t skip_else = code_.size();
      emit(Code::Jump, DType::Bool, 0, 0);
      code_[skip_then].argument = static_cast<int>(code_.size());
      compile(*expr.operands[2]);
      code_[skip_else].argument = static_cast<int>(code_.size());
      return;
    }
  }
}

void StatementProgram::run() {
  extents_.clear();
  for (const Loop& loop : loops_) {
    int64_t extent = loop.extent.constant();
    for (const auto& [variable, coefficient] : loop.extent.terms()) {
      auto found = outer_.find(variable);
      TC_CHECK(found != outer_.end(), "a value for variable '", variable, "' in the extent of '", loop.name,
               "' of statement '", name_, "'");
      extent += coefficient * *found->second;
    }
    if (extent <= 0) return;
    extents_.push_back(extent);
  }
  std::vector<Interval> ranges;
  for (size_t i = 0; i < registers_.size(); ++i) {
    const Register& made = registers_[i];
    int64_t base = made.constant;
    for (const auto& [variable, coefficient] : made.outer) base += coefficient * *variable;
    values_[0][i] = base;
    Interval range{base, base};
    for (size_t loop = 0; loop < loops_.size(); ++loop) {
      int64_t reach = made.steps[loop] * (extents_[loop] - 1);
      (reach < 0 ? range.low : range.high) += reach;
    }
    ranges.push_back(range);
  }
  decided_.assign(loops_.size(), {});
  std::vector<bool> needed(registers_.size(), false);
  for (int constraint : constraints_) {
    const Interval& range = ranges[static_cast<size_t>(constraint)];
    if (range.high < 0) return;
    if (range.low >= 0) continue;
    const std::vector<int64_t>& steps = registers_[static_cast<size_t>(constraint)].steps;
    size_t loop = loops_.size();
    while (steps[loop - 1] == 0) --loop;  // some step is not 0, as the range is no single value
    decided_[loop - 1].push_back(constraint);
    needed[static_cast<size_t>(constraint)] = true;
  }
  auto may_leave = [&](const Place& place) {
    const Storage& storage = memory_.storages[static_cast<size_t>(place.buffer)];
    for (size_t i = 0; i < place.dimensions.size(); ++i) {
      const Interval& range = ranges[static_cast<size_t>(place.dimensions[i])];
      if (place.may_be_negative[i] && range.low < 0) return true;
      if (place.may_be_large[i] && range.high >= storage.shape[i]) return true;
    }
    return false;
  };
  check_ranges_ = may_leave(write_) || std::any_of(places_.begin(), places_.end(), may_leave);
  auto need_place = [&](const Place& place) {
    if (place.flat >= 0) needed[static_cast<size_t>(place.flat)] = true;
    if (!check_ranges_ && place.flat >= 0) return;
    for (int dimension : place.dimensions) needed[static_cast<size_t>(dimension)] = true;
  };
  need_place(write_);
  for (const Place& place : places_) need_place(place);
  for (const Instruction& step : code_) {
    if (step.code == Code::Index) needed[static_cast<size_t>(step.argument)] = true;
  }
  updates_.assign(loops_.size(), {});
  for (size_t i = 0; i < registers_.size(); ++i) {
    for (size_t loop = 0; needed[i] && loop < loops_.size(); ++loop) {
      int64_t step = registers_[i].steps[loop];
      if (step != 0) updates_[loop].emplace_back(static_cast<int>(i), step);
    }
  }
  run_loop(0);
}

void StatementProgram::run_loop(size_t depth) {
  if (depth == loops_.size()) return run_instance(values_[depth].data());
  std::copy(values_[depth].begin(), values_[depth].end(), values_[depth + 1].begin());
  int64_t* values = values_[depth + 1].data();
  const bool innermost = depth + 1 == loops_.size();
  if (innermost) interruption_point();
  const std::vector<int>& decided = decided_[depth];
  const auto& updates = updates_[depth];
  const int64_t extent = extents_[depth];
  int64_t& counter = counters_[depth];
  for (counter = 0; counter < extent; ++counter) {
    bool runs = true;
    for (int constraint : decided) runs = runs && values[constraint] >= 0;
    if (runs && innermost) {
      run_instance(values);
    } else if (runs) {
      run_loop(depth + 1);
    }
    for (const auto& [changed, step] : updates) values[changed] += step;
  }
}

void StatementProgram::run_instance(const int64_t* values) {
  Storage& target = memory_.storages[static_cast<size_t>(write_.buffer)];
  if (is_multiply_add_ && !check_ranges_) {
    double a = read(places_[0], static_cast<size_t>(values[places_[0].flat])).number;
    double b = read(places_[1], static_cast<size_t>(values[places_[1].flat])).number;
    auto element = static_cast<size_t>(values[write_.flat]);
    return store(target, element, {.number = read(write_, element).number + a * b});
  }
  Cell* stack = stack_.data();
  Cell value = evaluate(values, value_begin_, code_.size(), stack);
  if (write_.dynamic_count > 0) {
    evaluate(values, 0, value_begin_, stack);
    stack += write_.dynamic_count;
  }
  size_t element = locate(write_, values, stack);
  if (reduction_ != Reduction::None) {
    value = apply(reduction_, dtype_, read(write_, element), value);
  }
  store(target, element, value);
}

void StatementProgram::store(Storage& target, size_t element, Cell value) {
  if (memory_.round_to_storage) value = convert(target.dtype, target.dtype, value, true);
  target.cells[element] = value;
  if (!target.stamps.empty()) target.stamps[element] = memory_.leaf;
}

Cell StatementProgram::evaluate(const int64_t* values, size_t begin, size_t end, Cell* stack) {
  for (size_t at = begin; at < end; ++at) {
    const Instruction& step = code_[at];
    switch (step.code) {
      case Code::Const: *stack++ = step.constant; break;
      case Code::Index: (stack++)->integer = values[step.argument]; break;
      case Code::Load: {
        const Place& place = places_[static_cast<size_t>(step.argument)];
        size_t element = locate(place, values, stack);
        *stack++ = read(place, element);
        break;
      }
      case Code::Unary: stack[-1] = apply(static_cast<UnaryOp>(step.detail), step.dtype, stack[-1]); break;
      case Code::Binary:
        --stack;
        stack[-1] = apply(static_cast<BinaryOp>(step.detail), step.dtype, stack[-1], stack[0]);
        break;
      case Code::Cast:
        stack[-1] = convert(step.dtype, static_cast<DType>(step.detail), stack[-1], memory_.round_to_storage);
        break;
      case Code::Jump: at = static_cast<size_t>(step.argument) - 1; break;
      case Code::JumpIfFalse:
        if (!(--stack)->integer) at = static_cast<size_t>(step.argument) - 1;
        break;
    }
  }
  return stack[-1];
}

size_t StatementProgram::locate(const Place& place, const int64_t* values, Cell*& stack) {
  if (!check_ranges_ && place.flat >= 0) return static_cast<size_t>(values[place.flat]);
  const Storage& storage = memory_.storages[static_cast<size_t>(place.buffer)];
  stack -= place.dynamic_count;
  const Cell* dynamic = stack;
  int64_t flat = 0;
  for (size_t i = 0; i < place.dimensions.size(); ++i) {
    int64_t index = values[place.dimensions[i]];
    if (place.dynamic[i]) index += (dynamic++)->integer;
    if (index < 0 || index >= storage.shape[i]) out_of_range(place, i, index);
    flat += index * storage.strides[i];
  }
  return static_cast<size_t>(flat);
}

Cell StatementProgram::read(const Place& place, size_t element) {
  const Storage& storage = memory_.storages[static_cast<size_t>(place.buffer)];
  if (!storage.stamps.empty() && storage.stamps[element] != memory_.leaf) {
    fail(ErrorKind::Internal, "kernel '", kernel_.name, "', statement ", instance_text(), ": element ",
         element, " of register buffer '", storage.name, "' is read before this leaf writes it");
  }
  return storage.cells[element];
}

void StatementProgram::out_of_range(const Place& place, size_t dimension, int64_t index) {
  const Storage& storage = memory_.storages[static_cast<size_t>(place.buffer)];
  fail(ErrorKind::Internal, "kernel '", kernel_.name, "', statement ", instance_text(), ": index ", index,
       " of dimension ", dimension, " of buffer '", storage.name, "' is outside 0 .. ",
       storage.shape[dimension] - 1);
}

std::string StatementProgram::instance_text() const {
  std::string result = text("'", name_, "' at [");
  const char* separator = "";
  for (const auto& [name, place] : outer_) {
    result += text(separator, name, "=", *place);
    separator = ", ";
  }
  for (size_t i = 0; i < loops_.size(); ++i) {
    result += text(separator, loops_[i].name, "=", counters_[i]);
    separator = ", ";
  }
  return result + "]";
}

}  // namespace tc::interp
