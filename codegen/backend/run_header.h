// What the headers of artefacts without a runtime share: the function that runs the model once, its
// arguments, and what it gives.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "ir/plan.h"

namespace tc {

// Refuses what a run would ask a runtime for, with the node and the remedy: an Unsupported error for that
// kind of artefact.
void refuse_late_sizes(const Plan& plan, const std::string& kind);

struct RunArgument {
  std::string name, macro;  // input_x, MODEL_INPUT_0
  const PortInfo* port;
  int64_t elements;
  std::string lies_in = "";  // of an output: the input whose memory it may have
};
struct RunArguments {
  std::vector<RunArgument> inputs, outputs;
};
// Of the model's function PREFIX_run, whose sizes are all numbers.
RunArguments run_arguments(const Plan& plan, const std::string& prefix);

// Macros with the type, elements and bytes of each argument.
void write_ports(std::ostream& out, const RunArguments& arguments);
// Macros of what PREFIX_run returns, and its declaration.
void write_run(std::ostream& out, const RunArguments& arguments, const std::string& prefix);

}  // namespace tc
