#include "ir/command.h"

#include <algorithm>
#include <cmath>

#include "ir/error.h"

namespace tc {
namespace {

bool is_commutative(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
    case BinaryOp::Mul:
    case BinaryOp::Max:
    case BinaryOp::Min:
    case BinaryOp::And:
    case BinaryOp::Or:
    case BinaryOp::Xor: return true;
    default: return false;
  }
}

bool is_same(const Access& a, const Access& b) {
  if (a.buffer != b.buffer || a.index.size() != b.index.size()) return false;
  for (size_t d = 0; d < a.index.size(); ++d) {
    if (a.index[d].affine != b.index[d].affine || a.index[d].dynamic || b.index[d].dynamic) return false;
  }
  return true;
}

// Finds operands and numbers by going through both expressions at once.
class Unifier {
 public:
  Unifier(const Kernel& kernel, const AcceleratorInstruction& instruction, bool anywhere)
      : kernel_(kernel), instruction_(instruction), anywhere_(anywhere) {
    found_.accesses.resize(instruction.meaning.buffers.size());
    for (size_t i = instruction.extents(); i < instruction.meaning.parameters.size(); ++i)
      found_.numbers.push_back(kUnknown);
  }

  std::optional<CommandOperands> run(const Statement& statement, std::string* why) {
    const Statement& meaning = instruction_.statement();
    const auto no = [&](const std::string& reason) {
      if (why != nullptr) *why = reason;
      return std::nullopt;
    };
    if (statement.reduction != meaning.reduction)
      return no("it does not combine results as the instruction does");
    if (!access(meaning.write, statement.write))
      return no("its result is of another type or in another memory: " + last_);
    if (!expression(*meaning.value, *statement.value))
      return no(last_.empty() ? "it computes something else" : last_);
    for (int64_t& number : found_.numbers) number = number == kUnknown ? 0 : number;
    return found_;
  }

 private:
  static constexpr int64_t kUnknown = INT64_MIN;

  const Buffer& operand(int index) const { return instruction_.meaning.buffers[static_cast<size_t>(index)]; }

  bool access(const Access& pattern, const Access& given) {
    const Buffer& wanted = operand(pattern.buffer);
    const Buffer& buffer = kernel_.buffers[static_cast<size_t>(given.buffer)];
    const std::string& memory = instruction_.memories[static_cast<size_t>(pattern.buffer)];
    if (buffer.dtype != wanted.dtype || (!anywhere_ && buffer.memory != memory)) {
      last_ = text("buffer ", buffer.name, " is ", name_of(buffer.dtype), " in ",
                   buffer.memory.empty() ? "the host's memory" : buffer.memory, ", operand ", wanted.name,
                   " ", name_of(wanted.dtype), " in ", memory.empty() ? "the host's memory" : memory);
      return false;
    }
    for (const Subscript& subscript : given.index) {
      if (subscript.dynamic) {
        last_ = text("data decides where buffer ", buffer.name, " is read");
        return false;
      }
    }
    Access& known = found_.accesses[static_cast<size_t>(pattern.buffer)];
    if (known.buffer >= 0) return is_same(known, given);
    known = given;
    return true;
  }

  // A number of the command: a parameter as an index, cast to the type in which it is used.
  std::optional<size_t> number_of(const Expr& pattern) const {
    const Expr& inner = pattern.kind == Expr::Kind::Cast ? *pattern.operands[0] : pattern;
    if (inner.kind != Expr::Kind::Index) return std::nullopt;
    const std::vector<Parameter>& parameters = instruction_.meaning.parameters;
    for (size_t i = instruction_.extents(); i < parameters.size(); ++i) {
      if (inner.affine == Affine::variable(parameters[i].name)) return i;
    }
    return std::nullopt;
  }

  // The expression without a bound that a bound of the same kind inside of it implies, as where a Relu is
  // followed by a rounding that saturates at 0.
  static const Expr& without_repeated_bound(const Expr& given) {
    const bool is_bound = given.kind == Expr::Kind::Binary &&
                          (given.binary == BinaryOp::Max || given.binary == BinaryOp::Min) &&
                          given.operands[1]->kind == Expr::Kind::Const;
    if (!is_bound) return given;
    const Expr &inner = *given.operands[0], &bound = *given.operands[1];
    if (inner.kind != Expr::Kind::Binary || inner.binary != given.binary ||
        inner.operands[1]->kind != Expr::Kind::Const)
      return given;
    const Expr& other = *inner.operands[1];
    const bool is_larger =
        is_float(bound.dtype) ? other.number >= bound.number : other.integer >= bound.integer;
    const bool is_smaller =
        is_float(bound.dtype) ? other.number <= bound.number : other.integer <= bound.integer;
    return (given.binary == BinaryOp::Max ? is_larger : is_smaller) ? inner : given;
  }

  // Whether the instruction adds a number to what the statement computes: then the number is 0.
  bool adds_nothing(const Expr& pattern, const Expr& given) {
    if (pattern.kind != Expr::Kind::Binary || pattern.binary != BinaryOp::Add) return false;
    const auto number = number_of(*pattern.operands[1]);
    if (!number) return false;
    const Parameter& parameter = instruction_.meaning.parameters[*number];
    int64_t& known = found_.numbers[*number - instruction_.extents()];
    if (parameter.minimum > 0 || parameter.maximum < 0 || (known != kUnknown && known != 0)) return false;
    if (!expression(*pattern.operands[0], given)) return false;
    found_.numbers[*number - instruction_.extents()] = 0;
    return true;
  }

  bool expression(const Expr& pattern, const Expr& whole) {
    const Expr& given = without_repeated_bound(whole);
    if (pattern.dtype != given.dtype) return false;
    if (const auto number = number_of(pattern)) {
      if (given.kind != Expr::Kind::Const) return false;
      const Parameter& parameter = instruction_.meaning.parameters[*number];
      const bool is_whole = !is_float(given.dtype) ||
                            (std::trunc(given.number) == given.number && std::abs(given.number) < 0x1p31);
      const int64_t value = !is_whole               ? 0
                            : is_float(given.dtype) ? static_cast<int64_t>(given.number)
                                                    : given.integer;
      if (!is_whole || value < parameter.minimum || value > parameter.maximum) {
        last_ = text("number ", parameter.name, " would be ", is_whole ? text(value) : text(given.number),
                     ", not a whole number from ", parameter.minimum, " to ", parameter.maximum);
        return false;
      }
      int64_t& known = found_.numbers[*number - instruction_.extents()];
      if (known != kUnknown) return known == value;
      known = value;
      return true;
    }
    const CommandOperands before = found_;
    if (adds_nothing(pattern, given)) return true;
    found_ = before;
    if (pattern.kind != given.kind) return false;
    switch (pattern.kind) {
      case Expr::Kind::Const: return pattern.number == given.number && pattern.integer == given.integer;
      case Expr::Kind::Load: return access(pattern.access, given.access);
      case Expr::Kind::Index: return pattern.affine == given.affine;
      case Expr::Kind::Unary: return pattern.unary == given.unary && all(pattern, given);
      case Expr::Kind::Select:
      case Expr::Kind::Cast: return all(pattern, given);
      case Expr::Kind::Binary: break;
    }
    if (pattern.binary != given.binary) return false;
    if (all(pattern, given)) return true;
    found_ = before;
    return is_commutative(pattern.binary) && expression(*pattern.operands[0], *given.operands[1]) &&
           expression(*pattern.operands[1], *given.operands[0]);
  }

  bool all(const Expr& pattern, const Expr& given) {
    for (size_t i = 0; i < pattern.operands.size(); ++i) {
      if (!expression(*pattern.operands[i], *given.operands[i])) return false;
    }
    return true;
  }

  const Kernel& kernel_;
  const AcceleratorInstruction& instruction_;
  const bool anywhere_;
  CommandOperands found_;
  std::string last_;  // what did not fit, where that says more than that the expressions differ
};

}  // namespace

std::optional<CommandOperands> operands_of_command(const Kernel& kernel, const Statement& statement,
                                                   const AcceleratorInstruction& instruction,
                                                   std::string* why, bool anywhere) {
  return Unifier(kernel, instruction, anywhere).run(statement, why);
}

const Access& access_in_meaning(const AcceleratorInstruction& instruction, size_t buffer) {
  const Statement& statement = instruction.statement();
  if (statement.write.buffer == static_cast<int>(buffer)) return statement.write;
  const Access* found = nullptr;
  for_each_load(statement.value, [&](const Expr& load) {
    if (load.access.buffer == static_cast<int>(buffer)) found = &load.access;
  });
  TC_CHECK(found != nullptr, "for operand '", instruction.meaning.buffers[buffer].name, "' of instruction '",
           instruction.name, "'");
  return *found;
}

bool mentions(const Access& meaning, const std::string& iterator) {
  return std::any_of(meaning.index.begin(), meaning.index.end(),
                     [&](const Subscript& each) { return each.affine.coefficient(iterator) != 0; });
}

std::optional<std::string> wrong_loops(const AcceleratorInstruction& instruction,
                                       const std::vector<CommandLoop>& loops) {
  const Statement& statement = instruction.statement();
  const size_t count = statement.iterators.size();
  if (loops.size() < count)
    return text("instruction ", instruction.name, " has ", count, " iterators, and there are ", loops.size(),
                " loops");
  // Loops that continue the last iterator go on where the one inside of them ends.
  int64_t last = 1;
  for (size_t i = loops.size(); i-- > count;) last *= loops[i].extent;
  for (size_t i = 0; i < count; ++i) {
    const int64_t extent = i + 1 < count ? loops[i].extent : loops[i].extent * last;
    const int64_t most = instruction.meaning.parameters[i].maximum;
    if (extent > most)
      return text("iterator ", statement.iterators[i].name, " of ", instruction.name, " has at most ", most,
                  " trips, and there are ", extent);
  }
  for (size_t b = 0; b < instruction.meaning.buffers.size(); ++b) {
    const std::string& operand = instruction.meaning.buffers[b].name;
    const Access& access = access_in_meaning(instruction, b);
    int64_t inside = 1;  // trips of the loops further inside that are the same iterator's
    for (size_t i = loops.size(); i-- > 0;) {
      const std::string& iterator = statement.iterators[std::min(i, count - 1)].name;
      if (i + 1 < count) inside = 1;
      const int64_t extent = loops[i].extent, step = loops[i].steps.at(b);
      if (extent <= 1) continue;
      const bool is_adjacent = access.index.back().affine.coefficient(iterator) != 0;
      const bool is_mentioned = mentions(access, iterator);
      if (!is_mentioned && step != 0)
        return text("operand ", operand, " of ", instruction.name, " does not move with ", iterator);
      if (is_adjacent && step != inside)
        return text("operand ", operand, " of ", instruction.name, " is not adjacent along ", iterator);
      if (is_mentioned && !is_adjacent && inside > 1)
        return text("operand ", operand, " of ", instruction.name, " is in several pieces along ", iterator);
      if (is_mentioned && !is_adjacent && !may_step(instruction, b, iterator, step))
        return text("operand ", operand, " of ", instruction.name, " cannot move ", step, " elements along ",
                    iterator);
      inside *= extent;
    }
  }
  return std::nullopt;
}

bool may_step(const AcceleratorInstruction& instruction, size_t buffer, const std::string& iterator,
              int64_t elements) {
  const int64_t bytes = elements * static_cast<int64_t>(size_of(instruction.meaning.buffers[buffer].dtype));
  if (bytes % instruction.row_of(buffer) != 0) return false;
  return std::all_of(instruction.fixed_steps.begin(), instruction.fixed_steps.end(), [&](const auto& each) {
    return each.buffer != buffer || each.iterator != iterator || each.bytes == bytes;
  });
}

std::string operand_off_rows(const Kernel& kernel, const AcceleratorInstruction& instruction,
                             const TileStatement& tile) {
  const Statement& statement = kernel.statements[static_cast<size_t>(tile.statement)];
  const auto operands = operands_of_command(kernel, statement, instruction, nullptr);
  std::string why;
  const auto ranges = command_ranges(instruction, tile, &why);
  TC_CHECK(operands && ranges, "for a command ", instruction.name, ": ", why);
  for (size_t b = 0; b < operands->accesses.size(); ++b) {
    const int64_t row = instruction.row_of(b);
    if (row == 1) continue;
    const Access& access = operands->accesses[b];
    const Buffer& buffer = kernel.buffers[static_cast<size_t>(access.buffer)];
    const Affine& last = access_in_meaning(instruction, b).index.back().affine;
    Affine place;
    int64_t stride = static_cast<int64_t>(size_of(buffer.dtype));
    for (size_t d = access.index.size(); d-- > 0;) {
      place = place + access.index[d].affine.substitute(tile.iterators) * stride;
      stride *= buffer.shape[d].constant();
    }
    bool begins = place.constant() % row == 0;
    for (const auto& [name, bytes] : place.terms()) {
      const auto loop = std::find_if(tile.loops.begin(), tile.loops.end(),
                                     [&, own = name](const auto& each) { return each.name == own; });
      const auto number = static_cast<size_t>(loop - tile.loops.begin());
      if (loop != tile.loops.end() && number < instruction.extents()) {
        // A command may begin after its iterator's first trip.
        const std::string& iterator = instruction.statement().iterators[number].name;
        const bool is_first = ranges->iterators[number].begin.size() == 1;
        begins = begins && (is_first || last.coefficient(iterator) == 0);
      } else if (loop == tile.loops.end()) {
        begins = begins && bytes % row == 0;
      }
    }
    if (!begins) return instruction.meaning.buffers[b].name;
  }
  return "";
}

std::optional<CommandRanges> command_ranges(const AcceleratorInstruction& instruction,
                                            const TileStatement& tile, std::string* why) {
  const size_t count = instruction.extents();
  TC_CHECK(tile.loops.size() >= count, "for a command ", instruction.name);
  CommandRanges ranges;
  ranges.iterators.resize(count);
  for (size_t i = 0; i < tile.loops.size(); ++i) {
    if (i < count) ranges.iterators[i].end.push_back(Affine(tile.loops[i].extent));
    else ranges.iterators.back().inside *= tile.loops[i].extent;
  }
  for (const Affine& constraint : tile.constraints) {
    std::optional<size_t> loop;
    for (size_t i = 0; i < tile.loops.size(); ++i) {
      if (constraint.coefficient(tile.loops[i].name) == 0) continue;
      const int64_t factor = constraint.coefficient(tile.loops[i].name);
      if (loop || i >= count || (factor != 1 && factor != -1)) {
        *why = text("the condition ", constraint.str(), " >= 0 is no range of one of its loops");
        return std::nullopt;
      }
      loop = i;
    }
    if (!loop) {
      ranges.conditions.push_back(constraint);
      continue;
    }
    const std::string& name = tile.loops[*loop].name;
    const int64_t factor = constraint.coefficient(name);
    const Affine rest = constraint - Affine::variable(name, factor);
    if (factor == 1) ranges.iterators[*loop].begin.push_back(rest * -1);
    else ranges.iterators[*loop].end.push_back(rest + Affine(1));
  }
  return ranges;
}

}  // namespace tc
