// What all primitives share that compute products of floats from products of shorter numbers, on a matrix
// unit.
#pragma once

#include <string>

#include "scheduler/core/primitive.h"

namespace tc {

// The primitive of that name in kTermsAlgorithms, with the arguments that they all have. `doc` says what the
// operands become.
Primitive terms_primitive(const std::string& name, const std::string& doc);

}  // namespace tc
