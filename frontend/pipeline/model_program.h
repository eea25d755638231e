// A whole model as builders of candidates get it: bytes, and the options of the compiler as text.
#pragma once

#include <optional>
#include <string>

#include "frontend/pipeline/compile.h"
#include "tuner/candidate_builder.h"

namespace tc {

// What builders elsewhere need to compile the model. Nothing where they cannot get all of it (a model that
// was described in Python, options that hold tensors), or where the file is very large.
std::optional<ModelProgram> model_program(const Source& source, const CompileOptions& options);

// Compiles the model under the choices, and writes the kind of artefact that agents measure. An error where
// the model has parts in other files.
void build_model_program(const ModelProgram& program, const Choices& choices, const std::string& libraries,
                         const std::string& path);

}  // namespace tc
