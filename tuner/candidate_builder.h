// Building candidates, as measuring sees it: schedules in, executables out, each by its content, so that it
// does not matter where they were built.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tuner/kernel_program.h"
#include "tuner/record.h"

namespace tc {

struct BuiltCandidate {
  std::string executable;         // its bytes; empty where it failed
  std::string sha256;             // of them (runtime/rpc/sha256.h)
  Outcome outcome = Outcome::Ok;  // or Illegal, CompileError, Timeout
  std::string detail;             // a sentence, where it failed
  int calls = 1;                  // of the kernel in one run
};

class CandidateBuilder {
 public:
  // Gets the candidate of traces[index].
  using OnBuilt = std::function<void(size_t index, BuiltCandidate candidate)>;

  virtual ~CandidateBuilder() = default;
  // Builds the kernel under each trace. Calls `built` once for each, in any order and from any thread, but
  // one at a time. Never throws for what a candidate does; throws a Device error where a machine is at fault:
  // a full disk. The same program, target and trace give the same bytes, so that work that was lost may be
  // done again.
  virtual void build(const KernelProgram& program, const std::string& target,
                     const std::vector<Trace>& traces, const OnBuilt& built) = 0;
  // reference_outputs() for each seed. Throws an Internal error where one fails.
  virtual std::vector<std::vector<Bytes>> reference(const KernelProgram& program, const std::string& target,
                                                    const std::vector<uint64_t>& seeds) = 0;
};

// Where a builder finds what it needs on this machine.
struct BuilderPlace {
  std::string programs;     // folder of tc-builder
  std::string libraries;    // lib/ of the Python package: a folder per architecture
  std::string work_folder;  // for files while a candidate is being linked; the caller's to remove
};

// One candidate, built in this process: what every builder does in the end.
BuiltCandidate build_candidate(const KernelProgram& program, const std::string& target, const Trace& trace,
                               const std::string& libraries, const std::string& work_folder);

// Builds in this process, one after the other. For tests: what crashes or hangs in the compiler takes the
// search with it.
std::unique_ptr<CandidateBuilder> in_process_builder(const BuilderPlace& place);

}  // namespace tc
