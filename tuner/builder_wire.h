// What a tuner and a process that builds for it say to each other.
//
// A message is a list of strings, each after its 32-bit length. A request begins with a number, which its
// answer repeats, so that a process may answer in another order than it was asked. What comes back is
// checked: the candidate may have been built on another machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tuner/candidate_builder.h"

namespace tc::wire {

using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

std::string message_of(const Words& words);
// False where the reader is gone.
bool write_words(int descriptor, const Words& words);

enum class ReadEnd { Done, Closed, Late };
// Closed where the writer is gone, or where what it wrote is no message. With a deadline it may be
// interrupted.
ReadEnd read_words(int descriptor, Words& words, std::optional<Clock::time_point> deadline);

// The fields that only some requests use: a reference has seeds; a candidate has a trace, the folder of
// libraries and a folder for files.
struct RequestDetails {
  Trace trace;
  std::vector<uint64_t> seeds;
  std::string libraries, work_folder;
};

// A request to "build" a candidate or to compute a "reference".
Words request_of(const std::string& number, const std::string& what, const KernelProgram& program,
                 const std::string& target, const RequestDetails& details);

// A request to build a whole "model".
Words model_request_of(const std::string& number, const ModelProgram& program, const Choices& choices,
                       const std::string& libraries, const std::string& work_folder);

// Does what the request asks for. The answer has the request's number, then "ok" and what was made; "error"
// and why the candidate is at fault; or "machine" and why this machine is.
// Whole models are compiled by `compile`.
Words answer_to(const Words& request, CompileModel compile);

// What the answer to a request to build says, unless it tells of the machine.
BuiltCandidate candidate_in(Words answer);
// The outputs for each seed in the answer to a request for a reference. An Internal error where it has none.
std::vector<std::vector<Bytes>> reference_in(const Words& answer, const std::string& kernel, size_t seeds);
// Throws a Device error with the answer's sentence where the machine is at fault.
void refuse_machine(const Words& answer);

BuiltCandidate failed(Outcome outcome, const std::string& why);

}  // namespace tc::wire
