// The header's part that tells how to run a model without a runtime.
#include "codegen/backend/run_interface.h"

#include <ostream>
#include <set>

#include "codegen/backend/c_names.h"
#include "ir/error.h"
#include "ir/in_place.h"
#include "ir/plan_steps.h"
#include "ir/scratch.h"

namespace tc {
namespace {

// The label, in brackets, of the step that binds a symbol of the size.
std::string of_node(const Plan& plan, const Dim& dim) {
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  for (const PlanStep* step : all_steps(plan)) {
    if (step->kind == PlanStep::Kind::Bind && symbols.count(step->symbol)) return " (" + step->label + ")";
  }
  return "";
}

std::vector<RunArgument> arguments_of(const std::vector<PortInfo>& ports, const std::set<int>& states,
                                      const std::string& kind, const std::string& prefix,
                                      std::set<std::string>& taken) {
  std::vector<RunArgument> result;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (states.count(static_cast<int>(i)) > 0) continue;
    std::string name = kind + "_" + identifier(ports[i].name);
    if (!taken.insert(name).second) taken.insert(name += text("_", i));
    result.push_back({name, upper(prefix) + "_" + upper(kind) + text("_", result.size()), &ports[i],
                      element_count(ports[i].shape).constant(), i});
  }
  return result;
}

void write_each(std::ostream& out, const std::vector<RunArgument>& arguments) {
  for (const RunArgument& argument : arguments) {
    out << "/* " << argument.name << ": '" << harmless(argument.port->name) << "', "
        << name_of(argument.port->dtype) << str(argument.port->shape) << ", row-major */\n"
        << "#define " << argument.macro << "_TYPE " << c_type(argument.port->dtype) << "\n"
        << "#define " << argument.macro << "_ELEMENTS " << argument.elements << "\n"
        << "#define " << argument.macro << "_BYTES "
        << argument.elements * static_cast<int64_t>(size_of(argument.port->dtype)) << "\n";
  }
}

}  // namespace

void refuse_late_sizes(const Plan& plan, const std::string& kind) {
  const std::string no_runtime = "an artefact of kind '" + kind + "' has no runtime";
  for (const PortInfo& port : plan.inputs) {
    for (const Dim& dim : port.shape) {
      if (dim.is_constant()) continue;
      fail(ErrorKind::Unsupported, "size '", dim.str(), "' of input '", port.name, "' of model '", plan.model,
           "' is open, and ", no_runtime, " that would make room for it; bind it with shapes={'", dim.str(),
           "': 1} (--shape ", dim.str(), "=1)");
    }
  }
  const char* remedy =
      "; where inputs decide it, bind their values (values=, --value) or shapes (shapes=, --shape), else export kind 'static'";
  for (const PlanStep* step : all_steps(plan)) {
    if (step->kind != PlanStep::Kind::Grow) continue;
    fail(ErrorKind::Unsupported, step->label, " in model '", plan.model, "' has no bound before a run, and ",
         no_runtime, " that would make room for it", remedy);
  }
  for (const PortInfo& port : plan.outputs) {
    for (const Dim& dim : port.shape) {
      if (dim.is_constant()) continue;
      fail(ErrorKind::Unsupported, "size '", dim.str(), "' of output '", port.name, "' of model '",
           plan.model, "' is computed by a run", of_node(plan, dim), ", and ", no_runtime,
           " that would tell it", remedy);
    }
  }
}

RunArguments run_arguments(const Plan& plan, const std::string& prefix) {
  std::set<std::string> taken;
  std::set<int> before, behind;
  for (const KeptState& state : plan.states) {
    before.insert(state.input);
    behind.insert(state.output);
  }
  RunArguments result;
  result.inputs = arguments_of(plan.inputs, before, "input", prefix, taken);
  result.outputs = arguments_of(plan.outputs, behind, "output", prefix, taken);
  const std::vector<int> pairs = inputs_in_place(plan);
  for (RunArgument& output : result.outputs) {
    for (const RunArgument& input : result.inputs) {
      if (pairs[output.index] == static_cast<int>(input.index)) output.lies_in = input.name;
    }
  }
  return result;
}

void write_ports(std::ostream& out, const RunArguments& arguments) {
  write_each(out, arguments.inputs);
  write_each(out, arguments.outputs);
}

std::string about_arena(const Plan& plan, const std::string& prefix) {
  return plan.states.empty() ? "any memory of that size and alignment, whose content is lost,"
                             : "any memory of that size and alignment, which nothing else writes to\n"
                               " * between the steps of a stream and which " +
                                   prefix + "_reset prepares,";
}

std::string about_runs(const Plan& plan, const std::string& prefix) {
  if (plan.states.empty())
    return "keeps nothing between runs and may run on several cores\n"
           " * at once, each with an arena of its own.";
  std::string names;
  for (const KeptState& state : plan.states)
    names += (names.empty() ? "'" : ", '") + harmless(state.name) + "'";
  return "keeps " + names + "\n * in the arena from run to run: call " + prefix +
         "_reset before the first run and to begin anew. Several streams may\n"
         " * run at once, each with an arena of its own.";
}

void write_run(std::ostream& out, const Plan& plan, const RunArguments& arguments,
               const std::string& prefix) {
  const std::string macros = upper(prefix);
  out << "\n/* What " << prefix << "_run returns. */\n"
      << "#define " << macros << "_DONE " << static_cast<int>(BareStatus::Done) << "\n"
      << "#define " << macros << "_NULL " << static_cast<int>(BareStatus::Null)
      << "        /* an argument is a null pointer */\n"
      << "#define " << macros << "_MISALIGNED " << static_cast<int>(BareStatus::Misaligned)
      << "  /* an array is not aligned to its elements' size, or the arena not to " << kBareArenaAlignment
      << " bytes */\n"
      << "#define " << macros << "_WRONG_SIZE " << static_cast<int>(BareStatus::WrongSize)
      << "  /* the inputs' values give a size that the model cannot have; what the outputs hold is lost */\n\n"
      << "/* Runs the model once. Outputs and arena overlap neither each other nor inputs";
  for (const RunArgument& output : arguments.outputs) {
    if (!output.lies_in.empty()) out << ", but that\n * " << output.name << " may be " << output.lies_in;
  }
  out << ". */\n"
      << "int " << prefix << "_run(";
  for (const RunArgument& input : arguments.inputs)
    out << "const " << c_type(input.port->dtype) << "* " << input.name << ", ";
  for (const RunArgument& output : arguments.outputs)
    out << c_type(output.port->dtype) << "* " << output.name << ", ";
  out << "void* arena);\n";
  if (!plan.states.empty()) {
    out << "\n/* Gives what is kept between runs its first value. Returns what " << prefix
        << "_run does. */\n"
        << "int " << prefix << "_reset(void* arena);\n";
  }
}

}  // namespace tc
