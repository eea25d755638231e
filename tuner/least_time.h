// The physical lower bound of times: a time below it cannot have been measured.
#pragma once

#include <string>

#include "tuner/measure.h"

namespace tc {

// The least time that anything can take, in that unit: in seconds the call of an empty function, else one
// cycle.
double least_of_unit(const std::string& unit);

// The least time of the task's kernel under any schedule on any machine that its target can run on, with all
// its threads: from its bytes and operations, at a bandwidth and a rate that no such machine reaches.
double least_time(const KernelTask& task, const std::string& unit);

// What the multiply-adds of the task's kernel take at the peak rate of the target's core, with all threads.
double peak_cycles(const KernelTask& task);

// The same where no schedule can take fewer cycles on the device with that key: where the device has the
// target's core, and nothing but its vectors of floats multiplies. Else 0.
double roof_cycles(const KernelTask& task, const std::string& device_key);

// The measurement itself, or, where its time is less than `least`, a measurement with outcome WrongResult
// that says so.
Measurement believed(const Measurement& measurement, double least, const std::string& unit);

}  // namespace tc
