// The tracker's audit log, which records who announced, leased and measured what: a file of JSON lines to
// which the tracker only appends.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/rpc/log.h"

namespace tc::tracker {

// Each line is one object: "time" (UTC), "event", and the event's own fields, all of them strings. Texts that
// others sent are cut off at 256 bytes and escaped to ASCII. When the file exceeds its size it is renamed to
// FILE.1, that to FILE.2, and so on; the old FILE.3 is dropped.
class AuditLog {
 public:
  using Fields = std::vector<std::pair<const char*, std::string>>;

  // Throws a std::runtime_error where the file cannot be appended to.
  explicit AuditLog(std::string path, int64_t most_bytes = int64_t{16} << 20);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Fields with an empty text are left out. Where a line cannot be written, log_line says so.
  void write(const char* event, const Fields& fields);

 private:
  void open_file();
  void rotate();

  const std::string path_;
  const int64_t most_bytes_;
  rpc::LineLimit limit_;  // for messages about a full disk
  std::mutex mutex_;
  int file_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace tc::tracker
