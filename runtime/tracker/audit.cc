#include "runtime/tracker/audit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <stdexcept>

namespace tc::tracker {
namespace {

constexpr size_t kMaxText = 256;
constexpr int kKept = 3;

std::string time_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const time_t seconds = milliseconds / 1000;
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  char day[32], text[40];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text, sizeof text, "%s.%03dZ", day, static_cast<int>(milliseconds % 1000));
  return text;
}

// A JSON string. UTF-8 is not decoded: each byte that is not plain ASCII is escaped by itself.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kMaxText)) {
    if (c >= 0x20 && c <= 0x7e && c != '"' && c != '\\') {
      out += c;
      continue;
    }
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned char>(c));
    out += escape;
  }
  return out + (text.size() > kMaxText ? "...\"" : "\"");
}

}  // namespace

AuditLog::AuditLog(std::string path, int64_t most_bytes) : path_(std::move(path)), most_bytes_(most_bytes) {
  open_file();
  if (file_ < 0)
    throw std::runtime_error("the audit log " + path_ + " cannot be appended to (" + std::strerror(errno) +
                             "); name another file with --audit-log");
}

AuditLog::~AuditLog() {
  if (file_ >= 0) close(file_);
}

void AuditLog::open_file() {
  file_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  struct stat status = {};
  if (file_ >= 0 && fstat(file_, &status) == 0) bytes_ = status.st_size;
}

void AuditLog::rotate() {
  close(file_);
  file_ = -1;
  for (int i = kKept; i > 0; --i) {
    const std::string older = path_ + "." + std::to_string(i);
    const std::string newer = i > 1 ? path_ + "." + std::to_string(i - 1) : path_;
    std::rename(newer.c_str(), older.c_str());
  }
  open_file();
}

void AuditLog::write(const char* event, const Fields& fields) {
  std::string line = "{\"time\": \"" + time_now() + "\", \"event\": " + quoted(event);
  for (const auto& [name, text] : fields)
    if (!text.empty()) line += ", " + quoted(name) + ": " + quoted(text);
  line += "}\n";
  const std::lock_guard lock(mutex_);
  if (file_ >= 0 && bytes_ > 0 && bytes_ + static_cast<int64_t>(line.size()) > most_bytes_) rotate();
  if (file_ < 0) open_file();
  const ssize_t written = file_ < 0 ? -1 : ::write(file_, line.data(), line.size());
  if (written > 0) bytes_ += written;
  if (written != static_cast<ssize_t>(line.size()))
    rpc::log_line("the audit log " + path_ + " cannot be written (" + std::strerror(errno) + ")", limit_);
}

}  // namespace tc::tracker
