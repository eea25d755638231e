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
  double timeout_seconds = 120;         // of one candidate
  double model_timeout_seconds = 1200;  // of one whole model
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
  bool build_models(const ModelProgram& program, const std::vector<Choices>& variants,
                    const OnBuilt& built) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The worker's side (main of tc-builder): answers the requests of `in` on `out` until `in` ends.
// Whole models are compiled by `compile`.
int serve_builds(int in, int out, CompileModel compile);

}  // namespace tc
