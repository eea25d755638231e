#include "codegen/c/commands.h"

#include <set>

#include "ir/error.h"

namespace tc::c {
namespace {

using Kind = LoopNode::Kind;

void collect_buffers(const Kernel& kernel, const LoopNode& node, std::set<int>& buffers) {
  for (const TileStatement& tile : node.statements) {
    const Statement& statement = kernel.statements[static_cast<size_t>(tile.statement)];
    buffers.insert(statement.write.buffer);
    for_each_load(statement.value, [&](const Expr& load) { buffers.insert(load.access.buffer); });
  }
  for (const LoopNodePtr& child : node.children) collect_buffers(kernel, *child, buffers);
}

// The innermost node below which the buffer is used.
const LoopNode& innermost(const Kernel& kernel, const LoopNode& node, int buffer) {
  const LoopNode* only = nullptr;
  int count = 0;
  for (const LoopNodePtr& child : node.children) {
    std::set<int> used;
    collect_buffers(kernel, *child, used);
    if (used.count(buffer) == 0) continue;
    only = child.get();
    ++count;
  }
  return count == 1 ? innermost(kernel, *only, buffer) : node;
}

// The element that the access reaches, in rows of the buffer's shape.
Affine element_of(const KernelContext& context, const Access& access, const TileStatement& tile) {
  const BufferNames& names = context.buffers[static_cast<size_t>(access.buffer)];
  Affine result;
  for (size_t d = 0; d < access.index.size(); ++d)
    result = result + access.index[d].affine.substitute(tile.iterators) * names.stride[d];
  return result;
}

std::string largest(KernelContext& context, const std::vector<Affine>& values, const char* function) {
  std::string result;
  for (const Affine& each : values) {
    const std::string value = context.value_of(each);
    if (!result.empty()) context.functions.use_integers();
    result = result.empty() ? value : text(function, "(", result, ", ", value, ")");
  }
  return result;
}

}  // namespace

TileCopies::TileCopies(KernelContext& context) : context_(context) {
  if (context.scheduled.accelerator == nullptr) return;
  const auto places = accelerator_layout(context.kernel, *context.scheduled.accelerator);
  TC_CHECK(places, "in kernel '", context.kernel.name, "'");
  places_ = *places;
  for (const auto& [buffer, place] : places_) {
    const Buffer& own = context.buffer(buffer);
    if (own.copies == 1) continue;
    const LoopNode& block = innermost(context.kernel, *context.scheduled.root, buffer);
    if (block.kind != Kind::Block) continue;
    changes_[&block].push_back(buffer);
    variables_[buffer] = context.names.fresh(own.name + "_copy");
  }
}

std::string TileCopies::lines_at(const LoopNode& block) const {
  std::string result;
  const auto found = changes_.find(&block);
  if (found == changes_.end()) return "";
  for (const int buffer : found->second) result += variables_.at(buffer) + " ^= 1u;\n";
  return result;
}

std::string TileCopies::declarations() const {
  std::string result;
  for (const auto& [buffer, name] : variables_) result += text("uint32_t ", name, " = 0u;\n");
  return result;
}

std::string TileCopies::address(int buffer, const Affine& elements) const {
  const Buffer& own = context_.buffer(buffer);
  const AcceleratorMemory& memory = *context_.scheduled.accelerator->find_memory(own.memory);
  std::string result = text("(uint32_t)(", places_.at(buffer));
  if (const auto copy = variables_.find(buffer); copy != variables_.end())
    result += text(" + ", bytes_in(memory, own), " * (ptrdiff_t)", copy->second);
  const std::string offset = context_.value_of(elements * size_of(own.dtype));
  return result + (offset == "0" ? ")" : text(" + ", offset, ")"));
}

std::string command_text(KernelContext& context, const TileCopies& copies, const LoopNode& leaf) {
  const Accelerator& accelerator = *context.scheduled.accelerator;
  const AcceleratorInstruction& instruction = *accelerator.find(leaf.command);
  const TileStatement& tile = leaf.statements.at(0);
  const Statement& statement = context.kernel.statements[static_cast<size_t>(tile.statement)];
  std::string why;
  const auto operands = operands_of_command(context.kernel, statement, instruction, &why);
  TC_CHECK(operands, "for command ", leaf.command, " of ", statement.name, ": ", why);
  const auto ranges = command_ranges(instruction, tile, &why);
  TC_CHECK(ranges, "for command ", leaf.command, " of ", statement.name, ": ", why);
  const size_t count = instruction.extents();

  std::string lines, conditions;
  const auto require = [&](const std::string& condition) {
    conditions += (conditions.empty() ? "" : " && ") + condition;
  };
  for (const Affine& each : ranges->conditions) {
    if (!proves_nonnegative(each, context.ranges, {})) require(context.condition(each));
  }
  // Where each loop begins, and how many trips it has.
  std::map<std::string, Affine> begins;
  std::vector<std::string> trips;
  for (size_t i = 0; i < tile.loops.size(); ++i) begins[tile.loops[i].name] = Affine(0);
  for (size_t i = 0; i < count; ++i) {
    const CommandRange& range = ranges->iterators[i];
    const std::string& iterator = instruction.statement().iterators[i].name;
    std::string begin = "0";
    if (range.begin.size() > 1) {
      const std::string name = context.names.fresh(iterator + "_begin");
      lines += text("const ptrdiff_t ", name, " = ", largest(context, range.begin, "tc_maximum"), ";\n");
      context.variables[name] = name;
      context.ranges[name] = {0, tile.loops[i].extent};
      begins[tile.loops[i].name] = Affine::variable(name);
      begin = name;
    }
    if (range.begin.size() == 1 && range.end.size() == 1) {
      trips.push_back(text(tile.loops[i].extent * range.inside));
      continue;
    }
    const std::string name = context.names.fresh(iterator + "_trips");
    std::string value = largest(context, range.end, "tc_minimum");
    if (begin != "0") value += " - " + begin;
    lines += text("const ptrdiff_t ", name, " = ", value, ";\n");
    require(name + " > 0");
    trips.push_back(range.inside == 1 ? name : text(range.inside, " * ", name));
  }
  std::string arguments;
  const auto add = [&](const std::string& argument) {
    arguments += (arguments.empty() ? "" : ", ") + argument;
  };
  for (size_t b = 0; b < operands->accesses.size(); ++b) {
    const Access& access = operands->accesses[b];
    const Buffer& buffer = context.buffer(access.buffer);
    const Affine elements = element_of(context, access, tile);
    const Affine first = elements.substitute(begins);
    if (instruction.memories[b].empty()) {
      const std::string offset = context.value_of(first);
      const std::string& name = context.buffers[static_cast<size_t>(access.buffer)].name;
      add(offset == "0" ? name : text(name, " + ", offset));
    } else {
      add(copies.address(access.buffer, first));
    }
    const Access& meaning = access_in_meaning(instruction, b);
    for (size_t d = 0; d + 1 < meaning.index.size(); ++d) {
      for (size_t i = 0; i < count; ++i) {
        if (meaning.index[d].affine.coefficient(instruction.statement().iterators[i].name) == 0) continue;
        add(text(elements.coefficient(tile.loops[i].name) * size_of(buffer.dtype)));
      }
    }
  }
  for (const std::string& each : trips) add(text("(int32_t)(", each, ")"));
  for (const int64_t number : operands->numbers) add(text(number));
  const std::string call = text(command_function(accelerator, instruction), "(", arguments, ");\n");
  const std::string body =
      conditions.empty() ? call : text("if (", conditions, ") {\n", indented(call, 1), "}\n");
  return lines.empty() ? body : text("{\n", indented(lines + body, 1), "}\n");
}

std::string command_function(const Accelerator& accelerator, const AcceleratorInstruction& instruction) {
  return accelerator.name + "_" + instruction.name;
}

std::vector<CommandParameter> command_parameters(const AcceleratorInstruction& instruction) {
  std::vector<CommandParameter> result;
  const Statement& statement = instruction.statement();
  for (size_t b = 0; b < instruction.meaning.buffers.size(); ++b) {
    const Buffer& buffer = instruction.meaning.buffers[b];
    const bool is_written = statement.write.buffer == static_cast<int>(b);
    result.push_back(
        {instruction.memories[b].empty() ? (is_written ? "void *" : "const void *") : "uint32_t ",
         buffer.name});
    const Access& access = access_in_meaning(instruction, b);
    for (size_t d = 0; d + 1 < access.index.size(); ++d)
      result.push_back({"int32_t ", buffer.name + "_" + access.index[d].affine.terms()[0].first});
  }
  for (const Iterator& iterator : statement.iterators) result.push_back({"int32_t ", iterator.name});
  for (size_t i = instruction.extents(); i < instruction.meaning.parameters.size(); ++i)
    result.push_back({"int32_t ", instruction.meaning.parameters[i].name});
  return result;
}

}  // namespace tc::c
