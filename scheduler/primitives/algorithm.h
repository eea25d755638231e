// The algorithms of the primitive `algorithm`, a file each.
#pragma once

#include <string>

#include "scheduler/core/state.h"

namespace tc {

// Reads the words after its name and replaces the kernel of the state; throws Refusal.
void apply_winograd(ScheduleState& state, const std::string& statement, Words& words);
// The same, its name included; false where the next word is none of its names.
bool apply_terms(ScheduleState& state, const std::string& statement, Words& words);

}  // namespace tc
