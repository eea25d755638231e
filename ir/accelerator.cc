// Descriptions of accelerators: checks, formulas of cycles, the table by name, places in their memories.
#include "ir/accelerator.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "ir/command.h"
#include "ir/error.h"
#include "ir/text_cursor.h"

namespace tc {
namespace {

constexpr size_t kMaxInstructions = 64, kMaxMemories = 16;
constexpr int64_t kMaxMemoryBytes = int64_t{1} << 31;

template <class... Parts>
[[noreturn]] void refuse_description(const Parts&... parts) {
  fail(ErrorKind::Target, parts...);
}

// Reads a formula by precedence: sums of products of factors.
class FormulaReader {
 public:
  FormulaReader(const std::string& formula, const std::vector<std::string>& names, const std::string& where)
      : cursor_(formula, where), names_(names) {}

  LoopExprPtr read() {
    LoopExprPtr result = sum();
    if (!cursor_.at_end()) cursor_.error("expected an operator or the end of the formula");
    return result;
  }

 private:
  using Kind = LoopExpr::Kind;

  LoopExprPtr sum() {
    LoopExprPtr left = product();
    while (true) {
      if (cursor_.try_token("+")) left = loop_expr(Kind::Add, {left, product()});
      else if (cursor_.try_token("-")) left = loop_expr(Kind::Sub, {left, product()});
      else return left;
    }
  }

  LoopExprPtr product() {
    LoopExprPtr left = factor();
    while (true) {
      if (cursor_.try_token("*")) left = loop_expr(Kind::Mul, {left, factor()});
      else if (cursor_.try_token("/")) left = loop_expr(Kind::FloorDiv, {left, divisor()});
      else if (cursor_.try_token("%")) left = loop_expr(Kind::Mod, {left, divisor()});
      else return left;
    }
  }

  LoopExprPtr divisor() {
    const int64_t value = cursor_.peek_number() ? cursor_.integer() : 0;
    if (value <= 0) cursor_.error("expected a whole number above 0 as a divisor");
    return loop_constant(value);
  }

  LoopExprPtr factor() {
    const TextCursor::Nesting nesting(cursor_);
    if (cursor_.try_token("(")) {
      LoopExprPtr inside = sum();
      cursor_.expect(")");
      return inside;
    }
    if (cursor_.peek_number()) return loop_constant(cursor_.integer());
    if (!cursor_.peek_identifier()) cursor_.error("expected a number, a name or a parenthesis");
    const std::string name = cursor_.identifier();
    if (name == "min" || name == "max" || name == "ceil") return call(name);
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
      std::string known;
      for (const std::string& each : names_) known += (known.empty() ? "" : ", ") + each;
      cursor_.error("there is no ", quote(name), " in this instruction; there are: ", known);
    }
    return loop_variable(name);
  }

  LoopExprPtr call(const std::string& function) {
    cursor_.expect("(");
    LoopExprPtr first = sum();
    cursor_.expect(",");
    LoopExprPtr second = function == "ceil" ? divisor() : sum();
    cursor_.expect(")");
    if (function != "ceil") return loop_expr(function == "min" ? Kind::Min : Kind::Max, {first, second});
    return loop_expr(Kind::FloorDiv,
                     {loop_expr(Kind::Add, {first, loop_constant(second->value - 1)}), second});
  }

  TextCursor cursor_;
  const std::vector<std::string>& names_;
};

// Whether a string of C and inline assembly have the text as it is.
bool is_assembly(const std::string& line) {
  return std::all_of(line.begin(), line.end(), [](char each) {
    return each >= ' ' && each <= '~' && std::string("\"\\{|}").find(each) == std::string::npos;
  });
}

// The meaning as verify() takes it: what a sum adds to was there before.
Kernel with_earlier_sums(const Kernel& meaning) {
  Kernel kernel = meaning;
  const Statement& sum = meaning.statements.front();
  if (sum.reduction == Reduction::None) return kernel;
  Statement earlier = sum;
  earlier.name += "_before";
  earlier.reduction = Reduction::None;
  earlier.value = constant(kernel.buffers[static_cast<size_t>(sum.write.buffer)].dtype, 0);
  kernel.statements.insert(kernel.statements.begin(), earlier);
  return kernel;
}

class InstructionChecker {
 public:
  InstructionChecker(const Accelerator& accelerator, const AcceleratorInstruction& instruction)
      : accelerator_(accelerator), instruction_(instruction), meaning_(instruction.meaning) {}

  void run() const {
    run_on_meaning();
    check_rows();
    check_encoding();
    if (instruction_.cycles == nullptr) wrong("it has no cycles");
  }

  void run_on_meaning() const {
    if (!is_identifier(instruction_.name)) wrong("its name is no identifier of C");
    if (!is_identifier(instruction_.unit))
      wrong("its unit ", quote(instruction_.unit), " is no identifier of C");
    if (meaning_.statements.size() != 1) wrong("its meaning is not one statement");
    if (!instruction_.statement().constraints.empty()) wrong("its meaning has conditions");
    try {
      verify(with_earlier_sums(meaning_));
    } catch (const Error& error) {
      wrong("its meaning is no kernel: ", error.what());
    }
    check_extents();
    check_operands();
  }

 private:
  template <class... Parts>
  [[noreturn]] void wrong(const Parts&... parts) const {
    refuse_description("accelerator '", accelerator_.name, "', instruction '", instruction_.name,
                       "': ", parts...);
  }

  void check_extents() const {
    const Statement& statement = instruction_.statement();
    if (statement.iterators.empty()) wrong("its meaning has no iterator");
    if (meaning_.parameters.size() < statement.iterators.size())
      wrong("an iterator has no extent of its own");
    for (size_t i = 0; i < statement.iterators.size(); ++i) {
      const Parameter& extent = meaning_.parameters[i];
      if (statement.iterators[i].extent != Affine::variable(extent.name))
        wrong("iterator '", statement.iterators[i].name, "' has no extent of its own");
      if (extent.minimum != 1 || extent.maximum < 1 || extent.maximum > kMaxMemoryBytes)
        wrong("iterator '", statement.iterators[i].name, "' has no limit from 1 to ", kMaxMemoryBytes);
    }
  }

  void check_operands() const {
    if (instruction_.memories.size() != meaning_.buffers.size()) wrong("an operand has no memory");
    for (size_t i = 0; i < meaning_.buffers.size(); ++i) {
      const std::string& memory = instruction_.memories[i];
      if (!memory.empty() && accelerator_.find_memory(memory) == nullptr)
        wrong("operand '", meaning_.buffers[i].name, "' is in the memory '", memory,
              "', which the accelerator does not have");
      if (!is_argument(meaning_.buffers[i]))
        wrong("its meaning has the private buffer '", meaning_.buffers[i].name, "'");
    }
    check_access(instruction_.statement().write);
    for_each_load(instruction_.statement().value, [&](const Expr& load) { check_access(load.access); });
  }

  // An operand's elements along its last subscript fit a row.
  void check_rows() const {
    for (size_t i = 0; i < meaning_.buffers.size(); ++i) {
      if (instruction_.memories[i].empty()) continue;
      const AcceleratorMemory& memory = *accelerator_.find_memory(instruction_.memories[i]);
      const std::string last = access_in_meaning(instruction_, i).index.back().affine.terms()[0].first;
      const std::vector<Iterator>& all = instruction_.statement().iterators;
      const auto number = static_cast<size_t>(
          std::find_if(all.begin(), all.end(), [&](const Iterator& each) { return each.name == last; }) -
          all.begin());
      const int64_t bytes =
          meaning_.parameters[number].maximum * static_cast<int64_t>(size_of(meaning_.buffers[i].dtype));
      if (memory.row > 1 && bytes > memory.row)
        wrong("operand '", meaning_.buffers[i].name, "' has up to ", bytes, " bytes along ", last,
              ", more than a row of memory '", memory.name, "'");
    }
  }

  // The words are what an assembler takes in one string.
  void check_encoding() const {
    for (const EncodedWord& word : instruction_.encoding) {
      if (!is_assembly(word.assembly))
        wrong("the word ", quote(word.assembly), " has a character that no instruction has");
      for (size_t at = word.assembly.find('%'); at != std::string::npos;
           at = word.assembly.find('%', at + 1)) {
        const size_t number = static_cast<size_t>(word.assembly[at + 1]) - '0';
        if (number >= word.registers.size())
          wrong("the word ", quote(word.assembly), " has a register that has no value; there are ",
                word.registers.size(), ", counted from %0");
      }
      for (const auto& fields : word.registers) {
        for (const EncodedWord::Field& field : fields) {
          if (field.bit < 0 || field.bit > 63)
            wrong("the word ", quote(word.assembly), " has a value from bit ", field.bit,
                  " on; registers have bits 0 to 63");
        }
      }
    }
  }

  // Each subscript is one iterator, and no iterator is in two of them.
  void check_access(const Access& access) const {
    std::set<std::string> seen;
    for (const Subscript& subscript : access.index) {
      const auto terms = subscript.affine.terms();
      const bool plain =
          !subscript.dynamic && terms.size() == 1 && subscript.affine.constant() == 0 && terms[0].second == 1;
      if (!plain || !seen.insert(terms[0].first).second) {
        wrong("operand '", meaning_.buffers[static_cast<size_t>(access.buffer)].name,
              "' has a subscript that is no iterator of its own");
      }
    }
    if (access.index.empty())
      wrong("operand '", meaning_.buffers[static_cast<size_t>(access.buffer)].name, "' has no subscript");
  }

  const Accelerator& accelerator_;
  const AcceleratorInstruction& instruction_;
  const Kernel& meaning_;
};

// The accelerators of this process.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Accelerator>> accelerators;
};

Registry& registry() {
  static Registry all;
  return all;
}

int64_t rounded_up(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

const AcceleratorInstruction* Accelerator::find(const std::string& instruction) const {
  const auto found =
      std::find_if(instructions.begin(), instructions.end(),
                   [&](const AcceleratorInstruction& each) { return each.name == instruction; });
  return found == instructions.end() ? nullptr : &*found;
}

const AcceleratorMemory* Accelerator::find_memory(const std::string& memory_name) const {
  const auto found = std::find_if(memories.begin(), memories.end(),
                                  [&](const AcceleratorMemory& each) { return each.name == memory_name; });
  return found == memories.end() ? nullptr : &*found;
}

LoopExprPtr parse_cycles(const std::string& text, const std::vector<std::string>& names,
                         const std::string& where) {
  try {
    return FormulaReader(text, names, where).read();
  } catch (const Error& error) {
    refuse_description(error.what());
  }
}

void check_meaning(const Accelerator& accelerator, const AcceleratorInstruction& instruction) {
  InstructionChecker(accelerator, instruction).run_on_meaning();
}

void check(const Accelerator& accelerator) {
  const auto wrong = [&](const auto&... parts) {
    refuse_description("accelerator '", accelerator.name, "': ", parts...);
  };
  if (!is_identifier(accelerator.name) || accelerator.name.size() > 60)
    refuse_description("accelerator '", accelerator.name,
                       "': its name is no identifier of C of at most 60 letters");
  if (accelerator.memories.empty() || accelerator.memories.size() > kMaxMemories)
    wrong("it has ", accelerator.memories.size(), " memories, not 1 to ", kMaxMemories);
  if (accelerator.instructions.empty() || accelerator.instructions.size() > kMaxInstructions)
    wrong("it has ", accelerator.instructions.size(), " instructions, not 1 to ", kMaxInstructions);
  if (accelerator.block < 1 || accelerator.block > 256) wrong("its block of channels is not 1 to 256");
  if (accelerator.issue_cycles < 0 || accelerator.issue_cycles > 1000000)
    wrong("a command is written in ", accelerator.issue_cycles, " cycles, not 0 to 1000000");
  if (accelerator.queue < 1 || accelerator.queue > 1024)
    wrong("its queue holds ", accelerator.queue, " commands, not 1 to 1024");
  std::set<std::string> names;
  for (const AcceleratorMemory& memory : accelerator.memories) {
    if (!is_identifier(memory.name) || !names.insert(memory.name).second)
      wrong("memory '", memory.name, "' has a name that is taken or no identifier of C");
    if (memory.bytes < 1 || memory.bytes > kMaxMemoryBytes)
      wrong("memory '", memory.name, "' has ", memory.bytes, " bytes, not 1 to ", kMaxMemoryBytes);
    if (memory.alignment < 1 || memory.alignment > memory.bytes ||
        (memory.alignment & (memory.alignment - 1)) != 0)
      wrong("memory '", memory.name, "' has the alignment ", memory.alignment,
            ", which is no power of two up to its size");
    if (memory.row < 1 || memory.alignment % memory.row != 0 || memory.bytes % memory.row != 0)
      wrong("memory '", memory.name, "' has rows of ", memory.row,
            " bytes, which do not divide its alignment and its size");
  }
  for (const AcceleratorInstruction& each : accelerator.instructions) {
    if (each.encoding.empty() == accelerator.instructions[0].encoding.empty()) continue;
    wrong("instruction '", each.name, "' and instruction '", accelerator.instructions[0].name,
          "' do not both have an encoding");
  }
  if (accelerator.instructions[0].encoding.empty() != accelerator.wait.empty())
    wrong(
        "it says `wait`, the core's instruction that waits for all, exactly where instructions have encodings");
  if (!is_assembly(accelerator.wait) || accelerator.wait.find('%') != std::string::npos)
    wrong("its `wait` ", quote(accelerator.wait),
          " has a character that no instruction without registers has");
  for (const AcceleratorInstruction& each : accelerator.instructions) {
    InstructionChecker(accelerator, each).run();
    if (!names.insert(each.name).second) wrong("two instructions are called '", each.name, "'");
  }
}

void register_accelerator(Accelerator accelerator) {
  check(accelerator);
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const std::string name = accelerator.name;
  for (AcceleratorInstruction& each : accelerator.instructions) {
    each.rows.clear();
    for (const std::string& memory : each.memories)
      each.rows.push_back(memory.empty() ? 1 : accelerator.find_memory(memory)->row);
  }
  all.accelerators[name] = std::make_shared<const Accelerator>(std::move(accelerator));
}

std::shared_ptr<const Accelerator> registered_accelerator(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.accelerators.find(name);
  if (found == all.accelerators.end()) {
    refuse_description("accelerator '", name,
                       "' is not known; give the file that describes it, "
                       "as --accelerator FILE or tc.accelerator.load(FILE)");
  }
  return found->second;
}

std::vector<std::string> command_names(const AcceleratorInstruction& instruction) {
  std::vector<std::string> result;
  for (size_t b = 0; b < instruction.meaning.buffers.size(); ++b) {
    const std::string& name = instruction.meaning.buffers[b].name;
    result.push_back(name);
    const Access& access = access_in_meaning(instruction, b);
    for (size_t d = 0; d + 1 < access.index.size(); ++d)
      result.push_back(name + "_" + access.index[d].affine.terms()[0].first);
  }
  for (const Iterator& iterator : instruction.statement().iterators) result.push_back(iterator.name);
  for (size_t i = instruction.extents(); i < instruction.meaning.parameters.size(); ++i)
    result.push_back(instruction.meaning.parameters[i].name);
  return result;
}

bool multiplies_signed(const Accelerator& accelerator) {
  bool any = false;
  for (const AcceleratorInstruction& each : accelerator.instructions) {
    const Expr& value = *each.statement().value;
    if (each.statement().reduction != Reduction::Sum || value.kind != Expr::Kind::Binary ||
        value.binary != BinaryOp::Mul)
      continue;
    int signed_bytes = 0, unsigned_bytes = 0;
    for_each_load(each.statement().value, [&](const Expr& load) {
      signed_bytes += load.dtype == DType::I8 ? 1 : 0;
      unsigned_bytes += load.dtype == DType::U8 ? 1 : 0;
    });
    if (unsigned_bytes > 0) return false;
    any = any || signed_bytes == 2;
  }
  return any;
}

int64_t in_rows(const AcceleratorMemory& memory, DType dtype, int64_t numbers) {
  const int64_t of_row = std::max<int64_t>(1, memory.row / static_cast<int64_t>(size_of(dtype)));
  return rounded_up(numbers, of_row);
}

int64_t bytes_in(const AcceleratorMemory& memory, const Buffer& buffer) {
  int64_t bytes = static_cast<int64_t>(size_of(buffer.dtype));
  for (const Affine& extent : buffer.shape) {
    TC_CHECK(extent.is_constant(), "for buffer '", buffer.name, "' of an accelerator");
    bytes = std::min(bytes * extent.constant(), kMaxMemoryBytes + 1);
  }
  return rounded_up(bytes, memory.alignment);
}

std::optional<std::map<int, int64_t>> accelerator_layout(const Kernel& kernel,
                                                         const Accelerator& accelerator) {
  std::map<int, int64_t> places;
  std::map<std::string, int64_t> used;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const Buffer& buffer = kernel.buffers[i];
    if (buffer.memory.empty()) continue;
    const AcceleratorMemory* memory = accelerator.find_memory(buffer.memory);
    if (memory == nullptr) return std::nullopt;
    int64_t& next = used[buffer.memory];
    places[static_cast<int>(i)] = next;
    next += buffer.copies * bytes_in(*memory, buffer);
    if (next > memory->bytes) return std::nullopt;
  }
  return places;
}

}  // namespace tc
