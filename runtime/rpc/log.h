// Lines for people who look after a server, and those of the libraries below it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace tc::rpc {

// Lets 20 lines pass at once and then one in three seconds: strangers cannot fill a disk.
class LineLimit {
 public:
  // Whether a line may be written at this time, in milliseconds. `*left_out` is how many were not
  // since the last that was.
  bool pass(int64_t now, int64_t* left_out);

 private:
  static constexpr int64_t kBurst = 20, kPause = 3000;
  std::mutex mutex_;
  int64_t full_at_ = 0;  // when all of the burst may be used again
  int64_t left_out_ = 0;
};

// A text of which parts may be anybody's as one line: what cannot be seen is an escape (see
// runtime/foreign_text.h).
std::string one_line(const std::string& text);

// A line on standard error behind the program's name: at most 600 characters, with what is not
// printable as '?'.
void log_line(const std::string& text);

// The same for what others cause, as far as the limit lets it pass. Each kind of line has a limit of its
// own, so that one does not hide another.
void log_line(const std::string& text, LineLimit& limit);

// Drops the log lines of gRPC and protobuf, unless GRPC_VERBOSITY asks for them: what matters is in
// the errors.
void silence_grpc();

// The same for a server, but that refused handshakes and messages become lines of its own. `program`
// is the name in front of the lines.
void log_refusals(const std::string& program);

}  // namespace tc::rpc
