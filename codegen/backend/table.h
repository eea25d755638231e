// The back ends, their kinds of artefacts and their texts of kernels by name.
#pragma once

#include <string>
#include <vector>

#include "codegen/backend/backend.h"

namespace tc {

// All of them. The first compiles models that run in this process and what the tuner measures.
const std::vector<const Backend*>& backends();
const Backend& default_backend();
// The kind of artefact as which the tuner builds and measures candidates.
std::string candidate_kind();

// A kind of artefact, and its back end.
struct BackendAndKind {
  const Backend* backend;
  const ArtefactKind* kind;
};
std::vector<BackendAndKind> all_kinds();
// The kind of this name; a Target error that lists the kinds where there is none.
BackendAndKind artefact_kind(const std::string& name);
// An Unsupported error that names the kinds that there are for the target, where this is none of them.
void refuse_kind(const BackendAndKind& wanted, const Target& target);

// An Unsupported error that names the kinds that can have their constants in a file beside them, where this
// cannot.
void refuse_weights_beside(const BackendAndKind& wanted, const Target& target);

// Whether both back ends have code for the same of the target's features: then their plans are the same.
bool plan_alike(const Backend& a, const Backend& b, const Target& target);

// A text of a kernel's code (CodeText::name), whichever back end shows it. A Model error that lists them for
// an unknown name.
std::string code_text(const ScheduledKernel& kernel, const Target& target, const std::string& name);

// Compiles the plan by the default back end and writes it as an artefact of that kind.
void build_artefact(const std::string& kind, const Plan& plan, const Target& target,
                    const ArtefactPlace& place);

}  // namespace tc
