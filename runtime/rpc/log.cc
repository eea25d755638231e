#include "runtime/rpc/log.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include "runtime/foreign_text.h"
#include "runtime/rpc/fields.h"

namespace tc::rpc {
namespace {

std::string& program_name() {
  static std::string name = "tc";
  return name;
}

// Shortens what gRPC logs about a connection that does not use TLS, or whose certificate is not accepted.
void log_handshake(gpr_log_func_args* line) {
  constexpr const char* kFatal = "SSL_ERROR_SSL: ";
  if (std::strstr(line->message, "Handshake failed") == nullptr) return;
  std::string reason = line->message;
  if (const size_t at = reason.find(kFatal); at != std::string::npos)
    reason = reason.substr(at + std::strlen(kFatal));
  if (const size_t at = reason.rfind("::"); at != std::string::npos) reason = reason.substr(at + 2);
  if (!reason.empty() && reason.back() == '.') reason.pop_back();
  std::string meaning;
  if (reason.find("certificate verify failed") != std::string::npos)
    meaning = "; the caller's certificate is of another authority, or out of date";
  else if (reason.find("did not return a certificate") != std::string::npos)
    meaning = "; the caller has no credentials";
  static LineLimit limit;
  log_line("refused a TLS connection: " + reason + meaning, limit);
}

void log_message(google::protobuf::LogLevel, const char*, int, const std::string& text) {
  static LineLimit limit;
  log_line("refused a message that cannot be read: " + text, limit);
}

}  // namespace

bool LineLimit::pass(int64_t now, int64_t* left_out) {
  const std::lock_guard lock(mutex_);
  const int64_t full_at = std::max(full_at_, now) + kPause;
  if (full_at - now > kBurst * kPause) {
    ++left_out_;
    return false;
  }
  full_at_ = full_at;
  *left_out = left_out_;
  left_out_ = 0;
  return true;
}

std::string one_line(const std::string& text) {
  std::string shown(show_name(text.data(), text.size(), nullptr, 0, kMaxOfLine), 0);
  show_name(text.data(), text.size(), shown.data(), shown.size() + 1, kMaxOfLine);
  return shown;
}

void log_line(const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", program_name().c_str(), printable(text, 600).c_str());
}

void log_line(const std::string& text, LineLimit& limit) {
  const int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::steady_clock::now().time_since_epoch())
                          .count();
  int64_t left_out = 0;
  if (!limit.pass(now, &left_out)) return;
  log_line(left_out == 0
               ? text
               : text.substr(0, 500) + " (" + std::to_string(left_out) + " lines before this were left out)");
}

void silence_grpc() {
  if (std::getenv("GRPC_VERBOSITY")) return;
  gpr_set_log_function([](gpr_log_func_args*) {});
  google::protobuf::SetLogHandler(nullptr);
}

void log_refusals(const std::string& program) {
  program_name() = program;
  if (std::getenv("GRPC_VERBOSITY")) return;
  gpr_set_log_function(log_handshake);
  google::protobuf::SetLogHandler(log_message);
}

}  // namespace tc::rpc
