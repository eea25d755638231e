// Regions of the tree and their leaves: loops, values of iterators, conditions, scopes.
#include <algorithm>

#include "ir/error.h"
#include "scheduler/generate.h"

namespace tc {
namespace {

// True where all below is unrolled or vector loops around one statement.
bool is_copies(const TreeNode& node) {
  if (node.kind == TreeNode::Kind::Leaf) return true;
  return node.kind == TreeNode::Kind::Loop && (node.vector || node.unroll == 0) && !node.isolate &&
         is_copies(node.children[0]);
}

void collect_members(const TreeNode& node, std::vector<const TreeNode*>& loops, Region& region) {
  if (node.kind == TreeNode::Kind::Leaf) {
    region.members.push_back({node.statement, loops});
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

// One loop around an instance: which part of an iterator it counts, and what its value is called.
struct PartValue {
  LoopPart part;
  Affine value;
};

// The value of what is left of an iterator after `prefix`, from the loops that count its parts; and
// the conditions that splits which do not divide need.
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
    const LoopPart& part = loops[i]->members.at(index);
    parts[part.iterator].push_back({part, values[i]});
  }
  std::map<std::string, Affine> result;
  for (const Iterator& iterator : statement.iterators) {
    result[iterator.name] = value_after({}, iterator.extent, parts[iterator.name], conditions);
  }
  return result;
}

}  // namespace

std::vector<Region> regions_of(const TreeNode& tree) {
  std::vector<Region> regions;
  std::vector<const TreeNode*> outer;
  collect_regions(tree, outer, regions);
  return regions;
}

void fill_leaf(const Kernel& kernel, const Region& region,
               const std::vector<Affine>& outer_values, LoopNode& leaf) {
  leaf.kind = LoopNode::Kind::Leaf;
  for (const Region::Member& member : region.members) {
    const Statement& statement = kernel.statements[static_cast<size_t>(member.statement)];
    TileStatement tile;
    tile.statement = member.statement;
    std::vector<const TreeNode*> loops = region.outer;
    std::vector<Affine> values = outer_values;
    for (const TreeNode* node : member.loops) {
      const LoopPart& part = node->members.at(member.statement);
      const Affine& iterator = iterator_extent(statement, part.iterator);
      TileLoop loop;
      loop.name = node->name;
      loop.kind = node->vector        ? TileLoop::Kind::Vector
                  : node->unroll == 0 ? TileLoop::Kind::Unroll
                                      : TileLoop::Kind::Serial;
      if (loop.kind == TileLoop::Kind::Serial) loop.unroll = static_cast<int>(node->unroll);
      if (auto extent = part.extent(iterator)) {
        loop.extent = *extent;
      } else if (part.steps.empty()) {
        loop.extent = -1;
        loop.symbolic_extent = iterator;
      } else {
        fail(ErrorKind::Schedule, "loop ", node->name, " of statement ", statement.name,
             " is an outer part of a symbolic extent: it must be outside the register tile");
      }
      tile.loops.push_back(loop);
      loops.push_back(node);
      values.push_back(Affine::variable(node->name));
    }
    tile.iterators =
        iterator_values(statement, member.statement, loops, values, tile.constraints);
    for (const Affine& constraint : statement.constraints) {
      tile.constraints.push_back(constraint.substitute(tile.iterators));
    }
    leaf.statements.push_back(std::move(tile));
  }
}

namespace {

// One use of a private buffer.
struct Use {
  size_t region;
  std::vector<Affine> outer, inner;   // per dimension: parts in outer loops and in the region's
  bool serial = false;                // a serial loop of the region moves along it
};

constexpr int64_t kMostRegisterElements = 4096;

}  // namespace

void decide_scopes(Kernel& kernel, const std::vector<Region>& regions) {
  std::vector<std::vector<Use>> uses(kernel.buffers.size());
  std::vector<std::vector<std::string>> loops_of_region;
  std::vector<bool> dynamic(kernel.buffers.size());
  for (size_t r = 0; r < regions.size(); ++r) {
    const Region& region = regions[r];
    std::set<std::string> outer;
    for (const TreeNode* loop : region.outer) outer.insert(loop->name);
    for (const Region::Member& member : region.members) {
      const Statement& statement = kernel.statements[static_cast<size_t>(member.statement)];
      std::vector<const TreeNode*> loops = region.outer;
      loops.insert(loops.end(), member.loops.begin(), member.loops.end());
      std::vector<Affine> values, ignored;
      std::set<std::string> serial;
      for (const TreeNode* loop : loops) values.push_back(Affine::variable(loop->name));
      for (const TreeNode* loop : member.loops) {
        if (!loop->vector && loop->unroll != 0) serial.insert(loop->name);
      }
      const auto iterators = iterator_values(statement, member.statement, loops, values, ignored);
      auto use = [&](const Access& access) {
        Use one{r, {}, {}, false};
        for (const Subscript& subscript : access.index) {
          if (subscript.dynamic) dynamic[static_cast<size_t>(access.buffer)] = true;
          Affine outside, inside;
          const Affine index = subscript.affine.substitute(iterators);
          for (const auto& [name, coefficient] : index.terms()) {
            Affine& where = outer.count(name) ? outside : inside;
            where = where + Affine::variable(name, coefficient);
            one.serial = one.serial || serial.count(name) > 0;
          }
          one.outer.push_back(outside);
          one.inner.push_back(inside + Affine(index.constant()));
        }
        uses[static_cast<size_t>(access.buffer)].push_back(std::move(one));
      };
      use(statement.write);
      for_each_load(statement.value, [&](const Expr& load) { use(load.access); });
      for (const Subscript& subscript : statement.write.index) {
        for_each_load(subscript.dynamic, [&](const Expr& load) { use(load.access); });
      }
    }
  }

  std::map<int, std::vector<bool>> dropped;
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    Buffer& buffer = kernel.buffers[b];
    if (buffer.scope != Scope::Local) continue;
    const std::vector<Use>& own = uses[b];
    buffer.scope = Scope::Stack;
    if (own.empty()) continue;
    // Loops around all uses.
    std::vector<const TreeNode*> common = regions[own[0].region].outer;
    bool one_leaf = true, same_place = true, serial = false;
    for (const Use& use : own) {
      const auto& outer = regions[use.region].outer;
      size_t equal = 0;
      while (equal < common.size() && equal < outer.size() && common[equal] == outer[equal]) ++equal;
      common.resize(equal);
      one_leaf = one_leaf && use.region == own[0].region;
      same_place = same_place && use.outer == own[0].outer;
      serial = serial || use.serial;
    }
    int64_t elements = 1;
    for (const Affine& size : buffer.shape) {
      elements = size.is_constant() && elements <= kMostRegisterElements ? elements * size.constant()
                                                                         : kMostRegisterElements + 1;
    }
    if (one_leaf && same_place && !serial && !dynamic[b]) {
      // Elements of one leaf: the product of the loops that move along the buffer.
      std::map<std::string, int64_t> moving;
      for (const Region::Member& member : regions[own[0].region].members) {
        const Statement& statement = kernel.statements[static_cast<size_t>(member.statement)];
        for (const TreeNode* loop : member.loops) {
          const LoopPart& part = loop->members.at(member.statement);
          moving[loop->name] = part.extent(iterator_extent(statement, part.iterator)).value_or(1);
        }
      }
      int64_t most = 1;
      for (const Use& use : own) {
        int64_t count = 1;
        std::set<std::string> seen;
        for (const Affine& inner : use.inner) {
          for (const auto& [name, coefficient] : inner.terms()) {
            if (seen.insert(name).second && moving.count(name)) count *= moving.at(name);
          }
        }
        most = std::max(most, count);
      }
      if (most <= kMostRegisterElements) {
        buffer.scope = Scope::Register;
        continue;
      }
    }
    std::set<std::string> fixed;
    for (const TreeNode* loop : common) fixed.insert(loop->name);
    std::vector<bool> drop(buffer.shape.size());
    for (size_t d = 0; d < drop.size(); ++d) {
      drop[d] = !dynamic[b];
      for (const Use& use : own) {
        bool outside = use.inner[d].is_constant();
        for (const auto& [name, coefficient] : use.outer[d].terms()) {
          outside = outside && fixed.count(name) > 0;
        }
        drop[d] = drop[d] && outside && use.outer[d] == own[0].outer[d] &&
                  use.inner[d] == own[0].inner[d];
      }
    }
    dropped[static_cast<int>(b)] = drop;
    std::vector<Affine> shape;
    for (size_t d = 0; d < drop.size(); ++d) {
      if (!drop[d]) shape.push_back(buffer.shape[d]);
    }
    buffer.shape = shape;
  }

  std::function<ExprPtr(const ExprPtr&)> shrink_loads;
  auto shrink = [&](const Access& access) {
    Access result{access.buffer, {}};
    auto found = dropped.find(access.buffer);
    for (size_t d = 0; d < access.index.size(); ++d) {
      if (found != dropped.end() && found->second[d]) continue;
      result.index.push_back({access.index[d].affine, shrink_loads(access.index[d].dynamic)});
    }
    return result;
  };
  shrink_loads = [&](const ExprPtr& expr) {
    return rewrite(expr, [&](const ExprPtr& node) -> ExprPtr {
      if (node->kind != Expr::Kind::Load) return nullptr;
      return load(node->dtype, node->access.buffer, shrink(node->access).index);
    });
  };
  for (Statement& statement : kernel.statements) {
    statement.write = shrink(statement.write);
    statement.value = shrink_loads(statement.value);
  }
}

}  // namespace tc
