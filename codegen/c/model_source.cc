// A plan as C source: the function that runs the model, and the constants.
#include <algorithm>
#include <cstdio>
#include <set>

#include "codegen/c/kernel_function.h"
#include "codegen/c/model_source.h"
#include "codegen/c/kernel_context.h"
#include "codegen/backend/c_names.h"
#include "ir/error.h"
#include "ir/accelerator.h"
#include "ir/in_place.h"
#include "ir/plan_steps.h"
#include "ir/scratch.h"

namespace tc {

using c::indented;

namespace {

const char* const kIncludes =
    "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n\n";

// Arithmetic of sizes that a run's data decides: overflows set `wrong`, and quotients are rounded down.
const char* const kSizes = R"(
TC_FUNCTION int64_t tc_size_sum(int64_t a, int64_t b, int *wrong)
{
  const int is_wrong = b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b;
  *wrong |= is_wrong;
  return is_wrong ? 0 : a + b;
}

TC_FUNCTION int64_t tc_size_product(int64_t a, int64_t b, int *wrong)
{
  const int64_t product = (int64_t)((uint64_t)a * (uint64_t)b);
  const int is_wrong = a != 0 && (product / a != b || (a == -1 && b == INT64_MIN));
  *wrong |= is_wrong;
  return is_wrong ? 0 : product;
}

TC_FUNCTION int64_t tc_size_quotient(int64_t a, int64_t b, int *wrong)
{
  *wrong |= b < 1;
  return b < 1 ? 0 : a / b - (a % b < 0 ? 1 : 0);
}

TC_FUNCTION int64_t tc_size_rest(int64_t a, int64_t b, int *wrong)
{
  *wrong |= b < 1;
  return b < 1 ? 0 : a % b < 0 ? a % b + b : a % b;
}
)";

// The line that includes the interface of the accelerator's driver; empty where the kernels have no commands.
std::string driver_of(const std::vector<ScheduledKernel>& kernels) {
  for (const ScheduledKernel& each : kernels) {
    if (each.accelerator != nullptr) return text("#include \"", each.accelerator->name, ".h\"\n");
  }
  return "";
}

class ModelWriter {
 public:
  ModelWriter(const Plan& plan, const CSourceNames& names)
      : plan_(plan),
        names_(names),
        offsets_(constant_offsets(plan.constants)),
        state_offsets_(bare_state_offsets(plan)) {
    for (size_t i = 0; i < plan.states.size(); ++i) {
      const std::string place = text("memory + ", state_offsets_[i]);
      places_.inputs[plan.states[i].input] = places_.outputs[plan.states[i].output] = place;
    }
  }

  std::string source() {
    std::vector<c::FunctionText> kernels;
    for (size_t i = 0; i < plan_.kernels.size(); ++i) {
      kernels.push_back(c::kernel_function(plan_.kernels[i], kernel_name(i), functions_));
      calls_.push_back({i, {}});
    }
    if (plan_.least_code) {
      std::vector<int> steps(kernels.size(), 0);
      for (const PlanStep* step : all_steps(plan_)) {
        if (step->kind == PlanStep::Kind::Call) ++steps.at(static_cast<size_t>(step->kernel));
      }
      calls_ = c::share_functions(kernels, steps);
    }
    for (const c::FunctionText& kernel : kernels) kernel_names_.push_back(kernel.name);
    const std::string run = run_function();
    std::string result =
        text("/* Model '", c::in_comment(plan_.model),
             "' for one thread.\n * Compile with -O3 -ffp-contract=fast -fno-math-errno (GCC, Clang). */\n",
             "#include \"", names_.header, "\"\n", driver_of(plan_.kernels), kIncludes);
    result += functions_.definitions();
    if (uses_sizes_) result += kSizes;
    result += arena();
    for (const c::FunctionText& kernel : kernels) result += "\n" + str(kernel, "TC_KERNEL void ");
    return result + "\n" + run + (plan_.states.empty() ? "" : reset_function());
  }

 private:
  std::string reset_function() const {
    std::string arrays, body;
    for (size_t i = 0; i < plan_.states.size(); ++i) {
      const KeptState& state = plan_.states[i];
      const std::string comment = text("/* ", c::in_comment(state.name), " */\n"),
                        place = text("(uint8_t *)arena + ", state_offsets_[i]);
      if (state.initial.empty()) {
        body += text(comment, "memset(", place, ", 0, ", state_bytes(plan_, state), ");\n");
        continue;
      }
      const std::string name = text(names_.prefix, "_first_values_", i);
      body += text(comment, "memcpy(", place, ", ", name, ", sizeof ", name, ");\n");
      arrays += text("static const uint8_t ", name, "[", state.initial.size(), "] = {");
      for (const uint8_t byte : state.initial) arrays += text(static_cast<int>(byte), ",");
      arrays += "};\n";
    }
    const std::string checks =
        text("if (arena == NULL) {\n  return ", static_cast<int>(BareStatus::Null),
             "; /* NULL */\n}\nif ((uintptr_t)arena % ", kBareArenaAlignment, "u != 0u) {\n  return ",
             static_cast<int>(BareStatus::Misaligned), "; /* MISALIGNED */\n}\n");
    return text("\n", arrays, "int ", names_.prefix, "_reset(void *arena)\n{\n",
                indented(checks + body + "return 0;\n", 1), "}\n");
  }

  std::string kernel_name(size_t index) const { return text(names_.prefix, "_kernel_", index); }

  std::string arena() const {
    return text("\n#if defined(__GNUC__)\n__attribute__((aligned(", kBareArenaAlignment,
                ")))\n#endif\nuint8_t ", names_.prefix, "_arena[", bare_arena_bytes(plan_), "];\n");
  }

  std::string run_function() {
    std::string checks, nulls = "arena == NULL", places;
    const auto add = [&](const std::vector<PortInfo>& ports, const std::vector<std::string>& names) {
      for (size_t i = 0; i < ports.size(); ++i) {
        if (names[i].empty()) continue;  // a state
        nulls += " || " + names[i] + " == NULL";
        if (size_of(ports[i].dtype) > 1)
          places += text(" || (uintptr_t)", names[i], " % ", size_of(ports[i].dtype), "u != 0u");
      }
    };
    add(plan_.inputs, names_.inputs);
    add(plan_.outputs, names_.outputs);
    const std::string returns = "  return ";
    checks += text("if (", nulls, ") {\n", returns, static_cast<int>(BareStatus::Null), "; /* NULL */\n}\n");
    checks += text("if ((uintptr_t)arena % ", kBareArenaAlignment, "u != 0u", places, ") {\n", returns,
                   static_cast<int>(BareStatus::Misaligned), "; /* MISALIGNED */\n}\n");
    const std::string body = steps(plan_.steps);
    std::string declarations = "uint8_t *const memory = (uint8_t *)arena;\n";
    size_t most = 1;
    for (const ScheduledKernel& kernel : plan_.kernels)
      most = std::max(most, kernel.kernel.parameters.size() + (alternates(kernel) ? 1 : 0));
    declarations += text("int64_t parameters[", most, "] = {0};\n");
    if (uses_sizes_) declarations += "int wrong = 0;\n";
    return text(
        c_prototype(plan_, names_), "\n{\n",
        indented(declarations + checks + "(void)memory;\n(void)parameters;\n" + body + "return 0;\n", 1),
        "}\n");
  }

  std::string size(const Dim& dim) {
    std::string sum;
    for (const Dim::Term& term : dim.terms()) {
      std::string product =
          term.factors.empty() || term.coefficient != 1 ? text("INT64_C(", term.coefficient, ")") : "";
      for (const Dim::AtomPtr& factor : term.factors) {
        const std::string value = atom(*factor);
        product = product.empty() ? value : sized("product", product, value);
      }
      sum = sum.empty() ? product : sized("sum", sum, product);
    }
    return sum.empty() ? "0" : sum;
  }

  std::string sized(const char* what, const std::string& a, const std::string& b) {
    uses_sizes_ = true;
    return text("tc_size_", what, "(", a, ", ", b, ", &wrong)");
  }

  std::string atom(const Dim::Atom& atom) {
    if (atom.kind == Dim::AtomKind::Symbol) {
      const auto found = symbols_.find(atom.name);
      TC_CHECK(found != symbols_.end(), "in the plan: symbol '", atom.name, "' has no value here");
      return found->second;
    }
    const std::string a = size(atom.left), b = size(atom.right);
    switch (atom.kind) {
      case Dim::AtomKind::Min: return text("((", a, ") < (", b, ") ? (", a, ") : (", b, "))");
      case Dim::AtomKind::Max: return text("((", a, ") > (", b, ") ? (", a, ") : (", b, "))");
      case Dim::AtomKind::Mod: return sized("rest", a, b);
      default: return sized("quotient", a, b);
    }
  }

  // An untyped pointer to the location's bytes.
  std::string address(const Location& location, bool is_written) {
    std::string base;
    int64_t fixed = 0;
    const size_t index = static_cast<size_t>(location.index);
    switch (location.kind) {
      case Location::Kind::Input:
        base = places_.inputs.count(location.index) ? places_.inputs.at(location.index)
                                                    : "(const uint8_t *)" + names_.inputs.at(index);
        break;
      case Location::Kind::Output:
        base = places_.outputs.count(location.index)
                   ? places_.outputs.at(location.index)
                   : text(is_written ? "(uint8_t *)" : "(const uint8_t *)", names_.outputs.at(index));
        break;
      case Location::Kind::Constant:
        base = names_.prefix + "_weights";
        fixed = offsets_.at(index);
        break;
      case Location::Kind::Arena: base = "memory"; break;
      case Location::Kind::Segment:
        fail(ErrorKind::Internal, "internal error: a segment without a runtime, in the plan of '",
             plan_.model, "'");
    }
    const Dim offset = location.offset + Dim(fixed);
    return text(is_written ? "(void *)" : "(const void *)", "(", base, " + ",
                offset.is_constant() ? text(offset.constant()) : size(offset), ")");
  }

  std::string steps(const PlanSteps& list) {
    std::string result;
    std::vector<std::string> bound;
    for (const PlanStep& step : list) {
      switch (step.kind) {
        case PlanStep::Kind::Call: result += call(step); break;
        case PlanStep::Kind::Copy: result += copy(step); break;
        case PlanStep::Kind::Loop: result += repeat(step); break;
        case PlanStep::Kind::If:
          result += text("if (", condition(step), ") {\n", indented(steps(step.body), 1), "} else {\n",
                         indented(steps(step.otherwise), 1), "}\n");
          break;
        case PlanStep::Kind::Bind:
          result += bind(step);
          bound.push_back(step.symbol);
          break;
        case PlanStep::Kind::Check: result += check(step); break;
        case PlanStep::Kind::Grow:
          fail(ErrorKind::Internal, "internal error: step '", step.label,
               "' wants memory, and there is no runtime");
      }
    }
    for (const std::string& symbol : bound) symbols_.erase(symbol);
    return result;
  }

  std::string condition(const PlanStep& step) {
    if (!step.locations.empty())
      return text("*(const uint8_t *)", address(step.locations[0], false), " != 0u");
    std::string result;
    for (const auto& [left, right] : step.sizes)
      result += text(result.empty() ? "" : " && ", "(", size(left), ") == (", size(right), ")");
    return result;
  }

  std::string copy(const PlanStep& step) {
    const std::string to = address(step.locations.at(0), true), from = address(step.locations.at(1), false),
                      bytes = step.bytes.is_constant() ? text(step.bytes.constant())
                                                       : "(" + size(step.bytes) + ")";
    const std::string call = text("memcpy(", to, ", ", from, ", (size_t)", bytes, ");\n");
    const bool may_be_one =
        step.locations[0].kind == Location::Kind::Output && step.locations[1].kind == Location::Kind::Input &&
        in_place_.at(static_cast<size_t>(step.locations[0].index)) == step.locations[1].index;
    return text("/* ", c::in_comment(step.label), " */\n",
                may_be_one ? text("if (", to, " != ", from, ") {\n", indented(call, 1), "}\n") : call);
  }

  std::string declare(const std::string& symbol) {
    TC_CHECK(symbols_.count(symbol) == 0, "for the symbol '", symbol, "' of the plan of '", plan_.model,
             "': it hides another");
    std::string wish = "n_";
    for (const char each : symbol) wish += std::isalnum(static_cast<unsigned char>(each)) ? each : '_';
    return symbols_[symbol] = taken_.fresh(wish);
  }

  std::string bind(const PlanStep& step) {
    const std::string from = address(step.locations.at(0), false),
                      bound = step.bound ? size(*step.bound) : "INT64_MAX", name = declare(step.symbol);
    return text("/* ", c::in_comment(step.label), " */\nint64_t ", name, " = 0;\nmemcpy(&", name, ", ", from,
                ", sizeof ", name, ");\nif (", name, " < 0 || ", name, " > ", bound, ") {\n  return ",
                static_cast<int>(BareStatus::WrongSize), "; /* WRONG_SIZE */\n}\n");
  }

  std::string check(const PlanStep& step) {
    uses_sizes_ = true;
    const std::string left = size(step.left), right = size(step.right);
    return text("/* ", c::in_comment(step.label), " */\nwrong = 0;\nif ((", left, ") ",
                step.equal ? "!=" : ">", " (", right, ") || wrong) {\n  return ",
                static_cast<int>(BareStatus::WrongSize), "; /* WRONG_SIZE */\n}\n");
  }

  std::string repeat(const PlanStep& step) {
    const std::string trip = step.trip ? size(*step.trip) : "INT64_MAX";
    const std::string condition =
        step.locations.empty() ? ""
                               : text(" && *(const uint8_t *)", address(step.locations[0], false), " != 0u");
    const std::string name = declare(step.symbol), outer = std::exchange(iteration_, name);
    const std::string body = steps(step.body);
    iteration_ = outer;
    symbols_.erase(step.symbol);
    return text("for (int64_t ", name, " = 0; ", name, " < ", trip, condition, "; ++", name, ") {\n",
                indented(body, 1), "}\n");
  }

  std::string call(const PlanStep& step) {
    const size_t index = static_cast<size_t>(step.kernel);
    TC_CHECK(step.kernel >= 0 && index < plan_.kernels.size(), "in step '", step.label, "'");
    const ScheduledKernel& scheduled = plan_.kernels[index];
    TC_CHECK(scheduled.kernel.parameters.size() == step.parameters.size(), "in step '", step.label,
             "': parameters of kernel '", scheduled.kernel.name, "'");
    std::string result = text("/* ", c::in_comment(step.label), " */\n"), arguments;
    for (size_t i = 0; i < step.parameters.size(); ++i)
      result += text("parameters[", i, "] = ", size(step.parameters[i]), ";\n");
    if (alternates(scheduled))
      result += text("parameters[", step.parameters.size(), "] = ", iteration_, ";\n");
    for_each_argument(scheduled.kernel, [&](const Buffer& buffer, size_t number) {
      const std::string type =
          text(buffer.scope == Scope::Output ? "(" : "(const ", c_type(buffer.dtype), " *)");
      arguments += type + address(step.locations.at(number), buffer.scope == Scope::Output) + ", ";
    });
    const std::string scratch = step.scratch ? "(uint8_t *)" + address(*step.scratch, true)
                                             : text("memory + ", bare_scratch_offset(plan_));
    std::string numbers;
    for (const int64_t number : calls_[index].numbers) numbers += text(number, ", ");
    return result + text(kernel_names_[calls_[index].function], "(", numbers, arguments, "parameters, ",
                         scratch, ");\n");
  }

  const Plan& plan_;
  const CSourceNames& names_;
  const std::vector<int> in_place_ = inputs_in_place(plan_);
  std::vector<int64_t> offsets_, state_offsets_;
  // Where states are, by the numbers of their inputs and outputs.
  struct {
    std::map<int, std::string> inputs, outputs;
  } places_;
  c::Functions functions_;
  std::vector<c::KernelCall> calls_;       // of the plan's kernels
  std::vector<std::string> kernel_names_;  // of functions
  c::Names taken_;
  std::map<std::string, std::string> symbols_;
  std::string iteration_ = "0";  // of the innermost loop of the plan
  bool uses_sizes_ = false;
};

}  // namespace

std::string c_prototype(const Plan& plan, const CSourceNames& names) {
  std::string result = text("int ", names.prefix, "_run(");
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    if (!names.inputs.at(i).empty())
      result += text("const ", c_type(plan.inputs[i].dtype), " *", names.inputs[i], ", ");
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    if (!names.outputs.at(i).empty())
      result += text(c_type(plan.outputs[i].dtype), " *", names.outputs[i], ", ");
  }
  return result + "void *arena)";
}

std::string c_model_source(const Plan& plan, const CSourceNames& names) {
  return ModelWriter(plan, names).source();
}

std::string c_kernel_source(const ScheduledKernel& kernel, const std::string& name) {
  c::Functions functions;
  const std::string code = str(c::kernel_function(kernel, name, functions), "void ");
  return driver_of({kernel}) + kIncludes + functions.definitions() + "\n" + code;
}

std::string c_weights_source(const CSourceNames& names, const std::vector<uint8_t>& bytes) {
  constexpr size_t kInLine = 32;
  std::string result = text("/* The constants of ", names.prefix, "_run. */\n#include \"", names.header,
                            "\"\n\n#if defined(__GNUC__)\n__attribute__((aligned(64)))\n#endif\n",
                            "const uint8_t ", names.prefix, "_weights[", bytes.size(), "] = {");
  for (size_t i = 0; i < bytes.size(); ++i)
    result += text(i % kInLine == 0 ? "\n" : "", static_cast<int>(bytes[i]), ",");
  return result + "\n};\n";
}

std::string c_weights_source(const CSourceNames& names, const std::string& binary) {
  const std::string symbol = names.prefix + "_weights";
  return text(
      "/* The constants of ", names.prefix, "_run: the bytes of ", binary,
      ", which is to lie beside this file. */\n#include \"", names.header, "\"\n\n",
      "#if !defined(__GNUC__)\n#error these constants are included by assemblers of GCC and Clang\n#endif\n",
      "__asm__(\".section .rodata\\n\"\n        \".balign 64\\n\"\n        \".globl ", symbol,
      "\\n\"\n        \"", symbol, ":\\n\"\n        \".incbin \\\"", binary,
      "\\\"\\n\"\n        \".previous\\n\");\n");
}

}  // namespace tc
