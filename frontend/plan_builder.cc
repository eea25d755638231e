// From a simplified graph to a plan: fusion, layouts, schedules, memory, steps.
#include "frontend/plan_builder.h"

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/codegen.h"
#include "frontend/constant_store.h"
#include "frontend/layout.h"
#include "frontend/memory_plan.h"
#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/group.h"
#include "scheduler/scheduler.h"

namespace tc {
namespace {

// A root block of memory; values are ranges inside one.
struct Storage {
  Location::Kind kind = Location::Kind::Arena;
  int index = 0;
  std::string name;
  Dim bytes;
  int first = -1, last = -1;       // life in steps
  Dim offset;
};

struct Place {
  int storage = -1;
  Dim offset;
};

// A kernel whose work is below this is not worth dividing: the others wait for the slowest.
constexpr double kSingleThreadSeconds = 8e-6;
// What symbolic sizes are taken for then.
constexpr int64_t kLikelySize = 64;

// Kernels already scheduled, by workload, layout lines and target.
struct Scheduled {
  int index = -1;
  std::string workload;
  bool tuned = false;
  std::vector<std::string> trace;
  double seconds = 0;
  bool single_thread = false;      // too small to divide
};

// Products that sums of products add up, as networks' authors count them: with those that meet
// padding.
double multiply_add_count(const Kernel& kernel, const std::map<std::string, int64_t>& parameters) {
  double total = 0;
  for (const Statement& statement : kernel.statements) {
    const Expr& value = *statement.value;
    if (statement.reduction != Reduction::Sum || value.kind != Expr::Kind::Binary ||
        value.binary != BinaryOp::Mul) {
      continue;
    }
    double count = 1;
    for (const Iterator& iterator : statement.iterators) {
      count *= static_cast<double>(std::max<int64_t>(0, iterator.extent.evaluate(parameters)));
    }
    total += count;
  }
  return total;
}

class Builder {
 public:
  explicit Builder(const BuildOptions& options) : options_(options) {
    result_.plan.target = options.target.name;
  }

  BuiltPlan run(Graph graph) {
    Plan& plan = result_.plan;
    plan.model = graph.name;
    plan.symbols = graph.symbols;
    Frame frame;
    frame.graph = &graph;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const Value& value = graph[graph.inputs[i]];
      plan.inputs.push_back({value.name, value.dtype, *value.shape});
    }
    for (ValueId id : graph.outputs) {
      plan.outputs.push_back({graph[id].name, graph[id].dtype, *graph[id].shape});
    }
    frame.layouts = choose_layouts(graph, options_.target, plain_);
    frame.places.resize(graph.values.size());
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      frame.places[graph.inputs[i]] = Place{add_storage(Location::Kind::Input, static_cast<int>(i),
                                                        graph[graph.inputs[i]].name,
                                                        bytes_of(graph[graph.inputs[i]])), 0};
    }
    plan.steps = build_steps(frame, /*top=*/true);
    for (size_t i = 0; i < graph.outputs.size(); ++i) copy_output(frame, static_cast<int>(i), plan.steps);
    finish_memory();
    plan.constants = constants_.take();
    return std::move(result_);
  }

 private:
  // One graph being lowered: the model's, or a subgraph's.
  struct Frame {
    Graph* graph = nullptr;
    Layouts layouts;
    std::vector<std::optional<Place>> places;
    std::map<ValueId, std::pair<ValueId, Dim>> aliases;  // part of a concat: whole value, byte offset
  };

  static Dim bytes_of(const Value& value) {
    return element_count(*value.shape) * Dim(size_of(value.dtype));
  }
  Dim stored_bytes(const Frame& frame, ValueId id) const {
    const Value& value = (*frame.graph)[id];
    auto found = frame.layouts.find(id);
    if (found == frame.layouts.end()) return bytes_of(value);
    Shape shape = *value.shape;
    shape[1] = ceil_div(shape[1], Dim(found->second)) * Dim(found->second);
    return element_count(shape) * Dim(size_of(value.dtype));
  }

  int add_storage(Location::Kind kind, int index, const std::string& name, const Dim& bytes) {
    storages_.push_back({kind, index, name, bytes, -1, -1, Dim(0)});
    return static_cast<int>(storages_.size()) - 1;
  }

  void touch(int storage) {
    Storage& s = storages_[storage];
    if (s.first < 0) s.first = step_;
    s.last = std::max(s.last, step_);
  }

  // Location with the storage's number in place of its address until finish_memory().
  Location locate(const Place& place) {
    touch(place.storage);
    return {storages_[place.storage].kind, place.storage, place.offset};
  }

  // The memory of constant `index`; `name` is of the value that it was made from.
  Place constant_place(int index, const std::string& name) {
    auto [found, fresh] = constant_storages_.try_emplace(index, -1);
    if (fresh) {
      found->second = add_storage(Location::Kind::Constant, index, name,
                                  Dim(constants_[index].byte_count()));
    }
    return {found->second, 0};
  }

  // The memory of a value, allocated on first use.
  Place place_of(Frame& frame, ValueId id) {
    std::optional<Place>& place = frame.places[id];
    if (place) return *place;
    const Value& value = (*frame.graph)[id];
    if (value.constant) return *(place = constant_place(constants_.index_of(value.constant), value.name));
    auto alias = frame.aliases.find(id);
    if (alias != frame.aliases.end()) {
      Place whole = place_of(frame, alias->second.first);
      return *(frame.places[id] = Place{whole.storage, whole.offset + alias->second.second});
    }
    return *(place = Place{add_storage(Location::Kind::Arena, 0, value.name, stored_bytes(frame, id)), 0});
  }

  // Gives the producers of model outputs the caller's memory, through views where they lie between.
  void assign_outputs(Frame& frame, const std::vector<Group>& groups) {
    const Graph& graph = *frame.graph;
    std::vector<int> group_of_value(graph.values.size(), -1);
    for (size_t g = 0; g < groups.size(); ++g) {
      for (ValueId id : groups[g].outputs) group_of_value[id] = static_cast<int>(g);
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      ValueId id = graph.outputs[i];
      while (id != kNoValue && group_of_value[id] >= 0 &&
             groups[group_of_value[id]].kind == Group::Kind::View && !frame.layouts.count(id)) {
        id = graph.nodes[groups[group_of_value[id]].nodes[0]].inputs[0];
      }
      if (group_of_value[id] < 0 || groups[group_of_value[id]].kind != Group::Kind::Compute) continue;
      if (frame.places[id] || frame.aliases.count(id) || frame.layouts.count(id)) continue;
      if (graph[id].dtype != graph[graph.outputs[i]].dtype) continue;
      frame.places[id] = Place{add_storage(Location::Kind::Output, static_cast<int>(i), graph[id].name,
                                           bytes_of(graph[id])), 0};
    }
  }

  void copy_output(Frame& frame, int index, PlanSteps& steps) {
    const Graph& graph = *frame.graph;
    const ValueId id = graph.outputs[index];
    const Place from = place_of(frame, id);
    const Storage& storage = storages_[from.storage];
    if (storage.kind == Location::Kind::Output && storage.index == index) return;
    Place to{add_storage(Location::Kind::Output, index, graph[id].name, bytes_of(graph[id])), 0};
    steps.push_back(copy_step(to, from, bytes_of(graph[id]), "copy " + graph[id].name));
  }

  PlanStep copy_step(const Place& to, const Place& from, const Dim& bytes, const std::string& label) {
    PlanStep step;
    step.kind = PlanStep::Kind::Copy;
    step.locations = {locate(to), locate(from)};
    step.bytes = bytes;
    step.label = label;
    ++step_;
    return step;
  }

  // The product of the dimensions before `axis` is 1, so that parts along it are contiguous.
  static bool outermost(const Shape& shape, int64_t axis) {
    for (int64_t i = 0; i < axis; ++i) {
      if (shape[i] != Dim(1)) return false;
    }
    return true;
  }

  // Bytes of one step along the axis; 0 where a blocked layout does not allow parts there.
  Dim stride_bytes(const Frame& frame, ValueId id, int64_t axis) const {
    const Value& value = (*frame.graph)[id];
    Dim stride = size_of(value.dtype);
    for (size_t i = axis + 1; i < value.shape->size(); ++i) stride = stride * (*value.shape)[i];
    if (frame.layouts.count(id) && axis != 1) return 0;
    return stride;
  }

  // Inputs of a concat that are computed straight into their part of its memory.
  void alias_concats(Frame& frame, const std::vector<Group>& groups) {
    const Graph& graph = *frame.graph;
    std::vector<bool> computed(graph.values.size(), false);
    for (const Group& group : groups) {
      if (group.kind != Group::Kind::Compute) continue;
      for (ValueId id : group.outputs) computed[id] = true;
    }
    std::set<ValueId> outputs(graph.outputs.begin(), graph.outputs.end());
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      if (node->op->name != "Concat") continue;
      const ValueId whole = node->outputs[0];
      const int64_t rank = static_cast<int64_t>(graph[whole].shape->size());
      int64_t axis = int_attribute(*node, "axis");
      if (axis < 0) axis += rank;
      if (!outermost(*graph[whole].shape, axis)) continue;
      const Dim stride = stride_bytes(frame, whole, axis);
      if (stride == Dim(0)) continue;
      Dim offset = 0;
      for (ValueId part : node->inputs) {
        const Dim here = offset;
        offset = offset + (*graph[part].shape)[axis] * stride;
        const bool same_layout = frame.layouts.count(part) == frame.layouts.count(whole);
        if (!computed[part] || outputs.count(part) || frame.aliases.count(part) || !same_layout) continue;
        if (std::count(node->inputs.begin(), node->inputs.end(), part) > 1) continue;
        frame.aliases[part] = {whole, here};
      }
    }
  }

  PlanSteps build_steps(Frame& frame, bool top) {
    const std::vector<Group> groups = fuse_groups(*frame.graph);
    frame.places.resize(frame.graph->values.size());
    alias_concats(frame, groups);
    if (top) assign_outputs(frame, groups);
    PlanSteps steps;
    for (const Group& group : groups) {
      const Node& node = frame.graph->nodes[group.nodes[0]];
      if (group.kind == Group::Kind::View && view(frame, node)) continue;
      if (group.kind == Group::Kind::Control) {
        control(frame, node, steps);
      } else if (node.op->name == "Concat" && concat_in_place(frame, node, steps)) {
        continue;
      } else if (node.op->name == "Split" && split_in_place(frame, node)) {
        continue;
      } else if (node.op->name == "Reorder" && reorder_in_place(frame, node)) {
        continue;
      } else {
        call(frame, group, steps);
      }
    }
    return steps;
  }

  bool view(Frame& frame, const Node& node) {
    const ValueId in = node.inputs[0], out = node.outputs[0];
    if (frame.places[out] || frame.aliases.count(out)) {
      // Memory was promised to the output: only where the source already lies there is it a view.
      return frame.places[in] && frame.places[out] && frame.places[in]->storage == frame.places[out]->storage;
    }
    frame.places[out] = place_of(frame, in);
    return true;
  }

  bool reorder_in_place(Frame& frame, const Node& node) {
    const ValueId in = node.inputs[0], out = node.outputs[0];
    const Shape& shape = *(*frame.graph)[in].shape;
    const int block = frame.layouts.count(in) ? frame.layouts[in] : frame.layouts[out];
    if (shape[2] != Dim(1) || shape[3] != Dim(1)) return false;
    if (!shape[1].is_constant() || shape[1].constant() % block != 0) return false;
    if (frame.places[out] || frame.aliases.count(out)) return false;
    frame.places[out] = place_of(frame, in);
    return true;
  }

  bool concat_in_place(Frame& frame, const Node& node, PlanSteps& steps) {
    const Graph& graph = *frame.graph;
    const ValueId whole = node.outputs[0];
    int64_t axis = int_attribute(node, "axis");
    if (axis < 0) axis += static_cast<int64_t>(graph[whole].shape->size());
    if (!outermost(*graph[whole].shape, axis)) return false;
    const Dim stride = stride_bytes(frame, whole, axis);
    if (stride == Dim(0)) return false;
    const Place to = place_of(frame, whole);
    Dim offset = 0;
    for (ValueId part : node.inputs) {
      const Dim bytes = (*graph[part].shape)[axis] * stride;
      auto alias = frame.aliases.find(part);
      const bool lies_there = alias != frame.aliases.end() && alias->second.first == whole;
      if (!lies_there && bytes != Dim(0)) {
        steps.push_back(copy_step({to.storage, to.offset + offset}, place_of(frame, part), bytes,
                                  "concat " + graph[whole].name));
      }
      offset = offset + bytes;
    }
    return true;
  }

  bool split_in_place(Frame& frame, const Node& node) {
    const Graph& graph = *frame.graph;
    const ValueId whole = node.inputs[0];
    int64_t axis = int_attribute(node, "axis");
    if (axis < 0) axis += static_cast<int64_t>(graph[whole].shape->size());
    if (!outermost(*graph[whole].shape, axis) || frame.layouts.count(whole)) return false;
    for (ValueId part : node.outputs) {
      if (part == kNoValue) continue;
      if (frame.places[part] || frame.aliases.count(part) || frame.layouts.count(part)) return false;
    }
    const Dim stride = stride_bytes(frame, whole, axis);
    const Place from = place_of(frame, whole);
    Dim offset = 0;
    for (ValueId part : node.outputs) {
      if (part == kNoValue) return false;
      frame.places[part] = Place{from.storage, from.offset + offset};
      offset = offset + (*graph[part].shape)[axis] * stride;
    }
    return true;
  }

  // --- kernels ---------------------------------------------------------------------------------

  std::string label_of(const Graph& graph, const Group& group) const {
    std::string label;
    for (int node : group.nodes) {
      const Node& n = graph.nodes[node];
      if (!label.empty()) label += " + ";
      label += n.origin.node.empty() ? n.op->name : n.origin.node;
      if (n.op->name == "Reorder") label += " (reorder)";
    }
    return label;
  }

  // Names by role, so that traces of equal kernels are equal: in0, const0, out0, tmp0, …
  static void rename_buffers(Kernel& kernel) {
    std::map<Scope, std::pair<const char*, int>> roles = {
        {Scope::Input, {"in", 0}}, {Scope::Constant, {"const", 0}}, {Scope::Output, {"out", 0}}, {Scope::Local, {"tmp", 0}}};
    std::map<std::string, std::string> names;
    for (Buffer& buffer : kernel.buffers) {
      auto& [stem, count] = roles.at(buffer.scope);
      names[buffer.name] = text(stem, count++);
      buffer.name = names[buffer.name];
    }
    for (Buffer& buffer : kernel.buffers) {
      if (!buffer.in_place_of.empty()) buffer.in_place_of = names.at(buffer.in_place_of);
    }
  }

  // The first of the given traces that this kernel allows, else the default.
  Schedule choose_schedule(const Kernel& kernel, const std::vector<std::string>& layout_lines, Scheduled& entry) {
    std::vector<std::vector<std::string>> traces;
    if (options_.traces) traces = options_.traces(entry.workload);
    for (const std::vector<std::string>& trace : traces) {
      Schedule schedule(kernel, options_.target);
      std::optional<std::string> refused;
      const bool laid_out = trace.size() >= layout_lines.size() &&
                            std::equal(layout_lines.begin(), layout_lines.end(), trace.begin());
      if (!laid_out) refused = "it does not begin with the layouts that the model gives the kernel";
      if (!refused) refused = schedule.replay(trace);
      const TraceAlgorithm algorithm = refused ? TraceAlgorithm() : algorithm_of(trace);
      if (algorithm.tolerance > options_.tolerance) {
        refused = text(algorithm.text, " needs a tolerance of ", algorithm.tolerance, ", not ", options_.tolerance);
      }
      if (!refused) refused = schedule.check();
      if (!refused) {
        entry.tuned = true;
        return schedule;
      }
      result_.notes.push_back(text("a recorded schedule of kernel '", kernel.name, "' is not used: ", *refused));
    }
    return default_schedule(kernel, options_.target, options_.threads, layout_lines, options_.tolerance);
  }

  Scheduled schedule(const Kernel& kernel, const std::vector<std::string>& layout_lines) {
    std::string key = workload_key(kernel);
    for (const std::string& line : layout_lines) key += "\n" + line;
    auto found = scheduled_.find(key);
    if (found != scheduled_.end()) return found->second;
    Scheduled entry;
    entry.workload = key;
    Schedule schedule = choose_schedule(kernel, layout_lines, entry);
    entry.trace = schedule.trace();
    ScheduledKernel finished = schedule.finish();
    entry.seconds = predicted_seconds(finished, options_.target, 1);
    entry.single_thread = predicted_seconds(finished, options_.target, 1, kLikelySize) < kSingleThreadSeconds;
    entry.index = static_cast<int>(result_.plan.kernels.size());
    result_.plan.scratch_bytes = std::max(result_.plan.scratch_bytes, scratch_bytes(finished));
    result_.plan.kernels.push_back(std::move(finished));
    return scheduled_.emplace(key, entry).first->second;
  }

  void call(Frame& frame, const Group& group, PlanSteps& steps) {
    const Graph& graph = *frame.graph;
    std::vector<ValueId> arguments;
    Kernel kernel = lower_group(graph, group.nodes, group.outputs, &arguments);
    inline_locals(kernel);
    kernel.name = label_of(graph, group);
    rename_buffers(kernel);

    std::vector<std::string> layout_lines;
    size_t argument_count = 0;
    std::map<std::string, ValueId> values;   // of the arguments
    for_each_argument(kernel, [&](const Buffer& buffer, size_t argument) {
      values[buffer.name] = arguments.at(argument);
      auto blocked = frame.layouts.find(arguments.at(argument));
      if (blocked != frame.layouts.end()) {
        layout_lines.push_back(text("layout ", buffer.name, " 1 ", blocked->second));
      }
      ++argument_count;
    });
    TC_CHECK(argument_count == arguments.size());

    const Scheduled entry = schedule(kernel, layout_lines);
    const Kernel& final_kernel = result_.plan.kernels[entry.index].kernel;

    PlanStep step;
    step.kernel = entry.index;
    step.label = kernel.name;
    step.single_thread = entry.single_thread;
    for_each_argument(final_kernel, [&](const Buffer& buffer, size_t) {
      const ValueId value = values.at(original_of(final_kernel, buffer.name));
      step.locations.push_back(locate(argument_place(frame, value, buffer, final_kernel)));
    });
    for (const Parameter& parameter : kernel.parameters) step.parameters.push_back(parameter.value);
    steps.push_back(std::move(step));
    ++step_;
    report(kernel, entry, layout_lines);
  }

  Place argument_place(Frame& frame, ValueId id, const Buffer& buffer, const Kernel& kernel) {
    const Value& value = (*frame.graph)[id];
    if (value.constant) {
      if (const Packing* packing = packing_of(kernel, buffer.name)) {
        return constant_place(constants_.index_of(value.constant, *packing, kernel), value.name);
      }
    }
    return place_of(frame, id);
  }

  void report(const Kernel& kernel, const Scheduled& entry, const std::vector<std::string>& layout_lines) {
    KernelReport report;
    report.label = kernel.name;
    report.kernel = entry.index;
    report.workload = entry.workload;
    report.layout_lines = layout_lines;
    report.trace = entry.trace;
    report.algorithm = algorithm_of(entry.trace).text;
    report.tuned = entry.tuned;
    report.single_thread = entry.single_thread;
    report.statements = str(kernel);
    report.predicted_seconds = entry.seconds;
    std::map<std::string, int64_t> parameters;
    for (const Parameter& parameter : kernel.parameters) parameters[parameter.name] = std::max<int64_t>(1, parameter.minimum);
    report.flops = flop_count(kernel, parameters);
    report.multiply_adds = multiply_add_count(kernel, parameters);
    result_.reports.push_back(std::move(report));
  }

  // --- control flow ----------------------------------------------------------------------------

  // Everything that lived before the loop and is used in it lives until its end.
  void extend_over_loop(int begin) {
    for (Storage& storage : storages_) {
      if (storage.first >= 0 && storage.first < begin && storage.last >= begin) storage.last = step_;
    }
  }

  Frame enter(Frame& outer, Graph& body, const std::vector<Place>& formal, const Node& node, size_t first_capture) {
    Frame frame;
    frame.graph = &body;
    frame.places.resize(body.values.size());
    for (size_t i = 0; i < formal.size(); ++i) frame.places[body.inputs[i]] = formal[i];
    for (size_t i = 0; i < body.captures.size(); ++i) {
      const ValueId outside = node.inputs.at(first_capture + i);
      frame.places[body.captures[i].second] = place_of(outer, outside);
    }
    return frame;
  }

  void control(Frame& frame, const Node& node, PlanSteps& steps) {
    if (node.op->name == "If") return branch(frame, node, steps);
    if (node.op->name == "Scan") return scan(frame, node, steps);
    fail(ErrorKind::Unsupported, node.origin.str(), ": operator ", node.op->name,
         " with a condition or trip count known only at run time is not supported; "
         "export the model with a fixed number of iterations");
  }

  void branch(Frame& frame, const Node& node, PlanSteps& steps) {
    PlanStep step;
    step.kind = PlanStep::Kind::If;
    step.locations = {locate(place_of(frame, node.inputs[0]))};
    step.label = node.origin.node;
    ++step_;
    const int begin = step_;
    size_t capture = 1;
    for (const char* name : {"then_branch", "else_branch"}) {
      GraphPtr body = std::make_shared<Graph>(*std::get<GraphPtr>(node.attributes.at(name)));
      Frame inner = enter(frame, *body, {}, node, capture);
      capture += body->captures.size();
      PlanSteps body_steps = build_steps(inner, false);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] == kNoValue) continue;
        const Place from = place_of(inner, body->outputs[i]);
        body_steps.push_back(copy_step(place_of(frame, node.outputs[i]), from,
                                       bytes_of((*body)[body->outputs[i]]), "if"));
      }
      (std::string(name) == "then_branch" ? step.body : step.otherwise) = std::move(body_steps);
    }
    extend_over_loop(begin);
    ++step_;
    steps.push_back(std::move(step));
  }

  // ONNX Scan over axis 0: states live in one block each, copied back at the end of an iteration.
  void scan(Frame& frame, const Node& node, PlanSteps& steps) {
    const Graph& graph = *frame.graph;
    GraphPtr body = std::make_shared<Graph>(*std::get<GraphPtr>(node.attributes.at("body")));
    const size_t scans = static_cast<size_t>(int_attribute(node, "num_scan_inputs"));
    const size_t states = body->inputs.size() - scans;
    std::vector<int64_t> in_directions(scans, 0), out_directions(body->outputs.size() - states, 0);
    if (has_attribute(node, "scan_input_directions")) {
      auto given = ints_attribute(node, "scan_input_directions");
      std::copy_n(given.begin(), std::min(given.size(), in_directions.size()), in_directions.begin());
    }
    if (has_attribute(node, "scan_output_directions")) {
      auto given = ints_attribute(node, "scan_output_directions");
      std::copy_n(given.begin(), std::min(given.size(), out_directions.size()), out_directions.begin());
    }

    PlanStep loop;
    loop.kind = PlanStep::Kind::Loop;
    loop.symbol = text("t", loops_++);
    loop.label = node.origin.node;
    loop.trip = (*graph[node.inputs[states]].shape)[0];
    const Dim t = Dim::symbol(loop.symbol);
    auto slice = [&](const Place& whole, const Dim& bytes, bool backwards) {
      const Dim at = backwards ? loop.trip - Dim(1) - t : t;
      return Place{whole.storage, whole.offset + at * bytes};
    };

    std::vector<Place> formal, state_places;
    for (size_t i = 0; i < states; ++i) {
      const Value& inner = (*body)[body->inputs[i]];
      Place place{add_storage(Location::Kind::Arena, 0, inner.name, bytes_of(inner)), 0};
      steps.push_back(copy_step(place, place_of(frame, node.inputs[i]), bytes_of(inner), "initial state"));
      formal.push_back(place);
      state_places.push_back(place);
    }
    for (size_t i = 0; i < scans; ++i) {
      const Place whole = place_of(frame, node.inputs[states + i]);
      touch(whole.storage);
      formal.push_back(slice(whole, bytes_of((*body)[body->inputs[states + i]]), in_directions[i] != 0));
    }
    for (size_t i = states; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue) touch(place_of(frame, node.outputs[i]).storage);
    }
    ++step_;
    const int begin = step_;
    Frame inner = enter(frame, *body, formal, node, states + scans);

    // Scan outputs that a kernel of the body makes are written straight into their slice.
    const std::vector<int> makers = body->producers();
    for (size_t i = states; i < body->outputs.size(); ++i) {
      if (i >= node.outputs.size() || node.outputs[i] == kNoValue) continue;
      const ValueId id = body->outputs[i];
      const bool computed = makers[id] >= 0 && body->nodes[makers[id]].op->kind == OpRow::Kind::Compute;
      if (computed && !inner.places[id]) {
        inner.places[id] = slice(place_of(frame, node.outputs[i]), bytes_of((*body)[id]), out_directions[i - states] != 0);
      }
    }
    loop.body = build_steps(inner, false);
    for (size_t i = states; i < body->outputs.size(); ++i) {
      if (i >= node.outputs.size() || node.outputs[i] == kNoValue) continue;
      const ValueId id = body->outputs[i];
      const Place to = slice(place_of(frame, node.outputs[i]), bytes_of((*body)[id]), out_directions[i - states] != 0);
      const Place from = place_of(inner, id);
      if (from.storage == to.storage && from.offset == to.offset) continue;
      loop.body.push_back(copy_step(to, from, bytes_of((*body)[id]), "scan output"));
    }
    // A state that takes another state's value reads it before that one is overwritten.
    std::vector<Place> next_states;
    for (size_t i = 0; i < states; ++i) {
      const ValueId id = body->outputs[i];
      Place from = place_of(inner, id);
      const bool other = std::any_of(state_places.begin(), state_places.end(), [&](const Place& place) {
        return place.storage == from.storage && place.storage != state_places[i].storage;
      });
      if (other) {
        const Place temporary{add_storage(Location::Kind::Arena, 0, "state", bytes_of((*body)[id])), 0};
        loop.body.push_back(copy_step(temporary, from, bytes_of((*body)[id]), "state"));
        from = temporary;
      }
      next_states.push_back(from);
    }
    for (size_t i = 0; i < states; ++i) {
      if (next_states[i].storage == state_places[i].storage) continue;
      loop.body.push_back(copy_step(state_places[i], next_states[i],
                                    bytes_of((*body)[body->outputs[i]]), "state"));
    }
    for (size_t i = 0; i < states; ++i) touch(state_places[i].storage);
    extend_over_loop(begin);
    ++step_;
    for (size_t i = 0; i < states && i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      if (!frame.places[node.outputs[i]] && !frame.aliases.count(node.outputs[i])) {
        frame.places[node.outputs[i]] = state_places[i];
      }
    }
    steps.push_back(std::move(loop));
    for (size_t i = 0; i < states && i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      const Place to = place_of(frame, node.outputs[i]);
      if (to.storage == state_places[i].storage) continue;
      steps.push_back(copy_step(to, state_places[i], bytes_of((*body)[body->inputs[i]]), "final state"));
    }
  }

  // --- memory ----------------------------------------------------------------------------------

  void resolve(PlanSteps& steps) {
    for (PlanStep& step : steps) {
      for (Location& location : step.locations) {
        const Storage& storage = storages_[location.index];
        location.offset = location.offset + storage.offset;
        location.index = storage.index;  // of arena blocks: finish_memory() has numbered them
      }
      resolve(step.body);
      resolve(step.otherwise);
    }
  }

  void finish_memory() {
    std::vector<LiveBlock> blocks;
    std::vector<int> owners;
    for (size_t s = 0; s < storages_.size(); ++s) {
      const Storage& storage = storages_[s];
      if (storage.kind != Location::Kind::Arena || storage.first < 0) continue;
      blocks.push_back({storage.name, storage.bytes, storage.first, storage.last, Dim(0)});
      owners.push_back(static_cast<int>(s));
    }
    result_.plan.arena_bytes = plan_memory(blocks);
    for (size_t b = 0; b < blocks.size(); ++b) {
      storages_[owners[b]].offset = blocks[b].offset;
      storages_[owners[b]].index = static_cast<int>(b);
      result_.plan.blocks.push_back({blocks[b].name, blocks[b].offset, blocks[b].bytes, blocks[b].first, blocks[b].last});
    }
    resolve(result_.plan.steps);
  }

  const BuildOptions& options_;
  BuiltPlan result_;
  std::vector<Storage> storages_;
  ConstantStore constants_;
  std::map<int, int> constant_storages_;
  std::map<std::string, Scheduled> scheduled_;
  std::set<std::string> plain_;
  int step_ = 0;
  int loops_ = 0;
};

}  // namespace

BuiltPlan build_plan(Graph graph, const BuildOptions& options) { return Builder(options).run(std::move(graph)); }

}  // namespace tc
