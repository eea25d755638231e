#include "frontend/python/accelerators.h"

#include <pybind11/stl.h>

#include <map>
#include <tuple>

#include "ir/accelerator.h"
#include "ir/command.h"
#include "ir/error.h"
#include "ir/text_cursor.h"

namespace tc {
namespace {

using Memory = std::tuple<std::string, int64_t, int64_t, int64_t>;  // name, bytes, alignment, row
// The text, and for each register what it has: from which bit on, a formula.
using Word = std::tuple<std::string, std::vector<std::vector<std::pair<int, std::string>>>>;
// Name, unit, meaning as the text of a kernel, memory of each operand, formula of cycles, the names in it,
// fixed steps by name, encoding.
using Instruction = std::tuple<std::string, std::string, std::string, std::vector<std::string>, std::string,
                               std::vector<std::string>, std::map<std::string, int64_t>, std::vector<Word>>;

// The step that the name, as OPERAND_ITERATOR, means.
AcceleratorInstruction::FixedStep step_of(const AcceleratorInstruction& instruction, const std::string& name,
                                          int64_t bytes, const std::string& accelerator) {
  for (size_t b = 0; b < instruction.meaning.buffers.size(); ++b) {
    const Access& access = access_in_meaning(instruction, b);
    for (size_t d = 0; d + 1 < access.index.size(); ++d) {
      const std::string iterator = access.index[d].affine.terms().at(0).first;
      if (name == instruction.meaning.buffers[b].name + "_" + iterator) return {b, iterator, bytes};
    }
  }
  fail(ErrorKind::Target, "accelerator '", accelerator, "', instruction '", instruction.name,
       "': no command has the step '", name, "'; steps are called OPERAND_ITERATOR");
}

AcceleratorInstruction instruction_of(const Instruction& given, const Accelerator& owner) {
  const std::string& accelerator = owner.name;
  const auto& [name, unit, meaning, memories, cycles, names, steps, encoding] = given;
  const std::string where = text("accelerator ", quote(accelerator), ", instruction ", quote(name));
  AcceleratorInstruction result{name, unit, {}, memories, parse_cycles(cycles, names, where + ", cycles")};
  try {
    result.meaning = parse_kernel(meaning);
  } catch (const Error& error) {
    fail(ErrorKind::Target, "accelerator '", accelerator, "', instruction '", name, "': ", error.what());
  }
  if (steps.empty() && encoding.empty()) return result;
  check_meaning(owner, result);
  for (const auto& [step, bytes] : steps)
    result.fixed_steps.push_back(step_of(result, step, bytes, accelerator));
  const std::vector<std::string> known = command_names(result);
  for (const auto& [assembly, registers] : encoding) {
    EncodedWord word{assembly, {}};
    for (const auto& fields : registers) {
      word.registers.emplace_back();
      for (const auto& [bit, value] : fields)
        word.registers.back().push_back({bit, parse_cycles(value, known, where + ", encoding")});
    }
    result.encoding.push_back(std::move(word));
  }
  return result;
}

}  // namespace

void add_accelerators(pybind11::module_& module) {
  module.def("register_accelerator", [](const std::string& name, const std::vector<Memory>& memories,
                                        const std::vector<Instruction>& instructions, int block,
                                        int64_t issue_cycles, int64_t queue, const std::string& wait) {
    Accelerator made{name, {}, {}, block, issue_cycles, queue, wait};
    for (const auto& [memory, bytes, alignment, row] : memories)
      made.memories.push_back({memory, bytes, alignment, row});
    for (const Instruction& each : instructions) made.instructions.push_back(instruction_of(each, made));
    register_accelerator(std::move(made));
  });
}

}  // namespace tc
