// What the tuner knows of one candidate schedule: its decisions, and the result of measuring it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tc {

using Trace = std::vector<std::string>;  // primitives in their text form, layout lines included

// The trace as text, one line per primitive, each with a newline at its end; and back.
std::string trace_text(const Trace& trace);
Trace parse_trace(const std::string& text);

// Version of the trace language. Records of another major version are refused; those of a newer minor version
// are read.
constexpr int kTraceLanguageMajor = 1;
constexpr int kTraceLanguageMinor = 0;

// What became of a candidate. The numbers are those of the log and of runtime/rpc/tc_rpc.proto.
// clang-format off
enum class Outcome : int {
  Ok = 0, Illegal = 1, CompileError = 2, WrongResult = 3, Crash = 4, Timeout = 5, OutOfMemory = 6,
  DeviceLost = 7, Noisy = 8,
};
// clang-format on
// "ok", "illegal", "compile error", "wrong result", …
const char* name_of(Outcome outcome);
// The outcome of that name; for a name that none has the number after the last one, which check_record
// refuses.
Outcome outcome_of(const std::string& name);

// Time of one run over several samples, in the device's unit.
struct Timing {
  int count = 0;
  double minimum = 0, median = 0;
  double spread = 0;  // median absolute deviation / median
};

// A measured candidate. Only those with outcome Ok have a time.
struct Measurement {
  Outcome outcome = Outcome::Ok;
  std::string detail;  // a sentence, where it failed
  Timing time;
  // Time relative to the incumbent's in the same interleaved batch. Candidates are compared by it.
  double ratio = 0;
  double worst_error = 0;  // relative to the output's largest magnitude
};

// A line of the log.
struct Record {
  std::string workload;  // workload_key(kernel) and the layout lines: full text
  std::string target;    // canonical target string: where the trace is legal
  std::string device;    // device key: where the time is to be trusted
  std::string unit;      // "seconds" or "simulated cycles"
  int threads = 1;
  Trace trace;
  Measurement measurement;
  std::string build;  // of the compiler
  int language_major = kTraceLanguageMajor, language_minor = kTraceLanguageMinor;
  uint64_t seed = 0;    // of the search that found it
  int64_t created = 0;  // seconds since 1970, for people
  bool chosen = false;  // by a session that compared whole models
};

}  // namespace tc
