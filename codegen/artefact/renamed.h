// A model's objects under the name of the artefact that they become.
#pragma once

#include <string>

#include "codegen/codegen.h"

namespace tc {

// Whose names change.
enum class Renamed : uint8_t {
  Descriptor,  // of the descriptor alone: what else the objects share is hidden in the artefact
  All,         // what else they share meets that of other artefacts in one program
};
// The objects of a model that was compiled with its descriptor under `symbol`, which is not
// TC_DESCRIPTOR_SYMBOL, with `name` in its place at the begin of all names. TC_DESCRIPTOR_SYMBOL stays a weak
// name of the descriptor beside it.
ModelObjects renamed(const ModelObjects& objects, const std::string& symbol, const std::string& name,
                     Renamed which);

}  // namespace tc
