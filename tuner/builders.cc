// The kinds of candidate builders, by name.
#include "tuner/builders.h"

#include <charconv>
#include <thread>

#include "ir/error.h"
#include "tuner/process_builder.h"

namespace tc {
namespace {

constexpr int kMaxProcesses = 1024;

std::unique_ptr<CandidateBuilder> open_processes(const std::string* argument, const BuilderPlace& place) {
  ProcessBuilderOptions options;
  options.program = place.programs + "/tc-builder";
  options.libraries = place.libraries;
  options.work_folder = place.work_folder;
  options.workers = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (argument) {
    const char* end = argument->data() + argument->size();
    const auto [at, code] = std::from_chars(argument->data(), end, options.workers);
    if (code != std::errc() || at != end || options.workers < 1 || options.workers > kMaxProcesses)
      fail(ErrorKind::Device, "builders is 'processes:", *argument,
           "'; give processes:N with a number from 1 to ", kMaxProcesses,
           ", or processes for one on each core");
  }
  return std::make_unique<ProcessBuilder>(options);
}

std::unique_ptr<CandidateBuilder> open_in_process(const std::string* argument, const BuilderPlace& place) {
  if (argument)
    fail(ErrorKind::Device, "builders is 'in-process:", *argument,
         "'; in-process takes nothing after its name");
  return in_process_builder(place);
}

}  // namespace

const std::vector<BuilderKind>& builder_kinds() {
  static const std::vector<BuilderKind> kinds = {
      {"processes", "processes[:N]", "N processes on this machine, as many as it has cores without a number",
       open_processes},
      {"in-process", "in-process", "the tuner's own process, one candidate after the other: for tests",
       open_in_process},
  };
  return kinds;
}

std::unique_ptr<CandidateBuilder> open_builder(const std::string& wanted, const BuilderPlace& place) {
  const size_t colon = wanted.find(':');
  const std::string name = wanted.substr(0, colon);
  std::string known;
  for (const BuilderKind& kind : builder_kinds()) {
    if (name == kind.name) {
      const std::string argument = colon == std::string::npos ? "" : wanted.substr(colon + 1);
      return kind.open(colon == std::string::npos ? nullptr : &argument, place);
    }
    known += text(known.empty() ? "" : ", ", kind.form, " (", kind.sentence, ")");
  }
  fail(ErrorKind::Device, "builders is '", wanted.substr(0, 100), "'; give one of ", known);
}

}  // namespace tc
