// The artefact for systems without an OS, and its header.
#include "frontend/pipeline/bare.h"

#include <set>
#include <sstream>

#include "codegen/bare_sizes.h"
#include "codegen/constants.h"
#include "frontend/pipeline/artefact_names.h"
#include "ir/error.h"
#include "ir/plan_steps.h"

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

std::string about(const CompiledModel& model) {
  return "model '" + harmless(model.plan.model) + "' for a system without an operating system: link this file.\n"
         " * It needs memcpy, memmove and memset at most, .bss cleared, the CPU's features below switched on (on RISC-V FS and VS of\n"
         " * mstatus), rounding to nearest, and some stack. It allocates nothing, keeps nothing between runs and may run on several cores\n"
         " * at once, each with an arena of its own.";
}

std::string declarations(const CompiledModel& model, const std::string& prefix, const BareSizes& sizes) {
  const std::string macros = upper(prefix);
  std::set<std::string> taken;
  const auto inputs = arguments_of(model.plan.inputs, "input", prefix, taken);
  const auto outputs = arguments_of(model.plan.outputs, "output", prefix, taken);
  std::ostringstream out;
  out << "#include <stdint.h>\n\n"
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
      << "extern uint8_t " << prefix << "_arena[" << macros << "_ARENA_BYTES];\n\n"
      << "/* Code and tables beside the weights, and what a run takes of the stack";
  if (sizes.stack_grows) out << " with vectors of " << model.target.vector_bits << " bits";
  out << ". */\n"
      << "#define " << macros << "_CODE_BYTES " << sizes.code << "\n"
      << "#define " << macros << "_STACK_BYTES " << sizes.stack << "\n\n";
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
  out << "void* arena);\n\n#ifdef __cplusplus\n}\n#endif\n";
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

// What lies in flash memory is known when code is.
void refuse_more_than_flash(const CompiledModel& model, const BareSizes& sizes) {
  if (model.max_flash == 0 || sizes.constants + sizes.code <= model.max_flash) return;
  fail(ErrorKind::Unsupported, "model '", model.plan.model, "' needs ", sizes.constants, " bytes for constants and ", sizes.code, " for code, but max_flash gives it ",
       model.max_flash, "; use a smaller or a quantised model, or give it more by max_flash");
}

}  // namespace

ExportedSizes export_bare(const CompiledModel& model, const std::string& path, const std::string& part) {
  refuse_late_sizes(model.plan);
  refuse_more_than_addresses(model);
  const std::string prefix = c_name(path);
  const BareModel bare{model.plan, model.objects, model.target, kUnnamedDescriptor, prefix};
  link_bare(bare, part);
  const BareSizes sizes = bare_sizes(bare, part);
  refuse_more_than_flash(model, sizes);
  write_header(path, about(model), declarations(model, prefix, sizes));
  return {sizes.constants, sizes.code, sizes.arena, sizes.zeros, sizes.stack};
}

}  // namespace tc
