// What distinguishes schedules by the loops that they lead to.
#include "scheduler/search/sketch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "scheduler/default/reduction.h"
#include "scheduler/legality/trust.h"

namespace tc {
namespace {

// The loops above a leaf: those outside of its tile, and those in it.
struct LoopsAbove {
  double depth = 0, trips = 1, isolated = 0;
  double copies = 1, widest = 1, per_trip = 1, lanes = 1, serial = 1, last = 1;
};

class FeatureFinder {
 public:
  explicit FeatureFinder(const ScheduleState& state) : state_(state) {
    double most = -1;
    const auto& statements = state.kernel->kernel.statements;
    for (size_t i = 0; i < statements.size(); ++i) {
      double instances = 1;
      for (const Iterator& iterator : statements[i].iterators) {
        instances *= static_cast<double>(extent_or(statements[i], iterator.name, kAssumedSymbolic));
      }
      if (instances <= most) continue;
      most = instances;
      main_ = static_cast<int>(i);
    }
    visit(state.tree, {}, false);
  }

  std::array<double, kLoopFeatures> features() const {
    return {std::log2(found_.copies),
            std::log2(found_.widest),
            std::log2(found_.per_trip),
            std::log2(found_.lanes),
            std::log2(found_.serial),
            std::log2(found_.last),
            std::log2(found_.trips),
            found_.depth,
            found_.isolated,
            std::log2(std::max(1.0, leaves_))};
  }

 private:
  void visit(const TreeNode& node, LoopsAbove above, bool in_tile) {
    if (node.kind == TreeNode::Kind::Leaf) {
      ++leaves_;
      if (node.statement == main_) found_ = above;
      return;
    }
    const double extent = node.kind == TreeNode::Kind::Loop
                              ? static_cast<double>(constant_extent(state_, node).value_or(kAssumedSymbolic))
                              : 1;
    // A loop of one trip does not count, as in write_key.
    const bool vector = node.is(marks::kVector);
    if (extent > 1 || vector) {
      const bool whole = node.copies() == 0 || static_cast<double>(node.copies()) >= extent;
      above.isolated += node.is(marks::kIsolate);
      if (vector) {
        above.lanes *= extent;
      } else if (in_tile && whole) {
        above.copies *= extent;
        above.widest = std::max(above.widest, extent);
      } else if (in_tile) {
        above.per_trip = std::max(above.per_trip, static_cast<double>(node.copies()));
        above.serial *= extent;
        above.last = extent;
      } else {
        ++above.depth;
        above.trips = extent;
      }
    }
    for (const TreeNode& child : node.children)
      visit(child, above, in_tile || node.kind == TreeNode::Kind::Tile);
  }

  const ScheduleState& state_;
  int main_ = 0;
  LoopsAbove found_;
  double leaves_ = 0;
};

void write_key(const ScheduleState& state, const TreeNode& node, std::string& key) {
  if (node.kind == TreeNode::Kind::Leaf) key += text("s", node.statement);
  if (node.kind == TreeNode::Kind::Tile) key += "tile";
  const auto extent = node.kind == TreeNode::Kind::Loop ? constant_extent(state, node) : std::nullopt;
  if (node.kind == TreeNode::Kind::Loop &&
      (extent != 1 || node.is(marks::kVector) || node.is(marks::kMatrix))) {
    for (const auto& [statement, part] : node.iterator_parts) {
      key += text(statement, ":", part.iterator);
      for (const LoopPart::Step& step : part.steps) key += text(step.modulo ? "%" : "/", step.size);
      key += " ";
    }
    std::vector<std::string> words;
    for (LoopMark mark : node.marks) {
      if (extent && mark.count >= *extent) mark.count = 0;  // all trips
      words.push_back(str(mark));
    }
    std::sort(words.begin(), words.end());
    for (const std::string& word : words) key += word + ";";
  }
  key += "(";
  for (const TreeNode& child : node.children) write_key(state, child, key);
  key += ")";
}

}  // namespace

std::vector<double> loop_features(const Schedule& schedule) {
  const std::array<double, kLoopFeatures> found = FeatureFinder(ScheduleAccess::state(schedule)).features();
  return {found.begin(), found.end()};
}

std::string loops_key(const Schedule& schedule) {
  const ScheduleState& state = ScheduleAccess::state(schedule);
  std::string key = str(state.kernel->kernel);
  write_key(state, state.tree, key);
  return key;
}

std::string sketch_of(const Schedule& start, const std::vector<std::string>& lines, std::string* why) {
  const Trust trust;
  Schedule schedule = start;
  std::optional<std::string> refused = schedule.replay(lines);
  const int64_t copies = straight_line_copies(schedule);
  if (!refused && copies > kMaxStraightLine) refused = text("straight-line code of ", copies, " copies");
  if (!refused) return loops_key(schedule);
  if (why != nullptr) *why = *refused;
  return "";
}

int64_t straight_line_copies(const Schedule& schedule) {
  const ScheduleState& state = ScheduleAccess::state(schedule);
  const int64_t lanes = std::max(1, state.target.lanes(DType::F32));
  int64_t most = 1;
  visit_tree(state.tree, [&](const TreeNode& node, const std::vector<const TreeNode*>& loops) {
    if (node.kind != TreeNode::Kind::Leaf) return;
    int64_t copies = 1;
    for (const TreeNode* loop : loops) {
      const auto extent = constant_extent(state, *loop);
      if (loop->is(marks::kVector)) copies *= std::max<int64_t>(1, extent.value_or(1) / lanes);
      else if (loop->copies() == 0) copies *= extent.value_or(1);
      else copies *= std::min(loop->copies(), extent.value_or(loop->copies()));
      copies = std::min<int64_t>(copies, 1 << 30);
    }
    most = std::max(most, copies);
  });
  return most;
}

}  // namespace tc
