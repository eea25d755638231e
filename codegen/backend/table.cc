// The table of back ends.
#include "codegen/backend/table.h"

#include "codegen/c/backend.h"
#include "codegen/llvm/backend.h"
#include "codegen/loops/backend.h"
#include "ir/error.h"

namespace tc {

const std::vector<const Backend*>& backends() {
  static const std::vector<const Backend*> all = {
      &llvm_backend(),
      &c_backend(),
      &loops_backend(),
  };
  return all;
}

const Backend& default_backend() { return *backends().front(); }

std::string candidate_kind() { return default_backend().candidate_kind()->name; }

std::vector<BackendAndKind> all_kinds() {
  std::vector<BackendAndKind> result;
  for (const Backend* backend : backends()) {
    for (const ArtefactKind& kind : backend->kinds()) result.push_back({backend, &kind});
  }
  return result;
}

namespace {

// "a, b and c".
std::string listed(const std::vector<std::string>& names, const char* last) {
  std::string result;
  for (size_t i = 0; i < names.size(); ++i)
    result += (i == 0 ? "" : i + 1 < names.size() ? ", " : text(" ", last, " ")) + names[i];
  return result;
}

}  // namespace

BackendAndKind artefact_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const BackendAndKind& each : all_kinds()) {
    if (each.kind->name == name) return each;
    names.push_back(each.kind->name);
  }
  fail(ErrorKind::Target, "unknown kind of artefact '", name, "'; the kinds are ", listed(names, "and"));
}

void refuse_kind(const BackendAndKind& wanted, const Target& target) {
  const auto why = wanted.backend->refusal(*wanted.kind, target);
  if (!why) return;
  std::vector<std::string> others;
  for (const BackendAndKind& each : all_kinds()) {
    if (!each.kind->is_for_people && !each.backend->refusal(*each.kind, target))
      others.push_back(text("'", each.kind->name, "'"));
  }
  fail(ErrorKind::Unsupported, "cannot make an artefact of kind '", wanted.kind->name, "' for target ",
       target.name, ": ", *why, others.empty() ? "" : "; export kind " + listed(others, "or"),
       wanted.kind->needs_runtime && !others.empty() ? ", which need none" : "");
}

void refuse_weights_beside(const BackendAndKind& wanted, const Target& target) {
  if (wanted.kind->weights_beside) return;
  std::vector<std::string> others;
  for (const BackendAndKind& each : all_kinds()) {
    if (each.kind->weights_beside && !each.backend->refusal(*each.kind, target))
      others.push_back(text("'", each.kind->name, "'"));
  }
  fail(ErrorKind::Unsupported, "an artefact of kind '", wanted.kind->name,
       "' has its weights inside, for no runtime of tc opens a file of them beside it; compile the model "
       "without weights=\"separate\"",
       others.empty() ? "" : ", or export kind " + listed(others, "or"));
}

bool plan_alike(const Backend& a, const Backend& b, const Target& target) {
  const Target one = a.usable(target), other = b.usable(target);
  return one.matrix.registers == other.matrix.registers && one.lane_products == other.lane_products &&
         one.wider_targets == other.wider_targets && one.accelerator == other.accelerator;
}

std::string code_text(const ScheduledKernel& kernel, const Target& target, const std::string& name) {
  std::vector<std::string> names;
  for (const Backend* backend : backends()) {
    for (const CodeText& each : backend->texts()) {
      if (each.name == name) return backend->text_of(kernel, target, name);
      names.push_back(each.name);
    }
  }
  fail(ErrorKind::Model, "unknown text of a kernel's code '", name, "'; there are ", listed(names, "and"));
}

void build_artefact(const std::string& kind, const Plan& plan, const Target& target,
                    const ArtefactPlace& place) {
  const BackendAndKind found = artefact_kind(kind);
  const ModelObjects objects = found.backend->compile(plan, target, 1);
  found.backend->write(*found.kind, {plan, target, objects}, place);
}

}  // namespace tc
