// Random legal schedules of the scheduler's test kernels.
#include "tests/random_schedule.h"

#include <algorithm>
#include <sstream>

namespace tc::testing {
namespace {

const PrimitiveRow& row_of(const std::string& name) {
  for (const PrimitiveRow& row : primitive_table()) {
    if (row.name == name) return row;
  }
  fail(ErrorKind::Internal, "no primitive ", name);
}

std::vector<std::string> rewrites_drawn() {
  std::vector<std::string> names;
  for (const std::string& name : drawn_primitives()) {
    if (row_of(name).kind == PrimitiveKind::Rewrite) names.push_back(name);
  }
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : " ") + word;
  return result;
}

bool is_marked(const TreeNode& loop) { return !loop.marks.empty(); }

// The chain of loops directly inside each other that starts at the node.
std::vector<const TreeNode*> chain_from(const TreeNode& top) {
  std::vector<const TreeNode*> chain;
  for (const TreeNode* node = &top; node->kind == TreeNode::Kind::Loop; node = &node->children[0]) {
    chain.push_back(node);
  }
  return chain;
}

}  // namespace

const std::vector<std::string>& drawn_primitives() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const PrimitiveRow& row : primitive_table()) {
      // Products of shorter numbers have tests of their own (two_terms_native_test.cc, words_native_test.cc).
      const bool shorter = row.first_word() == "algorithm" && row.name != "winograd";
      // What `widen` changes, only code for one architecture shows (tests/runtime/test_cortex_m.py).
      const bool elsewhere = row.matrix_unit || row.accelerator || row.name == "widen";
      if (!elsewhere && !shorter) result.push_back(row.name);
    }
    return result;
  }();
  return names;
}

void PrimitiveCounts::add(const std::string& kernel, const std::string& primitive, bool applied) {
  auto& [tried, held] = counts[{kernel, primitive}];
  if (applied) ++held;
  else ++tried;
}

int PrimitiveCounts::applied(const std::string& primitive) const {
  int result = 0;
  for (const auto& [where, count] : counts) result += where.second == primitive ? count.second : 0;
  return result;
}

int PrimitiveCounts::applied(const std::string& kernel, const std::string& primitive) const {
  const auto found = counts.find({kernel, primitive});
  return found == counts.end() ? 0 : found->second.second;
}

int PrimitiveCounts::tried(const std::string& kernel, const std::string& primitive) const {
  const auto found = counts.find({kernel, primitive});
  return found == counts.end() ? 0 : found->second.first;
}

std::string PrimitiveCounts::str() const {
  std::ostringstream out;
  auto cell = [&](const std::string& word, size_t width) {
    out << std::string(width > word.size() ? width - word.size() : 0, ' ') << word;
  };
  cell("", 18);
  for (const std::string& name : drawn_primitives()) cell(name.substr(0, 7), 8);
  out << "\n";
  for (const NamedKernel& kernel : small_kernels()) {
    cell(kernel.name, 18);
    for (const std::string& name : drawn_primitives()) cell(std::to_string(applied(kernel.name, name)), 8);
    out << "\n";
  }
  cell("all", 18);
  for (const std::string& name : drawn_primitives()) cell(std::to_string(applied(name)), 8);
  out << "\n";
  return out.str();
}

std::string LineGenerator::layout(const Kernel& kernel) {
  const Buffer& buffer = one_of(kernel.buffers);
  if (buffer.shape.empty()) return "";
  const int64_t dim = pick(0, static_cast<int64_t>(buffer.shape.size()) - 1);
  return text("layout ", buffer.name, " ", dim, " ", one_of<int64_t>({2, 3, 4, 5, 8, 16}));
}

std::string LineGenerator::strip(const Kernel& kernel) {
  const Statement& statement = one_of(kernel.statements);
  if (statement.iterators.empty()) return "";
  const Iterator& iterator = one_of(statement.iterators);
  const int64_t extent = iterator.extent.is_constant() ? iterator.extent.constant() : 8;
  return text("strip ", statement.name, "_", iterator.name, " ", pick(1, extent + 1), " as ", fresh("a"), " ",
              fresh("a"));
}

std::string LineGenerator::pack(const Kernel& kernel) {
  std::vector<int> constants;
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    if (kernel.buffers[b].scope == Scope::Constant) constants.push_back(static_cast<int>(b));
  }
  if (constants.empty()) return "";
  const int which = one_of(constants);
  std::vector<std::string> iterators;
  for (const Statement& statement : kernel.statements) {
    for_each_load(statement.value, [&](const Expr& load) {
      if (load.access.buffer != which || !iterators.empty()) return;
      for (const Iterator& iterator : statement.iterators) {
        bool used = chance(8);  // one that the index does not need is allowed as well
        for (const Subscript& subscript : load.access.index) {
          used = used || subscript.affine.coefficient(iterator.name) != 0;
        }
        if (used) iterators.push_back(iterator.name);
      }
    });
  }
  if (iterators.empty()) return "";
  std::shuffle(iterators.begin(), iterators.end(), random_);
  return "pack " + kernel.buffers[static_cast<size_t>(which)].name + " : " + joined(iterators);
}

std::string LineGenerator::merge(const Kernel& kernel) {
  const Statement& statement = one_of(kernel.statements);
  if (statement.iterators.size() < 2) return "";
  const auto at = static_cast<size_t>(pick(0, static_cast<int64_t>(statement.iterators.size()) - 2));
  return text("merge ", statement.name, "_", statement.iterators[at].name, " ", statement.name, "_",
              statement.iterators[at + 1].name, " as ", fresh("m"));
}

std::string LineGenerator::join(const Kernel& kernel) {
  const Statement& statement = one_of(kernel.statements);
  if (statement.iterators.size() < 2) return "";
  const auto at = static_cast<size_t>(pick(0, static_cast<int64_t>(statement.iterators.size()) - 2));
  const std::string& inner = statement.iterators[at + 1].name;
  return text("join ", statement.name, "_", statement.iterators[at].name, " ", statement.name, "_", inner,
              " as ", chance(2) ? inner : fresh("j"));
}

std::string LineGenerator::split(const std::vector<const TreeNode*>& loops) {
  const std::string& name = one_of(loops)->name;
  const int64_t size = chance(3) ? one_of<int64_t>({2, 4, 8, 16}) : pick(1, 9);
  // One of the two may keep the name.
  const std::string outer = chance(4) ? name : fresh("l");
  return text("split ", name, " ", size, " as ", outer, " ", fresh("l"));
}

std::string LineGenerator::order(const std::vector<const TreeNode*>& loops) {
  std::vector<std::string> names;
  for (const TreeNode* loop : chain_from(*one_of(loops))) {
    if (!is_marked(*loop)) names.push_back(loop->name);
  }
  if (names.size() < 2) return "";
  names.resize(static_cast<size_t>(pick(2, static_cast<int64_t>(names.size()))));
  std::shuffle(names.begin(), names.end(), random_);
  return "order " + joined(names);
}

std::string LineGenerator::fuse(const std::vector<const TreeNode*>& sequences) {
  const TreeNode& sequence = *one_of(sequences);
  const auto count = static_cast<int64_t>(sequence.children.size());
  const int64_t first = pick(0, count - 2), last = pick(first + 1, std::min(count - 1, first + 3));
  std::string line = "fuse";
  for (int64_t i = first; i <= last; ++i) {
    const TreeNode& child = sequence.children[static_cast<size_t>(i)];
    if (child.kind != TreeNode::Kind::Loop) return "";
    line += " " + child.name;
  }
  return line + " as " + fresh("f");
}

std::string LineGenerator::compute_at(const Kernel& kernel, const std::vector<const TreeNode*>& sequences) {
  const TreeNode& sequence = *one_of(sequences);
  const auto last = static_cast<int64_t>(sequence.children.size()) - 1;
  const int64_t target = pick(0, last);
  const std::vector<const TreeNode*> chain = chain_from(sequence.children[static_cast<size_t>(target)]);
  if (chain.empty()) return "";
  // Neighbours before or behind, the nearest first.
  const int64_t step = chance(2) ? -1 : 1;
  std::string line = "compute_at";
  for (int64_t i = target + step, count = pick(1, 3); i >= 0 && i <= last && count > 0; i += step, --count) {
    const std::vector<int> below = statements_below(sequence.children[static_cast<size_t>(i)]);
    if (below.size() != 1) break;
    line += " " + kernel.statements[static_cast<size_t>(below[0])].name;
  }
  return line + " at " + one_of(chain)->name;
}

std::string LineGenerator::winograd(const Kernel& kernel) {
  for (const Statement& statement : kernel.statements) {
    if (statement.reduction != Reduction::Sum) continue;
    return text("algorithm ", statement.name, " winograd ", 2 * pick(1, 2), " 3 ", pick(1, 3), " ",
                pick(1, 4));
  }
  return "";
}

// Iterators of one statement, in its order; none where the statement has too few.
std::vector<std::string> LineGenerator::any_iterators(const Kernel& kernel, int64_t count) {
  const Statement& statement = one_of(kernel.statements);
  std::vector<std::string> result;
  auto left = static_cast<int64_t>(statement.iterators.size());
  for (const Iterator& iterator : statement.iterators) {
    const int64_t wanted = count - static_cast<int64_t>(result.size());
    if (wanted > 0 && pick(1, left--) <= wanted) result.push_back(statement.name + "_" + iterator.name);
  }
  return static_cast<int64_t>(result.size()) < count ? std::vector<std::string>{} : result;
}

std::string LineGenerator::any(const PrimitiveRow& row, const Kernel& kernel,
                               const std::vector<const TreeNode*>& loops) {
  constexpr int64_t kMaxNumber = 4, kMaxInList = 3;
  using Kind = Argument::Kind;
  const auto iterators = std::count_if(row.form.begin(), row.form.end(),
                                       [](const Argument& each) { return each.kind == Kind::Iterator; });
  std::vector<std::string> from = any_iterators(kernel, iterators);
  std::string line = row.first_word();
  for (const Argument& argument : row.form) {
    const int64_t most = std::min<int64_t>(argument.most, std::max<int64_t>(argument.least, kMaxInList));
    for (int64_t count = pick(argument.least, most); count > 0; --count) {
      if (argument.kind == Kind::Loop && loops.empty()) return "";
      if (argument.kind == Kind::Iterator && from.empty()) return "";
      switch (argument.kind) {
        case Kind::Keyword: line += " " + argument.name; break;
        case Kind::Loop: line += " " + one_of(loops)->name; break;
        case Kind::Part:
        case Kind::Statement: line += " " + one_of(kernel.statements).name; break;
        case Kind::Iterator:
          line += " " + from.front();
          from.erase(from.begin());
          break;
        case Kind::Buffer: line += " " + one_of(kernel.buffers).name; break;
        case Kind::Number: line += text(" ", pick(argument.minimum, argument.minimum + kMaxNumber)); break;
        case Kind::IteratorName:
        case Kind::Name: line += " " + fresh("x"); break;
      }
    }
  }
  return line;
}

std::string LineGenerator::line(const std::string& primitive, const ScheduleState& state) {
  const Kernel& kernel = state.kernel->kernel;
  if (primitive == "layout") return layout(kernel);
  if (primitive == "strip") return strip(kernel);
  if (primitive == "pack") return pack(kernel);
  if (primitive == "merge") return merge(kernel);
  if (primitive == "join") return join(kernel);
  if (primitive == "winograd") return winograd(kernel);
  std::vector<const TreeNode*> loops, innermost, plain, sequences;
  visit_tree(state.tree, [&](const TreeNode& node, const auto&) {
    if (node.kind == TreeNode::Kind::Sequence) sequences.push_back(&node);
    if (node.kind != TreeNode::Kind::Loop) return;
    loops.push_back(&node);
    if (is_marked(node)) return;
    plain.push_back(&node);
    if (node.children[0].kind == TreeNode::Kind::Leaf) innermost.push_back(&node);
  });
  if (primitive == "register_tile") {
    if (chance(8)) return "register_tile root";
    if (loops.empty() || chance(3)) return "register_tile " + one_of(kernel.statements).name;
    return "register_tile " + one_of(loops)->name;
  }
  if (primitive == "fuse") return sequences.empty() ? "" : fuse(sequences);
  if (primitive == "compute_at") return sequences.empty() ? "" : compute_at(kernel, sequences);
  if (primitive == "split") return plain.empty() ? "" : split(plain);
  if (primitive == "order") return plain.empty() ? "" : order(plain);
  if (primitive == "vectorize") return innermost.empty() ? "" : "vectorize " + one_of(innermost)->name;
  if (primitive != "parallel") return any(row_of(primitive), kernel, plain);
  if (state.tree.kind != TreeNode::Kind::Loop) return "";
  const TreeNode& inside = state.tree.children[0];
  const bool both = inside.kind == TreeNode::Kind::Loop && !is_marked(inside) && chance(2);
  return "parallel " + state.tree.name + (both ? " " + inside.name : "");
}

int64_t copies_of(const ScheduleState& state) {
  int64_t sum = 0;
  visit_tree(state.tree, [&](const TreeNode& node, const std::vector<const TreeNode*>& above) {
    if (node.kind != TreeNode::Kind::Leaf) return;
    int64_t copies = 1;
    for (const TreeNode* loop : above) {
      const int64_t extent = constant_extent(state, *loop).value_or(1);
      if (loop->is(marks::kVector)) copies *= (extent + 7) / 8;
      else copies *= loop->copies() == 0 ? extent : loop->copies();
      if (loop->is(marks::kIsolate)) copies *= 3;
    }
    sum += copies;
  });
  return sum;
}

namespace {

class Drawer {
 public:
  Drawer(uint32_t seed, const NamedKernel& named, const std::string& preferred, const Target& target,
         int64_t most_copies, PrimitiveCounts& counts)
      : lines_(seed), named_(named), preferred_(preferred), most_copies_(most_copies), counts_(counts) {
    history_.emplace_back(parse_kernel(named.text), target);
  }

  // What fails is told with the trace.
  Schedule draw() {
    try {
      return draw_some();
    } catch (const Error& error) {
      std::string lines;
      for (const std::string& line : history_.back().trace()) lines += "\n    \"" + line + "\",";
      fail(error.kind(), error.what(), "\n", named_.name, ", preferred ", preferred_, lines);
    }
  }

 private:
  Schedule draw_some() {
    rewrites();
    if (lines_.chance(2)) default_lines();
    orders();
    // Loops that cannot be generated are refused at the end only.
    while (true) {
      try {
        history_.back().finish();
        break;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::Schedule || history_.size() == 1) throw;
        history_.pop_back();
      }
    }
    const Schedule& result = history_.back();
    for (const std::string& line : result.trace()) {
      counts_.add(named_.name, read_line(line).value().row->name, true);
    }
    return result;
  }

  const ScheduleState& state() const { return ScheduleAccess::state(history_.back()); }

  bool attempt(const std::string& line) {
    const auto read = read_line(line);
    if (!read) return false;  // nothing was drawn, or nothing for one of the arguments
    const std::string& primitive = read->row->name;
    counts_.add(named_.name, primitive, false);
    Schedule next = history_.back();
    if (next.apply(line)) return false;
    if (copies_of(ScheduleAccess::state(next)) > most_copies_) return false;
    const auto& mark = read->row->mark;
    if (mark && mark->needs != MarkRow::Needs::Nothing && next.check()) return false;
    history_.push_back(std::move(next));
    return true;
  }

  bool attempt_some(const std::string& primitive, int times) {
    for (int i = 0; i < times; ++i) {
      if (attempt(lines_.line(primitive, state()))) return true;
    }
    return false;
  }

  void rewrites() {
    static const std::vector<std::string> names = rewrites_drawn();
    const bool wanted = std::count(names.begin(), names.end(), preferred_) > 0;
    // Algorithms are of kernels in blocks, sums included.
    const bool algorithm = preferred_ == "winograd";
    if (!named_.layout_lines.empty() && (algorithm || lines_.chance(3))) {
      const int64_t block = lines_.one_of<int64_t>({2, 3, 4, 8});
      for (const std::string& line : named_.layout_lines) {
        attempt(line.substr(0, line.rfind(' ')) + " " + std::to_string(block));
      }
      if (algorithm) attempt(text("layout T 1 ", block));
    }
    if (wanted) attempt_some(preferred_, 8);
    for (int64_t count = wanted ? lines_.pick(0, 3) : lines_.pick(-1, 2); count > 0; --count) {
      attempt_some(lines_.one_of(names), 2);
    }
  }

  // The beginning of the default, or all of it, with some sizes changed.
  void default_lines() {
    const std::vector<std::string> trace =
        default_trace(history_.back(), static_cast<int>(lines_.pick(1, 2)));
    const int64_t size = static_cast<int64_t>(trace.size());
    const int64_t taken = lines_.chance(3) ? size : lines_.pick(0, size);
    for (int64_t i = 0; i < taken; ++i) {
      std::string line = trace[static_cast<size_t>(i)];
      if (line.rfind("split ", 0) == 0 && lines_.chance(3)) {
        std::istringstream words(line);
        std::string name, loop, rest;
        int64_t number = 0;
        words >> name >> loop >> number;
        std::getline(words, rest);
        line = text(name, " ", loop, " ", lines_.pick(1, number + 2), rest);
      }
      attempt(line);
    }
  }

  void orders() {
    static const std::vector<std::string> structure = {"split", "order", "fuse",      "compute_at",
                                                       "split", "order", "compute_at"};
    static const std::vector<std::string> marks = {"register_tile", "isolate",  "vectorize",
                                                   "unroll",        "parallel", "unroll",
                                                   "vectorize",     "prefetch", "alternate"};
    const bool late = row_of(preferred_).kind == PrimitiveKind::Mark || preferred_ == "register_tile";
    const int64_t first = lines_.pick(0, 7), second = lines_.pick(0, 5);
    // One loop around everything is what parallel needs.
    if (preferred_ == "parallel" || lines_.chance(6)) join();
    if (!late) attempt_some(preferred_, 8);
    // Few sums are left whole by many changes.
    if (preferred_ == "sum_blocks" && !lines_.chance(4)) blocks();
    for (int64_t i = 0; i < first; ++i) attempt_some(lines_.one_of(structure), 2);
    if (preferred_ == "sum_blocks") blocks();
    if (late) attempt_some(preferred_, 8);
    for (int64_t i = 0; i < second; ++i) attempt_some(lines_.one_of(marks), 2);
  }

  // Blocks are of a sum in a register tile: the first tiles may be of other statements.
  void blocks() {
    for (int i = 0; i < 8; ++i) {
      attempt_some("register_tile", 8);
      if (attempt_some("sum_blocks", 16)) return;
    }
  }

  void join() {
    for (int i = 0; i < 12 && state().tree.kind == TreeNode::Kind::Sequence; ++i) {
      attempt_some(lines_.chance(2) ? "fuse" : "compute_at", 1);
    }
  }

  LineGenerator lines_;
  const NamedKernel& named_;
  const std::string preferred_;
  const int64_t most_copies_;
  PrimitiveCounts& counts_;
  std::vector<Schedule> history_;
};

}  // namespace

RandomSchedule random_schedule(uint32_t seed, const Target& target, int64_t most_copies,
                               PrimitiveCounts& counts) {
  const auto& kernels = small_kernels();
  const NamedKernel& named = kernels[seed % kernels.size()];
  const std::string& preferred = drawn_primitives()[seed / kernels.size() % drawn_primitives().size()];
  Schedule schedule = Drawer(seed, named, preferred, target, most_copies, counts).draw();
  return {&named, parse_kernel(named.text), preferred, std::move(schedule), seed};
}

RandomSchedule random_schedule_of_products(uint32_t seed, const Target& target, int64_t most_copies,
                                           PrimitiveCounts& counts) {
  const auto& kernels = kernels_of_products();
  const NamedKernel& named = kernels[seed % kernels.size()];
  const auto round = static_cast<uint32_t>(seed / kernels.size());
  const std::string preferred =
      round % 2 == 0 ? "merge" : drawn_primitives()[round / 2 % drawn_primitives().size()];
  Schedule schedule = Drawer(seed, named, preferred, target, most_copies, counts).draw();
  return {&named, parse_kernel(named.text), preferred, std::move(schedule), seed};
}

size_t products_of(const RandomSchedule& random) {
  return random.schedule.finish().kernel.parameters.size() - random.kernel.parameters.size();
}

std::string describe(uint32_t seed, const RandomSchedule& random) {
  std::string result =
      text("TC_SEED=", seed, " kernel ", random.named->name, ", preferred ", random.preferred, ":");
  for (const std::string& line : random.schedule.trace()) result += "\n    \"" + line + "\",";
  return result + "\n" + str(random.schedule.finish());
}

}  // namespace tc::testing
