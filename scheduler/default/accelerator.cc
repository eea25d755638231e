#include "scheduler/default/accelerator.h"

#include <algorithm>

#include "ir/access.h"
#include "ir/error.h"
#include "scheduler/core/rewriting.h"
#include "scheduler/core/statements.h"
#include "scheduler/default/accelerator_commands.h"

namespace tc {
namespace {

// Writes the lines of one kernel. All statements get loops that count tiles, the sum's; a statement is placed
// in the innermost one on which it depends.
class AcceleratorWriter {
 public:
  explicit AcceleratorWriter(const AcceleratorChoice& choice)
      : problem_(choice.problem),
        tiles_(choice.tiles),
        b_(problem_.reduction.builder),
        sum_(problem_.reduction.sum),
        init_(problem_.reduction.init),
        epilogue_(problem_.reduction.epilogue[0]),
        commands_(b_) {}

  TraceBuilder run() {
    name_counters();
    load_operands();
    hold_sums();
    for (const Statement& each : std::vector<Statement>(b_.kernel().statements)) choose_loops(each.name);
    order_sum();
    place_statements();
    for (const Statement& each : std::vector<Statement>(b_.kernel().statements)) commands_.write(each.name);
    return b_;
  }

 private:
  const Accelerator& accelerator() const { return *b_.target().accelerator; }
  const Kernel& kernel() const { return b_.kernel(); }
  const Buffer& buffer(int index) const { return kernel().buffers[static_cast<size_t>(index)]; }

  // An iterator that counts tiles: its names in the sum and in the statement after it; empty there for those
  // that are summed over.
  struct Counter {
    std::string sum, epilogue, init;
  };

  // Divides the iterators of which there are several tiles.
  void name_counters() {
    for (const std::string& iterator : tiles_.counters) {
      const int64_t size = tiles_.sizes.at(iterator);
      std::string name = iterator;
      if (size > 1) name = divide(problem_, iterator, size);
      const Statement& sum = b_.statement(sum_);
      Counter counter{name, "", ""};
      if (depends_on(sum.write, name)) {
        counter.epilogue = counterpart(kernel(), sum, b_.statement(epilogue_), name);
        counter.init = counterpart(kernel(), sum, b_.statement(init_), name);
        if (counter.epilogue.empty() || counter.init.empty())
          throw NotApplicable{text("statements around the sum do not count ", name, " as the sum does")};
      }
      counters_.push_back(counter);
    }
  }

  // How many counters, from the outermost on, hold a statement that depends on these iterators.
  template <class Depends>
  size_t depth_of(const Depends& depends) const {
    size_t depth = 0;
    for (size_t i = 0; i < counters_.size(); ++i) {
      if (depends(counters_[i])) depth = i + 1;
    }
    return depth;
  }

  size_t output_depth() const {
    return depth_of([](const Counter& each) { return !each.epilogue.empty(); });
  }

  // The copies of a tile are in the outermost `depth` counters, which its reader calls as `name` says.
  void load_tile(const std::string& argument, const std::string& memory, size_t depth,
                 std::string Counter::* name) {
    std::string names;
    for (size_t c = 0; c < depth; ++c) names += " " + counters_[c].*name;
    const size_t before = kernel().statements.size();
    b_.apply("load_tile ", argument, " ", memory, " ", tiles_.copies, " :", names);
    for (size_t i = 0; i < kernel().statements.size() - before; ++i)
      depths_[kernel().statements[i].name] = depth;
  }

  // The operands of the sum, and those of the statement after it, where the accelerator executes it.
  void load_operands() {
    depths_[sum_] = counters_.size();
    depths_[init_] = output_depth();
    depths_[epilogue_] = problem_.epilogue != nullptr ? output_depth() : tiles_.host_depth;
    const auto operands = operands_of_command(kernel(), b_.statement(sum_), *problem_.sum, nullptr, true);
    for (size_t i = 0; i < operands->accesses.size(); ++i) {
      const Access access = operands->accesses[i];
      if (access.buffer == b_.statement(sum_).write.buffer) continue;
      const std::string name = buffer(access.buffer).name;
      const size_t depth = depth_of([&](const Counter& each) { return depends_on(access, each.sum); });
      if (buffer(access.buffer).scope == Scope::Constant) pack(name, access, i, depth);
      load_tile(name, problem_.sum->memories[i], depth, &Counter::sum);
    }
    if (problem_.epilogue != nullptr) load_epilogue_operands();
  }

  // The constant in the order in which its tiles are copied, with what the instruction wants adjacent last.
  void pack(const std::string& name, const Access& access, size_t operand, size_t depth) {
    std::vector<std::string> order;
    const Statement& sum = b_.statement(sum_);
    for (size_t c = 0; c < depth; ++c) {
      if (depends_on(access, counters_[c].sum)) order.push_back(counters_[c].sum);
    }
    const auto is_executed = [&](const std::string& iterator) {
      return std::any_of(problem_.executed.begin(), problem_.executed.end(),
                         [&](const ExecutedIterator& each) { return each.iterator == iterator; });
    };
    for (const Iterator& each : sum.iterators) {
      const bool is_listed = std::find(order.begin(), order.end(), each.name) != order.end();
      if (!is_listed && !is_executed(each.name) && depends_on(access, each.name)) order.push_back(each.name);
    }
    const Access& meaning = access_in_meaning(*problem_.sum, operand);
    for (const Subscript& subscript : meaning.index) {
      for (const ExecutedIterator& each : problem_.executed) {
        const std::string& own = problem_.sum->statement().iterators[each.number].name;
        if (subscript.affine.coefficient(own) != 0) order.push_back(each.iterator);
      }
    }
    std::string listed;
    for (const std::string& each : order) listed += " " + each;
    b_.apply("pack ", name, " :", listed);
  }

  void load_epilogue_operands() {
    const auto operands =
        operands_of_command(kernel(), b_.statement(epilogue_), *problem_.epilogue, nullptr, true);
    for (size_t i = 0; i < operands->accesses.size(); ++i) {
      const Access access = operands->accesses[i];
      const std::string& memory = problem_.epilogue->memories[i];
      if (memory.empty() || !is_argument(buffer(access.buffer)) ||
          buffer(access.buffer).scope == Scope::Output)
        continue;
      const size_t depth = depth_of(
          [&](const Counter& each) { return !each.epilogue.empty() && depends_on(access, each.epilogue); });
      load_tile(buffer(access.buffer).name, memory, depth, &Counter::epilogue);
    }
  }

  // Puts the sums, and what is made of them, where the accelerator has them.
  void hold_sums() {
    const std::string sums = buffer(b_.statement(sum_).write.buffer).name;
    if (problem_.epilogue == nullptr) {
      // The host reads a copy of the sums.
      stage(sums, problem_.sums_memory);
      return;
    }
    b_.apply("place ", sums, " ", problem_.sums_memory, " ", tiles_.copies);
    const int written = problem_.epilogue->statement().write.buffer;
    const std::string& memory = problem_.epilogue->memories[static_cast<size_t>(written)];
    if (!memory.empty()) stage(buffer(b_.statement(epilogue_).write.buffer).name, memory);
  }

  void stage(const std::string& name, const std::string& memory) {
    std::vector<std::string> known;
    for (const Statement& each : kernel().statements) known.push_back(each.name);
    b_.apply("stage ", name);
    b_.apply("place ", kernel().buffers.back().name, " ", memory, " ", tiles_.copies);
    for (const Statement& each : kernel().statements) {
      if (std::find(known.begin(), known.end(), each.name) == known.end())
        depths_[each.name] = output_depth();
    }
  }

  // The iterators of a statement that count tiles: of those around it, what its own are called.
  std::vector<std::string> counters_of(const std::string& name) const {
    std::vector<std::string> result;
    const Statement& statement = b_.statement(name);
    for (size_t c = 0; c < depths_.at(name); ++c) {
      for (const std::string& each : {counters_[c].sum, counters_[c].epilogue, counters_[c].init}) {
        const bool own = std::any_of(statement.iterators.begin(), statement.iterators.end(),
                                     [&](const Iterator& iterator) { return iterator.name == each; });
        if (own && std::find(result.begin(), result.end(), each) == result.end()) result.push_back(each);
      }
    }
    return result;
  }

  // The instruction of a statement; null for what the host executes.
  const AcceleratorInstruction* instruction_of(const Statement& statement) const {
    if (statement.name == sum_) return problem_.sum;
    return instruction_for(accelerator(), kernel(), statement, std::nullopt, false);
  }

  // The sum's free iterators within a tile: those that count tiles are not.
  std::vector<std::string> free_in_tile() const {
    std::vector<std::string> result;
    for (const std::string& each : problem_.free) {
      if (std::none_of(counters_.begin(), counters_.end(),
                       [&](const Counter& counter) { return counter.sum == each; }))
        result.push_back(each);
    }
    return result;
  }

  void choose_loops(const std::string& name) {
    const AcceleratorInstruction* instruction = instruction_of(b_.statement(name));
    if (instruction == nullptr) return;
    std::vector<std::string> outer = counters_of(name);
    if (name == sum_) outer.insert(outer.end(), problem_.free.begin(), problem_.free.end());
    commands_.choose_loops(name, *instruction, outer);
  }

  void order_sum() {
    std::vector<std::string> outer;
    for (const Counter& each : counters_) outer.push_back(each.sum);
    const std::vector<std::string> host = free_in_tile();
    commands_.order(sum_, outer, &host);
  }

  // Deeper statements first, since their loops must hold nothing else; of one depth, the statement after the
  // sum, which those that load its operands follow, then what comes after it, then what comes before, the
  // last first.
  void place_statements() {
    std::vector<std::string> names;
    for (const Statement& each : kernel().statements) names.push_back(each.name);
    const auto sum = std::find(names.begin(), names.end(), sum_);
    for (size_t depth = counters_.size(); depth > 0; --depth) {
      const auto place = [&](const std::string& name) {
        if (depths_.at(name) != depth || name == sum_) return;
        b_.apply("compute_at ", name, " at ", sum_, "_", counters_[depth - 1].sum);
      };
      for (auto after = sum + 1; after != names.end(); ++after) place(*after);
      for (auto before = sum; before != names.begin();) place(*--before);
    }
  }

  AcceleratorProblem problem_;
  const AcceleratorTiles tiles_;
  TraceBuilder& b_;
  const std::string sum_, init_, epilogue_;
  std::vector<Counter> counters_;
  std::map<std::string, size_t> depths_;  // by statement: how many counters are around it
  CommandWriter commands_;
};

}  // namespace

std::string AcceleratorChoice::in_words() const {
  return text(problem.sum->name,
              problem.epilogue != nullptr ? ", then " + problem.epilogue->name : ", then the host", "; ",
              tiles.in_words());
}

AcceleratorChoice choose_for_accelerator(const TraceBuilder& start, TileSearch search) {
  constexpr int64_t kMaxParts = 32, kNear = 8;
  std::optional<AcceleratorChoice> best;
  int64_t parts_of_best = 1;
  NotApplicable last;
  const auto consider = [&](int64_t parts) {
    try {
      AcceleratorProblem problem = accelerator_problem(start, parts);
      if (best && problem.has_single_trips) return;  // only where nothing else fits the memories
      AcceleratorTiles tiles = choose_accelerator_tiles(problem, search);
      const TraceBuilder& builder = problem.reduction.builder;
      const double after_sum =
          elementwise_cycles(builder.statement(problem.reduction.epilogue[0]), builder.target());
      if (best && tiles.cycles >= best->tiles.cycles) return;
      best = {std::move(problem), std::move(tiles), after_sum};
      parts_of_best = parts;
    } catch (const NotApplicable& refusal) {
      last = refusal;
    }
  };
  if (search == TileSearch::All) {
    for (int64_t parts = 1; parts <= kMaxParts; ++parts) consider(parts);
  } else {
    for (int64_t parts = 1; parts <= kMaxParts; parts *= 2) consider(parts);
    // Then those between the best of these and its neighbours.
    const int64_t found = parts_of_best, step = std::max<int64_t>(1, found / kNear);
    for (int64_t parts = found / 2 + 1; best && parts < 2 * found; parts += step) {
      if (parts != found) consider(parts);
    }
  }
  if (!best) throw last;
  return *best;
}

TraceBuilder schedule_for_accelerator(const AcceleratorChoice& choice) {
  TraceBuilder builder = AcceleratorWriter(choice).run();
  check_commands(builder);
  return builder;
}

}  // namespace tc
