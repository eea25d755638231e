#include "tests/postgres_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "ir/error.h"
#include "tuner/postgres_connection.h"

namespace tc::testing {
namespace {

constexpr const char* kScript = "tests/tuner/postgres_server.sh";
constexpr int kMissing = 77;  // the script's exit code where PostgreSQL is not installed

struct Answer {
  int code = 0;
  std::string last_line;
};

Answer run(const std::string& command) {
  Answer answer;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {-1, "no shell"};
  char line[4096];
  while (fgets(line, sizeof line, pipe)) answer.last_line = line;
  while (!answer.last_line.empty() && answer.last_line.back() == '\n') answer.last_line.pop_back();
  const int status = pclose(pipe);
  answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

Answer run_script(const char* action) { return run(text("bash ", kScript, " ", action)); }

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  EXPECT_TRUE(bound);
  close(socket);
  return ntohs(address.sin_port);
}

}  // namespace

std::string PostgresServer::missing() {
  static const Answer answer = run_script("check");
  return answer.code == kMissing ? answer.last_line : "";
}

PostgresServer* PostgresServer::get() {
  if (!missing().empty()) return nullptr;
  static PostgresServer server;
  return &server;
}

PostgresServer::PostgresServer() : port_(free_port()) {
  const Answer made = run_script("make");
  EXPECT_EQ(made.code, 0);
  folder_ = made.last_line;
  process_ = fork();
  if (process_ == 0) {
    const std::string port = std::to_string(port_), log = folder_ + "/server.log";
    if (!freopen(log.c_str(), "a", stderr) || !freopen("/dev/null", "r", stdin) || dup2(2, 1) != 1)
      _exit(126);
    execlp("bash", "bash", kScript, "run", folder_.c_str(), port.c_str(), "-F", nullptr);
    _exit(127);
  }
  for (int tries = 0; tries < 300; ++tries, usleep(100000)) {
    try {
      PostgresConnection((url("postgres")).substr(url("postgres").find(':') + 1), true);
      return;
    } catch (const Error&) {}
  }
  ADD_FAILURE() << "the server does not answer: " << folder_ << "/server.log";
}

PostgresServer::~PostgresServer() {
  kill(process_, SIGQUIT);  // at once
  waitpid(process_, nullptr, 0);
  std::error_code code;
  std::filesystem::remove_all(folder_, code);
}

std::string PostgresServer::fresh_database(const std::string& name) {
  std::string database = text(name, "_", ++databases_);
  execute("postgres", {"CREATE DATABASE \"" + database + "\""});
  return database;
}

void PostgresServer::add_user(const std::string& user, const std::string& member_of) {
  execute("postgres", {text("CREATE ROLE ", user, " LOGIN PASSWORD '", user, "'"),
                       text("GRANT ", member_of, " TO ", user)});
}

std::string PostgresServer::url(const std::string& database, const std::string& user) const {
  return text("postgresql://", user, ":", user == "tc_admin" ? "admin" : user, "@127.0.0.1:", port_, "/",
              database, "?sslmode=verify-full&sslrootcert=", folder_, "/ROOT.crt");
}

void PostgresServer::execute(const std::string& database, const std::vector<std::string>& statements) const {
  try {
    PostgresConnection server(url(database).substr(url(database).find(':') + 1), false);
    for (const std::string& sql : statements) server.run(sql);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

}  // namespace tc::testing
