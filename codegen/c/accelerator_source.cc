// Both are C99, made from the description of the accelerator.
#include "codegen/c/accelerator_source.h"

#include <algorithm>

#include "codegen/c/commands.h"
#include "ir/error.h"

namespace tc::c {
namespace {

size_t most_arguments(const Accelerator& accelerator) {
  size_t most = 1;
  for (const AcceleratorInstruction& each : accelerator.instructions)
    most = std::max(most, command_parameters(each).size());
  return most;
}

std::string joined_parameters(const AcceleratorInstruction& instruction) {
  std::string result;
  for (const CommandParameter& each : command_parameters(instruction))
    result += (result.empty() ? "" : ", ") + each.type + each.name;
  return result;
}

std::string number_of(const Accelerator& accelerator, const AcceleratorInstruction& instruction) {
  return command_function(accelerator, instruction) + "_NUMBER";
}

// The formula in C, with the trips and numbers of a command as variables.
std::string formula(const LoopExpr& expr) {
  using Kind = LoopExpr::Kind;
  const auto operand = [&](size_t i) { return formula(*expr.operands.at(i)); };
  switch (expr.kind) {
    case Kind::Const: return text("INT64_C(", expr.value, ")");
    case Kind::Variable: return "(int64_t)" + expr.name;
    case Kind::Add: return text("(", operand(0), " + ", operand(1), ")");
    case Kind::Sub: return text("(", operand(0), " - ", operand(1), ")");
    case Kind::Mul: return text("(", operand(0), " * ", operand(1), ")");
    case Kind::FloorDiv: return text("(", operand(0), " / ", operand(1), ")");
    case Kind::Mod: return text("(", operand(0), " % ", operand(1), ")");
    case Kind::Min: return text("tc_minimum(", operand(0), ", ", operand(1), ")");
    case Kind::Max: return text("tc_maximum(", operand(0), ", ", operand(1), ")");
    default: fail(ErrorKind::Internal, "internal error: cycles of an instruction as a condition");
  }
}

// Each unit once, in the order in which instructions name them.
std::vector<std::string> units_of(const Accelerator& accelerator) {
  std::vector<std::string> units;
  for (const AcceleratorInstruction& each : accelerator.instructions) {
    if (std::find(units.begin(), units.end(), each.unit) == units.end()) units.push_back(each.unit);
  }
  return units;
}

class Simulator {
 public:
  explicit Simulator(const Accelerator& accelerator)
      : accelerator_(accelerator), name_(accelerator.name), units_(units_of(accelerator)) {
    functions_.use_integers();
  }

  std::string source() {
    std::string executions, cases;
    for (const AcceleratorInstruction& each : accelerator_.instructions) {
      executions += "\n" + execution(each);
      cases += case_of(each);
    }
    std::string result = text(
        "/* A driver for accelerator '", name_,
        "' that executes its commands and counts cycles: each unit executes one command at a time, in order;\n"
        " * a command waits for those before it that write what it reads or writes, or read what it writes. */\n",
        "#include \"", name_, ".h\"\n#include <math.h>\n#include <stddef.h>\n#include <string.h>\n\n");
    result += functions_.definitions() + "\n";
    for (const AcceleratorMemory& memory : accelerator_.memories)
      result += text("static uint8_t memory_", memory.name, "[", memory.bytes, "];\n");
    result += statistics() + executions + hazards();
    result +=
        text("\nvoid ", name_, "_issue(const ", name_, "_command *command)\n{\n",
             "  issued += ", accelerator_.issue_cycles, ";\n  ++state.commands[command->instruction];\n",
             "  switch (command->instruction) {\n", cases, "  default: break;\n  }\n}\n");
    result += text(
        "\nvoid ", name_, "_wait(void)\n{\n  for (int unit = 0; unit < ", name_,
        "_UNITS; ++unit) {\n    if (free_at[unit] > issued) {\n      issued = free_at[unit];\n    }\n  }\n",
        "  used_count = 0;\n  state.cycles = issued;\n}\n\n", name_, "_statistics ", name_,
        "_read_statistics(void)\n{\n  return state;\n}\n\n", "void ", name_,
        "_reset(void)\n{\n  memset(&state, 0, sizeof state);\n",
        "  memset(free_at, 0, sizeof free_at);\n  memset(executed_at, 0, sizeof executed_at);\n  issued = 0;\n  used_count = 0;\n}\n");
    return result;
  }

 private:
  std::string statistics() const {
    return text(
        "\nstatic ", name_, "_statistics state;\n",
        "static int64_t issued;           /* the cycle in which the host writes the next command */\n",
        "static int64_t free_at[", name_, "_UNITS]; /* when each unit has executed its commands */\n");
  }

  // Keeps the ranges of bytes that commands of other units use, so that a command waits for them.
  std::string hazards() const {
    return text(R"(
/* Bytes that a command uses until a cycle. */
typedef struct {
  uintptr_t begin, end;
  int64_t until;
  int memory, is_written;
} used_range;

enum { QUEUE = )",
                accelerator_.queue, ", MOST_USED = ", most_operands() * (accelerator_.queue + 1), R"( };
static used_range used[MOST_USED];
static int used_count;
static int64_t executed_at[QUEUE]; /* when the last commands, and all before them, are executed */
static int newest;

/* The first cycle in which the bytes may be used. */
static int64_t usable(used_range want, int64_t from)
{
  for (int i = 0; i < used_count; ++i) {
    const used_range *const each = &used[i];
    const int overlaps = each->memory == want.memory && each->begin < want.end && want.begin < each->end;
    if (overlaps && (each->is_written || want.is_written) && each->until > from) {
      from = each->until;
    }
  }
  return from;
}

/* Waits until the queue has room, and forgets what executed commands used. */
static void make_room(void)
{
  const int oldest = (newest + 1) % QUEUE;
  if (executed_at[oldest] > issued) {
    issued = executed_at[oldest];
  }
  int kept = 0;
  for (int i = 0; i < used_count; ++i) {
    if (used[i].until > issued) {
      used[kept++] = used[i];
    }
  }
  used_count = kept;
}

static void start(int unit, int64_t cycles, used_range *ranges, int count)
{
  make_room();
  int64_t begin = issued > free_at[unit] ? issued : free_at[unit];
  for (int i = 0; i < count; ++i) {
    begin = usable(ranges[i], begin);
  }
  for (int i = 0; i < count; ++i) {
    ranges[i].until = begin + cycles;
    used[used_count++] = ranges[i];
  }
  const int64_t before = executed_at[newest];
  newest = (newest + 1) % QUEUE;
  executed_at[newest] = begin + cycles > before ? begin + cycles : before;
  free_at[unit] = begin + cycles;
  state.busy[unit] += cycles;
}
)");
  }

  size_t most_operands() const {
    size_t most = 1;
    for (const AcceleratorInstruction& each : accelerator_.instructions)
      most = std::max(most, each.meaning.buffers.size());
    return most;
  }

  int unit_of(const AcceleratorInstruction& instruction) const {
    return static_cast<int>(std::find(units_.begin(), units_.end(), instruction.unit) - units_.begin());
  }

  int memory_of(const AcceleratorInstruction& instruction, size_t buffer) const {
    for (size_t i = 0; i < accelerator_.memories.size(); ++i) {
      if (accelerator_.memories[i].name == instruction.memories[buffer]) return static_cast<int>(i) + 1;
    }
    return 0;
  }

  // The address of an operand's element.
  std::string element(const AcceleratorInstruction& instruction, const Access& access) const {
    const Buffer& buffer = instruction.meaning.buffers[static_cast<size_t>(access.buffer)];
    std::string offset;
    for (size_t d = 0; d < access.index.size(); ++d) {
      const std::string iterator = access.index[d].affine.terms()[0].first;
      const std::string step = d + 1 < access.index.size() ? text("(ptrdiff_t)", buffer.name, "_", iterator)
                                                           : text("(ptrdiff_t)", size_of(buffer.dtype));
      offset += text(" + ", step, " * i_", iterator);
    }
    return text("(", buffer.name, "_at", offset, ")");
  }

  std::string value(const AcceleratorInstruction& instruction, const Expr& expr) {
    const auto operand = [&](size_t i) { return "(" + value(instruction, *expr.operands.at(i)) + ")"; };
    switch (expr.kind) {
      case Expr::Kind::Const: return literal(expr);
      case Expr::Kind::Load: {
        const std::string load =
            text("*(const ", c_type(expr.dtype), " *)(const void *)", element(instruction, expr.access));
        return expr.dtype == DType::Bool ? "(" + load + " != 0)" : load;
      }
      case Expr::Kind::Index: {
        std::string sum = text("INT64_C(", expr.affine.constant(), ")");
        for (const auto& [name, factor] : expr.affine.terms())
          sum += text(" + ", factor, " * (int64_t)", index_name(instruction, name));
        return sum;
      }
      case Expr::Kind::Unary: return functions_.unary(expr.unary, expr.operands[0]->dtype, 1, operand(0));
      case Expr::Kind::Binary:
        return functions_.binary(expr.binary, expr.operands[0]->dtype, 1, operand(0), operand(1));
      case Expr::Kind::Select: return text("(", operand(0), " ? ", operand(1), " : ", operand(2), ")");
      case Expr::Kind::Cast: return functions_.cast(expr.operands[0]->dtype, expr.dtype, 1, operand(0));
    }
    fail(ErrorKind::Internal, "internal error: expression of an unknown kind");
  }

  static std::string index_name(const AcceleratorInstruction& instruction, const std::string& name) {
    for (const Iterator& each : instruction.statement().iterators) {
      if (each.name == name) return "i_" + name;
    }
    return name;
  }

  std::string execution(const AcceleratorInstruction& instruction) {
    const Statement& statement = instruction.statement();
    std::string parameters, loops;
    for (size_t b = 0; b < instruction.meaning.buffers.size(); ++b) {
      const bool is_written = statement.write.buffer == static_cast<int>(b);
      parameters += text(parameters.empty() ? "" : ", ", is_written ? "uint8_t *" : "const uint8_t *",
                         instruction.meaning.buffers[b].name, "_at");
    }
    for (const CommandParameter& each : command_parameters(instruction)) {
      if (each.type == "int32_t ") parameters += ", " + each.type + each.name;
    }
    int depth = 1;
    for (const Iterator& each : statement.iterators) {
      loops += indented(text("for (ptrdiff_t i_", each.name, " = 0; i_", each.name, " < ", each.name,
                             "; ++i_", each.name, ") {\n"),
                        depth++);
    }
    const Buffer& written = instruction.meaning.buffers[static_cast<size_t>(statement.write.buffer)];
    const std::string type = c_type(written.dtype);
    std::string stored = value(instruction, *statement.value);
    const std::string place = text("(", type, " *)(void *)", element(instruction, statement.write));
    if (statement.reduction != Reduction::None)
      stored = functions_.combine(statement.reduction, written.dtype, 1, "*to", "(" + stored + ")");
    loops += indented(text(type, " *const to = ", place,
                           ";\n*to = ", written.dtype == DType::Bool ? "(uint8_t)" : "", stored, ";\n"),
                      depth);
    while (--depth > 0) loops += indented("}\n", depth);
    std::string unused;
    for (size_t i = instruction.extents(); i < instruction.meaning.parameters.size(); ++i)
      unused += text("  (void)", instruction.meaning.parameters[i].name, ";\n");
    return text("static void execute_", instruction.name, "(", parameters, ")\n{\n", unused, loops, "}\n");
  }

  std::string case_of(const AcceleratorInstruction& instruction) const {
    const std::vector<CommandParameter> parameters = command_parameters(instruction);
    const Statement& statement = instruction.statement();
    std::string lines, arguments, ranges;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].type == "int32_t ") {
        lines += text("const int32_t ", parameters[i].name, " = (int32_t)command->arguments[", i, "];\n");
        continue;
      }
      const size_t b = static_cast<size_t>(instruction.meaning.buffer_index(parameters[i].name));
      const bool is_written = statement.write.buffer == static_cast<int>(b);
      const std::string base =
          instruction.memories[b].empty() ? "" : text("memory_", instruction.memories[b], " + ");
      const std::string type = is_written ? "uint8_t *" : "const uint8_t *";
      lines += text(type, "const ", parameters[i].name, "_at = ",
                    base.empty() ? text("(", type, ")(uintptr_t)command->arguments[", i, "]")
                                 : text(base, "command->arguments[", i, "]"),
                    ";\n");
      arguments += (arguments.empty() ? "" : ", ") + parameters[i].name + "_at";
    }
    for (const CommandParameter& each : parameters) {
      if (each.type == "int32_t ") arguments += ", " + each.name;
    }
    size_t count = 0;
    for (size_t b = 0; b < instruction.meaning.buffers.size(); ++b) {
      const Buffer& buffer = instruction.meaning.buffers[b];
      const Access& access = access_in_meaning(instruction, b);
      std::string last = text("(uintptr_t)", buffer.name, "_at");
      for (size_t d = 0; d < access.index.size(); ++d) {
        const std::string iterator = access.index[d].affine.terms()[0].first;
        last +=
            text(" + (uintptr_t)(",
                 d + 1 < access.index.size() ? text(buffer.name, "_", iterator) : text(size_of(buffer.dtype)),
                 " * (ptrdiff_t)(", iterator, " - 1))");
      }
      ranges += text(count++ == 0 ? "" : ",\n                         ", "{(uintptr_t)", buffer.name, "_at, ",
                     last, " + ", size_of(buffer.dtype), "u, 0, ", memory_of(instruction, b), ", ",
                     statement.write.buffer == static_cast<int>(b) ? 1 : 0, "}");
    }
    lines += text("used_range ranges[] = {", ranges, "};\n");
    lines +=
        text("start(", unit_of(instruction), ", ", formula(*instruction.cycles), ", ranges, ", count, ");\n");
    lines += text("execute_", instruction.name, "(", arguments, ");\nbreak;\n");
    return text("  case ", number_of(accelerator_, instruction), ": {\n", indented(lines, 2), "  }\n");
  }

  const Accelerator& accelerator_;
  const std::string name_;
  const std::vector<std::string> units_;
  Functions functions_;
};

// The value of a register of an encoded word.
std::string register_value(const std::vector<EncodedWord::Field>& fields) {
  std::string result;
  for (const EncodedWord::Field& field : fields) {
    const std::string value = "(uint64_t)(" + formula(*field.value) + ")";
    result += (result.empty() ? "" : " | ") + (field.bit == 0 ? value : text(value, " << ", field.bit));
  }
  return result.empty() ? "UINT64_C(0)" : result;
}

// What the core executes for a command, as statements of C.
std::string encoded(const AcceleratorInstruction& instruction) {
  std::string result;
  for (const EncodedWord& word : instruction.encoding) {
    std::string values;
    for (const auto& fields : word.registers)
      values += text(values.empty() ? "" : ",\n                     ", "\"r\"(", register_value(fields), ")");
    result += text("  __asm__ volatile(\"", word.assembly, "\"\n                   : : ", values,
                   " : \"memory\");\n");
  }
  std::string unused;
  for (const std::string& each : command_names(instruction)) unused += "  (void)" + each + ";\n";
  return unused + result;
}

// The functions of a driver: of those that hand over commands, or of those that execute instructions.
std::string command_functions(const Accelerator& accelerator, bool are_encoded) {
  const std::string& name = accelerator.name;
  std::string result;
  for (const AcceleratorInstruction& each : accelerator.instructions) {
    std::string arguments;
    for (const CommandParameter& parameter : command_parameters(each))
      arguments += text(arguments.empty() ? "" : ", ",
                        parameter.type.back() == '*' ? "(int64_t)(uintptr_t)" : "", parameter.name);
    const std::string body =
        are_encoded ? encoded(each)
                    : text("  const ", name, "_command command = {", number_of(accelerator, each), ", {",
                           arguments, "}};\n  ", name, "_issue(&command);\n");
    result += text("\n/* ", in_comment(str(each.statement(), each.meaning)), " */\nstatic inline void ",
                   command_function(accelerator, each), "(", joined_parameters(each), ")\n{\n", body, "}\n");
  }
  return result;
}

// Both kinds of functions, where the core has instructions for commands.
std::string all_command_functions(const Accelerator& accelerator) {
  if (accelerator.wait.empty()) return command_functions(accelerator, false);
  const std::string& name = accelerator.name;
  return text("\n/* On cores of 64 bits the instructions themselves, unless ", upper(name),
              "_COMMANDS is defined; elsewhere commands for a driver. */\n",
              "#if defined(__riscv_xlen) && __riscv_xlen == 64 && !defined(", upper(name), "_COMMANDS)\n",
              "\n/* Returns when all instructions are executed. */\nstatic inline void ", name,
              "_wait(void)\n{\n  __asm__ volatile(\"", accelerator.wait, "\" : : : \"memory\");\n}\n",
              command_functions(accelerator, true), "\n#else\n\nvoid ", name, "_wait(void);\n",
              command_functions(accelerator, false), "\n#endif\n");
}

}  // namespace

std::string driver_header(const Accelerator& accelerator) {
  const std::string& name = accelerator.name;
  const std::string guard = upper(name) + "_H";
  std::string result = text(
      "/* Commands for accelerator '", name,
      "', which the functions of kernels write.\n * Addresses in its memories count bytes from the memory's begin, steps count bytes. */\n",
      "#ifndef ", guard, "\n#define ", guard,
      "\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  result += "enum {\n";
  for (size_t i = 0; i < accelerator.instructions.size(); ++i)
    result += text("  ", number_of(accelerator, accelerator.instructions[i]), " = ", i, ",\n");
  const std::vector<std::string> units = units_of(accelerator);
  result += text("  ", name, "_INSTRUCTIONS = ", accelerator.instructions.size(), ",\n  ", name,
                 "_UNITS = ", units.size(), "\n};\n\n");
  result += text(
      "typedef struct {\n  int32_t instruction;\n  int64_t arguments[", most_arguments(accelerator), "];\n} ",
      name, "_command;\n\n",
      "/* To be defined by the driver. The first hands over a command, which is executed after those before it, as far as\n"
      " * its operands depend on theirs; the second returns when all commands are executed. */\n",
      "void ", name, "_issue(const ", name, "_command *command);\n",
      accelerator.wait.empty() ? text("void ", name, "_wait(void);\n\n") : "\n",
      "/* Of the simulator: cycles until the last wait, those of each unit, and the commands of each instruction. Units: ");
  for (size_t i = 0; i < units.size(); ++i) result += text(i == 0 ? "" : ", ", units[i]);
  result += text(". */\ntypedef struct {\n  int64_t cycles, busy[", name, "_UNITS], commands[", name,
                 "_INSTRUCTIONS];\n} ", name, "_statistics;\n", name, "_statistics ", name,
                 "_read_statistics(void);\nvoid ", name, "_reset(void);\n");
  result += all_command_functions(accelerator);
  return result + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
}

std::string simulator_source(const Accelerator& accelerator) { return Simulator(accelerator).source(); }

}  // namespace tc::c
