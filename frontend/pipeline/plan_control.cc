// Steps of a plan for nodes that hold subgraphs.
#include "frontend/pipeline/plan_control.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/ops/op.h"

namespace tc {

Dim bytes_of(const Value& value) { return element_count(*value.shape) * Dim(size_of(value.dtype)); }

Dim stored_bytes(const PlanFrame& frame, ValueId id) {
  const Value& value = (*frame.graph)[id];
  auto found = frame.layouts.find(id);
  if (found == frame.layouts.end()) return bytes_of(value);
  Shape shape = *value.shape;
  shape[1] = ceil_div(shape[1], Dim(found->second)) * Dim(found->second);
  return element_count(shape) * Dim(size_of(value.dtype));
}

bool outermost(const Shape& shape, int64_t axis) {
  for (int64_t i = 0; i < axis; ++i) {
    if (shape[i] != Dim(1)) return false;
  }
  return true;
}

Dim stride_bytes(const PlanFrame& frame, ValueId id, int64_t axis) {
  const Value& value = (*frame.graph)[id];
  Dim stride = size_of(value.dtype);
  for (size_t i = axis + 1; i < value.shape->size(); ++i) stride = stride * (*value.shape)[i];
  if (frame.layouts.count(id) && axis != 1) return 0;
  return stride;
}

int64_t row_bytes(const PlanFrame& frame, ValueId id, size_t axis) {
  const Value& value = (*frame.graph)[id];
  const auto layout = frame.layouts.find(id);
  if (layout != frame.layouts.end() && axis < 2) return 0;
  int64_t bytes = static_cast<int64_t>(size_of(value.dtype));
  if (layout != frame.layouts.end()) bytes *= layout->second;
  for (size_t i = axis + 1; i < value.shape->size(); ++i) bytes *= (*value.shape)[i].constant();
  return bytes;
}

PlanFrame ControlSteps::enter(PlanFrame& outer, Graph& body, const std::vector<Place>& formal,
                              const Node& node, size_t first_capture) {
  PlanFrame frame;
  frame.graph = &body;
  frame.repeated = outer.repeated;
  frame.places.resize(body.values.size());
  for (size_t i = 0; i < formal.size(); ++i) frame.places[body.inputs[i]] = formal[i];
  for (size_t i = 0; i < body.captures.size(); ++i) {
    const ValueId outside = node.inputs.at(first_capture + i);
    frame.places[body.captures[i].second] = place_of(outer, outside);
  }
  return frame;
}

void ControlSteps::control(PlanFrame& frame, const Node& node, PlanSteps& steps) {
  const std::string symbol = text("t", loops_);
  switch (node.op->traits.control) {
    case OpTraits::Control::Size: frame.places[node.outputs[0]] = place_of(frame, node.inputs[0]); break;
    case OpTraits::Control::Branch: branch(frame, node, steps); break;
    case OpTraits::Control::Scan: {
      PlanLoop scan = scan_loop(*frame.graph, node, symbol);
      loop(frame, node, scan, steps);
      break;
    }
    case OpTraits::Control::Loop: {
      PlanLoop plain = plain_loop(*frame.graph, node, symbol);
      frame.places.resize(frame.graph->values.size());
      loop(frame, node, plain, steps);
      break;
    }
    case OpTraits::Control::None: break;
  }
  bind_sizes(frame, node, steps);
}

Place ControlSteps::grown(const std::string& name, const Dim& bytes, PlanSteps& steps) {
  const int storage = sizes_.add_segment(name);
  own_segments_.insert(storage);
  // At least one byte, so that the segment exists even where `bytes` is 0.
  steps.push_back(sizes_.grow_step(storage, bytes == Dim(0) ? Dim(1) : bytes, name));
  return {storage, 0};
}

void ControlSteps::branch(PlanFrame& frame, const Node& node, PlanSteps& steps) {
  PlanStep step;
  step.kind = PlanStep::Kind::If;
  const Place condition = place_of(frame, node.inputs[0]);
  step.locations = {storages_.locate(condition)};
  step.label = printable(node.origin.node);
  storages_.next_step();
  const int begin = storages_.step();
  size_t capture = 1;
  for (const char* name : {"then_branch", "else_branch"}) {
    GraphPtr body = std::make_shared<Graph>(*std::get<GraphPtr>(node.attributes.at(name)));
    PlanFrame inner = enter(frame, *body, {}, node, capture);
    capture += body->captures.size();
    PlanSteps inside = body_steps(inner, nullptr);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      const Place from = place_of(inner, body->outputs[i]);
      const Dim bytes = bytes_of((*body)[body->outputs[i]]);
      const Place to = result_place(frame, node, i);
      // The size of the branch's result is known here, inside of the branch; outside it is known only
      // afterwards.
      if (is_grown(to))
        inside.push_back(sizes_.grow_step(to.storage, bytes, text("the result of ", node.origin.str())));
      inside.push_back(storages_.copy_step(to, from, bytes, "if"));
    }
    (std::string(name) == "then_branch" ? step.body : step.otherwise) = std::move(inside);
  }
  // There is no barrier between a thread's reading of the condition and the first step of the branch, so what
  // that step writes must not overlap the condition.
  storages_.touch(condition.storage);
  storages_.extend_over_loop(begin);
  storages_.next_step();
  steps.push_back(std::move(step));
}

// The place of a result that subgraphs compute: a segment of its own where its size has no bound.
Place ControlSteps::result_place(PlanFrame& frame, const Node& node, size_t output) {
  const ValueId id = node.outputs[output];
  if (!frame.places[id] && sizes_.is_unbounded(bytes_of((*frame.graph)[id]))) {
    const int storage = sizes_.add_segment((*frame.graph)[id].name);
    own_segments_.insert(storage);
    frame.places[id] = Place{storage, 0};
  }
  return place_of(frame, id);
}

// Adds the steps that bind the sizes which the node's outputs hold.
void ControlSteps::bind_sizes(PlanFrame& frame, const Node& node, PlanSteps& steps) {
  for (const auto& [name, symbol] : frame.graph->data_symbols) {
    const bool here =
        std::find(node.outputs.begin(), node.outputs.end(), symbol.source) != node.outputs.end();
    if (here) sizes_.bind(*frame.graph, name, place_of(frame, symbol.source), node.origin, steps);
  }
}

// Copies the initial states to the places that the states have during the loop.
void ControlSteps::enter_states(PlanFrame& frame, PlanLoop& loop, PlanSteps& steps) {
  for (size_t i = 0; i < loop.states; ++i) {
    const Value& inner = loop.value_of(loop.body->inputs[i]);
    const Dim bytes = bytes_of((*frame.graph)[loop.initial[i]]);
    const Place place =
        loop.changes(i) ? grown(inner.name, bytes, steps) : Place{sizes_.allocate(inner.name, bytes), 0};
    steps.push_back(storages_.copy_step(place, place_of(frame, loop.initial[i]), bytes, "initial state"));
    loop.formal.push_back(place);
    loop.states_at.push_back(place);
  }
  if (!loop.conditional) return;
  loop.condition_at = {sizes_.allocate("condition", 1), 0};
  steps.push_back(storages_.copy_step(loop.condition_at, place_of(frame, loop.condition), 1, "condition"));
  loop.step.locations = {storages_.locate(loop.condition_at)};
}

// Whether a size of the result has no bound and is an output of the same node.
bool ControlSteps::has_own_sizes(const Graph& graph, const Node& node, const Value& result) {
  std::set<std::string> names;
  for (const Dim& size : *result.shape) size.collect_symbols(names);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const auto size = graph.data_symbols.find(name);
    return size != graph.data_symbols.end() && !size->second.bound &&
           std::count(node.outputs.begin(), node.outputs.end(), size->second.source) > 0;
  });
}

// Memory of what is scanned and of what is collected is in use from before the loop. Where only the loop
// tells the size of what is collected, it is in a segment that grows.
void ControlSteps::enter_collected(PlanFrame& frame, const Node& node, PlanLoop& loop, PlanSteps& steps) {
  for (size_t i = 0; i < loop.scans; ++i) {
    const Place whole = place_of(frame, loop.initial[loop.states + i]);
    storages_.touch(whole.storage);
    const Dim bytes = bytes_of(loop.value_of(loop.body->inputs[loop.states + i]));
    loop.formal.push_back(loop.slice(whole, bytes, loop.in_directions[i] != 0));
  }
  for (size_t i = loop.states; i < loop.results.size(); ++i) {
    if (!loop.wants(i)) continue;
    const ValueId id = loop.results[i];
    const Value& value = (*frame.graph)[id];
    if (!frame.places[id] && has_own_sizes(*frame.graph, node, value))
      frame.places[id] = grown(value.name, 1, steps);
    storages_.touch(place_of(frame, id).storage);
  }
  storages_.next_step();
}

// A collected value is written directly into its slice where a kernel of the body computes it and its memory
// does not grow.
void ControlSteps::place_collected(PlanFrame& frame, const PlanLoop& loop, PlanFrame& inner) {
  const std::vector<int> makers = loop.body->producers();
  for (size_t i = loop.states; i < loop.collected_end(); ++i) {
    if (!loop.wants(i)) continue;
    const ValueId id = loop.body->outputs[i];
    const Place whole = place_of(frame, loop.results[i]);
    const bool computed = makers[id] >= 0 && loop.body->nodes[makers[id]].op->kind == OpRow::Kind::Compute;
    if (!computed || inner.places[id] || is_grown(whole)) continue;
    inner.places[id] = loop.slice(whole, bytes_of(loop.value_of(id)), loop.is_backwards(i));
  }
}

// The other collected values are copied into their slices.
void ControlSteps::copy_collected(PlanFrame& frame, PlanLoop& loop, PlanFrame& inner, PlanSteps& steps) {
  for (size_t i = loop.states; i < loop.collected_end(); ++i) {
    if (!loop.wants(i)) continue;
    const ValueId id = loop.body->outputs[i];
    const Dim bytes = bytes_of(loop.value_of(id));
    const Place whole = place_of(frame, loop.results[i]);
    const Place to = loop.slice(whole, bytes, loop.is_backwards(i)), from = place_of(inner, id);
    if (from.storage == to.storage && from.offset == to.offset) continue;
    if (is_grown(whole)) {
      steps.push_back(sizes_.grow_step(whole.storage, (Dim::symbol(loop.step.symbol) + Dim(1)) * bytes,
                                       text("what '", loop.step.label, "' collects")));
    }
    steps.push_back(storages_.copy_step(to, from, bytes, "scan output"));
  }
}

// Copies the next states to the places of the states. A next state that is the value of another state, or
// another part of its own, is read before that is overwritten.
void ControlSteps::copy_states(PlanLoop& loop, PlanFrame& inner, PlanSteps& steps) {
  std::vector<Place> next_states;
  for (size_t i = 0; i < loop.states; ++i) {
    const ValueId id = loop.body->outputs[i];
    const Dim bytes = bytes_of(loop.value_of(id));
    Place from = place_of(inner, id);
    const bool overwritten =
        std::any_of(loop.states_at.begin(), loop.states_at.end(), [&](const Place& place) {
          return place.storage == from.storage &&
                 (place.storage != loop.states_at[i].storage || place.offset != from.offset);
        });
    if (overwritten) {
      const Place temporary{sizes_.allocate("state", bytes), 0};
      steps.push_back(storages_.copy_step(temporary, from, bytes, "state"));
      from = temporary;
    }
    next_states.push_back(from);
  }
  for (size_t i = 0; i < loop.states; ++i) {
    if (next_states[i].storage == loop.states_at[i].storage) continue;
    const Dim bytes = bytes_of(loop.value_of(loop.body->outputs[i]));
    if (is_grown(loop.states_at[i]))
      steps.push_back(
          sizes_.grow_step(loop.states_at[i].storage, bytes, text("a state of '", loop.step.label, "'")));
    steps.push_back(storages_.copy_step(loop.states_at[i], next_states[i], bytes, "state"));
  }
  for (const Place& place : loop.states_at) storages_.touch(place.storage);
}

// The results are the states' memory itself, or copies of it where they already have a place.
void ControlSteps::leave_states(PlanFrame& frame, const PlanLoop& loop, PlanSteps& steps) {
  for (size_t i = 0; i < loop.states; ++i) {
    if (!loop.wants(i)) continue;
    const ValueId id = loop.results[i];
    if (!frame.places[id] && !frame.aliases.count(id)) frame.places[id] = loop.states_at[i];
    const Place to = place_of(frame, id);
    if (to.storage == loop.states_at[i].storage) continue;
    steps.push_back(storages_.copy_step(to, loop.states_at[i], bytes_of((*frame.graph)[id]), "final state"));
  }
}

// Each state has one block; the next state is copied to it at the end of an iteration.
void ControlSteps::loop(PlanFrame& frame, const Node& node, PlanLoop& loop, PlanSteps& steps) {
  ++loops_;
  enter_states(frame, loop, steps);
  enter_collected(frame, node, loop, steps);
  const int begin = storages_.step();
  PlanFrame inner = enter(frame, *loop.body, loop.formal, node, loop.first_capture);
  inner.repeated = true;
  place_collected(frame, loop, inner);
  loop.step.body = body_steps(inner, [&](PlanSteps& inside) {
    copy_collected(frame, loop, inner, inside);
    if (loop.conditional)
      inside.push_back(
          storages_.copy_step(loop.condition_at, place_of(inner, loop.body->outputs.back()), 1, "condition"));
    copy_states(loop, inner, inside);
  });
  storages_.extend_over_loop(begin);
  storages_.next_step();
  steps.push_back(std::move(loop.step));
  leave_states(frame, loop, steps);
}

}  // namespace tc
