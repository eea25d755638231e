#include "scheduler/default/accelerator_problem.h"

#include <algorithm>
#include <set>

#include "ir/access.h"
#include "scheduler/core/rewriting.h"
#include "scheduler/core/statements.h"

namespace tc {
namespace {

int64_t step_of(const Kernel& kernel, const Access& access, const std::string& iterator) {
  return element_stride(kernel, access, iterator).value_or(0);
}

bool is_constrained(const Statement& statement, const std::string& iterator) {
  return std::any_of(statement.constraints.begin(), statement.constraints.end(),
                     [&](const Affine& each) { return each.coefficient(iterator) != 0; });
}

// How many trips a command should have of an iterator with more than `most`: all parts are equal where that
// takes few more commands, since partial tiles count as whole ones in the memories.
int64_t part_of(int64_t trips, int64_t most) {
  for (int64_t part = most; 2 * part >= most; --part) {
    if (trips % part == 0) return part;
  }
  return most;
}

// Assigns the iterators of one statement.
class Assigner {
 public:
  Assigner(const Kernel& kernel, const Statement& statement, const AcceleratorInstruction& instruction,
           const CommandOperands& operands, const std::vector<std::string>& counters)
      : kernel_(kernel), statement_(statement), instruction_(instruction), operands_(operands) {
    for (const Iterator& each : statement.iterators) {
      if (std::find(counters.begin(), counters.end(), each.name) == counters.end())
        left_.push_back(each.name);
    }
  }

  CommandLoops run() {
    CommandLoops result;
    result.instruction.resize(instruction_.extents());
    for (size_t i = instruction_.extents(); i-- > 0;) {
      const int64_t most = instruction_.meaning.parameters[i].maximum;
      std::optional<std::string> best;
      for (const std::string& name : left_) {
        if (fits(i, name, 1) && (!best || trips(name) > trips(*best))) best = name;
      }
      if (!best) continue;
      take(*best, result.instruction[i]);
      if (trips(*best) > most) result.divided[*best] = fills_rows(i) ? most : part_of(trips(*best), most);
      else if (i + 1 == instruction_.extents()) continue_last(result.instruction[i]);
    }
    result.host = left_;
    return result;
  }

 private:
  int64_t trips(const std::string& iterator) const { return extent_or(statement_, iterator, 0); }

  // Whether elements along the instruction's iterator fill rows of a memory, where each part begins at a row.
  bool fills_rows(size_t number) const {
    const std::string& iterator = instruction_.statement().iterators[number].name;
    for (size_t b = 0; b < operands_.accesses.size(); ++b) {
      const Access& meaning = access_in_meaning(instruction_, b);
      if (instruction_.row_of(b) > 1 && meaning.index.back().affine.coefficient(iterator) != 0) return true;
    }
    return false;
  }

  void take(const std::string& name, std::vector<std::string>& loops) {
    loops.insert(loops.begin(), name);
    taken_.push_back(name);
    left_.erase(std::find(left_.begin(), left_.end(), name));
  }

  // Whether a condition on the iterator is no range of a command's trips: it counts parts, or the condition
  // is also on an iterator that the instruction executes already.
  bool has_other_condition(const std::string& name) const {
    return std::any_of(statement_.constraints.begin(), statement_.constraints.end(), [&](const Affine& each) {
      return std::abs(each.coefficient(name)) > 1 ||
             (each.coefficient(name) != 0 &&
              std::any_of(taken_.begin(), taken_.end(),
                          [&](const std::string& other) { return each.coefficient(other) != 0; }));
    });
  }

  // Whether the instruction's iterator may be the statement's, which goes on where `inside` trips end.
  bool fits(size_t number, const std::string& name, int64_t inside) const {
    const std::string& iterator = instruction_.statement().iterators[number].name;
    if (inside > 1 && trips(name) * inside > instruction_.meaning.parameters[number].maximum) return false;
    if (has_other_condition(name)) return false;
    bool moves = false;
    for (size_t b = 0; b < operands_.accesses.size(); ++b) {
      const Access& meaning = access_in_meaning(instruction_, b);
      const bool is_mentioned = mentions(meaning, iterator);
      const int64_t step = step_of(kernel_, operands_.accesses[b], name);
      moves = moves || step != 0;
      if (is_mentioned != (step != 0)) return false;
      const bool is_adjacent = meaning.index.back().affine.coefficient(iterator) != 0;
      if (is_adjacent ? step != inside : is_mentioned && inside > 1) return false;
      if (is_mentioned && !is_adjacent && !may_step(instruction_, b, iterator, step)) return false;
    }
    return moves;
  }

  // Adds the iterators that go on where the last one ends: all of it has to be executed then.
  void continue_last(std::vector<std::string>& loops) {
    int64_t inside = trips(loops[0]);
    while (!is_constrained(statement_, loops[0])) {
      const auto next = std::find_if(left_.begin(), left_.end(), [&](const std::string& name) {
        return trips(name) > 1 && fits(instruction_.extents() - 1, name, inside);
      });
      if (next == left_.end()) return;
      inside *= trips(*next);
      take(*next, loops);
    }
  }

  const Kernel& kernel_;
  const Statement& statement_;
  const AcceleratorInstruction& instruction_;
  const CommandOperands& operands_;
  std::vector<std::string> left_, taken_;
};

const std::string& memory_of_result(const AcceleratorInstruction& instruction) {
  return instruction.memories[static_cast<size_t>(instruction.statement().write.buffer)];
}

// How the sum would be computed by one instruction.
struct SumBy {
  const AcceleratorInstruction* instruction = nullptr;
  std::vector<ExecutedIterator> executed;
  int64_t products = 0;  // of a command
};

// The iterators of the sum that the instruction would execute: of those that move the same operands, and
// adjacent elements where it wants that, the longest. Constants are adjacent as they will be packed, and with
// `laid_out` sums as they will be laid out.
std::optional<SumBy> sum_by(const Kernel& kernel, const Statement& sum,
                            const AcceleratorInstruction& instruction, bool laid_out, std::string* why) {
  const auto operands = operands_of_command(kernel, sum, instruction, why, true);
  if (!operands) return std::nullopt;
  SumBy result{&instruction, {}, 1};
  std::set<std::string> taken;
  for (size_t i = instruction.extents(); i-- > 0;) {
    const std::string& iterator = instruction.statement().iterators[i].name;
    const std::string* best = nullptr;
    for (const Iterator& each : sum.iterators) {
      if (taken.count(each.name) > 0) continue;
      bool fits = true;
      for (size_t b = 0; b < operands->accesses.size() && fits; ++b) {
        const Access& meaning = access_in_meaning(instruction, b);
        const Access& access = operands->accesses[b];
        const bool is_mentioned = mentions(meaning, iterator);
        const int64_t step = step_of(kernel, access, each.name);
        const bool is_packed = kernel.buffers[static_cast<size_t>(access.buffer)].scope == Scope::Constant ||
                               (laid_out && access.buffer == sum.write.buffer);
        const bool is_adjacent = meaning.index.back().affine.coefficient(iterator) != 0;
        fits = is_mentioned == (step != 0) && (!is_adjacent || is_packed || step == 1);
        // In a memory of rows, each of them has one place along the last dimension, and steps are whole rows.
        const bool is_last = !access.index.empty() && access.index.back().affine.coefficient(each.name) != 0;
        if (is_mentioned && !is_packed && is_adjacent != is_last && instruction.row_of(b) > 1) fits = false;
      }
      if (fits && (best == nullptr || extent_or(sum, each.name, 0) > extent_or(sum, *best, 0)))
        best = &each.name;
    }
    if (best == nullptr) continue;
    taken.insert(*best);
    const int64_t trips = std::min(extent_or(sum, *best, 0), instruction.meaning.parameters[i].maximum);
    result.executed.push_back({i, *best, trips});
    result.products *= trips;
  }
  return result;
}

}  // namespace

CommandLoops command_loops(const Kernel& kernel, const Statement& statement,
                           const AcceleratorInstruction& instruction, const CommandOperands& operands,
                           const std::vector<std::string>& counters) {
  return Assigner(kernel, statement, instruction, operands, counters).run();
}

const AcceleratorInstruction* instruction_for(const Accelerator& accelerator, const Kernel& kernel,
                                              const Statement& statement,
                                              const std::optional<std::string>& memory, bool anywhere) {
  for (const AcceleratorInstruction& each : accelerator.instructions) {
    if (memory && memory_of_result(each) != *memory) continue;
    if (operands_of_command(kernel, statement, each, nullptr, anywhere)) return &each;
  }
  return nullptr;
}

const AcceleratorInstruction* copy_instruction(const Accelerator& accelerator, DType dtype,
                                               const std::string& from, const std::string& to) {
  for (const AcceleratorInstruction& each : accelerator.instructions) {
    if (!each.is_copy() || each.meaning.buffers[0].dtype != dtype) continue;
    const auto source = static_cast<size_t>(each.statement().value->access.buffer);
    if (each.memories[source] == from && memory_of_result(each) == to) return &each;
  }
  return nullptr;
}

std::string counterpart(const Kernel& kernel, const Statement& sum, const Statement& other,
                        const std::string& iterator) {
  std::vector<Access> accesses = loads_of(other);
  accesses.push_back(other.write);
  for (const Access& access : accesses) {
    if (access.buffer != sum.write.buffer) continue;
    for (size_t d = 0; d < access.index.size(); ++d) {
      const int64_t factor = sum.write.index[d].affine.coefficient(iterator);
      if (factor == 0) continue;
      for (const auto& [name, own] : access.index[d].affine.terms()) {
        const bool same = own == factor && extent_or(other, name, -1) == extent_or(sum, iterator, 0);
        if (same && step_of(kernel, access, name) == step_of(kernel, sum.write, iterator)) return name;
      }
    }
  }
  return "";
}

std::string divide(AcceleratorProblem& problem, const std::string& iterator, int64_t size) {
  TraceBuilder& builder = problem.reduction.builder;
  const Statement sum = problem.reduction.statement();
  const bool is_output = depends_on(sum.write, iterator);
  const auto strip = [&](const std::string& statement, const std::string& name) {
    const std::string outer = fresh_iterator(builder.kernel(), builder.statement(statement), name + "_t");
    builder.apply("strip ", statement, "_", name, " ", size, " as ", outer, " ", name);
    return outer;
  };
  if (is_output) {
    for (const std::string& other : {problem.reduction.init, problem.reduction.epilogue[0]}) {
      const std::string name = counterpart(builder.kernel(), sum, builder.statement(other), iterator);
      if (name.empty())
        throw NotApplicable{text("statement ", other, " does not count ", iterator, " as the sum does")};
      strip(other, name);
    }
  }
  return strip(problem.reduction.sum, iterator);
}

namespace {

// Lays out the sums so that what the instruction writes side by side is adjacent, in blocks as those of the
// layouts around the kernel.
void lay_out_sums(AcceleratorProblem& problem, const SumBy& by) {
  ReductionKernel& reduction = problem.reduction;
  const Statement& sum = reduction.statement();
  const Access& meaning = by.instruction->statement().write;
  for (const ExecutedIterator& each : by.executed) {
    const std::string& own = by.instruction->statement().iterators[each.number].name;
    if (meaning.index.back().affine.coefficient(own) == 0) continue;
    const std::string name = reduction.builder.kernel().buffers[static_cast<size_t>(sum.write.buffer)].name;
    const std::vector<BlockedDim>& blocked = reduction.builder.state().blocked;
    const bool has_blocks = std::any_of(blocked.begin(), blocked.end(),
                                        [&](const BlockedDim& dim) { return dim.buffer == name; });
    const bool adjacent = step_of(reduction.builder.kernel(), sum.write, each.iterator) == 1;
    for (size_t d = 0; d < sum.write.index.size(); ++d) {
      if (sum.write.index[d].affine.coefficient(each.iterator) == 0) continue;
      const int64_t around = block_of(reduction, d);
      // Of a map of one pixel all channels are adjacent, but the statement after the sum counts blocks.
      if (adjacent && (has_blocks || around <= 1)) return;
      reduction.builder.apply("layout ", name, " ", d, " ",
                              around > 1 ? around : by.instruction->meaning.parameters[each.number].maximum);
      return;
    }
  }
}

// The instruction that sums up most products at a time, and how.
SumBy best_sum(const AcceleratorProblem& problem, bool laid_out) {
  const Kernel& kernel = problem.reduction.builder.kernel();
  SumBy best;
  std::string why = "no instruction sums up", each_why;
  for (const AcceleratorInstruction& each : problem.reduction.builder.target().accelerator->instructions) {
    if (each.statement().reduction == Reduction::None) continue;
    const auto by = sum_by(kernel, problem.reduction.statement(), each, laid_out, &each_why);
    if (!by) why = each.name + " does not compute it: " + each_why;
    if (by && by->products > best.products) best = *by;
  }
  if (best.instruction == nullptr) throw NotApplicable{why};
  return best;
}

// Whether loops of the host around the commands would have them begin within a row of a memory.
bool begins_within_rows(const Statement& statement, const AcceleratorInstruction& instruction,
                        const CommandOperands& operands, const std::vector<std::string>& host) {
  for (size_t b = 0; b < operands.accesses.size(); ++b) {
    const std::vector<Subscript>& index = operands.accesses[b].index;
    if (instruction.row_of(b) == 1 || index.empty()) continue;
    if (std::any_of(host.begin(), host.end(), [&](const std::string& each) {
          return extent_or(statement, each, 1) > 1 && index.back().affine.coefficient(each) != 0;
        }))
      return true;
  }
  return false;
}

// The instruction that computes the statement after the sum, from the sums where they are; null where there
// is none, or where its commands would have few elements each, because results are not laid out as the sums.
const AcceleratorInstruction* epilogue_by(const AcceleratorProblem& problem) {
  constexpr int64_t kFewElements = 16;
  const Kernel& kernel = problem.reduction.builder.kernel();
  const Statement& sum = problem.reduction.statement();
  const Statement& epilogue = problem.reduction.builder.statement(problem.reduction.epilogue[0]);
  for (const AcceleratorInstruction& each : problem.reduction.builder.target().accelerator->instructions) {
    const auto operands = operands_of_command(kernel, epilogue, each, nullptr, true);
    if (!operands) continue;
    bool reads_sums = false;
    for (size_t b = 0; b < operands->accesses.size(); ++b)
      reads_sums = reads_sums || (operands->accesses[b].buffer == sum.write.buffer &&
                                  each.memories[b] == problem.sums_memory);
    const CommandLoops loops = command_loops(kernel, epilogue, each, *operands, {});
    int64_t elements = 1, all = 1;
    for (const auto& executed : loops.instruction) {
      for (const std::string& iterator : executed) {
        const auto part = loops.divided.find(iterator);
        elements *= part != loops.divided.end() ? part->second : extent_or(epilogue, iterator, 1);
      }
    }
    for (const Iterator& iterator : epilogue.iterators) all *= extent_or(epilogue, iterator.name, 1);
    if (begins_within_rows(epilogue, each, *operands, loops.host)) continue;
    if (reads_sums && elements >= std::min(all, kFewElements)) return &each;
  }
  return nullptr;
}

}  // namespace

AcceleratorProblem accelerator_problem(const TraceBuilder& start, int64_t parts) {
  if (start.target().accelerator == nullptr) throw NotApplicable{"the target has no accelerator"};
  const Accelerator& accelerator = *start.target().accelerator;
  if (!start.kernel().parameters.empty()) throw NotApplicable{"sizes that only a run knows"};
  AcceleratorProblem problem{prepare_reduction(start), nullptr, nullptr, nullptr, "", {}, {}, false};
  const ReductionKernel& reduction = problem.reduction;
  if (reduction.epilogue.size() != 1) throw NotApplicable{"several statements after the sum"};
  for (const Iterator& each : reduction.statement().iterators) {
    if (!each.extent.is_constant()) throw NotApplicable{"sizes that only a run knows"};
  }
  lay_out_sums(problem, best_sum(problem, true));
  const SumBy by = best_sum(problem, false);
  problem.sum = by.instruction;
  problem.executed = by.executed;
  for (ExecutedIterator& each : problem.executed) {
    const int64_t step = step_of(reduction.builder.kernel(), reduction.statement().write, each.iterator);
    if (step <= 1) continue;
    const bool had_several = each.trips > 1;
    each.trips = (each.trips + parts - 1) / parts;
    problem.has_single_trips = problem.has_single_trips || (had_several && each.trips == 1);
  }
  problem.sums_memory = memory_of_result(*problem.sum);
  for (const Iterator& each : reduction.statement().iterators) {
    if (std::none_of(problem.executed.begin(), problem.executed.end(),
                     [&](const ExecutedIterator& own) { return own.iterator == each.name; }))
      problem.free.push_back(each.name);
  }
  problem.epilogue = epilogue_by(problem);
  problem.init = instruction_for(accelerator, reduction.builder.kernel(),
                                 reduction.builder.statement(reduction.init), problem.sums_memory, true);
  if (problem.init == nullptr) throw NotApplicable{"no instruction initialises the sums"};
  for (const auto& [number, iterator, trips] : problem.executed) {
    if (extent_or(problem.reduction.statement(), iterator, 0) > trips)
      problem.free.push_back(divide(problem, iterator, trips));
  }
  return problem;
}

double cycles_of_command(const AcceleratorInstruction& instruction, const std::vector<int64_t>& trips) {
  std::map<std::string, int64_t> values;
  for (size_t i = 0; i < instruction.meaning.parameters.size(); ++i) {
    if (i < instruction.extents()) values[instruction.statement().iterators[i].name] = trips[i];
    else values[instruction.meaning.parameters[i].name] = 0;
  }
  return static_cast<double>(std::max<int64_t>(1, evaluate(*instruction.cycles, values)));
}

double elementwise_cycles(const Statement& statement, const Target& target) {
  double elements = 1;
  for (const Iterator& each : statement.iterators)
    elements *= static_cast<double>(extent_or(statement, each.name, 1));
  return elements / std::max(1, target.lanes(DType::I32)) * weight_of(statement.value);
}

}  // namespace tc
