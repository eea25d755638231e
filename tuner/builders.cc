// The kinds of candidate builders, by name.
#include "tuner/builders.h"

#include <charconv>
#include <string_view>
#include <thread>

#include "ir/error.h"
#include "tuner/process_builder.h"
#include "tuner/relay_builder.h"

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

std::unique_ptr<CandidateBuilder> open_ray(const std::string* argument, const BuilderPlace& place) {
  constexpr std::string_view kSlashes = "//";
  std::string address;  // empty: a cluster that the relay starts
  if (argument) {
    address = *argument;
    const size_t colon = address.rfind(':');
    const bool is_whole = address.compare(0, kSlashes.size(), kSlashes) == 0 && colon != std::string::npos &&
                          colon > kSlashes.size() && colon + 1 < address.size();
    if (!is_whole)
      fail(ErrorKind::Device, "builders is 'ray:", argument->substr(0, 100),
           "'; give ray://HOST:PORT with the address of the cluster's head, or ray for one on this machine");
    address.erase(0, kSlashes.size());
  }
  if (place.relay.empty())
    fail(ErrorKind::Device,
         "builders is 'ray': the program that hands candidates on to Ray is a part of the Python package tc");
  RelayBuilderOptions options;
  options.command = place.relay;
  options.command.push_back("--address=" + address);
  options.libraries = place.libraries;
  options.work_folder = place.work_folder;
  return std::make_unique<RelayBuilder>(options);
}

}  // namespace

const std::vector<BuilderKind>& builder_kinds() {
  static const std::vector<BuilderKind> kinds = {
      {"processes", "processes[:N]", "N processes on this machine, as many as it has cores without a number",
       open_processes},
      {"in-process", "in-process", "the tuner's own process, one candidate after the other: for tests",
       open_in_process},
      {"ray", "ray[://HOST:PORT]",
       "a Ray cluster by the address of its head, or without one a Ray of this machine alone", open_ray},
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
