#include "scheduler/default/accelerator_tiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/access.h"
#include "scheduler/core/statements.h"

namespace tc {
namespace {

constexpr size_t kMaxSizes = 7;       // sizes to try for an iterator
constexpr int64_t kWholeWindow = 16;  // windows up to this size are never divided
constexpr size_t kMaxCandidates = 4000;
// Sums of several tiles, for which the core waits at a time, take at most so many bytes: about what its
// caches hold. More of them have to bring a gain of a few percent.
constexpr int64_t kMaxWaitingBytes = 256 << 10;
constexpr double kGainOfWaiting = 0.97;

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

// Rows of so many numbers, one behind the other.
Block in_one_piece(int64_t elements, int64_t row, DType dtype) {
  if (elements % row != 0) return {{elements}, {elements}, dtype};
  return {{elements / row, row}, {elements / row, row}, dtype};
}

// In how many ways one can be chosen from each list.
size_t count_of(const std::vector<std::vector<int64_t>>& sizes) {
  size_t count = 1;
  for (const auto& each : sizes) count *= each.size();
  return count;
}

// Commands that are given together, once or once in each trip of loops that count tiles.
struct Task {
  size_t unit = 0;
  double commands = 0, cycles = 0;     // each time
  uint64_t moved_by = 0;               // the free iterators whose tiles make a difference, a bit each
  bool always = false;                 // not once in a tile: a number of times that no tile changes
  bool before = false, after = false;  // the first, or the last, is overlapped by no other work
};

class TileChooser {
 public:
  TileChooser(const AcceleratorProblem& problem, TileSearch search)
      : problem_(problem),
        all_(search == TileSearch::All),
        kernel_(problem.reduction.builder.kernel()),
        accelerator_(*problem.reduction.builder.target().accelerator),
        sum_(problem.reduction.statement()),
        epilogue_(problem.reduction.builder.statement(problem.reduction.epilogue[0])),
        operands_(*operands_of_command(kernel_, sum_, *problem.sum, nullptr, true)) {
    for (const auto& [number, iterator, trips] : problem.executed) length_[iterator] = trips;
    for (const Iterator& each : sum_.iterators) {
      extents_[each.name] = extent_or(sum_, each.name, 1);
      const std::string own = is_output(each.name) ? counterpart(kernel_, sum_, epilogue_, each.name) : "";
      if (!own.empty()) in_epilogue_[each.name] = own;
    }
  }

  AcceleratorTiles run() {
    std::vector<std::vector<int64_t>> sizes;
    for (const std::string& iterator : problem_.free) sizes.push_back(every_size(iterator));
    if (!all_ && count_of(sizes) > kMaxCandidates) {
      for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = sizes_of(problem_.free[i]);
      while (count_of(sizes) > kMaxCandidates) {
        auto most = std::max_element(sizes.begin(), sizes.end(),
                                     [](const auto& a, const auto& b) { return a.size() < b.size(); });
        most->erase(most->begin() + 1);
      }
    }
    try_all(sizes, 0);
    if (best_.cycles == INFINITY)
      throw NotApplicable{"no tile fits the memories of accelerator " + accelerator_.name};
    if (!all_) improve();
    return best_;
  }

 private:
  int64_t extent(const std::string& iterator) const { return extents_.at(iterator); }
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

  // Those with which there are other numbers of tiles; with TileSearch::All every size.
  std::vector<int64_t> every_size(const std::string& iterator) const {
    std::vector<int64_t> result;
    for (int64_t size = extent(iterator); size > 0; --size) {
      const int64_t tiles = (extent(iterator) + size - 1) / size;
      if (all_ || (extent(iterator) + tiles - 1) / tiles == size) result.push_back(size);
    }
    return result;
  }

  // Changes the size of one iterator at a time as long as that takes fewer cycles.
  void improve() {
    for (double before = INFINITY; best_.cycles < before;) {
      before = best_.cycles;
      for (const std::string& iterator : problem_.free) {
        for (const auto& [name, size] : AcceleratorTiles(best_).sizes) length_[name] = size;
        for (const int64_t size : every_size(iterator)) {
          length_[iterator] = size;
          try_tiles();
        }
      }
    }
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
    try_tiles();
  }

  // Tiles of the sizes at hand, in every order.
  void try_tiles() {
    for (const int64_t copies : {2, 1}) {
      if (!find_tasks(copies)) continue;
      std::vector<size_t> outputs, summed;
      for (size_t i = 0; i < problem_.free.size(); ++i) {
        const std::string& iterator = problem_.free[i];
        if (length_.at(iterator) < extent(iterator)) (is_output(iterator) ? outputs : summed).push_back(i);
      }
      do {
        do {
          std::vector<size_t> counters = outputs;
          counters.insert(counters.end(), summed.begin(), summed.end());
          consider(counters, copies);
        } while (all_ && std::next_permutation(summed.begin(), summed.end()));
      } while (std::next_permutation(outputs.begin(), outputs.end()));
    }
  }

  // The free iterators on which something depends, a bit each.
  template <class Depends>
  uint64_t moved_by(const Depends& depends) const {
    uint64_t result = 0;
    for (size_t i = 0; i < problem_.free.size(); ++i)
      result |= depends(problem_.free[i]) ? uint64_t{1} << i : 0;
    return result;
  }

  size_t unit_of(const AcceleratorInstruction& instruction) {
    const auto found = std::find(units_.begin(), units_.end(), instruction.unit);
    if (found == units_.end()) units_.push_back(instruction.unit);
    return static_cast<size_t>(std::find(units_.begin(), units_.end(), instruction.unit) - units_.begin());
  }

  void add_task(const AcceleratorInstruction& instruction, double commands, double cycles, uint64_t moved) {
    tasks_.push_back({unit_of(instruction), commands, commands * cycles, moved, false, false, false});
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
      return in_one_piece(elements, row_of(access), buffer.dtype);
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

  // How many numbers of the operand a command has next to each other.
  int64_t row_of(const Access& access) const {
    for (size_t b = 0; b < operands_.accesses.size(); ++b) {
      if (operands_.accesses[b].buffer != access.buffer) continue;
      const Affine& last = access_in_meaning(*problem_.sum, b).index.back().affine;
      for (const ExecutedIterator& each : problem_.executed) {
        if (last.coefficient(problem_.sum->statement().iterators[each.number].name) != 0) return each.trips;
      }
    }
    return 1;
  }
  // The block in a memory that is addressed by rows.
  Block in_rows_of(const std::string& memory, Block block) const {
    block.size.back() = in_rows(*accelerator_.find_memory(memory), block.dtype, block.size.back());
    return block;
  }

  // Adds the commands that copy the block.
  Task& add_copy(const AcceleratorInstruction& instruction, const Block& block, uint64_t moved) {
    // The last iterator runs over what is in one piece.
    size_t d = block.size.size();
    int64_t run = 1;
    const bool by_rows = instruction.row_of(0) > 1 || instruction.row_of(instruction.rows.size() - 1) > 1;
    while (d > 0) {
      run *= block.size[--d];
      if (by_rows || block.size[d] < block.whole[d]) break;
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
    add_task(instruction, commands, cycles_of_command(instruction, trips), moved);
    return tasks_.back();
  }

  int64_t bytes_in_memory(const std::string& memory, DType dtype, int64_t elements) const {
    const int64_t alignment = accelerator_.find_memory(memory)->alignment;
    const int64_t bytes = elements * static_cast<int64_t>(size_of(dtype));
    return (bytes + alignment - 1) / alignment * alignment;
  }

  // What is done for a tile, and whether its operands fit the memories.
  bool find_tasks(int64_t copies) {
    tasks_.clear();
    bytes_.clear();
    for (size_t b = 0; b < operands_.accesses.size(); ++b) {
      const Access& access = operands_.accesses[b];
      if (access.buffer == sum_.write.buffer) continue;
      const Block block = block_of(access);
      load(block, problem_.sum->memories[b], copies,
           moved_by([&](const std::string& each) { return depends_on(access, each); }));
    }
    add_sums(copies);
    return std::all_of(bytes_.begin(), bytes_.end(), [&](const auto& each) {
      return each.second <= accelerator_.find_memory(each.first)->bytes;
    });
  }

  void load(const Block& block, const std::string& memory, int64_t copies, uint64_t moved) {
    const AcceleratorInstruction* copy = copy_instruction(accelerator_, block.dtype, "", memory);
    if (copy == nullptr)
      throw NotApplicable{text("no instruction copies ", name_of(block.dtype), " to memory ", memory)};
    bytes_[memory] += copies * bytes_in_memory(memory, block.dtype, in_rows_of(memory, block).elements());
    add_copy(*copy, block, moved).before = true;
  }

  // The commands that sum up, and what is done with the sums.
  void add_sums(int64_t copies) {
    std::vector<int64_t> trips(problem_.sum->extents(), 1);
    for (const ExecutedIterator& each : problem_.executed) trips[each.number] = each.trips;
    double commands = 1;
    int64_t tile = 1;
    for (const std::string& iterator : problem_.free) commands *= static_cast<double>(extent(iterator));
    for (const Iterator& each : sum_.iterators) tile *= is_output(each.name) ? length_.at(each.name) : 1;
    const double cycles = cycles_of_command(*problem_.sum, trips);
    cycles_of_queue_ = static_cast<double>(accelerator_.queue) * cycles;
    add_task(*problem_.sum, commands, cycles, 0);
    tasks_.back().always = true;
    const DType type = kernel_.buffers[static_cast<size_t>(sum_.write.buffer)].dtype;
    const Block result = in_one_piece(tile, row_of(sum_.write), type);
    bytes_[problem_.sums_memory] +=
        copies *
        bytes_in_memory(problem_.sums_memory, type, in_rows_of(problem_.sums_memory, result).elements());
    const uint64_t moved = moved_by([&](const std::string& each) { return is_output(each); });
    add_copy(*problem_.init, result, moved);
    if (problem_.epilogue == nullptr) {
      store(result, problem_.sums_memory, moved);
      return;
    }
    add_epilogue_operands(copies);
    std::vector<int64_t> whole;
    double executed = 1;
    for (size_t i = 0; i < problem_.epilogue->extents(); ++i) {
      const double root = 1.0 / static_cast<double>(problem_.epilogue->extents() - i);
      const int64_t wanted = std::llround(std::pow(static_cast<double>(tile) / executed, root));
      whole.push_back(std::clamp<int64_t>(wanted, 1, problem_.epilogue->meaning.parameters[i].maximum));
      executed *= static_cast<double>(whole.back());
    }
    add_task(*problem_.epilogue, static_cast<double>(tile) / executed,
             cycles_of_command(*problem_.epilogue, whole), moved);
    tasks_.back().after = true;
    const int written = problem_.epilogue->statement().write.buffer;
    const std::string& memory = problem_.epilogue->memories[static_cast<size_t>(written)];
    if (memory.empty()) return;
    const Block stored{{tile}, {tile}, kernel_.buffers[static_cast<size_t>(epilogue_.write.buffer)].dtype};
    bytes_[memory] += copies * bytes_in_memory(memory, stored.dtype, tile);
    store(stored, memory, moved);
  }

  void store(const Block& block, const std::string& memory, uint64_t moved) {
    const AcceleratorInstruction* copy = copy_instruction(accelerator_, block.dtype, memory, "");
    if (copy == nullptr) {
      throw NotApplicable{text("no instruction copies ", name_of(block.dtype), " from memory ", memory,
                               ", as the result of statement ", epilogue_.name, " needs it")};
    }
    add_copy(*copy, block, moved).after = true;
  }

  // What the statement after the sum reads besides the sums.
  void add_epilogue_operands(int64_t copies) {
    const auto operands = operands_of_command(kernel_, epilogue_, *problem_.epilogue, nullptr, true);
    for (size_t b = 0; b < operands->accesses.size(); ++b) {
      const Access& access = operands->accesses[b];
      const Buffer& buffer = kernel_.buffers[static_cast<size_t>(access.buffer)];
      const std::string& memory = problem_.epilogue->memories[b];
      if (memory.empty() || !is_argument(buffer) || buffer.scope == Scope::Output) continue;
      const auto moves = [&](const std::string& iterator) {
        const auto own = in_epilogue_.find(iterator);
        return own != in_epilogue_.end() && depends_on(access, own->second);
      };
      int64_t elements = 1;
      for (const Iterator& each : sum_.iterators) elements *= moves(each.name) ? length_.at(each.name) : 1;
      load({{elements}, {elements}, buffer.dtype}, memory, copies, moved_by(moves));
    }
  }

  double tiles_along(const std::string& iterator) const {
    return std::ceil(static_cast<double>(extent(iterator)) / static_cast<double>(length_.at(iterator)));
  }

  size_t outputs_of(const std::vector<size_t>& counters) const {
    return static_cast<size_t>(std::count_if(
        counters.begin(), counters.end(), [&](size_t counter) { return is_output(problem_.free[counter]); }));
  }

  // How often the core waits for sums in the outermost `depth` counters.
  double waits_in(const std::vector<size_t>& counters, size_t depth) const {
    double result = 1;
    for (size_t i = 0; i < depth; ++i) result *= tiles_along(problem_.free[counters[i]]);
    return result;
  }

  // The bytes of the sums for which the core waits there at a time.
  double waiting_bytes(const std::vector<size_t>& counters, size_t depth) const {
    auto elements =
        static_cast<double>(size_of(kernel_.buffers[static_cast<size_t>(sum_.write.buffer)].dtype));
    for (const Iterator& each : sum_.iterators)
      elements *= is_output(each.name) ? static_cast<double>(extent(each.name)) : 1;
    return elements / waits_in(counters, depth);
  }

  // For how long the sum's unit waits for commands of other units that are given together, and how often each
  // is given: only what is in the queue keeps it busy meanwhile.
  double cycles_beyond_queue(const std::vector<double>& times) const {
    double result = 0;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].always) continue;
      bool is_first = true;  // of those that are given as often
      std::vector<double> busy(units_.size(), 0);
      for (size_t j = 0; j < tasks_.size(); ++j) {
        if (tasks_[j].always || times[j] != times[i]) continue;
        is_first = is_first && j >= i;
        busy[tasks_[j].unit] += tasks_[j].cycles;
      }
      const double longest = *std::max_element(busy.begin(), busy.end());
      if (is_first) result += times[i] * std::max(0.0, longest - cycles_of_queue_);
    }
    return result;
  }

  // Keeps the tiles in this order, the outermost first, if they take the fewest cycles.
  void consider(const std::vector<size_t>& counters, int64_t copies) {
    std::vector<double> busy(units_.size(), 0), times(tasks_.size(), 1);
    double commands = 0, alone = 0;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const Task& task = tasks_[i];
      double all = 1;
      for (const size_t counter : counters) {
        all *= tiles_along(problem_.free[counter]);
        if (!task.always && (task.moved_by >> counter & 1) != 0) times[i] = all;
      }
      busy[task.unit] += times[i] * task.cycles;
      commands += times[i] * task.commands;
      if (task.before || task.after) alone += task.cycles;
    }
    const double exposed = cycles_beyond_queue(times);
    const double issue = commands * static_cast<double>(accelerator_.issue_cycles);
    const double sum = std::accumulate(busy.begin(), busy.end(), 0.0);
    // With two copies, units wait for each other only at the first and at the last tile: of all, or of those
    // that are summed up before the core waits for the sums. Of tiles that take equally long, those that keep
    // the units busy for the shortest time.
    constexpr double kIdleMatters = 1e-3;
    const double most = *std::max_element(busy.begin(), busy.end());
    const auto cycles_with = [&](double waits) {
      return std::max(issue, copies == 1 ? sum : std::min(most + exposed + waits * alone, sum)) +
             kIdleMatters * sum;
    };
    if (problem_.epilogue != nullptr) {
      keep(counters, copies, 0, cycles_with(1));
      return;
    }
    size_t depth = outputs_of(counters);
    double cycles = cycles_with(waits_in(counters, depth));
    for (size_t fewer = depth; fewer-- > 0 && waiting_bytes(counters, fewer) <= kMaxWaitingBytes;) {
      const double found = cycles_with(waits_in(counters, fewer));
      if (found > kGainOfWaiting * cycles) continue;
      depth = fewer;
      cycles = found;
    }
    keep(counters, copies, depth, cycles);
  }

  void keep(const std::vector<size_t>& counters, int64_t copies, size_t host_depth, double cycles) {
    if (cycles >= best_.cycles) return;
    best_.cycles = cycles;
    best_.host_depth = host_depth;
    best_.counters.clear();
    for (const size_t counter : counters) best_.counters.push_back(problem_.free[counter]);
    best_.copies = copies;
    best_.sizes.clear();
    for (const std::string& iterator : problem_.free) best_.sizes[iterator] = length_.at(iterator);
  }

  const AcceleratorProblem& problem_;
  const bool all_;  // TileSearch::All
  const Kernel& kernel_;
  const Accelerator& accelerator_;
  const Statement& sum_;
  const Statement& epilogue_;
  const CommandOperands operands_;
  std::map<std::string, int64_t> extents_, length_;  // of the sum's iterators: all trips, and those in a tile
  std::map<std::string, std::string> in_epilogue_;   // what they are called in the statement after the sum
  std::vector<std::string> units_;
  std::vector<Task> tasks_;  // of the tile at hand
  // For which the commands in the queue keep the sum's unit busy: copies that follow them in the program
  // begin no earlier, and what they take beyond that is not overlapped.
  double cycles_of_queue_ = 0;
  std::map<std::string, int64_t> bytes_;  // in each memory
  AcceleratorTiles best_{{}, {}, 2, 0, INFINITY};
};

}  // namespace

std::string AcceleratorTiles::in_words() const {
  std::string result = "tiles of";
  for (const auto& [iterator, size] : sizes) result += text(" ", iterator, "=", size);
  if (!counters.empty()) result += ", tile after tile along";
  for (const std::string& each : counters) result += " " + each;
  return result + (copies > 1 ? ", loaded while the one before is computed" : "");
}

AcceleratorTiles choose_accelerator_tiles(const AcceleratorProblem& problem, TileSearch search) {
  return TileChooser(problem, search).run();
}

}  // namespace tc
