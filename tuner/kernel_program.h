// One kernel as a program to measure: its constants are seeded data, its inputs come from outside.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/backend/backend.h"
#include "ir/plan.h"
#include "ir/target/target.h"
#include "tuner/record.h"

namespace tc {

// What every schedule of one kernel has in common.
struct KernelProgram {
  Kernel kernel;  // before any primitive; its sizes are numbers
  std::vector<std::string> layout_lines;
  int threads = 1;
  uint64_t constants_seed = 1;
  // Constants' bytes that the model reads between two calls of the kernel. Calls of the program take
  // turns at copies of the constants that have about as many, so that they are as cold as in the model.
  int64_t bytes_between_calls = 0;
};

// Bytes of constants that a plan reads between two calls of each of its kernels: those of the innermost
// loop around the call, or of the whole plan.
std::map<int, int64_t> constant_bytes_between_calls(const Plan& plan);

// Calls in one run of the program under a schedule: as many as there are copies of its constants. One where
// it makes no difference to its time whether they are cold.
int calls_per_run(const Kernel& scheduled, const Target& target, int64_t bytes_between_calls);

// The plan that calls the scheduled kernel, each time with constants of its own: inputs are the kernel's
// Input buffers in order, outputs its Output buffers, constants hold sample_float(seed, 1000 + i, element) of
// the buffer as it was before packing. An Unsupported error for a kernel with parameters.
Plan kernel_plan(const ScheduledKernel& scheduled, const Target& target, uint64_t constants_seed,
                 int calls = 1);

// A program of the kernel under the trace, of the kind that back ends have measured
// (Backend::candidate_kind); returns its calls per run. Throws a Schedule error where the trace is refused.
// `library_folder` as in ArtefactPlace.
int build_kernel_program(const KernelProgram& program, const Trace& trace, const Target& target,
                         const std::string& library_folder, const std::string& path);

// The ports that every schedule of the kernel has: shapes after the layout lines.
struct ProgramPorts {
  std::vector<PortInfo> inputs, outputs;
};
ProgramPorts program_ports(const KernelProgram& program, const Target& target);

// The kernel's outputs for the inputs that the seed makes, from its loops as the statements stand, run
// on this machine: what schedules are compared with. Padding between the elements is NaN.
std::vector<Bytes> reference_outputs(const KernelProgram& program, const Target& target, uint64_t seed);

}  // namespace tc
