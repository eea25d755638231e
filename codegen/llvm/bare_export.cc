// The artefact for systems without an OS, and its header.
#include "codegen/llvm/bare_export.h"

#include <sstream>

#include "codegen/llvm/required_features.h"
#include "codegen/llvm/artefact/model_objects.h"
#include "codegen/llvm/artefact/bare_object.h"
#include "codegen/backend/artefact_files.h"
#include "codegen/backend/c_names.h"
#include "codegen/backend/packed_constants_file.h"
#include "codegen/backend/run_interface.h"
#include "ir/error.h"
#include "ir/scratch.h"

namespace tc {
namespace {

std::string about(const ArtefactContent& model, const std::string& prefix) {
  return "model '" + harmless(model.plan.model) +
         "' for a system without an operating system: link this file.\n"
         " * It needs memcpy, memmove and memset at most" +
         (model.target.float_unit
              ? ""
              : ", for floats and division the functions that every compiler brings (__aeabi_fadd ... of libgcc)") +
         ",\n * .bss cleared, the CPU's features below switched on (on RISC-V FS and VS of mstatus, on Arm CPACR), rounding to nearest,\n"
         " * and some stack. It allocates nothing, " +
         about_runs(model.plan, prefix);
}

std::string declarations(const ArtefactContent& model, const std::string& prefix, const BareSizes& sizes) {
  const std::string macros = upper(prefix);
  const RunArguments arguments = run_arguments(model.plan, prefix);
  std::ostringstream out;
  out << "#include <stdint.h>\n\n"
      << "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
      << "#define " << macros << "_TARGET \"" << harmless(model.target.name) << "\"\n"
      << "#define " << macros << "_FEATURES \"" << harmless(plan_features(model.plan, model.target))
      << "\"\n\n"
      << "/* Read-only data, part of the object. */\n"
      << "#define " << macros << "_WEIGHTS_BYTES " << model.objects.constants->byte_count() << "\n"
      << "extern const uint8_t " << prefix << "_weights[" << macros << "_WEIGHTS_BYTES];\n\n"
      << "/* What a run works in: " << about_arena(model.plan, prefix) << " or this block, which is not in\n"
      << " * the program unless something names it (--gc-sections). */\n"
      << "#define " << macros << "_ARENA_BYTES " << bare_arena_bytes(model.plan) << "\n"
      << "#define " << macros << "_ARENA_ALIGNMENT " << kBareArenaAlignment << "\n"
      << "extern uint8_t " << prefix << "_arena[" << macros << "_ARENA_BYTES];\n\n"
      << "/* Code and tables beside the weights, and what a run takes of the stack";
  if (sizes.stack_grows) out << " with vectors of " << model.target.vector_bits << " bits";
  out << ". */\n"
      << "#define " << macros << "_CODE_BYTES " << sizes.code << "\n"
      << "#define " << macros << "_STACK_BYTES " << sizes.stack << "\n\n";
  write_ports(out, arguments);
  write_run(out, model.plan, arguments, prefix);
  out << "\n#ifdef __cplusplus\n}\n#endif\n";
  return out.str();
}

// A program, its data and its memory share addresses of 32 bits, of which systems without an OS hardly give a
// program more than half.
void refuse_more_than_addresses(const ArtefactContent& model) {
  constexpr int64_t kMost = INT32_MAX;
  if (model.target.word_bits != 32) return;
  const int64_t weights = model.objects.constants->byte_count(), arena = bare_arena_bytes(model.plan);
  int64_t ports = 0;
  for (const std::vector<PortInfo>* each : {&model.plan.inputs, &model.plan.outputs}) {
    for (const PortInfo& port : *each)
      ports +=
          std::min(kMost, element_count(port.shape).constant()) * static_cast<int64_t>(size_of(port.dtype));
  }
  if (weights <= kMost && arena <= kMost - weights && ports <= kMost - weights - arena) return;
  fail(ErrorKind::Unsupported, "weights of ", weights, " bytes, an arena of ", arena,
       " bytes, and inputs and outputs of ", ports, " bytes have no room in the addresses of target ",
       model.target.name, ", which have 32 bits; use a smaller model or a 64-bit target");
}

// How much flash memory a model takes is known only when its code is linked.
void refuse_more_than_flash(const ArtefactContent& model, const BareSizes& sizes) {
  if (model.max_flash == 0 || sizes.constants + sizes.code <= model.max_flash) return;
  fail(ErrorKind::Unsupported, "model '", model.plan.model, "' needs ", sizes.constants,
       " bytes for constants and ", sizes.code, " for code, but max_flash gives it ", model.max_flash,
       "; use a smaller or a quantised model, or give it at least ", sizes.constants + sizes.code,
       " by max_flash");
}

// How much of the stack a run takes, and whether its code has variables, is known only when it is compiled.
void refuse_more_than_ram(const ArtefactContent& model, const BareSizes& sizes) {
  const int64_t needed = sizes.arena + sizes.zeros + sizes.stack;
  if (model.max_ram == 0 || needed <= model.max_ram) return;
  fail(ErrorKind::Unsupported, "model '", model.plan.model, "' needs ", sizes.arena, " bytes to work in, ",
       sizes.zeros, " for variables and ", sizes.stack, " of the stack, but max_ram gives it ", model.max_ram,
       "; use a smaller model, or give it at least ", needed, " by max_ram");
}

}  // namespace

ExportedSizes export_bare(const ArtefactContent& model, const ArtefactPlace& place) {
  refuse_late_sizes(model.plan, "bare");
  refuse_more_than_addresses(model);
  const std::string prefix = c_name(place.path);
  const BareModel bare{model.plan, model.objects, model.target, kUnnamedDescriptor, prefix};
  link_bare(bare, place.part);
  const BareSizes sizes = bare_sizes(bare, place.part);
  refuse_more_than_flash(model, sizes);
  refuse_more_than_ram(model, sizes);
  write_header(place.path, about(model, prefix), declarations(model, prefix, sizes));
  return {sizes.constants, sizes.code, sizes.arena, sizes.zeros, sizes.stack};
}

}  // namespace tc
