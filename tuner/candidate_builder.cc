// Building candidates in this process.
#include "tuner/candidate_builder.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "runtime/rpc/sha256.h"
#include "tuner/run_library.h"

namespace tc {
namespace {

std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in || bytes.empty()) fail(ErrorKind::Device, "cannot read '", path, "', which was just written");
  return bytes;
}

class InProcessBuilder : public CandidateBuilder {
 public:
  explicit InProcessBuilder(BuilderPlace place) : place_(std::move(place)) {}

  void build(const KernelProgram& program, const std::string& target, const std::vector<Trace>& traces,
             const OnBuilt& built) override {
    for (size_t i = 0; i < traces.size(); ++i) {
      interruption_point();
      built(i, build_candidate(program, target, traces[i], place_.libraries, place_.work_folder));
    }
  }

  std::vector<std::vector<Bytes>> reference(const KernelProgram& program, const std::string& target,
                                            const std::vector<uint64_t>& seeds) override {
    return reference_outputs(program, parse_target(target), seeds);
  }

  bool build_models(const ModelProgram&, const std::vector<Choices>&, const OnBuilt&) override {
    return false;  // the tuner does it as well
  }

 private:
  const BuilderPlace place_;
};

// A candidate of what `build` writes to the file at a path; it returns the calls of a run.
template <class Build>
BuiltCandidate candidate_of(const std::string& work_folder, const Build& build) {
  BuiltCandidate candidate;
  const auto failed = [&](Outcome outcome, const std::exception& error) {
    candidate.outcome = outcome;
    candidate.detail = error.what();
  };
  try {
    const TemporaryFile file(work_folder);
    candidate.calls = build(file.path());
    candidate.executable = contents_of(file.path());
    candidate.sha256 = rpc::sha256_of(candidate.executable);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Device)
      fail(ErrorKind::Device, "a candidate cannot be built here: ", error.what());
    failed(error.kind() == ErrorKind::Schedule || error.kind() == ErrorKind::Model ? Outcome::Illegal
                                                                                   : Outcome::CompileError,
           error);
  } catch (const std::exception& error) {
    failed(Outcome::CompileError, error);
  }
  return candidate;
}

}  // namespace

BuiltCandidate build_candidate(const KernelProgram& program, const std::string& target, const Trace& trace,
                               const std::string& libraries, const std::string& work_folder) {
  return candidate_of(work_folder, [&](const std::string& path) {
    return build_kernel_program(program, trace, parse_target(target), libraries, path);
  });
}

BuiltCandidate build_model_candidate(const ModelProgram& program, const Choices& choices,
                                     CompileModel compile, const std::string& libraries,
                                     const std::string& work_folder) {
  return candidate_of(work_folder, [&](const std::string& path) {
    compile(program, choices, libraries, path);
    return 1;
  });
}

std::unique_ptr<CandidateBuilder> in_process_builder(const BuilderPlace& place) {
  return std::make_unique<InProcessBuilder>(place);
}

}  // namespace tc
