// The text form of plans, for people and golden tests.
#include "ir/plan.h"

#include "ir/error.h"

namespace tc {
namespace {

std::string str(const Location& location) {
  std::string result;
  switch (location.kind) {
    case Location::Kind::Input: result = text("input", location.index); break;
    case Location::Kind::Output: result = text("output", location.index); break;
    case Location::Kind::Constant: result = text("constant", location.index); break;
    case Location::Kind::Arena: return text("block", location.index, "@[", location.offset.str(), "]");
    case Location::Kind::Segment: result = text("segment", location.index); break;
  }
  if (location.offset != Dim(0)) result += "[" + location.offset.str() + "]";
  return result;
}

std::string str(const std::vector<Location>& locations) {
  std::string result;
  for (const Location& location : locations) {
    result += (result.empty() ? "" : ", ") + str(location);
  }
  return result;
}

// The condition of a step of kind If.
std::string condition(const PlanStep& step) {
  if (!step.locations.empty()) return str(step.locations);
  std::string result;
  for (const auto& [left, right] : step.sizes)
    result += (result.empty() ? "" : ", ") + left.str() + " == " + right.str();
  return result;
}

void print_steps(const PlanSteps& steps, const Plan& plan, int depth, std::string& out) {
  std::string indent(static_cast<size_t>(2 * depth), ' ');
  for (const PlanStep& step : steps) {
    out += indent;
    switch (step.kind) {
      case PlanStep::Kind::Call: {
        bool known = step.kernel >= 0 && step.kernel < static_cast<int>(plan.kernels.size());
        out += text("call ", step.kernel);
        if (known) out += " " + plan.kernels[static_cast<size_t>(step.kernel)].kernel.name;
        out += "(" + str(step.locations) + ")";
        for (size_t i = 0; i < step.parameters.size(); ++i) {
          out += (i ? ", " : " with ") + step.parameters[i].str();
        }
        if (step.single_thread) out += " single_thread";
        if (step.scratch) out += " scratch " + str(*step.scratch);
        break;
      }
      case PlanStep::Kind::Copy:
        out += "copy " + step.bytes.str() + " bytes (" + str(step.locations) + ")";
        break;
      case PlanStep::Kind::Loop:
        out += "loop " + step.symbol + (step.trip ? " < " + step.trip->str() : "");
        if (!step.locations.empty()) out += " while " + str(step.locations);
        break;
      case PlanStep::Kind::If: out += "if " + condition(step); break;
      case PlanStep::Kind::Bind:
        out += "bind " + step.symbol + (step.bound ? " <= " + step.bound->str() : "") + " to " +
               str(step.locations);
        break;
      case PlanStep::Kind::Grow:
        out += text("grow segment", step.segment, " to ", step.bytes.str(), " bytes for ", step.left.str());
        break;
      case PlanStep::Kind::Check:
        out += "check " + step.left.str() + (step.equal ? " == " : " <= ") + step.right.str();
        break;
    }
    if (!step.label.empty()) out += "  # " + printable(step.label, kMaxOfLine);
    out += "\n";
    print_steps(step.body, plan, depth + 1, out);
    if (step.otherwise.empty()) continue;
    out += indent + "else\n";
    print_steps(step.otherwise, plan, depth + 1, out);
  }
}

std::string str(const PortInfo& port) {
  return printable(port.name) + " " + name_of(port.dtype) + str(port.shape);
}

}  // namespace

std::string str(const Plan& plan) {
  std::string result = "plan " + printable(plan.model) + " for " + plan.target + "\n";
  for (const auto& [name, range] : plan.symbols) {
    result += text("symbol ", name, " in [", range.first, ", ", range.second, "]\n");
  }
  for (const auto& [name, bound] : plan.data_symbols) result += "size " + name + " <= " + bound.str() + "\n";
  for (const std::string& name : plan.unbounded) result += "size " + name + "\n";
  for (const PortInfo& port : plan.inputs) result += "input " + str(port) + "\n";
  for (const PortInfo& port : plan.outputs)
    result += "output " + str(port) + (port.data ? " at " + str(*port.data) : "") + "\n";
  for (const KeptState& state : plan.states)
    result += text("state ", printable(state.name), ": input ", state.input, ", output ", state.output, "\n");
  for (size_t i = 0; i < plan.constants.size(); ++i) {
    const PlanConstant& constant = plan.constants[i];
    result += text("constant ", i, " ", name_of(constant.dtype()), str(shape_of(constant.shape())), " ",
                   constant.byte_count(), " bytes\n");
  }
  result += "arena " + plan.arena_bytes.str() + " bytes, scratch " + std::to_string(plan.scratch_bytes) +
            " bytes\n";
  if (plan.sized_scratch != Dim(0)) result += "scratch by sizes " + plan.sized_scratch.str() + " bytes\n";
  for (size_t i = 0; i < plan.blocks.size(); ++i) {
    const ArenaBlock& block = plan.blocks[i];
    result += text("block ", i, " ", printable(block.name), " [", block.offset.str(), ", +",
                   block.bytes.str(), ") steps ", block.first, " .. ", block.last, "\n");
  }
  result += "steps\n";
  print_steps(plan.steps, plan, 1, result);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    result += text("kernel ", i, ":\n") + str(plan.kernels[i]);
    const auto versions = plan.versions.find(static_cast<int>(i));
    if (versions == plan.versions.end()) continue;
    for (const VectorVersion& version : versions->second) {
      result += text("kernel ", i, " for ", version.target, ":\n") + str(version.kernel);
    }
  }
  return result;
}

}  // namespace tc
