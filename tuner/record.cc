// What the tuner knows of one candidate schedule.
#include "tuner/record.h"

#include <sstream>

namespace tc {

std::string trace_text(const Trace& trace) {
  std::string text;
  for (const std::string& line : trace) text += line + "\n";
  return text;
}

Trace parse_trace(const std::string& text) {
  Trace trace;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) trace.push_back(line);
  }
  return trace;
}

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::Ok: return "ok";
    case Outcome::Illegal: return "illegal";
    case Outcome::CompileError: return "compile error";
    case Outcome::WrongResult: return "wrong result";
    case Outcome::Crash: return "crash";
    case Outcome::Timeout: return "timeout";
    case Outcome::OutOfMemory: return "out of memory";
    case Outcome::DeviceLost: return "device lost";
    case Outcome::Noisy: return "noisy";
  }
  return "unknown";
}

Outcome outcome_of(const std::string& name) {
  int number = 0;
  while (number <= static_cast<int>(Outcome::Noisy) && name != name_of(static_cast<Outcome>(number)))
    ++number;
  return static_cast<Outcome>(number);
}

}  // namespace tc
