#include "scheduler/default/accelerator_elements.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/access.h"
#include "scheduler/core/rewriting.h"
#include "scheduler/core/statements.h"
#include "scheduler/default/accelerator_commands.h"

namespace tc {
namespace {

constexpr int64_t kCopies = 2;  // of each buffer in the memories: a tile is loaded while another is computed

// An operand of the statement: its access in the kernel, and the memory in which the instruction has it.
struct Operand {
  Access access;
  std::string memory;
  bool is_result = false;
};

std::vector<Operand> operands_of(const Kernel& kernel, const Statement& statement,
                                 const AcceleratorInstruction& instruction) {
  const auto found = operands_of_command(kernel, statement, instruction, nullptr, true);
  if (!found) return {};
  std::vector<Operand> result;
  for (size_t b = 0; b < found->accesses.size(); ++b) {
    result.push_back({found->accesses[b], instruction.memories[b],
                      static_cast<int>(b) == instruction.statement().write.buffer});
  }
  const bool all_held =
      std::none_of(result.begin(), result.end(), [](const Operand& each) { return each.memory.empty(); });
  return all_held ? result : std::vector<Operand>();
}

// How many trips the commands of a statement have, and how many commands there are.
struct Commands {
  std::vector<int64_t> trips;  // for each of the instruction's iterators
  double count = 1;

  double elements() const {
    double result = 1;
    for (const int64_t each : trips) result *= static_cast<double>(each);
    return result;
  }
};

// Where the iterator `counted` has `size` trips.
Commands commands_of(const Kernel& kernel, const Statement& statement,
                     const AcceleratorInstruction& instruction, const std::string& counted, int64_t size) {
  const auto operands = operands_of_command(kernel, statement, instruction, nullptr, true);
  const CommandLoops loops = command_loops(kernel, statement, instruction, *operands, {});
  const auto extent = [&](const std::string& iterator) {
    return iterator == counted ? size : extent_or(statement, iterator, 1);
  };
  Commands result;
  for (const auto& executed : loops.instruction) {
    int64_t trips = 1;
    for (const std::string& iterator : executed) {
      const auto part = loops.divided.find(iterator);
      const int64_t own =
          part != loops.divided.end() ? std::min(part->second, extent(iterator)) : extent(iterator);
      result.count *= std::ceil(static_cast<double>(extent(iterator)) / static_cast<double>(own));
      trips *= own;
    }
    result.trips.push_back(trips);
  }
  for (const std::string& iterator : loops.host) result.count *= static_cast<double>(extent(iterator));
  return result;
}

// The instruction with the most elements a command; null where none computes the statement.
const AcceleratorInstruction* instruction_of(const Accelerator& accelerator, const Kernel& kernel,
                                             const Statement& statement) {
  const AcceleratorInstruction* best = nullptr;
  double elements = 0;
  for (const AcceleratorInstruction& each : accelerator.instructions) {
    if (each.statement().reduction != Reduction::None || each.is_copy()) continue;
    if (operands_of(kernel, statement, each).empty()) continue;
    const double own = commands_of(kernel, statement, each, "", 1).elements();
    if (own > elements) best = &each;
    elements = std::max(elements, own);
  }
  return best;
}

class ElementsChooser {
 public:
  explicit ElementsChooser(const TraceBuilder& start)
      : start_(start), kernel_(start.kernel()), accelerator_(*start.target().accelerator) {}

  ElementsChoice run() {
    const Statement& statement = kernel_.statements[0];
    const AcceleratorInstruction* instruction = instruction_of(accelerator_, kernel_, statement);
    if (instruction == nullptr) throw NotApplicable{"no instruction computes it"};
    operands_ = operands_of(kernel_, statement, *instruction);
    ElementsChoice best{start_, instruction, "", 0, INFINITY, 0};
    int64_t all = 1;
    for (const Iterator& each : statement.iterators) all *= extent_or(statement, each.name, 1);
    // A tile of the outermost iterator is in one piece.
    for (const std::string& counted : by_step(statement)) {
      const int64_t trips = extent_or(statement, counted, 1);
      for (int64_t tiles = 1; tiles <= trips; ++tiles) {
        const int64_t size = (trips + tiles - 1) / tiles;
        if ((trips + size - 1) / size != tiles || !fits(all / trips * size)) continue;
        const Commands commands = commands_of(kernel_, statement, *instruction, counted, size);
        const double cycles = cycles_of(*instruction, commands, all / trips * size, tiles);
        if (cycles >= best.cycles) continue;
        best.cycles = cycles;
        best.size = size;
        best.counted = counted;
      }
      if (best.size > 0) break;
    }
    if (best.size == 0) throw NotApplicable{"no tile fits the memories of accelerator " + accelerator_.name};
    best.on_core = elementwise_cycles(statement, start_.target());
    return best;
  }

 private:
  const Buffer& buffer(const Access& access) const {
    return kernel_.buffers[static_cast<size_t>(access.buffer)];
  }

  // The iterators, those with the largest steps in the result first.
  std::vector<std::string> by_step(const Statement& statement) const {
    std::vector<std::pair<int64_t, std::string>> steps;
    for (const Iterator& each : statement.iterators) {
      if (extent_or(statement, each.name, 1) > 1)
        steps.emplace_back(-element_stride(kernel_, statement.write, each.name).value_or(0), each.name);
    }
    if (steps.empty()) throw NotApplicable{"one element"};
    std::stable_sort(steps.begin(), steps.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> result;
    for (const auto& [step, name] : steps) result.push_back(name);
    return result;
  }

  bool fits(int64_t elements) const {
    std::map<std::string, int64_t> bytes;
    for (const Operand& each : operands_) {
      const int64_t alignment = accelerator_.find_memory(each.memory)->alignment;
      const int64_t own = elements * static_cast<int64_t>(size_of(buffer(each.access).dtype));
      bytes[each.memory] += kCopies * ((own + alignment - 1) / alignment * alignment);
    }
    return std::all_of(bytes.begin(), bytes.end(), [&](const auto& each) {
      return each.second <= accelerator_.find_memory(each.first)->bytes;
    });
  }

  // Of all tiles. The first tile's copies in and the last one's out are overlapped by no other work.
  double cycles_of(const AcceleratorInstruction& instruction, const Commands& computing, int64_t elements,
                   int64_t tiles) const {
    std::map<std::string, double> busy;
    double commands = 0, alone = 0;
    const auto add = [&](const AcceleratorInstruction& each, const Commands& given) {
      const double cycles = given.count * cycles_of_command(each, given.trips);
      busy[each.unit] += static_cast<double>(tiles) * cycles;
      commands += static_cast<double>(tiles) * given.count;
      return cycles;
    };
    for (const Operand& each : operands_) {
      const std::string from = each.is_result ? each.memory : "", to = each.is_result ? "" : each.memory;
      const AcceleratorInstruction* copy =
          copy_instruction(accelerator_, buffer(each.access).dtype, from, to);
      if (copy == nullptr)
        throw NotApplicable{text("no instruction copies ", name_of(buffer(each.access).dtype),
                                 " between memory ", each.memory, " and the core's")};
      const int64_t limit = copy->meaning.parameters[copy->extents() - 1].maximum;
      // A tile is in one piece.
      Commands copying;
      copying.trips.assign(copy->extents(), 1);
      copying.trips.back() = std::min(elements, limit);
      copying.count = std::ceil(static_cast<double>(elements) / static_cast<double>(copying.trips.back()));
      alone += add(*copy, copying);
    }
    add(instruction, computing);
    double longest = alone;
    for (const auto& [unit, cycles] : busy) longest = std::max(longest, cycles);
    double sum = 0;
    for (const auto& [unit, cycles] : busy) sum += cycles;
    const double issue = commands * static_cast<double>(accelerator_.issue_cycles);
    return std::max(issue, tiles == 1 ? sum : std::min(sum, longest + alone));
  }

  const TraceBuilder& start_;
  const Kernel& kernel_;
  const Accelerator& accelerator_;
  std::vector<Operand> operands_;
};

}  // namespace

std::string ElementsChoice::in_words() const {
  return text(instruction->name, "; tiles of ", counted, "=", size);
}

ElementsChoice choose_elements(const TraceBuilder& start) {
  const Kernel& kernel = start.kernel();
  if (start.target().accelerator == nullptr) throw NotApplicable{"the target has no accelerator"};
  if (!kernel.parameters.empty()) throw NotApplicable{"sizes that only a run knows"};
  if (kernel.statements.size() != 1) throw NotApplicable{"several statements"};
  const Statement& statement = kernel.statements[0];
  if (statement.reduction != Reduction::None || continues_itself(statement) || !statement.constraints.empty())
    throw NotApplicable{"its statement is not elementwise"};
  return ElementsChooser(start).run();
}

TraceBuilder schedule_elements(const ElementsChoice& choice) {
  TraceBuilder builder = choice.builder;
  const std::string name = builder.kernel().statements[0].name;
  std::vector<std::string> counters;
  if (choice.size < extent_or(builder.statement(name), choice.counted, 1)) {
    std::string counter = choice.counted;
    if (choice.size > 1) {
      counter = fresh_iterator(builder.kernel(), builder.statement(name), choice.counted + "_t");
      builder.apply("strip ", name, "_", choice.counted, " ", choice.size, " as ", counter, " ",
                    choice.counted);
    }
    counters.push_back(counter);
  }
  for (const Operand& each : operands_of(builder.kernel(), builder.statement(name), *choice.instruction)) {
    const std::string operand = builder.kernel().buffers[static_cast<size_t>(each.access.buffer)].name;
    if (each.is_result) {
      builder.apply("stage ", operand);
      builder.apply("place ", builder.kernel().buffers.back().name, " ", each.memory, " ", kCopies);
    } else {
      builder.apply("load_tile ", operand, " ", each.memory, " ", kCopies, " :", joined(counters));
    }
  }
  CommandWriter writer(builder);
  std::vector<std::string> names;
  for (const Statement& each : builder.kernel().statements) names.push_back(each.name);
  for (const std::string& each : names) {
    const AcceleratorInstruction* instruction =
        each == name ? choice.instruction
                     : instruction_for(*builder.target().accelerator, builder.kernel(),
                                       builder.statement(each), std::nullopt, false);
    if (instruction == nullptr) throw NotApplicable{text("no instruction computes statement ", each)};
    writer.choose_loops(each, *instruction, counters);
  }
  if (!counters.empty()) {
    writer.order(name, counters);
    const auto own = std::find(names.begin(), names.end(), name);
    const auto place = [&](const std::string& each) {
      builder.apply("compute_at ", each, " at ", name, "_", counters[0]);
    };
    for (auto after = own + 1; after != names.end(); ++after) place(*after);
    for (auto before = own; before != names.begin();) place(*--before);
  }
  for (const std::string& each : names) writer.write(each);
  check_commands(builder);
  return builder;
}

}  // namespace tc
