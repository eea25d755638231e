// A model's objects under the name of the artefact that they become.
#pragma once

#include <string>

#include "codegen/codegen.h"

namespace tc {

// Which names change.
enum class Renamed : uint8_t {
  Descriptor,  // that of the descriptor alone: all other shared names are hidden in the artefact
  All,         // all shared names, which would clash with those of other artefacts in one program
};
// The objects of a model whose descriptor was compiled under `symbol`, which is not TC_DESCRIPTOR_SYMBOL,
// with `name` in place of `symbol` at the beginning of all names. TC_DESCRIPTOR_SYMBOL stays a second, weak
// name of the descriptor.
ModelObjects renamed(const ModelObjects& objects, const std::string& symbol, const std::string& name,
                     Renamed which);

}  // namespace tc
