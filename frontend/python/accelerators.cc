#include "frontend/python/accelerators.h"

#include <pybind11/stl.h>

#include <tuple>

#include "ir/accelerator.h"
#include "ir/error.h"
#include "ir/text_cursor.h"

namespace tc {
namespace {

using Memory = std::tuple<std::string, int64_t, int64_t>;  // name, bytes, alignment
// Name, unit, meaning as the text of a kernel, memory of each operand, formula of cycles, the names in it.
using Instruction = std::tuple<std::string, std::string, std::string, std::vector<std::string>, std::string,
                               std::vector<std::string>>;

AcceleratorInstruction instruction_of(const Instruction& given, const std::string& accelerator) {
  const auto& [name, unit, meaning, memories, cycles, names] = given;
  const std::string where = text("accelerator ", quote(accelerator), ", instruction ", quote(name));
  AcceleratorInstruction result{name, unit, {}, memories, parse_cycles(cycles, names, where + ", cycles")};
  try {
    result.meaning = parse_kernel(meaning);
  } catch (const Error& error) {
    fail(ErrorKind::Target, "accelerator '", accelerator, "', instruction '", name, "': ", error.what());
  }
  return result;
}

}  // namespace

void add_accelerators(pybind11::module_& module) {
  module.def("register_accelerator", [](const std::string& name, const std::vector<Memory>& memories,
                                        const std::vector<Instruction>& instructions, int block,
                                        int64_t issue_cycles, int64_t queue) {
    Accelerator made{name, {}, {}, block, issue_cycles, queue};
    for (const auto& [memory, bytes, alignment] : memories)
      made.memories.push_back({memory, bytes, alignment});
    for (const Instruction& each : instructions) made.instructions.push_back(instruction_of(each, name));
    register_accelerator(std::move(made));
  });
}

}  // namespace tc
