// Weights in a file beside an artefact: the file is checked and mapped read-only, so that processes and
// artefacts that use the same one share its pages.
#pragma once

#include <stdint.h>

#include "abi.h"
#include "tc_runtime.h"

namespace tc::runtime {

// A mapped file of weights; nothing where the artefact has its weights inside.
struct Weights {
  void* data = nullptr;
  uint64_t bytes = 0;
  char* path = nullptr;  // of the file
};

inline bool has_weights_beside(const tc_descriptor& d) {
  return d.abi_version >= 7 && d.weights_file != nullptr;
}

}  // namespace tc::runtime

// For an artefact whose weights are beside it: finds the file in the folder of `artefact` or in that to which
// its links lead, checks it (the contents only without TC_OPEN_UNCHECKED) and maps it, and tells the code
// where. Does nothing for other artefacts. The descriptor has been checked before.
extern "C" tc_status tc_map_weights(const tc_descriptor* descriptor, const char* artefact, uint32_t flags,
                                    tc::runtime::Weights* weights);
// The same for a model that is linked into this program, beside whose file the weights are. They stay mapped.
// model.cc refers to it weakly, so that programs with their weights inside do not have it.
extern "C" tc_status tc_map_linked_weights(const tc_descriptor* descriptor);

namespace tc::runtime {

void unmap_weights(Weights& weights);

}  // namespace tc::runtime
