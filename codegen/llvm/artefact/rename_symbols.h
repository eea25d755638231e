// Renames the shared symbols of a model's objects after the artefact, so that the objects of two models link
// together.
#pragma once

#include <string>

#include "codegen/backend/backend.h"

namespace tc {

// Which names change.
enum class Renamed : uint8_t {
  Descriptor,  // that of the descriptor alone: all other shared names are hidden in the artefact
  All,         // all shared names, which would clash with those of other artefacts in one program
};
// Copies of a model's objects in which shared names begin with `name` where they began with `symbol`. The
// model was compiled with `symbol` as the name of its descriptor, and not TC_DESCRIPTOR_SYMBOL; the copies
// define the latter as well, as a weak name, so that a program with one model finds its descriptor by it.
ModelObjects renamed(const ModelObjects& objects, const std::string& symbol, const std::string& name,
                     Renamed which);

}  // namespace tc
