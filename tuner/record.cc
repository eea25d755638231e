// What the tuner knows of one candidate schedule.
#include "tuner/record.h"

namespace tc {

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

}  // namespace tc
