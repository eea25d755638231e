// Candidates are built by a pool of processes: a compiler that crashes or hangs on one of them takes
// no search with it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tuner/kernel_program.h"
#include "tuner/record.h"

namespace tc {

struct BuildPoolOptions {
  std::string program;              // path of tc-builder
  std::string library_folder;       // lib/ of the Python package: a folder per architecture
  std::string work_folder;          // where executables go; the caller's to remove
  int workers = 1;
  double timeout_seconds = 120;     // of one candidate
};

struct BuiltCandidate {
  std::string path;                 // of the executable; empty where it failed
  Outcome outcome = Outcome::Ok;    // or Illegal, CompileError, Timeout
  std::string detail;
  int calls = 1;                    // of the kernel in one run
};

class BuildPool {
 public:
  explicit BuildPool(const BuildPoolOptions& options);
  ~BuildPool();

  // Builds all, several at once; results in the order of the traces. Throws a Device error where this
  // machine is at fault, not the candidate: a full disk.
  std::vector<BuiltCandidate> build(const KernelProgram& program, const std::string& target,
                                    const std::vector<Trace>& traces);
  // reference_outputs() for each seed, in processes too. Throws an Internal error where one fails.
  std::vector<std::vector<Bytes>> reference(const KernelProgram& program, const std::string& target,
                                            const std::vector<uint64_t>& seeds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The worker's side: serves requests from standard input until its end (main of tc-builder).
int serve_builds(int in, int out);

}  // namespace tc
