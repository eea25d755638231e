// While a plan is built: the sizes that its run will compute.
#include "frontend/pipeline/run_sizes.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/size_bounds.h"

namespace tc {
namespace {

std::set<std::string> symbols_of(const Dim& dim) {
  std::set<std::string> names;
  dim.collect_symbols(names);
  return names;
}

}  // namespace

RunSizes::Scope RunSizes::enter(const Graph& graph, PlanSteps& steps) {
  Scope outside = scope_;
  for (const auto& [name, range] : graph.symbols) scope_.known.insert(name);
  for (const auto& [name, symbol] : graph.data_symbols) {
    scope_.bounds.erase(name);
    scope_.segments.erase(name);
    scope_.known.erase(name);
    if (!symbol.bound) scope_.segments[name] = -1;
  }
  for (const auto& [name, bound] : size_bounds(graph)) scope_.bounds[name] = reserved(bound);
  scope_.relations = graph.relations;
  add_checks(steps);
  return outside;
}

bool RunSizes::is_unbounded(const Dim& size) const {
  if (scope_.segments.empty()) return false;
  const std::set<std::string> names = symbols_of(reserved(size));
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return scope_.segments.count(name) > 0; });
}

int RunSizes::allocate(const std::string& name, const Dim& bytes) {
  const Dim most = reserved(bytes);
  int segment = -1;
  for (const std::string& size : symbols_of(most)) {
    const auto found = scope_.segments.find(size);
    if (found == scope_.segments.end()) continue;
    TC_CHECK(found->second >= 0, "for '", name, "': size '", size, "' before it is bound");
    segment = std::max(segment, found->second);  // numbered in the order in which the sizes are bound
  }
  if (segment < 0) return storages_.add(Location::Kind::Arena, 0, name, most);
  return storages_.add(Location::Kind::Segment, segment, name, most);
}

void RunSizes::bind(const Graph& graph, const std::string& size, const Place& holder, const Origin& origin,
                    PlanSteps& steps) {
  PlanStep step;
  step.kind = PlanStep::Kind::Bind;
  step.symbol = size;
  step.bound = graph.data_symbols.at(size).bound;
  step.locations = {storages_.locate(holder)};
  step.label = text("size '", size, "' of node '", origin.node, "'");
  const std::string label = step.label;
  storages_.next_step();
  steps.push_back(std::move(step));
  scope_.known.insert(size);
  add_checks(steps);
  const auto unbounded = scope_.segments.find(size);
  if (unbounded == scope_.segments.end()) return;
  unbounded->second = storages_.planned_segment();
  PlanStep grow;
  grow.kind = PlanStep::Kind::Grow;
  grow.segment = unbounded->second;
  grow.left = Dim::symbol(size);
  grow.label = label;
  storages_.next_step();
  steps.push_back(std::move(grow));
}

int RunSizes::add_segment(const std::string& name) {
  return storages_.add(Location::Kind::Segment, storages_.own_segment(), name, Dim(0));
}

PlanStep RunSizes::grow_step(int storage, const Dim& bytes, const std::string& label) {
  PlanStep step;
  step.kind = PlanStep::Kind::Grow;
  step.segment = storages_.segment(storage);
  step.bytes = bytes;
  step.left = bytes;
  step.label = label;
  storages_.touch(storage);
  storages_.next_step();
  return step;
}

// Adds checks of those relations whose sizes are all known.
void RunSizes::add_checks(PlanSteps& steps) {
  auto has_values = [&](const SizeRelation& relation) {
    std::set<std::string> names = symbols_of(relation.left);
    names.merge(symbols_of(relation.right));
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return scope_.known.count(name) > 0; });
  };
  for (const SizeRelation& relation : scope_.relations) {
    if (!has_values(relation)) continue;
    PlanStep step;
    step.kind = PlanStep::Kind::Check;
    step.left = relation.left;
    step.right = relation.right;
    step.equal = relation.equal;
    step.label = text(relation.where, ": '", relation.left.str(),
                      relation.equal ? "' has to be '" : "' may be at most '", relation.right.str(), "'");
    storages_.next_step();
    steps.push_back(std::move(step));
  }
  scope_.relations.erase(std::remove_if(scope_.relations.begin(), scope_.relations.end(), has_values),
                         scope_.relations.end());
}

bool RunSizes::limit(const std::string& size, int64_t most) {
  const auto [limit, fresh] = limits_.try_emplace(size, most);
  if (!fresh && most >= limit->second) return false;
  limit->second = most;
  return true;
}

// Makes the steps that bind sizes check that these are no larger than kernels accept.
void RunSizes::apply_limits(PlanSteps& steps, const std::map<std::string, int64_t>& limits) {
  for (PlanStep& step : steps) {
    const auto limit = step.kind == PlanStep::Kind::Bind ? limits.find(step.symbol) : limits.end();
    if (limit != limits.end())
      step.bound = step.bound ? min(*step.bound, Dim(limit->second)) : Dim(limit->second);
    apply_limits(step.body, limits);
    apply_limits(step.otherwise, limits);
  }
}

void RunSizes::finish(const Graph& graph, Plan& plan) const {
  apply_limits(plan.steps, limits_);
  std::set<std::string> names;
  for (const PortInfo& port : plan.outputs) {
    for (const Dim& dim : port.shape) dim.collect_symbols(names);
  }
  const std::map<std::string, Dim> bounds = size_bounds(graph);
  for (const auto& [name, symbol] : graph.data_symbols) {
    if (!names.count(name)) continue;
    const auto bound = bounds.find(name);
    const std::set<std::string> over =
        bound == bounds.end() ? std::set<std::string>() : symbols_of(bound->second);
    const bool known = std::all_of(over.begin(), over.end(),
                                   [&](const std::string& each) { return !graph.data_symbols.count(each); });
    if (bound != bounds.end() && known) plan.data_symbols[name] = bound->second;
    else plan.unbounded.insert(name);
  }
}

}  // namespace tc
