// The tracker's record of who announced, leased and measured what: a file of JSON lines that is only
// appended to.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/rpc/log.h"

namespace tc::tracker {

// A line is one object: "time" (UTC), "event", and the event's own fields, all of them texts. What
// others sent is cut to 256 bytes and escaped to ASCII. Beyond its size the file is moved to FILE.1,
// that to FILE.2, and so on to FILE.3; what was there is dropped.
class AuditLog {
 public:
  using Fields = std::vector<std::pair<const char*, std::string>>;

  // Throws std::runtime_error where the file cannot be appended to.
  explicit AuditLog(std::string path, int64_t most_bytes = int64_t{16} << 20);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Fields without a text are left out. Where the disk does not take a line, log_line says so.
  void write(const char* event, const Fields& fields);

 private:
  void open_file();
  void rotate();

  const std::string path_;
  const int64_t most_bytes_;
  rpc::LineLimit limit_;  // of what is said of a full disk
  std::mutex mutex_;
  int file_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace tc::tracker
