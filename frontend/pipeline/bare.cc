// The artefact for systems without an OS, and its header.
#include "frontend/pipeline/bare.h"

#include <fstream>
#include <set>
#include <sstream>

#include "codegen/constants.h"
#include "ir/error.h"
#include "ir/plan_steps.h"
#include "runtime/abi.h"

namespace tc {
namespace {

const char* kNoRuntime = "an artefact of kind 'bare' has no runtime";

// The step that binds a symbol of the size.
std::string of_node(const Plan& plan, const Dim& dim) {
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  for (const PlanStep* step : all_steps(plan)) {
    if (step->kind == PlanStep::Kind::Bind && symbols.count(step->symbol)) return " (" + step->label + ")";
  }
  return "";
}

// What a run would ask the runtime for.
void refuse_late_sizes(const Plan& plan) {
  for (const PortInfo& port : plan.inputs) {
    for (const Dim& dim : port.shape) {
      if (dim.is_constant()) continue;
      fail(ErrorKind::Unsupported, "size '", dim.str(), "' of input '", port.name, "' of model '", plan.model, "' is open, and ", kNoRuntime,
           " that would make room for it; bind it with shapes={'", dim.str(), "': 1} (--shape ", dim.str(), "=1)");
    }
  }
  const char* remedy = "; where inputs decide it, bind their values (values=, --value) or shapes (shapes=, --shape), else export kind 'static'";
  for (const PlanStep* step : all_steps(plan)) {
    if (step->kind != PlanStep::Kind::Grow) continue;
    fail(ErrorKind::Unsupported, step->label, " in model '", plan.model, "' has no bound before a run, and ", kNoRuntime, " that would make room for it",
         remedy);
  }
  for (const PortInfo& port : plan.outputs) {
    for (const Dim& dim : port.shape) {
      if (dim.is_constant()) continue;
      fail(ErrorKind::Unsupported, "size '", dim.str(), "' of output '", port.name, "' of model '", plan.model, "' is computed by a run", of_node(plan, dim),
           ", and ", kNoRuntime, " that would tell it", remedy);
    }
  }
}

std::string identifier(const std::string& name) {
  std::string result;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    if (digit && result.empty()) result = "_";
    result += letter || digit ? c : '_';
  }
  return result.empty() ? "_" : result;
}

std::string upper(std::string name) {
  for (char& c : name) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

// Text that stays inside a comment or a C string, whatever a model's file calls its parts.
std::string harmless(const std::string& name) {
  std::string result;
  for (const char c : name) result += c >= ' ' && c <= '~' && c != '*' && c != '"' && c != '\\' && c != '?' ? c : '_';
  return result;
}

std::string stem(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  return identifier(file.substr(0, file.rfind('.')));
}

// C's type of an element; formats that C lacks are their bits.
const char* c_type(DType dtype) {
  switch (dtype) {
    case DType::F32: return "float";
    case DType::F64: return "double";
    case DType::I8: return "int8_t";
    case DType::I16: return "int16_t";
    case DType::I32: return "int32_t";
    case DType::I64: return "int64_t";
    case DType::U32: return "uint32_t";
    case DType::U64: return "uint64_t";
    default: return size_of(dtype) == 2 ? "uint16_t" : "uint8_t";
  }
}

struct Argument {
  std::string name, macro;   // MODEL_INPUT_0
  const PortInfo* port;
  int64_t elements;
};

std::vector<Argument> arguments_of(const std::vector<PortInfo>& ports, const std::string& kind, const std::string& prefix,
                                   std::set<std::string>& taken) {
  std::vector<Argument> result;
  for (size_t i = 0; i < ports.size(); ++i) {
    std::string name = kind + "_" + identifier(ports[i].name);
    if (!taken.insert(name).second) taken.insert(name += text("_", i));
    result.push_back({name, upper(prefix) + "_" + upper(kind) + text("_", i), &ports[i], element_count(ports[i].shape).constant()});
  }
  return result;
}

void write_ports(std::ostream& out, const std::vector<Argument>& arguments) {
  for (const Argument& argument : arguments) {
    out << "/* " << argument.name << ": '" << harmless(argument.port->name) << "', " << name_of(argument.port->dtype)
        << str(argument.port->shape) << ", row-major */\n"
        << "#define " << argument.macro << "_TYPE " << c_type(argument.port->dtype) << "\n"
        << "#define " << argument.macro << "_ELEMENTS " << argument.elements << "\n"
        << "#define " << argument.macro << "_BYTES " << argument.elements * static_cast<int64_t>(size_of(argument.port->dtype)) << "\n";
  }
}

std::string header_text(const CompiledModel& model, const std::string& prefix) {
  const std::string macros = upper(prefix);
  std::set<std::string> taken;
  const auto inputs = arguments_of(model.plan.inputs, "input", prefix, taken);
  const auto outputs = arguments_of(model.plan.outputs, "output", prefix, taken);
  std::ostringstream out;
  out << "/* Model '" << harmless(model.plan.model) << "' for a system without an operating system: link " << prefix << ".o.\n"
      << " * It needs memcpy, memmove and memset at most, .bss cleared, the CPU's features below switched on (on RISC-V FS and VS of\n"
      << " * mstatus), rounding to nearest, and some stack. It allocates nothing, keeps nothing between runs and may run on several cores\n"
      << " * at once, each with an arena of its own. */\n"
      << "#ifndef " << macros << "_H_\n#define " << macros << "_H_\n\n#include <stdint.h>\n\n"
      << "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
      << "#define " << macros << "_TARGET \"" << harmless(model.target.name) << "\"\n"
      << "#define " << macros << "_FEATURES \"" << harmless(plan_features(model.plan, model.target)) << "\"\n\n"
      << "/* Read-only data, part of the object. */\n"
      << "#define " << macros << "_WEIGHTS_BYTES " << model.objects.constants->byte_count() << "\n"
      << "extern const uint8_t " << prefix << "_weights[" << macros << "_WEIGHTS_BYTES];\n\n"
      << "/* What a run works in: any memory of that size and alignment, whose content is lost, or this block, which is not in\n"
      << " * the program unless something names it (--gc-sections). */\n"
      << "#define " << macros << "_ARENA_BYTES " << bare_arena_bytes(model.plan) << "\n"
      << "#define " << macros << "_ARENA_ALIGNMENT " << kBareArenaAlignment << "\n"
      << "extern uint8_t " << prefix << "_arena[" << macros << "_ARENA_BYTES];\n\n";
  write_ports(out, inputs);
  write_ports(out, outputs);
  out << "\n/* What " << prefix << "_run returns. */\n"
      << "#define " << macros << "_DONE " << static_cast<int>(BareStatus::Done) << "\n"
      << "#define " << macros << "_NULL " << static_cast<int>(BareStatus::Null) << "        /* an argument is a null pointer */\n"
      << "#define " << macros << "_MISALIGNED " << static_cast<int>(BareStatus::Misaligned)
      << "  /* an array is not aligned to its elements' size, or the arena not to " << kBareArenaAlignment << " bytes */\n"
      << "#define " << macros << "_WRONG_SIZE " << static_cast<int>(BareStatus::WrongSize)
      << "  /* the inputs' values give a size that the model cannot have; what the outputs hold is lost */\n\n"
      << "/* Runs the model once. Outputs and arena overlap neither each other nor inputs. */\n"
      << "int " << prefix << "_run(";
  for (const Argument& input : inputs) out << "const " << c_type(input.port->dtype) << "* " << input.name << ", ";
  for (const Argument& output : outputs) out << c_type(output.port->dtype) << "* " << output.name << ", ";
  out << "void* arena);\n\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return out.str();
}

// A program, its data and its memory share addresses of 32 bits, of which systems without an OS hardly give a program more than half.
void refuse_more_than_addresses(const CompiledModel& model) {
  constexpr int64_t kMost = INT32_MAX;
  if (model.target.arch != Arch::RiscV32) return;
  const int64_t weights = model.objects.constants->byte_count(), arena = bare_arena_bytes(model.plan);
  int64_t ports = 0;
  for (const std::vector<PortInfo>* each : {&model.plan.inputs, &model.plan.outputs}) {
    for (const PortInfo& port : *each) ports += std::min(kMost, element_count(port.shape).constant()) * static_cast<int64_t>(size_of(port.dtype));
  }
  if (weights <= kMost && arena <= kMost - weights && ports <= kMost - weights - arena) return;
  fail(ErrorKind::Unsupported, "weights of ", weights, " bytes, an arena of ", arena, " bytes, and inputs and outputs of ", ports,
       " bytes have no room in the addresses of target ", model.target.name, ", which have 32 bits; use a smaller model or a 64-bit target");
}

}  // namespace

std::string header_path(const std::string& path) {
  const size_t dot = path.rfind('.'), slash = path.rfind('/');
  const bool has_suffix = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return (has_suffix ? path.substr(0, dot) : path) + ".h";
}

void export_bare(const CompiledModel& model, const std::string& path) {
  refuse_late_sizes(model.plan);
  refuse_more_than_addresses(model);
  const std::string prefix = stem(path), header = header_path(path);
  link_bare({model.plan, model.objects, model.target, TC_DESCRIPTOR_SYMBOL, prefix}, path);
  std::ofstream out(header);
  out << header_text(model, prefix);
  out.close();
  if (!out) fail(ErrorKind::Device, "cannot write '", header, "'; check the folder and the free space");
}

}  // namespace tc
