// Plans with versions by size.
#include "frontend/pipeline/size_versions.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "ir/error.h"
#include "ir/plan_steps.h"

namespace tc {
namespace {

// Limited, because an artefact contains the kernels of all versions.
constexpr size_t kMaxVersions = 16;

std::map<std::string, Dim> as_dims(const Sizes& sizes) {
  std::map<std::string, Dim> result;
  for (const auto& [name, size] : sizes) result[name] = Dim(size);
  return result;
}

bool includes(const Sizes& all, const Sizes& some) {
  return std::all_of(some.begin(), some.end(), [&](const auto& each) {
    const auto found = all.find(each.first);
    return found != all.end() && found->second == each.second;
  });
}

void check_size(const std::string& name, int64_t size,
                const std::map<std::string, std::pair<int64_t, int64_t>>& open, const std::string& model) {
  const auto range = open.find(name);
  if (range == open.end()) {
    std::string known;
    for (const auto& [each, unused] : open) known += text(known.empty() ? "'" : ", '", each, "'");
    fail(ErrorKind::Shape, "size_versions: '", name, "' is no open size of ", model, "; ",
         known.empty() ? "it has none" : "those are " + known);
  }
  const auto [least, most] = range->second;
  if (least <= size && size <= most) return;
  fail(ErrorKind::Shape, "size_versions: '", name, "' is ", size, ", but in ", model, " it is ", least,
       " to ", most, "; give a size of that range, or another range with shapes");
}

// --- plans ---------------------------------------------------------------------------------------

[[noreturn]] void refuse(const Plan& plan, const Sizes& sizes, const std::string& why) {
  fail(ErrorKind::Unsupported, "size_versions: the version of model '", plan.model, "' for ", text_of(sizes),
       " ", why, "; leave this version out");
}

// A run binds the sizes of inputs and gets memory for outputs before it chooses a version, so versions must
// agree on these.
void check_ports(const Plan& general, const Plan& version, const Sizes& sizes) {
  for (const Plan* plan : {&general, &version}) {
    if (plan->data_symbols.empty() && plan->unbounded.empty()) continue;
    const std::string name =
        plan->unbounded.empty() ? plan->data_symbols.begin()->first : *plan->unbounded.begin();
    refuse(general, sizes, text("has an output whose size '", name, "' a run computes"));
  }
  const std::map<std::string, Dim> bound = as_dims(sizes);
  for (const auto ports : {&Plan::inputs, &Plan::outputs}) {
    const char* kind = ports == &Plan::inputs ? "input" : "output";
    TC_CHECK((general.*ports).size() == (version.*ports).size(), "in the plan of '", general.model, "'");
    for (size_t i = 0; i < (general.*ports).size(); ++i) {
      const PortInfo &all = (general.*ports)[i], &own = (version.*ports)[i];
      Shape expected = all.shape;
      for (Dim& dim : expected) dim = dim.substitute(bound);
      if (all.dtype == own.dtype && expected == own.shape) continue;
      refuse(general, sizes,
             text("has ", kind, " '", own.name, "' as ", name_of(own.dtype), str(own.shape), ", not as ",
                  name_of(all.dtype), str(expected)));
    }
  }
}

std::string kernel_text(const Plan& plan, int kernel) {
  const ScheduledKernel& own = plan.kernels.at(static_cast<size_t>(kernel));
  std::string result = text(str(own), own.scratch_by_sizes ? "scratch by sizes\n" : "");
  const auto versions = plan.versions.find(kernel);
  if (versions == plan.versions.end()) return result;
  for (const VectorVersion& each : versions->second) result += each.target + "\n" + str(each.kernel);
  return result;
}

// Merges the versions' plans into the general plan.
class Merger {
 public:
  explicit Merger(BuiltPlan general) : result_(std::move(general)) {
    for (size_t i = 0; i < plan().kernels.size(); ++i)
      kernels_.try_emplace(kernel_text(plan(), static_cast<int>(i)), static_cast<int>(i));
  }

  // Adds the version in front of what was merged before: a run checks its sizes first.
  void add(const Sizes& sizes, BuiltPlan version) {
    check_ports(plan(), version.plan, sizes);
    PlanStep choice;
    choice.kind = PlanStep::Kind::If;
    for (const auto& [name, size] : sizes) choice.sizes.emplace_back(Dim::symbol(name), Dim(size));
    choice.label = "sizes " + text_of(sizes);
    add_kernels(version.plan);
    add_blocks(version.plan);
    add_needs(version.plan);
    choice.body = std::move(version.plan.steps);
    choice.otherwise = std::move(plan().steps);
    plan().steps.clear();
    plan().steps.push_back(std::move(choice));
    for (KernelReport& report : version.reports) report.kernel = numbers_.at(report.kernel);
    result_.reports.insert(result_.reports.begin(), version.reports.begin(), version.reports.end());
    for (const std::string& note : version.notes)
      result_.notes.push_back(text("for ", text_of(sizes), ": ", note));
  }

  // Takes the constants of the plan that was made last: it has those of all plans.
  void set_constants(const BuiltPlan& last) {
    result_.constants = last.constants;
    plan().constants = last.plan.constants;
    result_.constant_names.resize(plan().constants.size());
  }
  void add_constant_names(const std::vector<std::string>& names) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (result_.constant_names.at(i).empty()) result_.constant_names[i] = names[i];
    }
  }

  BuiltPlan take() { return std::move(result_); }

 private:
  Plan& plan() { return result_.plan; }

  // Adds the version's kernels, but for those that are equal to a kernel of another version.
  void add_kernels(Plan& version) {
    numbers_.clear();
    for (size_t i = 0; i < version.kernels.size(); ++i) {
      const int own = static_cast<int>(i);
      const auto [found, fresh] =
          kernels_.try_emplace(kernel_text(version, own), static_cast<int>(plan().kernels.size()));
      numbers_[own] = found->second;
      if (!fresh) continue;
      plan().kernels.push_back(std::move(version.kernels[i]));
      const auto versions = version.versions.find(own);
      if (versions != version.versions.end()) plan().versions[found->second] = std::move(versions->second);
    }
    renumber(version.steps, static_cast<int>(plan().blocks.size()));
  }

  void renumber(PlanSteps& steps, int first_block) const {
    const auto move = [&](Location& location) {
      if (location.kind == Location::Kind::Arena) location.index += first_block;
    };
    for (PlanStep& step : steps) {
      if (step.kind == PlanStep::Kind::Call) step.kernel = numbers_.at(step.kernel);
      for (Location& location : step.locations) move(location);
      if (step.scratch) move(*step.scratch);
      renumber(step.body, first_block);
      renumber(step.otherwise, first_block);
    }
  }

  // Blocks of different versions are never used in the same run, so they may overlap in memory; their lives
  // get different numbers of steps.
  void add_blocks(const Plan& version) {
    int steps = static_cast<int>(all_steps(version).size());
    for (const ArenaBlock& block : version.blocks) steps = std::max(steps, block.last + 1);
    for (ArenaBlock& block : plan().blocks) {
      block.first += steps + 1;
      block.last += steps + 1;
    }
    for (ArenaBlock block : version.blocks) {
      ++block.first;
      ++block.last;
      plan().blocks.push_back(std::move(block));
    }
  }

  // Makes the plan's memory large enough for the version too.
  void add_needs(const Plan& version) {
    Plan& all = plan();
    all.arena_bytes = max(all.arena_bytes, version.arena_bytes);
    all.sized_scratch = max(all.sized_scratch, version.sized_scratch);
    if (all.first_scratch_bytes || version.first_scratch_bytes) {
      all.first_scratch_bytes = std::max(all.first_scratch_bytes.value_or(all.scratch_bytes),
                                         version.first_scratch_bytes.value_or(version.scratch_bytes));
    }
    all.scratch_bytes = std::max(all.scratch_bytes, version.scratch_bytes);
    if (version.segments > 0) all.memory_limit = version.memory_limit;
    all.segments = std::max(all.segments, version.segments);
    for (const auto& [name, range] : version.symbols) {
      std::pair<int64_t, int64_t>& own = all.symbols.at(name);
      own = {std::max(own.first, range.first), std::min(own.second, range.second)};
    }
  }

  BuiltPlan result_;
  std::map<std::string, int> kernels_;  // by their texts
  std::map<int, int> numbers_;          // of the kernels of the version that is being added
};

}  // namespace

std::string text_of(const Sizes& sizes) {
  std::string result;
  for (const auto& [name, size] : sizes) result += text(result.empty() ? "" : ", ", name, " = ", size);
  return result;
}

void check_size_versions(const std::vector<Sizes>& versions,
                         const std::map<std::string, std::pair<int64_t, int64_t>>& open,
                         const std::string& model) {
  if (versions.size() > kMaxVersions) {
    fail(ErrorKind::Shape, "size_versions asks for ", versions.size(), " versions of ", model, "; at most ",
         kMaxVersions, " are compiled into one artefact: give the sizes that occur most");
  }
  for (size_t i = 0; i < versions.size(); ++i) {
    for (const auto& [name, size] : versions[i]) check_size(name, size, open, model);
    for (size_t before = 0; before < i; ++before) {
      if (!includes(versions[i], versions[before])) continue;
      fail(ErrorKind::Shape, "size_versions: the version for ", text_of(versions[i]),
           " never runs, for that for ", text_of(versions[before]),
           " comes before it and takes its sizes: leave one out, or give it later");
    }
  }
}

void SharedTensors::share(Graph& graph) {
  for (Value& value : graph.values) {
    if (value.constant) value.constant = shared(value.constant);
  }
  for (Node& node : graph.nodes) {
    for (auto& [name, attribute] : node.attributes) {
      if (auto* tensor = std::get_if<TensorPtr>(&attribute)) *tensor = shared(*tensor);
      else if (auto* inner = std::get_if<GraphPtr>(&attribute)) share(**inner);
    }
  }
}

TensorPtr SharedTensors::shared(const TensorPtr& tensor) {
  if (known_.count(tensor.get())) return tensor;
  std::vector<TensorPtr>& alike = by_hash_[std::hash<std::string_view>()(
      std::string_view(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size()))];
  for (const TensorPtr& each : alike) {
    if (each->dtype == tensor->dtype && each->shape == tensor->shape && each->bytes == tensor->bytes)
      return each;
  }
  known_.insert(tensor.get());
  alike.push_back(tensor);
  return tensor;
}

BuiltPlan build_plan_with_versions(Graph graph, std::vector<SizedGraph> versions,
                                   const BuildOptions& options) {
  BuiltPlan general = build_plan(std::move(graph), options);
  if (versions.empty()) return general;
  std::vector<BuiltPlan> plans;
  for (SizedGraph& version : versions) {
    BuildOptions own = options;
    own.known_constants = plans.empty() ? &general.constants : &plans.back().constants;
    plans.push_back(build_plan(std::move(version.graph), own));
  }
  Merger merger(std::move(general));
  merger.set_constants(plans.back());
  for (const BuiltPlan& each : plans) merger.add_constant_names(each.constant_names);
  for (size_t i = versions.size(); i-- > 0;) merger.add(versions[i].sizes, std::move(plans[i]));
  BuiltPlan result = merger.take();
  const MemoryLimits limits{options.memory_limit, options.constants_limit};
  if (!fits(result.plan, options.threads, limits))
    refuse_memory(result.plan, result.constant_names, options.threads, limits);
  return result;
}

}  // namespace tc
