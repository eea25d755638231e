// The algorithms of the primitive `algorithm`, a file each.
#pragma once

#include <string>

#include "scheduler/state.h"

namespace tc {

// Each reads the words after its name and replaces the kernel of the state; throws Refusal.
void apply_winograd(ScheduleState& state, const std::string& statement, Words& words);
void apply_two_terms(ScheduleState& state, const std::string& statement, Words& words);

}  // namespace tc
