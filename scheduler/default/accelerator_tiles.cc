#include "scheduler/default/accelerator_tiles.h"

#include <algorithm>
#include <cmath>

#include "ir/access.h"
#include "scheduler/core/statements.h"

namespace tc {
namespace {

constexpr size_t kMaxSizes = 7;       // sizes to try for an iterator
constexpr int64_t kWholeWindow = 16;  // windows up to this size are never divided
constexpr size_t kMaxCandidates = 200000;

// The cycles of a command with these trips.
double cycles_of(const AcceleratorInstruction& instruction, const std::vector<int64_t>& trips) {
  std::map<std::string, int64_t> values;
  for (size_t i = 0; i < instruction.meaning.parameters.size(); ++i) {
    if (i < instruction.extents()) values[instruction.statement().iterators[i].name] = trips[i];
    else values[instruction.meaning.parameters[i].name] = 0;
  }
  return static_cast<double>(std::max<int64_t>(1, evaluate(*instruction.cycles, values)));
}

// A part of an array that is copied: in each dimension its size, and the array's.
struct Block {
  std::vector<int64_t> size, whole;
  DType dtype = DType::F32;

  int64_t elements() const {
    int64_t result = 1;
    for (const int64_t each : size) result *= each;
    return result;
  }
};

struct Cost {
  double commands = 0;
  std::map<std::string, double> busy;  // cycles of each unit

  void add(const AcceleratorInstruction& instruction, double count, double cycles) {
    commands += count;
    busy[instruction.unit] += count * cycles;
  }
  double longest() const {
    double most = 0;
    for (const auto& [unit, cycles] : busy) most = std::max(most, cycles);
    return most;
  }
  double sum() const {
    double all = 0;
    for (const auto& [unit, cycles] : busy) all += cycles;
    return all;
  }
};

class TileChooser {
 public:
  explicit TileChooser(const AcceleratorProblem& problem)
      : problem_(problem),
        kernel_(problem.reduction.builder.kernel()),
        accelerator_(*problem.reduction.builder.target().accelerator),
        sum_(problem.reduction.statement()),
        epilogue_(problem.reduction.builder.statement(problem.reduction.epilogue[0])),
        operands_(*operands_of_command(kernel_, sum_, *problem.sum, nullptr, true)) {
    for (const auto& [number, iterator, trips] : problem.executed) length_[iterator] = trips;
  }

  AcceleratorTiles run() {
    std::vector<std::vector<int64_t>> sizes;
    size_t count = 1;
    for (const std::string& iterator : problem_.free) {
      sizes.push_back(sizes_of(iterator));
      count *= sizes.back().size();
    }
    while (count > kMaxCandidates) {
      auto most = std::max_element(sizes.begin(), sizes.end(),
                                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
      count = count / most->size() * (most->size() - 1);
      most->erase(most->begin() + 1);
    }
    try_all(sizes, 0);
    if (best_.cycles == INFINITY)
      throw NotApplicable{"no tile fits the memories of accelerator " + accelerator_.name};
    return best_;
  }

 private:
  int64_t extent(const std::string& iterator) const { return extent_or(sum_, iterator, 1); }
  bool is_output(const std::string& iterator) const { return depends_on(sum_.write, iterator); }

  // All of it, and parts by halves and divisors.
  std::vector<int64_t> sizes_of(const std::string& iterator) const {
    const int64_t all = extent(iterator);
    std::vector<int64_t> result = {all};
    const bool is_window = !is_output(iterator) && all <= kWholeWindow && moves_input_with_another(iterator);
    if (is_window) return result;
    for (int64_t parts = 2; parts <= all && result.size() < kMaxSizes;
         parts = parts < 8 ? parts + 1 : parts * 2) {
      const int64_t size = (all + parts - 1) / parts;
      if (size != result.back()) result.push_back(size);
    }
    if (result.back() != 1) result.push_back(1);
    return result;
  }

  // Whether some operand has the iterator in a subscript together with another one, as a window that slides.
  bool moves_input_with_another(const std::string& iterator) const {
    for (const Access& access : operands_.accesses) {
      for (const Subscript& subscript : access.index) {
        if (subscript.affine.coefficient(iterator) != 0 && subscript.affine.terms().size() > 1) return true;
      }
    }
    return false;
  }

  void try_all(const std::vector<std::vector<int64_t>>& sizes, size_t number) {
    if (number < sizes.size()) {
      for (const int64_t size : sizes[number]) {
        length_[problem_.free[number]] = size;
        try_all(sizes, number + 1);
      }
      return;
    }
    std::vector<std::string> outputs, summed;
    for (const std::string& iterator : problem_.free) {
      if (length_.at(iterator) >= extent(iterator)) continue;
      (is_output(iterator) ? outputs : summed).push_back(iterator);
    }
    std::sort(outputs.begin(), outputs.end());
    do {
      std::vector<std::string> counters = outputs;
      counters.insert(counters.end(), summed.begin(), summed.end());
      for (const int64_t copies : {2, 1}) consider(counters, copies);
    } while (std::next_permutation(outputs.begin(), outputs.end()));
  }

  Block block_of(const Access& access) const {
    const Buffer& buffer = kernel_.buffers[static_cast<size_t>(access.buffer)];
    Block block{{}, {}, buffer.dtype};
    if (buffer.scope == Scope::Constant) {
      // It is packed: one piece for each tile.
      int64_t elements = 1;
      for (const Iterator& each : sum_.iterators) {
        if (depends_on(access, each.name)) elements *= length_.at(each.name);
      }
      return {{elements}, {elements}, buffer.dtype};
    }
    for (size_t d = 0; d < access.index.size(); ++d) {
      int64_t size = 1;
      for (const auto& [name, factor] : access.index[d].affine.terms())
        size += std::abs(factor) * (length_.at(name) - 1);
      block.size.push_back(size);
      block.whole.push_back(buffer.shape[d].is_constant() ? buffer.shape[d].constant() : size);
    }
    return block;
  }

  // Adds the commands that copy the block `times` times.
  static void add_copy(Cost& cost, const AcceleratorInstruction& instruction, const Block& block,
                       double times) {
    // The last iterator runs over what is in one piece.
    size_t d = block.size.size();
    int64_t run = 1;
    while (d > 0) {
      run *= block.size[--d];
      if (block.size[d] < block.whole[d]) break;
    }
    std::vector<int64_t> trips(instruction.extents(), 1);
    trips.back() = std::min(run, instruction.meaning.parameters[instruction.extents() - 1].maximum);
    double commands = std::ceil(static_cast<double>(run) / static_cast<double>(trips.back()));
    for (size_t i = instruction.extents() - 1; i-- > 0 && d > 0;) {
      --d;
      trips[i] = std::min(block.size[d], instruction.meaning.parameters[i].maximum);
      commands *= std::ceil(static_cast<double>(block.size[d]) / static_cast<double>(trips[i]));
    }
    while (d > 0) commands *= static_cast<double>(block.size[--d]);
    cost.add(instruction, times * commands, cycles_of(instruction, trips));
  }

  int64_t bytes_in_memory(const std::string& memory, DType dtype, int64_t elements) const {
    const int64_t alignment = accelerator_.find_memory(memory)->alignment;
    const int64_t bytes = elements * static_cast<int64_t>(size_of(dtype));
    return (bytes + alignment - 1) / alignment * alignment;
  }

  // How many times something is done that depends on what `depends` says, under the counters.
  template <class Depends>
  double times_of(const std::vector<std::string>& counters, const Depends& depends) const {
    double times = 1, result = 1;
    for (const std::string& counter : counters) {
      times *= std::ceil(static_cast<double>(extent(counter)) / static_cast<double>(length_.at(counter)));
      if (depends(counter)) result = times;
    }
    return result;
  }

  void consider(const std::vector<std::string>& counters, int64_t copies) {
    Cost cost;
    std::map<std::string, int64_t> bytes;
    Cost first, last;  // before the first tile is there, and after the last one is summed up
    for (size_t b = 0; b < operands_.accesses.size(); ++b) {
      const Access& access = operands_.accesses[b];
      if (access.buffer == sum_.write.buffer) continue;
      const Block block = block_of(access);
      const std::string& memory = problem_.sum->memories[b];
      const AcceleratorInstruction* copy = copy_instruction(accelerator_, block.dtype, "", memory);
      if (copy == nullptr)
        throw NotApplicable{text("no instruction copies ", name_of(block.dtype), " to memory ", memory)};
      bytes[memory] += copies * bytes_in_memory(memory, block.dtype, block.elements());
      add_copy(cost, *copy, block,
               times_of(counters, [&](const std::string& each) { return depends_on(access, each); }));
      add_copy(first, *copy, block, 1);
    }
    add_sums(counters, copies, cost, last, bytes);
    for (const auto& [memory, used] : bytes) {
      if (used > accelerator_.find_memory(memory)->bytes) return;
    }
    const double issue = cost.commands * static_cast<double>(accelerator_.issue_cycles);
    // With two copies, units wait for each other only at the first and at the last tile.
    const double overlapped = cost.longest() + first.sum() + last.sum();
    const double longest = std::max(issue, copies == 1 ? cost.sum() : std::min(overlapped, cost.sum()));
    // Of tiles that take equally long, those that keep the units busy for the shortest time.
    constexpr double kIdleMatters = 1e-3;
    const double cycles = longest + kIdleMatters * cost.sum();
    if (cycles >= best_.cycles) return;
    best_.cycles = cycles;
    best_.counters = counters;
    best_.copies = best_.sums_copies = copies;
    best_.sizes.clear();
    for (const std::string& iterator : problem_.free) best_.sizes[iterator] = length_.at(iterator);
  }

  // The commands that sum up, and what is done with the sums.
  void add_sums(const std::vector<std::string>& counters, int64_t copies, Cost& cost, Cost& last,
                std::map<std::string, int64_t>& bytes) const {
    std::vector<int64_t> trips(problem_.sum->extents(), 1);
    for (const ExecutedIterator& each : problem_.executed) trips[each.number] = each.trips;
    double commands = 1, elements = 1, tile = 1;
    for (const std::string& iterator : problem_.free) commands *= static_cast<double>(extent(iterator));
    for (const Iterator& each : sum_.iterators) {
      if (!is_output(each.name)) continue;
      elements *= static_cast<double>(extent(each.name));
      tile *= static_cast<double>(length_.at(each.name));
    }
    cost.add(*problem_.sum, commands, cycles_of(*problem_.sum, trips));
    const DType type = kernel_.buffers[static_cast<size_t>(sum_.write.buffer)].dtype;
    bytes[problem_.sums_memory] +=
        copies * bytes_in_memory(problem_.sums_memory, type, static_cast<int64_t>(tile));
    const double tiles = times_of(counters, [&](const std::string& each) { return is_output(each); });
    const Block result{{static_cast<int64_t>(tile)}, {static_cast<int64_t>(tile)}, type};
    add_copy(cost, *problem_.init, result, tiles);
    if (problem_.epilogue == nullptr) {
      const AcceleratorInstruction* copy = copy_instruction(accelerator_, type, problem_.sums_memory, "");
      if (copy == nullptr)
        throw NotApplicable{text("no instruction computes statement ", epilogue_.name,
                                 ", and none copies the sums to the host")};
      add_copy(cost, *copy, result, tiles);
      add_copy(last, *copy, result, 1);
      return;
    }
    add_epilogue_operands(counters, copies, cost, bytes);
    std::vector<int64_t> whole;
    double executed = 1;
    for (size_t i = 0; i < problem_.epilogue->extents(); ++i) {
      const double left = tile / executed;
      whole.push_back(std::clamp<int64_t>(
          std::llround(std::pow(left, 1.0 / static_cast<double>(problem_.epilogue->extents() - i))), 1,
          problem_.epilogue->meaning.parameters[i].maximum));
      executed *= static_cast<double>(whole.back());
    }
    cost.add(*problem_.epilogue, tiles * tile / executed, cycles_of(*problem_.epilogue, whole));
    last.add(*problem_.epilogue, tile / executed, cycles_of(*problem_.epilogue, whole));
    const DType written = kernel_.buffers[static_cast<size_t>(epilogue_.write.buffer)].dtype;
    const std::string& memory =
        problem_.epilogue->memories[static_cast<size_t>(problem_.epilogue->statement().write.buffer)];
    if (memory.empty()) return;
    bytes[memory] += copies * bytes_in_memory(memory, written, static_cast<int64_t>(tile));
    const AcceleratorInstruction* copy = copy_instruction(accelerator_, written, memory, "");
    if (copy == nullptr)
      throw NotApplicable{text("no instruction copies ", name_of(written), " from ", memory, " to the host")};
    const Block stored{result.size, result.whole, written};
    add_copy(cost, *copy, stored, tiles);
    add_copy(last, *copy, stored, 1);
  }

  // What the statement after the sum reads besides the sums.
  void add_epilogue_operands(const std::vector<std::string>& counters, int64_t copies, Cost& cost,
                             std::map<std::string, int64_t>& bytes) const {
    const auto operands = operands_of_command(kernel_, epilogue_, *problem_.epilogue, nullptr, true);
    std::map<std::string, int64_t> lengths;
    for (const Iterator& each : sum_.iterators) {
      const std::string own = is_output(each.name) ? counterpart(kernel_, sum_, epilogue_, each.name) : "";
      if (!own.empty()) lengths[own] = length_.at(each.name);
    }
    for (size_t b = 0; b < operands->accesses.size(); ++b) {
      const Access& access = operands->accesses[b];
      const Buffer& buffer = kernel_.buffers[static_cast<size_t>(access.buffer)];
      const std::string& memory = problem_.epilogue->memories[b];
      if (memory.empty() || !is_argument(buffer) || buffer.scope == Scope::Output) continue;
      const AcceleratorInstruction* copy = copy_instruction(accelerator_, buffer.dtype, "", memory);
      if (copy == nullptr)
        throw NotApplicable{text("no instruction copies ", name_of(buffer.dtype), " to memory ", memory)};
      int64_t elements = 1;
      for (const auto& [iterator, length] : lengths) elements *= depends_on(access, iterator) ? length : 1;
      bytes[memory] += copies * bytes_in_memory(memory, buffer.dtype, elements);
      const auto moves = [&](const std::string& counter) {
        const std::string own = counterpart(kernel_, sum_, epilogue_, counter);
        return !own.empty() && depends_on(access, own);
      };
      add_copy(cost, *copy, {{elements}, {elements}, buffer.dtype}, times_of(counters, moves));
    }
  }

  const AcceleratorProblem& problem_;
  const Kernel& kernel_;
  const Accelerator& accelerator_;
  const Statement& sum_;
  const Statement& epilogue_;
  const CommandOperands operands_;
  std::map<std::string, int64_t> length_;  // trips within a tile
  AcceleratorTiles best_{{}, {}, 2, 2, INFINITY};
};

}  // namespace

std::string AcceleratorTiles::in_words() const {
  std::string result = "tiles of";
  for (const auto& [iterator, size] : sizes) result += text(" ", iterator, "=", size);
  if (!counters.empty()) result += ", tile after tile along";
  for (const std::string& each : counters) result += " " + each;
  return result + (copies > 1 ? ", loaded while the one before is computed" : "");
}

AcceleratorTiles choose_accelerator_tiles(const AcceleratorProblem& problem) {
  return TileChooser(problem).run();
}

}  // namespace tc
