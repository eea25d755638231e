// A PostgreSQL server of the tests' own, for C++.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tc::testing {

class PostgresServer {
 public:
  // The server of this process, started when it is first asked for. Null where PostgreSQL is not installed,
  // as missing() says.
  static PostgresServer* get();
  static std::string missing();

  // Makes an empty database.
  std::string fresh_database(const std::string& name);
  // Makes a role that can log in, with its name as password, and is a member of another role.
  void add_user(const std::string& user, const std::string& member_of);
  // The URL of a database over TLS; the administrator's password is "admin".
  std::string url(const std::string& database, const std::string& user = "tc_admin") const;
  // Runs statements as the administrator; a test fails where one does.
  void execute(const std::string& database, const std::vector<std::string>& statements) const;

 private:
  PostgresServer();
  ~PostgresServer();

  std::string folder_;
  int port_ = 0;
  pid_t process_ = -1;
  int databases_ = 0;
};

}  // namespace tc::testing
