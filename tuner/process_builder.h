// Builds candidates in a pool of processes on this machine, so that a crash or a hang of the compiler on one
// of them does not end the search.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tuner/candidate_builder.h"

namespace tc {

struct ProcessBuilderOptions {
  std::string program;                 // path of tc-builder
  std::string libraries, work_folder;  // as in BuilderPlace
  int workers = 1;
  double timeout_seconds = 120;  // of one candidate
};

class ProcessBuilder : public CandidateBuilder {
 public:
  explicit ProcessBuilder(const ProcessBuilderOptions& options);
  ~ProcessBuilder() override;

  // Builds several candidates at the same time.
  void build(const KernelProgram& program, const std::string& target, const std::vector<Trace>& traces,
             const OnBuilt& built) override;
  std::vector<std::vector<Bytes>> reference(const KernelProgram& program, const std::string& target,
                                            const std::vector<uint64_t>& seeds) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The worker's side (main of tc-builder): answers the requests of `in` on `out` until `in` ends.
int serve_builds(int in, int out);

}  // namespace tc
