// One kernel as a program to measure: its constants are seeded data, its inputs come from outside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "ir/plan.h"
#include "ir/target/target.h"
#include "tuner/record.h"

namespace tc {

// What every schedule of one kernel has in common.
struct KernelProgram {
  Kernel kernel;                       // before any primitive; its sizes are numbers
  std::vector<std::string> layout_lines;
  int threads = 1;
  uint64_t constants_seed = 1;
};

// The plan that calls the scheduled kernel once: inputs are the kernel's Input buffers in order,
// outputs its Output buffers, constants hold sample_float(seed, 1000 + i, element) of the buffer as
// it was before packing. An Unsupported error for a kernel with parameters.
Plan kernel_plan(const ScheduledKernel& scheduled, const Target& target, uint64_t constants_seed);

// A static executable of the kernel under the trace. Throws a Schedule error where the trace is
// refused. `library_folder` as in link_executable.
void build_kernel_program(const KernelProgram& program, const Trace& trace, const Target& target,
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
