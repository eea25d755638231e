// The physical floor of times: what beats it was not measured.
#pragma once

#include <string>

#include "tuner/measure.h"

namespace tc {

// The least that anything can take, in that unit: a call of a function that does nothing; a cycle.
double least_of_unit(const std::string& unit);

// The least time of the task's kernel under any schedule on any machine that its target can run on, with
// all its threads: its bytes at a bandwidth and its operations at a rate that none of them reaches.
double least_time(const KernelTask& task, const std::string& unit);

// The measurement, or, where its time is below that, a wrong result that says so.
Measurement believed(const Measurement& measurement, double least, const std::string& unit);

}  // namespace tc
