// A compiled model, linked, opened by the runtime and run once on inputs drawn from a seed: what a user of
// the artefact would do with it.
#pragma once

#include <cstdint>
#include <string>

#include "frontend/pipeline/compile.h"

namespace tc {

enum class RunEnd { Ran, Refused };

// Runs the model on one thread. Symbols get small sizes; integer inputs are small numbers, mostly those that
// are places in small tensors. Refused: the runtime said no, or its inputs and outputs are too large for a
// test, which `why` gets as a sentence where it is not null. Throws where the runtime's answers contradict
// each other.
RunEnd run_once(const CompiledModel& model, uint64_t seed, std::string* why);

}  // namespace tc
