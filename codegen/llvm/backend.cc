// The back end of LLVM, as an implementation of the interface of back ends.
#include "codegen/llvm/backend.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <string_view>

#include "codegen/llvm/required_features.h"
#include "codegen/llvm/artefact/constants.h"
#include "codegen/llvm/artefact/model_objects.h"
#include "codegen/llvm/artefact/link.h"
#include "codegen/llvm/artefact/rename_symbols.h"
#include "codegen/backend/artefact_files.h"
#include "codegen/backend/c_names.h"
#include "codegen/llvm/kernel_code.h"
#include "codegen/llvm/bare_export.h"
#include "ir/error.h"
#include "ir/in_place.h"

namespace tc {
namespace {

Bytes read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(ErrorKind::Target, "cannot read '", path, "', which this export links; reinstall tc");
  return Bytes(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

// The members of a Unix archive ("!<arch>" format, GNU and plain names), without its index.
std::vector<std::pair<std::string, Bytes>> archive_members(const std::string& path) {
  const Bytes bytes = read_file(path);
  std::vector<std::pair<std::string, Bytes>> members;
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TC_CHECK(all.substr(0, 8) == "!<arch>\n", "in '", path, "'");
  for (size_t at = 8; at + 60 <= all.size();) {
    const std::string name(all.substr(at, 16));
    const size_t size = std::stoull(std::string(all.substr(at + 48, 10)));
    TC_CHECK(at + 60 + size <= all.size(), "in '", path, "'");
    if (name.substr(0, 2) != "/ " && name.substr(0, 2) != "//") {
      const auto* begin = bytes.data() + at + 60;
      members.emplace_back(text("runtime_", members.size(), ".o"), Bytes(begin, begin + size));
    }
    at += 60 + size + size % 2;
  }
  return members;
}

std::string descriptor_symbol(const std::string& path) { return c_name(path) + "_descriptor"; }

// The objects with the artefact's name in their symbols.
ModelObjects named(const ModelObjects& objects, const ArtefactPlace& place, Renamed which) {
  return renamed(objects, kUnnamedDescriptor, descriptor_symbol(place.path), which);
}

// Links what `link` is given: the content's objects or, where the place has a folder of weights, objects
// whose plan looks for the constants in a file, which is written into that folder.
void write_with_weights(const ArtefactContent& content, const ArtefactPlace& place,
                        const std::function<void(const ModelObjects&)>& link) {
  if (place.weights_folder.empty()) return link(content.objects);
  const std::shared_ptr<const ConstantsFile> constants = content.objects.constants;
  const WeightsFile file = weights_file(*constants);
  ModelObjects objects = content.objects;
  objects.constants = nullptr;
  objects.code.front() =
      plan_object_with_weights_beside(content.plan, content.target, kUnnamedDescriptor, file);
  link(objects);
  write_weights(*constants, file, place.weights_folder);
}

std::string libraries_of(const ArtefactContent& content, const ArtefactPlace& place) {
  return place.libraries + "/" + library_folder_name(content.target.arch);
}

// Writes the header of a model that the runtime opens.
void write_header_of_linked(const ArtefactContent& content, const ArtefactPlace& place) {
  const std::string symbol = descriptor_symbol(place.path);
  write_header(
      place.path,
      "model '" + harmless(content.plan.model) + "' for " + harmless(content.target.name) +
          ". Open it with tc_model_open_linked(&" + symbol + ", &model).",
      "#include \"tc_runtime.h\"\n\n#ifdef __cplusplus\nextern \"C\"\n#else\nextern\n#endif\nconst struct tc_descriptor " +
          symbol + ";\n\n");
}

using Sizes = std::optional<ExportedSizes>;

Sizes write_shared(const ArtefactContent& content, const ArtefactPlace& place) {
  write_with_weights(content, place, [&](const ModelObjects& objects) {
    link_shared(named(objects, place, Renamed::Descriptor), content.target, place.part);
  });
  return std::nullopt;
}

Sizes write_static(const ArtefactContent& content, const ArtefactPlace& place) {
  write_archive(named(content.objects, place, Renamed::All),
                archive_members(libraries_of(content, place) + "/libtc_runtime.a"), content.target,
                place.part);
  write_header_of_linked(content, place);
  return std::nullopt;
}

// Whether the inputs are those of a module that tc makes of a language model's file: tokens, how many each
// sequence has already, and caches that are written in place. runtime/generate.cc checks it in full.
bool generates_text(const Plan& plan) {
  const auto has_input = [&](const char* name) {
    return std::any_of(plan.inputs.begin(), plan.inputs.end(),
                       [&](const PortInfo& input) { return input.name == name; });
  };
  const std::vector<int> in_place = inputs_in_place(plan);
  const auto caches = std::count_if(in_place.begin(), in_place.end(), [](int input) { return input >= 0; });
  return has_input("input_ids") && has_input("length") &&
         caches + 2 == static_cast<std::ptrdiff_t>(plan.inputs.size());
}

Sizes write_executable(const ArtefactContent& content, const ArtefactPlace& place) {
  std::vector<std::string> parts;
  if (generates_text(content.plan)) parts.push_back("tc_generate");
  if (!place.weights_folder.empty()) parts.push_back("tc_map_linked_weights");
  write_with_weights(content, place, [&](const ModelObjects& objects) {
    link_executable(objects, content.target, libraries_of(content, place), parts, place.part);
  });
  return std::nullopt;
}

Sizes write_object(const ArtefactContent& content, const ArtefactPlace& place) {
  link_object(named(content.objects, place, Renamed::All), content.target, place.part);
  write_header_of_linked(content, place);
  return std::nullopt;
}

Sizes write_bare(const ArtefactContent& content, const ArtefactPlace& place) {
  return export_bare(content, place);
}

const std::vector<ArtefactKind> kKinds = {
    {.name = "shared",
     .suffix = ".so",
     .doc = "a shared object, which tc.load and C programs open",
     .needs_runtime = true,
     .weights_beside = true},
    {.name = "static",
     .suffix = ".a",
     .doc = "a static library with the runtime",
     .needs_runtime = true,
     .has_header = true},
    {.name = "executable",
     .suffix = "",
     .doc = "a program that needs no file beside it; reads and writes .npy",
     .needs_runtime = true,
     .weights_beside = true},
    {.name = "object",
     .suffix = ".o",
     .doc = "one relocatable file, to link with the runtime",
     .needs_runtime = true,
     .has_header = true},
    {.name = "bare",
     .suffix = ".o",
     .doc = "an object for a system without an operating system",
     .constants_in_flash = true,
     .has_header = true},
};
constexpr Sizes (*kWriters[])(const ArtefactContent&, const ArtefactPlace&) = {
    write_shared, write_static, write_executable, write_object, write_bare};
constexpr size_t kCandidate = 2;

class LlvmBackend : public Backend {
 public:
  const char* name() const override { return "llvm"; }
  const std::vector<ArtefactKind>& kinds() const override { return kKinds; }
  const ArtefactKind* candidate_kind() const override { return &kKinds[kCandidate]; }

  std::string features(const Target& target) const override { return target_features(target); }

  void check_kernel(const ScheduledKernel& kernel, const Target& target) const override {
    kernel_llvm_ir(kernel, target, "probe");
  }

  ModelObjects compile(const Plan& plan, const Target& target, int threads) const override {
    return model_objects(plan, target, kUnnamedDescriptor, threads);
  }

  Sizes write(const ArtefactKind& kind, const ArtefactContent& content,
              const ArtefactPlace& place) const override {
    const auto found =
        std::find_if(kKinds.begin(), kKinds.end(), [&](const ArtefactKind& each) { return &each == &kind; });
    TC_CHECK(found != kKinds.end(), "for kind '", kind.name, "'");
    return kWriters[found - kKinds.begin()](content, place);
  }

  std::vector<CodeText> texts() const override {
    std::vector<CodeText> result = {{"llvm", "codegen, before LLVM's passes", "", ""},
                                    {"assembly", "codegen", "", ""}};
    for (const CodePassInfo& pass : code_passes())
      result.push_back({pass.name, pass.doc, pass.when, pass.stage});
    return result;
  }

  std::string text_of(const ScheduledKernel& kernel, const Target& target,
                      const std::string& name) const override {
    if (name == "llvm") return kernel_llvm_ir(kernel, target, "kernel");
    if (name == "assembly") return kernel_assembly(kernel, target, "kernel");
    return kernel_after_pass(kernel, target, "kernel", name);
  }
};

}  // namespace

const Backend& llvm_backend() {
  static const LlvmBackend backend;
  return backend;
}

}  // namespace tc
