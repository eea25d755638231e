// What the headers of artefacts without a runtime share: the function that runs the model once, its
// arguments, and what it returns.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "ir/plan.h"

namespace tc {

// Refuses plans whose runs would need a runtime: an Unsupported error for that kind of artefact, with the
// node and the remedy.
void refuse_late_sizes(const Plan& plan, const std::string& kind);

struct RunArgument {
  std::string name, macro;  // input_x, MODEL_INPUT_0
  const PortInfo* port;
  int64_t elements;
  size_t index = 0;          // in the plan's inputs or outputs
  std::string lies_in = "";  // for an output: the name of the input whose memory it may share; else empty
};
struct RunArguments {
  std::vector<RunArgument> inputs, outputs;
};
// The arguments of the model's function PREFIX_run: all inputs and outputs that are no states. Their sizes
// have to be numbers.
RunArguments run_arguments(const Plan& plan, const std::string& prefix);

// Macros with the type, elements and bytes of each argument.
void write_ports(std::ostream& out, const RunArguments& arguments);
// Macros of what PREFIX_run returns, its declaration, and that of PREFIX_reset where the plan has states.
void write_run(std::ostream& out, const Plan& plan, const RunArguments& arguments, const std::string& prefix);
// What a header says of the arena, and of what is kept between runs.
std::string about_arena(const Plan& plan, const std::string& prefix);
std::string about_runs(const Plan& plan, const std::string& prefix);

}  // namespace tc
