// From a simplified graph to a plan: fusion, layouts, steps; where values lie without a copy.
#include "frontend/pipeline/plan_builder.h"

#include <algorithm>
#include <optional>
#include <set>

#include "frontend/pipeline/attention.h"
#include "frontend/pipeline/bands.h"
#include "frontend/pipeline/chosen_rows.h"
#include "frontend/pipeline/constant_store.h"
#include "frontend/pipeline/even_weights.h"
#include "frontend/pipeline/kept_states.h"
#include "frontend/pipeline/kernel_schedules.h"
#include "frontend/pipeline/layout.h"
#include "frontend/pipeline/memory_saving.h"
#include "frontend/pipeline/plan_control.h"
#include "frontend/pipeline/small_constants.h"
#include "frontend/pipeline/step_order.h"
#include "frontend/pipeline/updates.h"
#include "ir/error.h"
#include "ir/interrupt.h"
#include "ir/ops/op.h"
#include "ir/passes/group.h"
#include "ir/scratch.h"
#include "ir/target/register_groups.h"
#include "scheduler/algebra/algorithms.h"

namespace tc {

namespace {

using Movement = OpTraits::Movement;

class PlanBuilder final : public ControlSteps {
 public:
  PlanBuilder(const BuildOptions& options, const SavingLevel& level)
      : options_(options),
        saving_(level.saving),
        level_(level),
        attention_(options),
        schedules_(options, result_) {
    result_.plan.target = options.target.name;
    if (options.known_constants) constants_ = *options.known_constants;
  }

  BuiltPlan run(Graph graph) {
    Plan& plan = result_.plan;
    plan.model = graph.name;
    plan.symbols = graph.symbols;
    Frame frame;
    frame.graph = &graph;
    for (ValueId id : graph.inputs) check_memory(graph, id, level_.largest);
    for (ValueId id : graph.outputs) check_memory(graph, id, level_.largest);
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const Value& value = graph[graph.inputs[i]];
      plan.inputs.push_back({value.name, value.dtype, *value.shape, std::nullopt});
    }
    for (ValueId id : graph.outputs) {
      plan.outputs.push_back({graph[id].name, graph[id].dtype, *graph[id].shape, std::nullopt});
    }
    plan.least_code = options_.target.least_code;
    if (saving_ < MemorySaving::Layouts) frame.layouts = choose_layouts(graph, options_.target);
    frame.places.resize(graph.values.size());
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const Value& value = graph[graph.inputs[i]];
      frame.places[graph.inputs[i]] =
          Place{storages_.add(Location::Kind::Input, static_cast<int>(i), value.name, bytes_of(value)), 0};
    }
    plan.steps = build_steps(frame, /*top=*/true, nullptr);
    sizes_.finish(graph, plan);
    for (size_t i = 0; i < graph.outputs.size(); ++i) copy_output(frame, static_cast<int>(i), plan.steps);
    keep_states(options_.states, storages_, plan);
    storages_.finish(plan);
    if (plan.segments > 0) plan.memory_limit = options_.segment_limit;
    plan.constants = constants_.all();
    if (plan.least_code) {
      for (PlanConstant& constant : plan.constants) constant.pack_tightly();
    }
    result_.constant_names.resize(plan.constants.size());
    for (const auto& [index, storage] : constant_storages_)
      result_.constant_names[static_cast<size_t>(index)] = storages_.name(storage);
    result_.constants = std::move(constants_);
    return std::move(result_);
  }

 private:
  using Frame = PlanFrame;

  // The memory of constant `index`; `name` is the name of the value that it was made from.
  Place constant_place(int index, const std::string& name) {
    auto [found, fresh] = constant_storages_.try_emplace(index, -1);
    if (fresh) {
      found->second =
          storages_.add(Location::Kind::Constant, index, name, Dim(constants_[index].byte_count()));
    }
    return {found->second, 0};
  }

  Place place_of(Frame& frame, ValueId id) override {
    std::optional<Place>& place = frame.places[id];
    if (place) return *place;
    const Value& value = (*frame.graph)[id];
    if (value.constant) return *(place = constant_place(constants_.index_of(value.constant), value.name));
    auto alias = frame.aliases.find(id);
    if (alias != frame.aliases.end()) {
      Place whole = place_of(frame, alias->second.first);
      return *(frame.places[id] = Place{whole.storage, whole.offset + alias->second.second});
    }
    check_memory(*frame.graph, id, level_.largest);
    return *(place = Place{sizes_.allocate(value.name, stored_bytes(frame, id)), 0});
  }

  // Lets producers of model outputs write into the caller's memory, also where views are between producer and
  // output.
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
      if (sizes_.is_unbounded(bytes_of(graph[graph.outputs[i]]))) continue;
      frame.places[id] = Place{
          storages_.add(Location::Kind::Output, static_cast<int>(i), graph[id].name, bytes_of(graph[id])), 0};
    }
  }

  void copy_output(Frame& frame, int index, PlanSteps& steps) {
    const Graph& graph = *frame.graph;
    const ValueId id = graph.outputs[index];
    const Place from = place_of(frame, id);
    if (unbounded_outputs_.count(index)) {
      // The caller could not provide memory for it, since its size was not known before the run.
      result_.plan.outputs[index].data = storages_.locate(from);
      return;
    }
    if (storages_.is_output(from, index)) return;
    Place to{storages_.add(Location::Kind::Output, index, graph[id].name, bytes_of(graph[id])), 0};
    steps.push_back(storages_.copy_step(to, from, bytes_of(graph[id]), "copy " + graph[id].name));
  }

  // Finds the inputs of concats that can be computed directly in their part of the result.
  void alias_concats(Frame& frame, const std::vector<Group>& groups) {
    const Graph& graph = *frame.graph;
    std::vector<bool> computed(graph.values.size(), false);
    for (const Group& group : groups) {
      if (group.kind != Group::Kind::Compute) continue;
      for (ValueId id : group.outputs) computed[id] = true;
    }
    std::set<ValueId> outputs(graph.outputs.begin(), graph.outputs.end());
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      if (node->op->traits.movement != Movement::Join) continue;
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
        // The offset of a part has to be known when the part is computed.
        if (here != sizes_.reserved(here) || sizes_.is_unbounded((*graph[whole].shape)[axis] * stride))
          continue;
        if (!computed[part] || outputs.count(part) || frame.aliases.count(part) || !same_layout) continue;
        if (std::count(node->inputs.begin(), node->inputs.end(), part) > 1) continue;
        frame.aliases[part] = {whole, here};
      }
    }
  }

  PlanSteps body_steps(Frame& frame, const std::function<void(PlanSteps&)>& finish) override {
    return build_steps(frame, false, finish);
  }

  // The steps of a graph, in the scope of the sizes that it computes.
  PlanSteps build_steps(Frame& frame, bool top, const std::function<void(PlanSteps&)>& finish) {
    PlanSteps steps;
    const RunSizes::Scope outside = sizes_.enter(*frame.graph, steps);
    build_plain_steps(frame, top, steps);
    if (finish) finish(steps);
    for (size_t i = 0; top && i < frame.graph->outputs.size(); ++i) {
      if (sizes_.is_unbounded(bytes_of((*frame.graph)[frame.graph->outputs[i]])))
        unbounded_outputs_.insert(static_cast<int>(i));
    }
    sizes_.leave(outside);
    return steps;
  }

  void build_plain_steps(Frame& frame, bool top, PlanSteps& steps) {
    // One instruction loads the bytes of a transpose (MVE).
    const bool gathers = sums_are_scalars(options_.target.matrix);
    std::vector<Group> groups = attention_.join(
        *frame.graph, fuse_groups(*frame.graph, options_.target.least_code, gathers), frame.layouts);
    // Only without sizes that a run computes: they are known from a certain step on.
    if (saving_ >= MemorySaving::Order && frame.graph->data_symbols.empty() &&
        frame.graph->relations.empty()) {
      groups = order_for_memory(*frame.graph, groups, [&](ValueId id) {
        const Dim bytes = stored_bytes(frame, id);
        return bytes.is_constant() ? bytes.constant() : 0;
      });
    }
    frame.places.resize(frame.graph->values.size());
    const auto kernel_of = [&](const Group& each) { return attention_.kernel_of(*frame.graph, each); };
    if (top) groups = readers_first(*frame.graph, groups, kernel_of);
    alias_concats(frame, groups);
    if (top) assign_outputs(frame, groups);
    if (top) alias_changed(frame, groups, kernel_of);
    if (top) store_whole_tables(frame, groups, kernel_of);
    std::vector<BandedGroups> bands;
    if (top && level_.arena) bands = bands_of(frame, groups, kernel_of);
    if (top) work_progress() = {"scheduling", 0, static_cast<int64_t>(groups.size())};
    for (size_t g = 0; g < groups.size(); ++g) {
      const Group& group = groups[g];
      const auto chain =
          std::find_if(bands.begin(), bands.end(), [&](const BandedGroups& each) { return each.first == g; });
      if (top) ++work_progress().done;
      const Node& node = frame.graph->nodes[group.nodes[0]];
      if (chain != bands.end()) {
        call_in_bands(frame, *chain, steps);
        g = chain->last;
        continue;
      }
      if (group.kind == Group::Kind::View && view(frame, node)) continue;
      if (group.kind == Group::Kind::Control) {
        control(frame, node, steps);
      } else if (!in_place(frame, node, steps)) {
        call(frame, group, steps);
      }
    }
  }

  // Chains of kernels to run in bands, where all sizes are known while compiling.
  std::vector<BandedGroups> bands_of(const Frame& frame, const std::vector<Group>& groups,
                                     const LowersGroup& kernel_of) const {
    const Graph& graph = *frame.graph;
    if (!graph.symbols.empty() || !graph.data_symbols.empty() || !graph.relations.empty()) return {};
    const auto bytes = [&](ValueId id) { return stored_bytes(frame, id).constant(); };
    const auto row_bytes_of = [&](ValueId id, size_t axis) { return row_bytes(frame, id, axis); };
    const auto is_free = [&](ValueId id) { return !frame.places[id] && frame.aliases.count(id) == 0; };
    return choose_bands({graph, groups, kernel_of, bytes, row_bytes_of, is_free}, *level_.arena);
  }

  // Whether the node needs no kernel: its elements are where its readers expect them, or copies put them
  // there.
  bool in_place(Frame& frame, const Node& node, PlanSteps& steps) {
    switch (node.op->traits.movement) {
      case Movement::Join: return concat_in_place(frame, node, steps);
      case Movement::Split: return split_in_place(frame, node);
      case Movement::Layout: return reorder_in_place(frame, node);
      default: return false;
    }
  }

  bool view(Frame& frame, const Node& node) {
    const ValueId in = node.inputs[0], out = node.outputs[0];
    if (frame.places[out] || frame.aliases.count(out)) {
      // The output already has memory: it is a view only where the source has the same.
      return frame.places[in] && frame.places[out] && frame.places[in]->storage == frame.places[out]->storage;
    }
    frame.places[out] = place_of(frame, in);
    return true;
  }

  bool reorder_in_place(Frame& frame, const Node& node) {
    const ValueId in = node.inputs[0], out = node.outputs[0];
    const Shape& shape = *(*frame.graph)[in].shape;
    const int block = frame.layouts.count(in) ? frame.layouts[in] : frame.layouts[out];
    if (std::any_of(shape.begin() + 2, shape.end(), [](const Dim& size) { return size != Dim(1); }))
      return false;
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
        steps.push_back(storages_.copy_step({to.storage, to.offset + offset}, place_of(frame, part), bytes,
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
    // All reasons for a kernel are checked before the first part gets its place: a kernel writes its outputs,
    // which must not be in the operand's memory.
    for (ValueId part : node.outputs) {
      if (part == kNoValue) return false;
      if (frame.places[part] || frame.aliases.count(part) || frame.layouts.count(part)) return false;
    }
    const Dim stride = stride_bytes(frame, whole, axis);
    const Place from = place_of(frame, whole);
    Dim offset = 0;
    for (ValueId part : node.outputs) {
      frame.places[part] = Place{from.storage, from.offset + offset};
      offset = offset + (*graph[part].shape)[axis] * stride;
    }
    return true;
  }

  // --- kernels ---------------------------------------------------------------------------------

  // A kernel's scratch memory holds intermediate results up to this size, so the model accepts no larger
  // size.
  void limit_size(const Dim& size, int64_t most, const std::string& kernel) {
    if (size.is_symbol() && !result_.plan.symbols.count(size.str())) {
      // A run that computes a larger size ends with an error.
      if (!sizes_.limit(size.str(), most)) return;
      result_.notes.push_back(text("'", size.str(), "' may be at most ", most,
                                   ", for the intermediate results of kernel '", kernel, "'"));
      return;
    }
    const auto& inputs = result_.plan.inputs;
    const bool given =
        size.is_symbol() && std::any_of(inputs.begin(), inputs.end(), [&](const PortInfo& port) {
          return std::find(port.shape.begin(), port.shape.end(), size) != port.shape.end();
        });
    if (!given) {
      fail(ErrorKind::Unsupported, "kernel '", kernel, "' would need more scratch memory than is given for '",
           size.str(), "', which is not known; give `shapes` with the sizes that occur");
    }
    int64_t& maximum = result_.plan.symbols.at(size.str()).second;
    if (most >= maximum) return;
    maximum = most;
    result_.notes.push_back(text("'", size.str(), "' is at most ", most,
                                 ", for the intermediate results of kernel '", kernel, "'"));
  }

  // Whether the kernel's sizes, or their bounds, follow from the sizes of the model's inputs.
  bool sizes_known(const Kernel& kernel) const {
    return std::all_of(kernel.parameters.begin(), kernel.parameters.end(), [&](const Parameter& parameter) {
      std::set<std::string> names;
      sizes_.reserved(parameter.value).collect_symbols(names);
      return std::all_of(names.begin(), names.end(),
                         [&](const std::string& name) { return result_.plan.symbols.count(name) > 0; });
    });
  }

  // Scratch memory for a call. That of the first thread is in the arena, in memory of values not in use at
  // this step, unless its size is known only in a run.
  void reserve_scratch(PlanStep& step) {
    Plan& plan = result_.plan;
    std::vector<const ScheduledKernel*> kernels = {&plan.kernels.at(static_cast<size_t>(step.kernel))};
    const auto versions = plan.versions.find(step.kernel);
    if (versions != plan.versions.end()) {
      for (const VectorVersion& version : versions->second) kernels.push_back(&version.kernel);
    }
    Dim wanted = 0;
    int64_t most = 0;  // bytes for the largest sizes
    for (const ScheduledKernel* kernel : kernels) {
      const Dim bytes = sizes_.reserved(sized_scratch(kernel->kernel, step.parameters));
      const int64_t largest = scratch_bytes(*kernel);
      if (kernel->scratch_by_sizes) plan.sized_scratch = max(plan.sized_scratch, bytes);
      wanted = max(wanted, kernel->scratch_by_sizes || !bytes.is_constant()
                               ? bytes
                               : Dim(std::min(bytes.constant(), largest)));
      most = std::max(most, largest);
    }
    if (!wanted.is_constant()) {
      plan.first_scratch_bytes = std::max(plan.first_scratch_bytes.value_or(0), most);
    } else if (wanted.constant() > 0) {
      step.scratch = storages_.scratch("intermediate results of " + step.label, wanted.constant());
      if (!plan.first_scratch_bytes) plan.first_scratch_bytes = 0;
    }
  }

  // Values that only one group reads, which copies them to change parts of the copy, lie where that is.
  void alias_changed(Frame& frame, const std::vector<Group>& groups, const LowersGroup& kernel_of) {
    for (const auto& [from, to] : changed_alone(*frame.graph, groups, kernel_of)) {
      if (frame.places[from] || frame.aliases.count(from)) continue;
      if (!frame.layouts.count(from) && !frame.layouts.count(to)) frame.aliases[from] = {to, 0};
    }
  }

  // Where a kernel makes an output of the model by changing parts of an input, the copy of the whole input
  // becomes a separate step, which a run leaves out if the caller gives the same memory for both
  // (inputs_in_place).
  void update_in_place(Frame& frame, KernelPart& part, PlanSteps& steps) {
    const auto [from, to] = first_copy(part);
    if (to == kNoValue || !frame.places[to] || !frame.places[from] || frame.layouts.count(from) ||
        frame.layouts.count(to))
      return;
    const Place &input = *frame.places[from], &output = *frame.places[to];
    if (frame.aliases.count(from) > 0 && frame.aliases.at(from).first == to) return drop_first_copy(part);
    if (storages_.kind(input.storage) != Location::Kind::Input ||
        storages_.kind(output.storage) != Location::Kind::Output)
      return;
    steps.push_back(storages_.copy_step(
        output, input, bytes_of((*frame.graph)[to]),
        text("copy ", storages_.name(input.storage), " unless ", (*frame.graph)[to].name, " lies there")));
    drop_first_copy(part);
  }

  struct Scheduled {
    std::map<std::string, ValueId> values;  // of the arguments, by buffer
    std::vector<std::string> layout_lines;
    const KernelSchedules::Entry& entry;
  };

  Scheduled scheduled(const Frame& frame, const KernelPart& part) {
    std::map<std::string, ValueId> values;
    std::vector<std::string> layout_lines;
    for_each_argument(part.kernel, [&](const Buffer& buffer, size_t argument) {
      values[buffer.name] = part.arguments.at(argument);
      auto blocked = frame.layouts.find(part.arguments.at(argument));
      if (blocked != frame.layouts.end()) {
        layout_lines.push_back(text("layout ", buffer.name, " 1 ", blocked->second));
      }
    });
    TC_CHECK(values.size() == part.arguments.size());
    const bool equal_weights =
        has_words(options_.target) && std::any_of(values.begin(), values.end(), [&](const auto& each) {
          return multiplies_even_matrix(part.kernel, each.first, (*frame.graph)[each.second].constant);
        });
    const KernelSchedules::Entry& entry = schedules_.schedule(
        part.kernel, layout_lines, {sizes_known(part.kernel), frame.repeated, equal_weights});
    return {std::move(values), std::move(layout_lines), entry};
  }

  // Tables of which data chooses rows are stored first in the forms in which other kernels read all of them,
  // so that read_stored_rows finds these.
  void store_whole_tables(Frame& frame, const std::vector<Group>& groups, const LowersGroup& kernel_of) {
    if (saving_ >= MemorySaving::Code) return;
    const Graph& graph = *frame.graph;
    for (const Group& group : whole_readers(graph, groups, kernel_of)) {
      const auto [values, lines, entry] = scheduled(frame, kernel_of(group));
      const Kernel& kernel = result_.plan.kernels[entry.index].kernel;
      for (const Packing& packing : kernel.packings) {
        const TensorPtr constant = graph[values.at(original_of(kernel, packing.buffer))].constant;
        if (constant) constants_.index_of(constant, packing, kernel);
      }
    }
  }

  void read_stored_rows(const Graph& graph, KernelPart& part) const {
    std::vector<std::pair<std::string, StoredForm>> forms;
    for_each_argument(part.kernel, [&](const Buffer& buffer, size_t argument) {
      const TensorPtr& constant = graph[part.arguments.at(argument)].constant;
      if (!constant || !chooses_rows(part.kernel, buffer.name)) return;
      if (const auto form = constants_.moved_form(constant)) forms.emplace_back(buffer.name, *form);
    });
    for (const auto& [buffer, form] : forms) read_from(form, part.kernel, buffer);
  }

  void call(Frame& frame, const Group& group, PlanSteps& steps) {
    const Graph& graph = *frame.graph;
    KernelPart part = attention_.kernel_of(graph, group);
    update_in_place(frame, part, steps);
    // By buffer: the constants that this kernel does not read as the graph has them.
    std::map<std::string, TensorPtr> shrunk;
    if (saving_ >= MemorySaving::Code) shrunk = shrink_constants(graph, part);
    if (shrunk.empty()) read_stored_rows(graph, part);
    call(frame, {std::move(part), {}}, shrunk, steps);
  }

  void call_in_bands(Frame& frame, const BandedGroups& bands, PlanSteps& steps) {
    const Graph& graph = *frame.graph;
    for (const auto& [id, buffer] : bands.chain.buffers()) {
      const Dim bytes =
          stored_bytes(frame, id).constant() / (*graph[id].shape)[buffer.axis].constant() * buffer.rows;
      frame.places[id] = Place{sizes_.allocate(text("rows of ", graph[id].name), bytes), 0};
    }
    for (BandCall& band : bands.chain.steps(bands.kernels)) {
      std::map<std::string, TensorPtr> shrunk;
      if (saving_ >= MemorySaving::Code) shrunk = shrink_constants(graph, band.part);
      call(frame, band, shrunk, steps);
    }
  }

  void call(Frame& frame, const BandCall& band, const std::map<std::string, TensorPtr>& shrunk,
            PlanSteps& steps) {
    const Kernel& kernel = band.part.kernel;
    const auto [values, layout_lines, entry] = scheduled(frame, band.part);
    const Kernel& final_kernel = result_.plan.kernels[entry.index].kernel;

    PlanStep step;
    step.kernel = entry.index;
    step.label = kernel.name;
    step.single_thread = entry.single_thread;
    for_each_argument(final_kernel, [&](const Buffer& buffer, size_t) {
      const std::string& original = original_of(final_kernel, buffer.name);
      const auto own = shrunk.find(original);
      const TensorPtr constant = own == shrunk.end() ? nullptr : own->second;
      Place place = argument_place(frame, {values.at(original), constant}, buffer, final_kernel);
      const auto first = band.first_rows.find(original);
      if (first != band.first_rows.end()) {
        const auto& [axis, row] = first->second;
        place.offset = place.offset + Dim(row * row_bytes(frame, values.at(original), axis));
      }
      step.locations.push_back(storages_.locate(place));
    });
    pass_parameters(kernel, final_kernel, step);
    reserve_scratch(step);
    steps.push_back(std::move(step));
    storages_.next_step();
    schedules_.report(kernel, entry, layout_lines);
  }

  // Passes the kernel's sizes, followed by the products of sizes that its schedule has added.
  void pass_parameters(const Kernel& kernel, const Kernel& final_kernel, PlanStep& step) {
    std::map<std::string, Dim> values;
    std::map<std::string, double> largest;
    for (size_t i = 0; i < final_kernel.parameters.size(); ++i) {
      const Parameter& parameter = final_kernel.parameters[i];
      if (i < kernel.parameters.size()) {
        const Parameter& own = kernel.parameters[i];
        values[own.name] = own.value;
        largest[own.name] = static_cast<double>(own.maximum);
        step.parameters.push_back(own.value);
        if (parameter.maximum < own.maximum) limit_size(own.value, parameter.maximum, kernel.name);
        continue;
      }
      step.parameters.push_back(parameter.value.substitute(values));
      double whole = 1;
      for (const Dim::AtomPtr& atom : parameter.value.terms().at(0).factors) whole *= largest.at(atom->name);
      whole = std::min(whole, static_cast<double>(Parameter().maximum));
      if (static_cast<double>(parameter.maximum) < whole)
        limit_size(step.parameters.back(), parameter.maximum, kernel.name);
    }
  }

  // The value of an argument, and the tensor that takes the place of the value's constant, if there is one.
  struct Argument {
    ValueId id = kNoValue;
    TensorPtr constant;
  };

  Place argument_place(Frame& frame, const Argument& argument, const Buffer& buffer, const Kernel& kernel) {
    const Value& value = (*frame.graph)[argument.id];
    if (value.constant) {
      const TensorPtr& constant = argument.constant ? argument.constant : value.constant;
      if (const Packing* packing = packing_of(kernel, buffer.name))
        return constant_place(constants_.index_of(constant, *packing, kernel), value.name);
      if (argument.constant) return constant_place(constants_.index_of(constant), value.name);
    }
    return place_of(frame, argument.id);
  }

  const BuildOptions& options_;
  const MemorySaving saving_;
  const SavingLevel level_;
  BuiltPlan result_;
  AttentionJoiner attention_;
  KernelSchedules schedules_;
  ConstantStore constants_;
  std::map<int, int> constant_storages_;
  std::set<int> unbounded_outputs_;
};

}  // namespace

BuiltPlan build_plan_at(Graph graph, const BuildOptions& options, const SavingLevel& level) {
  return PlanBuilder(options, level).run(std::move(graph));
}

}  // namespace tc
