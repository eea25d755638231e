// What each step of a compiled model has to do.
#include "frontend/profile/work.h"

#include <algorithm>
#include <functional>
#include <set>

#include "ir/error.h"
#include "ir/plan_steps.h"

namespace tc {
namespace {

using Symbols = std::map<std::string, int64_t>;

bool is_product(const Statement& statement) {
  return statement.reduction == Reduction::Sum && statement.value->kind == Expr::Kind::Binary &&
         statement.value->binary == BinaryOp::Mul;
}

std::set<std::string> iterators_in(const Access& access) {
  std::set<std::string> names;
  for (const Subscript& subscript : access.index) {
    for (const auto& [name, coefficient] : subscript.affine.terms()) names.insert(name);
  }
  return names;
}

// The window that a load reads through: subscripts that add an iterator of the reduction to one of the
// output.
struct Window {
  std::string size;  // "3x3"
  int64_t stride = 1;
  std::set<std::string> taps;  // the reduction's iterators
};

// The window of a load; it has no taps where the load reads through none. `inside` are the iterators of the
// output that say where the window is.
Window window_of(const Access& load, const std::set<std::string>& inside, const Statement& statement) {
  Window window;
  std::map<std::string, std::string> extents;
  for (const Iterator& iterator : statement.iterators) extents[iterator.name] = iterator.extent.str();
  for (const Subscript& subscript : load.index) {
    std::string tap;
    int64_t stride = 0;
    for (const auto& [name, coefficient] : subscript.affine.terms()) {
      if (inside.count(name)) stride = std::abs(coefficient);
      else if (extents.count(name)) tap = name;
    }
    if (tap.empty() || stride == 0) continue;
    window.taps.insert(tap);
    window.size += (window.size.empty() ? "" : "x") + extents[tap];
    window.stride = std::max(window.stride, stride);
  }
  return window;
}

std::string strided(const std::string& name, int64_t stride) {
  return stride > 1 ? text(name, "/", stride) : name;
}

std::vector<Access> loads_of(const Statement& statement) {
  std::vector<Access> loads;
  for_each_load(statement.value, [&](const Expr& load) { loads.push_back(load.access); });
  return loads;
}

std::string product_class(const Kernel& kernel, const Statement& statement) {
  const std::vector<Access> loads = loads_of(statement);
  const std::set<std::string> inside = iterators_in(statement.write);
  std::set<std::string> summed;
  for (const Iterator& iterator : statement.iterators) {
    if (!inside.count(iterator.name)) summed.insert(iterator.name);
  }
  const auto scope = [&](const Access& access) {
    return kernel.buffers[static_cast<size_t>(access.buffer)].scope;
  };
  for (const Access& load : loads) {
    // An iterator that the other operand has as well is a group or a channel.
    std::set<std::string> placing = inside;
    for (const Access& other : loads) {
      if (&other == &load) continue;
      for (const std::string& name : iterators_in(other)) placing.erase(name);
    }
    const Window window = window_of(load, placing, statement);
    if (window.taps.empty()) continue;
    std::set<std::string> channels;
    std::set_difference(summed.begin(), summed.end(), window.taps.begin(), window.taps.end(),
                        std::inserter(channels, channels.end()));
    if (channels.empty()) return strided("depthwise " + window.size, window.stride);
    // Groups: an iterator that the output, the input and the weights all have.
    bool grouped = false;
    for (const std::string& name : inside) {
      grouped |= std::all_of(loads.begin(), loads.end(),
                             [&](const Access& other) { return iterators_in(other).count(name) > 0; });
    }
    return strided((grouped ? "grouped conv " : "conv ") + window.size, window.stride);
  }
  for (const Access& load : loads) {
    // The weights of a convolution with a window of 1 have as many dimensions as its images.
    if (scope(load) != Scope::Constant || load.index.size() < 3 || loads.size() != 2) continue;
    const Access& other = &load == &loads[0] ? loads[1] : loads[0];
    if (other.index.size() != load.index.size()) continue;
    int64_t stride = 1;
    for (const Subscript& subscript : other.index) {
      for (const auto& [name, coefficient] : subscript.affine.terms()) {
        if (subscript.affine.terms().size() == 1) stride = std::max(stride, std::abs(coefficient));
      }
    }
    return strided(load.index.size() == 4 ? "conv 1x1" : "conv 1", stride);
  }
  // A matrix x vector: one of the operands has no iterator of the output.
  bool row = false;
  for (const Access& load : loads) {
    const std::set<std::string> names = iterators_in(load);
    row |= std::none_of(inside.begin(), inside.end(),
                        [&](const std::string& name) { return names.count(name) > 0; });
  }
  return row ? "matrix x vector" : "product";
}

}  // namespace

std::string kernel_class(const Kernel& kernel) {
  const Statement* largest = nullptr;
  double most = -1;
  std::map<std::string, int64_t> parameters;
  for (const Parameter& parameter : kernel.parameters)
    parameters[parameter.name] = std::max<int64_t>(1, parameter.minimum);
  for (const Statement& statement : kernel.statements) {
    if (!is_product(statement)) continue;
    double instances = 1;
    for (const Iterator& iterator : statement.iterators)
      instances *= static_cast<double>(iterator.extent.evaluate(parameters));
    if (instances > most) {
      most = instances;
      largest = &statement;
    }
  }
  if (largest != nullptr) return product_class(kernel, *largest);
  bool reduces = false;
  for (const Statement& statement : kernel.statements) {
    if (statement.reduction == Reduction::None) continue;
    reduces = true;
    const std::set<std::string> inside = iterators_in(statement.write);
    for (const Access& load : loads_of(statement)) {
      const Window window = window_of(load, inside, statement);
      if (!window.taps.empty()) return strided("pool " + window.size, window.stride);
    }
  }
  if (reduces) return "rows";
  return flop_count(kernel, parameters) > 0 ? "elementwise" : "move";
}

namespace {

class Walker {
 public:
  Walker(const CompiledModel& model, const Symbols& symbols) : model_(model), symbols_(symbols) {}

  std::vector<StepWork> run() {
    walk(model_.plan.steps, -1);
    return std::move(found_);
  }

  // All symbols that the walk has bound.
  const Symbols& symbols() const { return symbols_; }

 private:
  void walk(const PlanSteps& steps, int parent) {
    for (const PlanStep& step : steps) {
      StepWork work;
      work.label = step.label;
      work.runs = runs_;
      work.parent = parent;
      switch (step.kind) {
        case PlanStep::Kind::Call: call(step, work); break;
        case PlanStep::Kind::Copy:
          work.kind = "copy";
          use(work, step.locations[0], step.bytes.evaluate(symbols_), true);
          use(work, step.locations[1], work.uses[0].bytes, false);
          work.traffic.read = work.traffic.written = static_cast<double>(work.uses[0].bytes);
          break;
        case PlanStep::Kind::Loop:
          work.kind = "loop";
          symbols_[step.symbol] = step.trip ? std::max<int64_t>(0, step.trip->evaluate(symbols_) - 1) / 2 : 0;
          if (!step.locations.empty()) use(work, step.locations[0], 1, false);
          break;
        case PlanStep::Kind::If:
          work.kind = "branch";
          if (!step.locations.empty()) use(work, step.locations[0], 1, false);
          break;
        case PlanStep::Kind::Bind:
          // The work of the largest size, where there is a bound.
          work.kind = "size";
          use(work, step.locations[0], size_of(DType::I64), false);
          symbols_[step.symbol] = step.bound ? step.bound->evaluate(symbols_) : 1;
          break;
        case PlanStep::Kind::Grow: work.kind = "memory"; break;
        case PlanStep::Kind::Check: work.kind = "check"; break;
      }
      if (work.what.empty()) work.what = work.kind;
      found_.push_back(std::move(work));
      const int number = static_cast<int>(found_.size()) - 1;
      const bool runs = runs_, chosen = has_sizes(step);
      runs_ = runs && chosen;
      walk(step.body, number);
      runs_ = runs && (step.sizes.empty() || !chosen);
      walk(step.otherwise, number);
      runs_ = runs;
    }
  }

  StepUse& use(StepWork& work, const Location& location, int64_t bytes, bool writes) const {
    work.uses.push_back(
        {location.kind, location.index, location.offset.evaluate(symbols_), bytes, writes, ""});
    return work.uses.back();
  }

  // The memory of a call's arguments, which it reads and writes whole.
  void use_arguments(const PlanStep& step, StepWork& work) const {
    const Kernel& kernel = model_.plan.kernels[static_cast<size_t>(step.kernel)].kernel;
    Symbols parameters;
    for (size_t i = 0; i < step.parameters.size(); ++i)
      parameters[kernel.parameters[i].name] = step.parameters[i].evaluate(symbols_);
    size_t next = 0;
    for (const Buffer& buffer : kernel.buffers) {
      if (!is_argument(buffer)) continue;
      int64_t bytes = size_of(buffer.dtype);
      Shape shape;
      for (const Affine& size : buffer.shape) {
        shape.push_back(size.evaluate(parameters));
        bytes *= shape.back().constant();
      }
      const Location& location = step.locations[next++];
      use(work, location, bytes, buffer.scope == Scope::Output).type =
          std::string(name_of(buffer.dtype)) + str(shape);
    }
  }

  // Whether the symbols have the sizes for which the step's body was planned.
  bool has_sizes(const PlanStep& step) const {
    return std::all_of(step.sizes.begin(), step.sizes.end(), [&](const auto& each) {
      return each.first.evaluate(symbols_) == each.second.evaluate(symbols_);
    });
  }

  void call(const PlanStep& step, StepWork& work) {
    work.kind = "kernel";
    TC_CHECK(next_report_ < model_.reports.size(), "for step '", step.label, "': a report");
    work.report = static_cast<int>(next_report_++);
    const KernelReport& report = model_.reports[static_cast<size_t>(work.report)];
    const Kernel kernel = parse_kernel(report.statements);
    Symbols parameters;
    for (const Parameter& parameter : kernel.parameters)
      parameters[parameter.name] = parameter.value.evaluate(symbols_);
    work.flops = flop_count(kernel, parameters);
    work.multiply_adds = std::min(report.multiply_adds, work.flops / 2);
    work.predicted_seconds = report.predicted_seconds;
    work.single_thread = report.single_thread;
    // The report has the work at the symbols' least values.
    if (!kernel.parameters.empty() && report.flops > 0) {
      work.predicted_seconds *= work.flops / report.flops;
      work.multiply_adds = std::min(report.multiply_adds * work.flops / report.flops, work.flops / 2);
    }
    work.traffic = traffic_of(kernel, parameters);
    work.what = kernel_class(kernel);
    use_arguments(step, work);
    for (const Buffer& buffer : kernel.buffers) {
      if (buffer.dtype == DType::F64) work.dtype = DType::F64;
    }
  }

  const CompiledModel& model_;
  Symbols symbols_;
  bool runs_ = true;
  size_t next_report_ = 0;
  std::vector<StepWork> found_;
};

}  // namespace

std::vector<StepWork> work_of(const CompiledModel& model, const std::map<std::string, int64_t>& symbols) {
  return Walker(model, symbols).run();
}

std::vector<ArenaBlock> blocks_of(const CompiledModel& model, const std::map<std::string, int64_t>& symbols) {
  Walker walker(model, symbols);
  walker.run();
  std::vector<ArenaBlock> blocks = model.plan.blocks;
  for (ArenaBlock& block : blocks) {
    block.offset = block.offset.evaluate(walker.symbols());
    block.bytes = block.bytes.evaluate(walker.symbols());
  }
  return blocks;
}

}  // namespace tc
