// What the primitives for accelerators share.
#pragma once

#include <string>

#include "ir/scheduled.h"
#include "ir/target/target.h"

namespace tc {

// Puts the buffer into a memory of the target's accelerator; refuses a name that it does not have, and more
// than two copies.
void put_in_memory(const Target& target, Buffer& buffer, const std::string& memory, int64_t copies);

// A Schedule error where the host would read or write a memory of the accelerator, where a command's trips
// depend on each other, or where its buffers do not fit. Forgets the accelerator where no leaf is a command.
void refuse_wrong_commands(ScheduledKernel& scheduled);

}  // namespace tc
