// Building candidates, as measuring sees it: schedules go in, executables come out. Executables are named by
// their content, so it does not matter where they were built.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tuner/kernel_program.h"
#include "tuner/record.h"
#include "tuner/whole_model.h"

namespace tc {

struct BuiltCandidate {
  std::string executable;         // its bytes; empty where it failed
  std::string sha256;             // of those bytes (runtime/rpc/sha256.h)
  Outcome outcome = Outcome::Ok;  // or Illegal, CompileError, Timeout
  std::string detail;             // a sentence, where it failed
  int calls = 1;                  // of the kernel in one run
};

// A whole model (frontend/pipeline/model_program.h).
struct ModelProgram {
  std::string name, bytes;          // of its file
  std::string options;              // of the compiler, as text
  bool is_of_this_machine = false;  // cannot be built on another one
};

class CandidateBuilder {
 public:
  // Called with the candidate that was built from traces[index].
  using OnBuilt = std::function<void(size_t index, BuiltCandidate candidate)>;

  virtual ~CandidateBuilder() = default;
  // Builds the kernel under each trace. Calls `built` once for each, in any order and from any thread, but
  // one at a time. Never throws because a candidate fails; throws a Device error where the machine is at
  // fault, for instance because its disk is full. The same program, target and trace give the same bytes, so
  // lost work can be repeated.
  virtual void build(const KernelProgram& program, const std::string& target,
                     const std::vector<Trace>& traces, const OnBuilt& built) = 0;
  // reference_outputs(). Throws an Internal error where one fails.
  virtual std::vector<std::vector<Bytes>> reference(const KernelProgram& program, const std::string& target,
                                                    const std::vector<uint64_t>& seeds) = 0;
  // Builds the model under each of the variants, as build() does for traces. A model that cannot be built
  // from what a builder has of it is Illegal. Returns false, and calls `built` for none, where this builder
  // does not build it.
  virtual bool build_models(const ModelProgram& program, const std::vector<Choices>& variants,
                            const OnBuilt& built) = 0;
};

// Compiles a whole model under the choices to the file at `path`: the frontend, which the tuner does not
// know.
using CompileModel = void (*)(const ModelProgram& program, const Choices& choices,
                              const std::string& libraries, const std::string& path);

// Where a builder finds what it needs on this machine.
struct BuilderPlace {
  std::string programs;     // folder of tc-builder
  std::string libraries;    // lib/ of the Python package: a folder per architecture
  std::string work_folder;  // for files while a candidate is linked; the caller removes it
  // Command of the program that hands candidates on to other machines (relay_builder.h); empty: there is
  // none.
  std::vector<std::string> relay = {};
};

// Builds one candidate in this process: every builder ends up here, in some process.
BuiltCandidate build_candidate(const KernelProgram& program, const std::string& target, const Trace& trace,
                               const std::string& libraries, const std::string& work_folder);

// The same for a variant of a whole model.
BuiltCandidate build_model_candidate(const ModelProgram& program, const Choices& choices,
                                     CompileModel compile, const std::string& libraries,
                                     const std::string& work_folder);

// Builds candidates in this process, one after the other. For tests only: a crash or a hang of the compiler
// ends the whole search.
std::unique_ptr<CandidateBuilder> in_process_builder(const BuilderPlace& place);

}  // namespace tc
