// Regions of the tree and their leaves: loops, values of iterators, conditions, scopes.
#include <algorithm>

#include "ir/error.h"
#include "scheduler/core/rewriting.h"
#include "scheduler/core/statements.h"
#include "scheduler/generate/generate.h"

namespace tc {
namespace {

// True where everything below is unrolled or vector loops around one statement.
bool is_copies(const TreeNode& node) {
  if (node.kind == TreeNode::Kind::Leaf) return true;
  return node.kind == TreeNode::Kind::Loop &&
         (node.is(marks::kVector) || node.is(marks::kMatrix) || node.is(marks::kCommand) ||
          node.copies() == 0) &&
         !node.is(marks::kIsolate) && is_copies(node.children[0]);
}

void collect_members(const TreeNode& node, std::vector<const TreeNode*>& loops, Region& region) {
  if (node.kind == TreeNode::Kind::Leaf) {
    region.statements.push_back({node.statement, loops});
    return;
  }
  if (node.kind == TreeNode::Kind::Loop) loops.push_back(&node);
  for (const TreeNode& child : node.children) collect_members(child, loops, region);
  if (node.kind == TreeNode::Kind::Loop) loops.pop_back();
}

void collect_regions(const TreeNode& node, std::vector<const TreeNode*>& outer,
                     std::vector<Region>& regions) {
  const bool tile = node.kind == TreeNode::Kind::Tile;
  if (tile || is_copies(node)) {
    Region region;
    region.node = tile ? &node.children[0] : &node;
    region.outer = outer;
    std::vector<const TreeNode*> loops;
    collect_members(*region.node, loops, region);
    regions.push_back(std::move(region));
    return;
  }
  if (node.kind == TreeNode::Kind::Loop) outer.push_back(&node);
  for (const TreeNode& child : node.children) collect_regions(child, outer, regions);
  if (node.kind == TreeNode::Kind::Loop) outer.pop_back();
}

// One loop around an instance: which part of an iterator it counts, and its value.
struct PartValue {
  LoopPart part;
  Affine value;
};

// The value of an iterator after the steps of `prefix`, from the loops that count its parts. Appends the
// conditions that are needed where a split does not divide the extent.
Affine value_after(const std::vector<LoopPart::Step>& prefix, const std::optional<Affine>& extent,
                   const std::vector<PartValue>& parts, std::vector<Affine>& conditions) {
  std::vector<PartValue> below;
  for (const PartValue& candidate : parts) {
    const auto& steps = candidate.part.steps;
    if (steps.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), steps.begin())) {
      below.push_back(candidate);
    }
  }
  TC_CHECK(!below.empty(), "loops for every part of an iterator");
  Affine value;
  if (below.size() == 1 && below[0].part.steps.size() == prefix.size()) {
    value = below[0].value;
  } else {
    const int64_t size = below[0].part.steps.at(prefix.size()).size;
    auto inside = [&](bool modulo) {
      std::vector<LoopPart::Step> steps = prefix;
      steps.push_back({modulo, size});
      std::optional<Affine> part_extent;
      if (modulo) part_extent = Affine(size);
      return value_after(steps, part_extent, below, conditions);
    };
    value = inside(false) * size + inside(true);
  }
  if (extent) conditions.push_back(*extent - Affine(1) - value);
  return value;
}

std::map<std::string, Affine> iterator_values(const Statement& statement, int index,
                                              const std::vector<const TreeNode*>& loops,
                                              const std::vector<Affine>& values,
                                              std::vector<Affine>& conditions) {
  std::map<std::string, std::vector<PartValue>> parts;
  for (size_t i = 0; i < loops.size(); ++i) {
    const LoopPart& part = loops[i]->iterator_parts.at(index);
    parts[part.iterator].push_back({part, values[i]});
  }
  std::map<std::string, Affine> result;
  for (const Iterator& iterator : statement.iterators) {
    result[iterator.name] = value_after({}, iterator.extent, parts[iterator.name], conditions);
  }
  return result;
}

// What the value of an outer loop is called in the accesses of private buffers.
std::string outer_name(const TreeNode& loop) { return "at_" + loop.name; }

bool mentions(const Statement& statement, const std::string& name) {
  bool found = false;
  visit_accesses(statement, [&](const Access& access, bool) {
    for (const Subscript& subscript : access.index) {
      found = found || subscript.affine.coefficient(name) != 0;
    }
  });
  return found;
}

}  // namespace

std::vector<Region> regions_of(const TreeNode& tree) {
  std::vector<Region> regions;
  std::vector<const TreeNode*> outer;
  collect_regions(tree, outer, regions);
  return regions;
}

namespace {

constexpr int64_t kMaxShares = 32;

// Adds what the outer loop at `depth` prefetches while this region runs.
void add_prefetches(const Kernel& kernel, const Region& region, size_t depth,
                    const std::vector<Affine>& outer_values, LoopNode& leaf) {
  const TreeNode& loop = *region.outer[depth];
  const LoopMark* wanted = loop.find_mark(marks::kPrefetch);
  if (wanted == nullptr) return;
  for (const Region::Member& member : region.statements) {
    const Statement& statement = kernel.statements[static_cast<size_t>(member.statement)];
    for (const Access& access : loads_of(statement)) {
      const Buffer& buffer = kernel.buffers[static_cast<size_t>(access.buffer)];
      if (std::count(wanted->buffers.begin(), wanted->buffers.end(), buffer.name) == 0) continue;
      const LoopPart& part = loop.iterator_parts.at(member.statement);
      const auto stride = element_stride(kernel, access, part.iterator);
      if (!stride || *stride == 0) continue;
      Prefetch prefetch{member.statement, access.buffer, *stride * part.multiplier(), 1, {}};
      // Inner loops that do not move along the buffer read the same part again and again. The trips of the
      // innermost of them, up to kMaxShares, share the prefetching; each trip of the others repeats it.
      for (size_t inner = region.outer.size(); inner-- > depth + 1;) {
        const LoopPart& other = region.outer[inner]->iterator_parts.at(member.statement);
        if (depends_on(access, other.iterator)) continue;
        const auto extent = other.extent(iterator_extent(statement, other.iterator));
        if (!extent || (prefetch.shares > 1 && prefetch.shares * *extent > kMaxShares)) break;
        prefetch.share = prefetch.share + outer_values[inner] * prefetch.shares;
        prefetch.shares *= *extent;
      }
      // Where several accesses read the same part, it is prefetched once.
      const bool again =
          std::any_of(leaf.prefetches.begin(), leaf.prefetches.end(), [&](const Prefetch& other) {
            return other.statement == prefetch.statement && other.buffer == prefetch.buffer &&
                   other.ahead == prefetch.ahead;
          });
      if (!again) leaf.prefetches.push_back(prefetch);
    }
  }
}

}  // namespace

void fill_leaf(const Kernel& kernel, const Region& region, const std::vector<Affine>& outer_values,
               LoopNode& leaf) {
  leaf.kind = LoopNode::Kind::Leaf;
  for (const Region::Member& member : region.statements) {
    if (!member.loops.empty()) {
      if (const LoopMark* command = member.loops.back()->find_mark(marks::kCommand))
        leaf.command = command->instruction;
    }
    const Statement& statement = kernel.statements[static_cast<size_t>(member.statement)];
    TileStatement tile;
    tile.statement = member.statement;
    std::vector<const TreeNode*> loops = region.outer;
    std::vector<Affine> values = outer_values;
    for (const TreeNode* node : member.loops) {
      const LoopPart& part = node->iterator_parts.at(member.statement);
      const Affine& iterator = iterator_extent(statement, part.iterator);
      TileLoop loop;
      loop.name = node->name;
      loop.kind = node->is(marks::kVector)   ? TileLoop::Kind::Vector
                  : node->is(marks::kMatrix) ? TileLoop::Kind::Matrix
                  : node->copies() == 0      ? TileLoop::Kind::Unroll
                                             : TileLoop::Kind::Serial;
      if (loop.kind == TileLoop::Kind::Serial) loop.unroll = static_cast<int>(node->copies());
      if (const LoopMark* blocks = node->find_mark(marks::kSumBlocks)) loop.sum_block = blocks->count;
      if (auto extent = part.extent(iterator)) {
        loop.extent = *extent;
      } else {
        // All steps are divisions: a modulo would bound the loop.
        loop.extent = -1;
        loop.symbolic_extent = iterator;
        loop.symbolic_divisor = part.multiplier();
      }
      tile.loops.push_back(loop);
      loops.push_back(node);
      values.push_back(Affine::variable(node->name));
    }
    tile.iterators = iterator_values(statement, member.statement, loops, values, tile.constraints);
    for (const Affine& constraint : statement.constraints) {
      tile.constraints.push_back(constraint.substitute(tile.iterators));
    }
    for (size_t i = 0; i < region.outer.size(); ++i) {
      const std::string name = outer_name(*region.outer[i]);
      if (mentions(statement, name)) tile.iterators[name] = outer_values[i];
    }
    leaf.statements.push_back(std::move(tile));
  }
  for (size_t depth = 0; depth < region.outer.size(); ++depth) {
    add_prefetches(kernel, region, depth, outer_values, leaf);
  }
}

namespace {

// One use of a private buffer.
struct Use {
  size_t region;
  std::vector<Affine> index;  // in loops around and inside the region
  std::map<std::string, Interval> ranges;
  bool serial = false;  // a serial loop of the region moves along it
};

constexpr int64_t kMaxRegisterElements = 4096;
constexpr int64_t kUnknown = int64_t{1} << 60;  // bounds beyond it are not known

class ScopeDecider {
 public:
  ScopeDecider(Kernel& kernel, const std::vector<Region>& regions)
      : kernel_(kernel), regions_(regions), uses_(kernel.buffers.size()), dynamic_(kernel.buffers.size()) {
    for (size_t r = 0; r < regions.size(); ++r) {
      for (const Region::Member& member : regions[r].statements) collect(r, member);
    }
  }

  void run() {
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
      if (kernel_.buffers[b].scope != Scope::Local) continue;
      kernel_.buffers[b].scope =
          is_register(b) && kernel_.buffers[b].memory.empty() ? Scope::Register : Scope::Stack;
      if (kernel_.buffers[b].scope == Scope::Stack && !uses_[b].empty()) shrink(b);
    }
    for (Statement& statement : kernel_.statements) {
      edit_accesses(statement, [&](const Access& access) {
        auto found = moved_.find(access.buffer);
        if (found == moved_.end()) return access;
        Access result{access.buffer, {}};
        for (size_t d = 0; d < access.index.size(); ++d) {
          if (!found->second[d]) continue;
          result.index.push_back({access.index[d].affine - *found->second[d], access.index[d].dynamic});
        }
        return result;
      });
    }
  }

 private:
  void collect(size_t r, const Region::Member& member) {
    const Region& region = regions_[r];
    const Statement& statement = kernel_.statements[static_cast<size_t>(member.statement)];
    std::vector<const TreeNode*> loops = region.outer;
    loops.insert(loops.end(), member.loops.begin(), member.loops.end());
    std::vector<Affine> values, ignored;
    std::set<std::string> serial;
    std::map<std::string, Interval> ranges;
    for (const TreeNode* loop : loops) {
      values.push_back(Affine::variable(loop->name));
      const LoopPart& part = loop->iterator_parts.at(member.statement);
      const auto extent = part.extent(iterator_extent(statement, part.iterator));
      if (extent) ranges[loop->name] = {0, *extent - 1};
    }
    for (const TreeNode* loop : member.loops) {
      if (!loop->is(marks::kVector) && loop->copies() != 0) serial.insert(loop->name);
    }
    const auto iterators = iterator_values(statement, member.statement, loops, values, ignored);
    visit_accesses(statement, [&](const Access& access, bool) {
      Use use{r, {}, ranges, false};
      for (const Subscript& subscript : access.index) {
        if (subscript.dynamic) dynamic_[static_cast<size_t>(access.buffer)].insert(use.index.size());
        use.index.push_back(subscript.affine.substitute(iterators));
        for (const auto& [name, coefficient] : use.index.back().terms()) {
          use.serial = use.serial || serial.count(name) > 0;
        }
      }
      uses_[static_cast<size_t>(access.buffer)].push_back(std::move(use));
    });
  }

  // The part of the expression in the given loops.
  static Affine part_in(const Affine& affine, const std::set<std::string>& loops) {
    Affine result;
    for (const auto& [name, coefficient] : affine.terms()) {
      if (loops.count(name)) result = result + Affine::variable(name, coefficient);
    }
    return result;
  }

  std::set<std::string> outer_loops(size_t region) const {
    std::set<std::string> result;
    for (const TreeNode* loop : regions_[region].outer) result.insert(loop->name);
    return result;
  }

  // True where an element belongs to exactly one iteration of the loops in `base`: index = base + rest, where
  // the rest has `size` values and the step of each loop is larger than the range of all finer terms.
  static bool tells_iteration(const Affine& base, int64_t size,
                              const std::map<std::string, Interval>& ranges) {
    auto terms = base.terms();
    // Loops of a single trip do not matter.
    terms.erase(std::remove_if(terms.begin(), terms.end(),
                               [&](const auto& term) {
                                 const auto range = ranges.find(term.first);
                                 return range != ranges.end() && range->second.high <= 0;
                               }),
                terms.end());
    std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    int64_t reach = size;
    for (size_t i = 0; i < terms.size(); ++i) {
      if (terms[i].second < reach) return false;
      auto range = ranges.find(terms[i].first);
      if (range == ranges.end()) return i + 1 == terms.size();
      reach += terms[i].second * range->second.high;
    }
    return true;
  }

  // The values of the index without `base`, over all uses.
  static Interval rest_of(const std::vector<Use>& uses, size_t d, const Affine& base) {
    Interval range{INT64_MAX, INT64_MIN};
    for (const Use& use : uses) {
      const Interval rest = range_of(use.index[d] - base, use.ranges);
      range = {std::min(range.low, rest.low), std::max(range.high, rest.high)};
    }
    return range;
  }

  // Whether the buffer is used in one leaf only, at places that unrolled and vector loops enumerate.
  bool is_register(size_t b) const {
    const std::vector<Use>& own = uses_[b];
    if (own.empty() || !dynamic_[b].empty()) return false;
    const std::set<std::string> outer = outer_loops(own[0].region);
    for (const Use& use : own) {
      if (use.region != own[0].region || use.serial) return false;
      int64_t elements = 1;
      std::set<std::string> seen;
      for (size_t d = 0; d < use.index.size(); ++d) {
        if (part_in(use.index[d], outer) != part_in(own[0].index[d], outer)) return false;
        for (const auto& [name, coefficient] : use.index[d].terms()) {
          if (outer.count(name) || !seen.insert(name).second) continue;
          auto range = use.ranges.find(name);
          if (range == use.ranges.end()) return false;
          elements *= range->second.high + 1;
        }
      }
      if (elements > kMaxRegisterElements) return false;
    }
    return all_told(own, {}, regions_[own[0].region].outer, outer);
  }

  // Whether each element belongs to exactly one iteration of each of the loops, so that no value is carried
  // from one iteration to another: each loop of several trips is in a subscript, the same for all uses, from
  // which its iteration follows. From dynamic subscripts nothing follows.
  static bool all_told(const std::vector<Use>& own, const std::set<size_t>& dynamic,
                       const std::vector<const TreeNode*>& loops, const std::set<std::string>& names) {
    std::set<std::string> told;
    for (size_t d = 0; d < own[0].index.size(); ++d) {
      const Affine base = part_in(own[0].index[d], names);
      if (dynamic.count(d) > 0 || !same_base(own, d, names)) continue;
      const Interval rest = rest_of(own, d, base);
      if (rest.low < -kUnknown || rest.high > kUnknown) continue;
      if (!tells_iteration(base, rest.high - rest.low + 1, own[0].ranges)) continue;
      for (const auto& [name, coefficient] : base.terms()) told.insert(name);
    }
    return std::all_of(loops.begin(), loops.end(), [&](const TreeNode* loop) {
      return told.count(loop->name) > 0 || std::all_of(own.begin(), own.end(), [&](const Use& use) {
               const auto range = use.ranges.find(loop->name);
               return range != use.ranges.end() && range->second.high <= 0;
             });
    });
  }

  static bool same_base(const std::vector<Use>& own, size_t d, const std::set<std::string>& names) {
    const Affine base = part_in(own[0].index[d], names);
    return std::all_of(own.begin(), own.end(),
                       [&](const Use& use) { return part_in(use.index[d], names) == base; });
  }

  // Subtracts from the index what the loops around all uses fix. The shape becomes the range of the rest, and
  // dimensions of one element are removed.
  void shrink(size_t b) {
    const std::vector<Use>& own = uses_[b];
    std::vector<const TreeNode*> common = regions_[own[0].region].outer;
    for (const Use& use : own) {
      const auto& outer = regions_[use.region].outer;
      size_t equal = 0;
      while (equal < common.size() && equal < outer.size() && common[equal] == outer[equal]) ++equal;
      common.resize(equal);
    }
    // Keeps the outermost of them, as many as there are with each element in one iteration of each.
    std::set<std::string> fixed;
    while (true) {
      fixed.clear();
      for (const TreeNode* loop : common) fixed.insert(loop->name);
      if (all_told(own, dynamic_[b], common, fixed)) break;
      common.pop_back();
    }
    std::map<std::string, Affine> names;
    for (const TreeNode* loop : common) names[loop->name] = Affine::variable(outer_name(*loop));
    Buffer& buffer = kernel_.buffers[b];
    std::vector<std::optional<Affine>> moved;
    std::vector<Affine> shape;
    for (size_t d = 0; d < buffer.shape.size(); ++d) {
      const Affine base = part_in(own[0].index[d], fixed);
      const Interval range = rest_of(own, d, base);
      const bool known = dynamic_[b].count(d) == 0 && same_base(own, d, fixed) && range.low > -kUnknown &&
                         range.high < kUnknown;
      if (!known || !tells_iteration(base, range.high - range.low + 1, own[0].ranges)) {
        moved.push_back(Affine());
        shape.push_back(buffer.shape[d]);
        continue;
      }
      Affine size(range.high - range.low + 1);
      Affine offset = base.substitute(names) + Affine(range.low);
      if (base.is_constant() ||
          (buffer.shape[d].is_constant() && size.constant() >= buffer.shape[d].constant())) {
        // Nothing gained; uses under conditions may seem to reach further than the buffer.
        moved.push_back(Affine());
        shape.push_back(buffer.shape[d]);
      } else if (range.low == range.high) {
        moved.push_back(std::nullopt);
      } else {
        moved.push_back(offset);
        shape.push_back(size);
      }
    }
    buffer.shape = shape;
    moved_[static_cast<int>(b)] = moved;
  }

  Kernel& kernel_;
  const std::vector<Region>& regions_;
  std::vector<std::vector<Use>> uses_;     // by buffer
  std::vector<std::set<size_t>> dynamic_;  // by buffer: dimensions in which some use has a dynamic subscript
  // Per Stack buffer and dimension: what to subtract from the index, or nothing where it is gone.
  std::map<int, std::vector<std::optional<Affine>>> moved_;
};

}  // namespace

void decide_scopes(Kernel& kernel, const std::vector<Region>& regions) {
  ScopeDecider(kernel, regions).run();
}

}  // namespace tc
