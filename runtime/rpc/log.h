// Log lines for the administrators of a server, and control over the log lines of gRPC and protobuf.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace tc::rpc {

// Lets a burst of 20 lines pass and then one line per three seconds, so that strangers cannot fill a disk.
class LineLimit {
 public:
  // Whether a line may be written at the time `now`, in milliseconds. `*left_out` is the number of lines that
  // were suppressed since the last one that passed.
  bool pass(int64_t now, int64_t* left_out);

 private:
  static constexpr int64_t kBurst = 20, kPause = 3000;
  std::mutex mutex_;
  int64_t full_at_ = 0;  // time at which the whole burst is available again
  int64_t left_out_ = 0;
};

// A text, parts of which may be of foreign origin, as one line; invisible characters become escapes (see
// runtime/foreign_text.h).
std::string one_line(const std::string& text);

// Writes a line with the program's name and the text to standard error: at most 600 characters, with '?' for
// unprintable ones.
void log_line(const std::string& text);

// The same for lines that other parties cause, as far as the limit lets them pass. Each kind of line has its
// own limit, so that one kind does not hide another.
void log_line(const std::string& text, LineLimit& limit);

// Drops the log lines of gRPC and protobuf, unless GRPC_VERBOSITY asks for them: errors already contain what
// matters.
void silence_grpc();

// The same for a server, except that refused handshakes and messages are logged by log_line. `program` is the
// name at the start of the lines.
void log_refusals(const std::string& program);

}  // namespace tc::rpc
