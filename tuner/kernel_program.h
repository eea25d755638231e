// One kernel as a program to measure. Its constants are data made from a seed; its inputs come from outside.
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
  // Bytes of constants that the model reads between two calls of the kernel. The program has copies of the
  // kernel's constants that take about as many bytes together, and its calls use them in turn, so that the
  // constants are as cold in the caches as they are in the model.
  int64_t bytes_between_calls = 0;
};

// Bytes of constants that a plan reads between two calls of each of its kernels: those of the innermost
// loop around the call, or of the whole plan.
std::map<int, int64_t> constant_bytes_between_calls(const Plan& plan);

// Calls in one run of the program under a schedule: as many as there are copies of its constants. The result
// is 1 where cold constants make no difference to the time.
int calls_per_run(const Kernel& scheduled, const Target& target, int64_t bytes_between_calls);

// A plan that calls the scheduled kernel `calls` times, each time with its own copy of the constants. Its
// inputs are the kernel's Input buffers in order, its outputs the Output buffers. Constant i holds
// sample_float(seed, 1000 + i, element), by the elements of the buffer before packing. Throws an Unsupported
// error for a kernel with parameters.
Plan kernel_plan(const ScheduledKernel& scheduled, const Target& target, uint64_t constants_seed,
                 int calls = 1);

// Builds a program that runs the kernel under the trace, of the kind of artefact that the back end measures
// (Backend::candidate_kind). Returns its calls per run. Throws a Schedule error where the trace is refused.
// `library_folder` is the one of ArtefactPlace.
int build_kernel_program(const KernelProgram& program, const Trace& trace, const Target& target,
                         const std::string& library_folder, const std::string& path);

// The ports that every schedule of the kernel has; their shapes are those after the layout lines.
struct ProgramPorts {
  std::vector<PortInfo> inputs, outputs;
};
ProgramPorts program_ports(const KernelProgram& program, const Target& target);

// The kernel's outputs for the inputs that each seed makes: what every candidate's outputs are compared with.
// The loops run on this machine, in the order of the statements, without a schedule beyond the layout lines.
// Padding between the elements is NaN.
std::vector<std::vector<Bytes>> reference_outputs(const KernelProgram& program, const Target& target,
                                                  const std::vector<uint64_t>& seeds);

}  // namespace tc
