// The back end of C, as an implementation of the interface of back ends: the artefact for any C compiler,
// and its header.
#include "codegen/c/backend.h"

#include <filesystem>
#include <sstream>

#include "codegen/backend/artefact_files.h"
#include "codegen/backend/c_names.h"
#include "codegen/backend/packed_constants_file.h"
#include "codegen/backend/run_interface.h"
#include "codegen/c/accelerator_source.h"
#include "codegen/c/model_source.h"
#include "ir/error.h"
#include "ir/scratch.h"
#include "ir/target/narrow_product.h"

namespace tc {
namespace {

// The most bytes of constants that are written as text, which takes compilers seconds per megabyte.
constexpr int64_t kMaxText = 1 << 20;

// About what GCC makes of a kernel and of each of its operations by -Os for a Cortex-M4: 0.75, 1.0 and 2.1
// times the code of three networks. Code of vectors takes a half to a tenth of the estimate, since -Os does
// not unroll loops.
constexpr int64_t kBytesPerKernel = 150;
constexpr double kBytesPerOperation = 8;

std::string about(const ArtefactContent& model, const std::string& prefix) {
  return "model '" + harmless(model.plan.model) +
         "' in C99: compile the .c files beside this one (GCC and Clang: -O3 -ffp-contract=fast -fno-math-errno, and the machine's\n"
         " * -march or -mcpu) and link them with -lm. It needs math.h, memcpy, memset, rounding to nearest and little-endian numbers. It allocates nothing,\n"
         " * " +
         about_runs(model.plan, prefix);
}

std::string declarations(const ArtefactContent& model, const std::string& prefix,
                         const RunArguments& arguments) {
  const std::string macros = upper(prefix);
  std::ostringstream out;
  out << "#include <stdint.h>\n\n"
      << "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
      << "/* The machine whose caches, registers and vectors the loops are made for; others run them as well. */\n"
      << "#define " << macros << "_TARGET \"" << harmless(model.target.name) << "\"\n\n"
      << "/* Read-only data. */\n"
      << "#define " << macros << "_WEIGHTS_BYTES " << model.objects.constants->byte_count() << "\n"
      << "extern const uint8_t " << prefix << "_weights[" << macros << "_WEIGHTS_BYTES];\n\n"
      << "/* What a run works in: " << about_arena(model.plan, prefix)
      << " or this block, which GCC and Clang align. */\n"
      << "#define " << macros << "_ARENA_BYTES " << bare_arena_bytes(model.plan) << "\n"
      << "#define " << macros << "_ARENA_ALIGNMENT " << kBareArenaAlignment << "\n"
      << "extern uint8_t " << prefix << "_arena[" << macros << "_ARENA_BYTES];\n\n";
  write_ports(out, arguments);
  write_run(out, model.plan, arguments, prefix);
  out << "\n#ifdef __cplusplus\n}\n#endif\n";
  return out.str();
}

// Writes the source, and next to it the header and the constants: for model.c the files model.h and
// model_weights.c, and model_weights.bin where there are too many constants for text. The names that they
// declare begin with the path's c_name(). An Unsupported error names the node where a run needs what only
// the runtime gives (sizes that only a run knows); a Target error says that the path does not end in .c.
void write_source(const ArtefactContent& model, const ArtefactPlace& place) {
  const std::string& path = place.path;
  if (path.size() < 3 || path.substr(path.size() - 2) != ".c") {
    fail(ErrorKind::Target, "'", path,
         "' does not end in .c, as an artefact of kind 'c' does; give a name like 'model.c'");
  }
  refuse_late_sizes(model.plan, "c");
  const std::string prefix = c_name(path);
  const RunArguments arguments = run_arguments(model.plan, prefix);
  CSourceNames names{prefix, file_name(header_path(path)), std::vector<std::string>(model.plan.inputs.size()),
                     std::vector<std::string>(model.plan.outputs.size())};
  for (const RunArgument& input : arguments.inputs) names.inputs[input.index] = input.name;
  for (const RunArgument& output : arguments.outputs) names.outputs[output.index] = output.name;
  write_file(place.part, c_model_source(model.plan, names));

  const std::string stem = path.substr(0, path.size() - 2) + "_weights";
  const ConstantsFile& constants = *model.objects.constants;
  const bool as_text = constants.byte_count() <= kMaxText;
  if (as_text) {
    Bytes bytes;
    constants.read([&](const uint8_t* data, size_t size) { bytes.insert(bytes.end(), data, data + size); });
    write_file(stem + ".c", c_weights_source(names, bytes));
    std::error_code ignored;
    std::filesystem::remove(stem + ".bin", ignored);  // of an earlier export
  } else {
    write_file(stem + ".bin", [&](runtime::NewFile& file) {
      bool is_written = true;
      constants.read(
          [&](const uint8_t* data, size_t size) { is_written = is_written && file.write(data, size); });
      return is_written;
    });
    write_file(stem + ".c", c_weights_source(names, file_name(stem + ".bin")));
  }
  write_header(path, about(model, prefix), declarations(model, prefix, arguments));
  for (const ScheduledKernel& kernel : model.plan.kernels) {
    if (kernel.accelerator == nullptr) continue;
    const std::string driver =
        path.substr(0, path.size() - file_name(path).size()) + kernel.accelerator->name;
    write_file(driver + ".h", c::driver_header(*kernel.accelerator));
    write_file(driver + "_simulator.c", c::simulator_source(*kernel.accelerator));
    return;
  }
}

const std::vector<ArtefactKind> kKinds = {
    {.name = "c",
     .suffix = ".c",
     .doc = "C99 source for any compiler",
     .one_thread = true,
     .has_header = true,
     .has_commands = true},
};

class CBackend : public Backend {
 public:
  const char* name() const override { return "c"; }
  const std::vector<ArtefactKind>& kinds() const override { return kKinds; }

  // C has no instructions that multiply matrices, and source is for one length of vectors.
  Target usable(const Target& target) const override {
    Target result = target;
    result.matrix = {};
    // Instructions of one lane each, which C has no operation for.
    if (adds_products_in_scalars(target)) result.lane_products.clear();
    result.wider_targets.clear();
    return result;
  }

  void check_kernel(const ScheduledKernel& kernel, const Target&) const override {
    c_kernel_source(kernel, "probe");
  }

  std::function<int64_t(const ScheduledKernel&)> code_estimate() const override {
    return [](const ScheduledKernel& kernel) {
      return kBytesPerKernel + static_cast<int64_t>(kBytesPerOperation * code_size(kernel));
    };
  }

  // The source is only written with the artefact, since its functions are named after the artefact's file.
  ModelObjects compile(const Plan& plan, const Target&, int threads) const override {
    return {{}, packed_constants(plan, "constants", threads)};
  }

  std::optional<ExportedSizes> write(const ArtefactKind&, const ArtefactContent& content,
                                     const ArtefactPlace& place) const override {
    write_source(content, place);
    return std::nullopt;
  }

  std::vector<CodeText> texts() const override { return {{"c", "codegen/c", "", ""}}; }
  std::string text_of(const ScheduledKernel& kernel, const Target&, const std::string&) const override {
    return c_kernel_source(kernel, "kernel");
  }
};

}  // namespace

const Backend& c_backend() {
  static const CBackend backend;
  return backend;
}

}  // namespace tc
