// Candidates built by a pool of processes on this machine: a compiler that crashes or hangs on one of them
// takes no search with it.
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

  // Several at once.
  void build(const KernelProgram& program, const std::string& target, const std::vector<Trace>& traces,
             const OnBuilt& built) override;
  std::vector<std::vector<Bytes>> reference(const KernelProgram& program, const std::string& target,
                                            const std::vector<uint64_t>& seeds) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The worker's side: serves requests from standard input until its end (main of tc-builder).
int serve_builds(int in, int out);

}  // namespace tc
