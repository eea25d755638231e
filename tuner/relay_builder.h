// Builds candidates wherever a program hands them on to: a relay, which takes requests and answers each when
// it is done. The relay of a Ray cluster is a module of the Python package (frontend/tc/ray_relay.py).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tuner/candidate_builder.h"

namespace tc {

struct RelayBuilderOptions {
  std::vector<std::string> command;    // of the relay
  std::string libraries, work_folder;  // as in BuilderPlace; a relay to other machines uses theirs
  // After so long without any answer the relay is given up. It notices by itself where builds hang.
  double silent_seconds = 900;
};

class RelayBuilder : public CandidateBuilder {
 public:
  // Starts the relay, which connects while this process goes on.
  explicit RelayBuilder(const RelayBuilderOptions& options);
  ~RelayBuilder() override;

  // Hands on all candidates at once, up to a bound. A Device error where the relay ends or says that the
  // machines are at fault.
  void build(const KernelProgram& program, const std::string& target, const std::vector<Trace>& traces,
             const OnBuilt& built) override;
  std::vector<std::vector<Bytes>> reference(const KernelProgram& program, const std::string& target,
                                            const std::vector<uint64_t>& seeds) override;
  // Models for any machine but this one.
  bool build_models(const ModelProgram& program, const std::vector<Choices>& variants,
                    const OnBuilt& built) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tc
