// The messages between a tuner and a process that builds for it.
#include "tuner/builder_wire.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <sstream>
#include <utility>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "runtime/rpc/sha256.h"

namespace tc::wire {
namespace {

constexpr uint32_t kMaxWords = 1u << 14;      // a model has two for each kernel
constexpr uint32_t kMaxWordBytes = 1u << 30;  // an executable has copies of its kernel's constants
constexpr size_t kRequestWords = 12;
constexpr size_t kMaxDetail = 4000;
constexpr int kMaxCalls = 1 << 20;
constexpr int kPollMilliseconds = 20;

bool write_all(int descriptor, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t count = write(descriptor, bytes.data() + at, bytes.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += static_cast<size_t>(count);
  }
  return true;
}

void put_number(std::string& out, uint32_t number) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(number >> (8 * i));
}

ReadEnd read_bytes(int descriptor, char* into, size_t count, std::optional<Clock::time_point> deadline) {
  while (count > 0) {
    if (deadline) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - Clock::now()).count();
      pollfd poller{descriptor, POLLIN, 0};
      if (left <= 0) return ReadEnd::Late;
      interruption_point();
      if (poll(&poller, 1, static_cast<int>(std::min<int64_t>(left, kPollMilliseconds))) <= 0) continue;
    }
    const ssize_t got = read(descriptor, into, count);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return ReadEnd::Closed;
    into += got;
    count -= static_cast<size_t>(got);
  }
  return ReadEnd::Done;
}

ReadEnd read_number(int descriptor, uint32_t& number, std::optional<Clock::time_point> deadline) {
  unsigned char bytes[4];
  const ReadEnd end = read_bytes(descriptor, reinterpret_cast<char*>(bytes), 4, deadline);
  number = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | static_cast<uint32_t>(bytes[3]) << 24;
  return end;
}

// The number that the word is; -1 where it is none of 0 to `most`.
int number_in(const std::string& word, int most) {
  int number = -1;
  const auto [at, code] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool whole = code == std::errc() && at == word.data() + word.size();
  return whole && number >= 0 && number <= most ? number : -1;
}

// Numbers with blanks between them.
std::string text_of(const std::vector<uint64_t>& numbers) {
  std::string words;
  for (const uint64_t number : numbers) words += text(words.empty() ? "" : " ", number);
  return words;
}

std::vector<uint64_t> numbers_in(const std::string& words) {
  std::istringstream in(words);
  return {std::istream_iterator<uint64_t>(in), {}};
}

BuiltCandidate malformed() {
  return failed(Outcome::CompileError,
                "what its builder answered is no answer; tc has to be the same version there");
}

Words answer_with(const std::string& number, BuiltCandidate built) {
  return {number,
          "ok",
          text(static_cast<int>(built.outcome)),
          built.detail,
          text(built.calls),
          built.sha256,
          std::move(built.executable)};
}

Words model_made_for(const Words& request, CompileModel compile) {
  TC_CHECK(request.size() >= kRequestWords && request.size() % 2 == 0 && compile);
  Choices choices;
  for (size_t i = kRequestWords; i < request.size(); i += 2)
    choices[request[i]] = parse_trace(request[i + 1]);
  const ModelProgram program = {request[2], request[3], request[4]};
  return answer_with(request[0], build_model_candidate(program, choices, compile, request[9], request[10]));
}

Words made_for(const Words& request, CompileModel compile) {
  if (request.size() > 1 && request[1] == "model") return model_made_for(request, compile);
  TC_CHECK(request.size() == kRequestWords);
  KernelProgram program;
  program.kernel = parse_kernel(request[2]);
  program.layout_lines = parse_trace(request[3]);
  program.threads = std::stoi(request[4]);
  program.constants_seed = std::stoull(request[5]);
  program.bytes_between_calls = std::stoll(request[11]);
  if (request[1] == "build") {
    return answer_with(
        request[0], build_candidate(program, request[6], parse_trace(request[7]), request[9], request[10]));
  }
  Words answer = {request[0], "ok"};
  for (const std::vector<Bytes>& outputs :
       reference_outputs(program, parse_target(request[6]), numbers_in(request[8]))) {
    for (const Bytes& bytes : outputs) answer.emplace_back(bytes.begin(), bytes.end());
  }
  return answer;
}

}  // namespace

std::string message_of(const Words& words) {
  std::string bytes;
  put_number(bytes, static_cast<uint32_t>(words.size()));
  for (const std::string& word : words) {
    put_number(bytes, static_cast<uint32_t>(word.size()));
    bytes += word;
  }
  return bytes;
}

bool write_words(int descriptor, const Words& words) { return write_all(descriptor, message_of(words)); }

ReadEnd read_words(int descriptor, Words& words, std::optional<Clock::time_point> deadline) {
  uint32_t count = 0;
  if (const ReadEnd end = read_number(descriptor, count, deadline); end != ReadEnd::Done) return end;
  if (count > kMaxWords) return ReadEnd::Closed;
  words.assign(count, "");
  for (std::string& word : words) {
    uint32_t size = 0;
    if (const ReadEnd end = read_number(descriptor, size, deadline); end != ReadEnd::Done) return end;
    if (size > kMaxWordBytes) return ReadEnd::Closed;
    word.resize(size);
    if (const ReadEnd end = read_bytes(descriptor, word.data(), size, deadline); end != ReadEnd::Done)
      return end;
  }
  return ReadEnd::Done;
}

BuiltCandidate failed(Outcome outcome, const std::string& why) {
  BuiltCandidate candidate;
  candidate.outcome = outcome;
  candidate.detail = why;
  return candidate;
}

Words request_of(const std::string& number, const std::string& what, const KernelProgram& program,
                 const std::string& target, const RequestDetails& details) {
  const auto& [trace, seeds, libraries, work_folder] = details;
  return {number,
          what,
          str(program.kernel),
          trace_text(program.layout_lines),
          text(program.threads),
          text(program.constants_seed),
          target,
          trace_text(trace),
          text_of(seeds),
          libraries,
          work_folder,
          text(program.bytes_between_calls)};
}

Words model_request_of(const std::string& number, const ModelProgram& program, const Choices& choices,
                       const std::string& libraries, const std::string& work_folder) {
  Words request = {number, "model", program.name, program.bytes, program.options, "",
                   "",     "",      "",           libraries,     work_folder,     ""};
  for (const auto& [workload, trace] : choices) {
    request.push_back(workload);
    request.push_back(trace_text(trace));
  }
  return request;
}

Words answer_to(const Words& request, CompileModel compile) {
  const std::string number = request.empty() ? "" : request[0];
  try {
    return made_for(request, compile);
  } catch (const Error& error) {
    return {number, error.kind() == ErrorKind::Device ? "machine" : "error", error.what()};
  } catch (const std::exception& error) {
    return {number, "error", error.what()};
  }
}

void refuse_machine(const Words& answer) {
  if (answer.size() == 3 && answer[1] == "machine") fail(ErrorKind::Device, answer[2].substr(0, kMaxDetail));
}

BuiltCandidate candidate_in(Words answer) {
  if (answer.size() == 3 && answer[1] == "error")
    return failed(Outcome::CompileError, answer[2].substr(0, kMaxDetail));
  if (answer.size() != 7 || answer[1] != "ok") return malformed();
  BuiltCandidate built;
  built.outcome = static_cast<Outcome>(number_in(answer[2], static_cast<int>(Outcome::Timeout)));
  built.detail = answer[3].substr(0, kMaxDetail);
  built.calls = number_in(answer[4], kMaxCalls);
  built.sha256 = answer[5];
  built.executable = std::move(answer[6]);
  switch (built.outcome) {
    case Outcome::Ok:
      if (built.calls < 1 || built.executable.empty() || rpc::sha256_of(built.executable) != built.sha256)
        return malformed();
      return built;
    case Outcome::Illegal:
    case Outcome::CompileError:
    case Outcome::Timeout: return failed(built.outcome, built.detail);
    default: return malformed();
  }
}

std::vector<std::vector<Bytes>> reference_in(const Words& answer, const std::string& kernel, size_t seeds) {
  const size_t outputs = answer.size() < 3 || seeds == 0 ? 0 : (answer.size() - 2) / seeds;
  if (outputs == 0 || answer.size() != 2 + seeds * outputs || answer[1] != "ok")
    fail(ErrorKind::Internal, "the reference of kernel '", kernel,
         "' cannot be computed: ", answer.empty() ? "" : answer.back().substr(0, kMaxDetail));
  std::vector<std::vector<Bytes>> found(seeds);
  for (size_t i = 2; i < answer.size(); ++i)
    found[(i - 2) / outputs].emplace_back(answer[i].begin(), answer[i].end());
  return found;
}

}  // namespace tc::wire
