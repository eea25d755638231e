// A connection to a PostgreSQL server, on which others may be hostile and which may go at any moment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tuner/libpq.h"

namespace tc {

// The URL as messages show it: without a password, and without the options after the question mark. `place`
// is the part of the URL after the scheme and its colon.
std::string shown_postgres_url(const std::string& place);

// A row of a result. Valid until the function that got it returns.
class PostgresRow {
 public:
  PostgresRow(const libpq::Functions& library, const libpq::Result* result, int row)
      : library_(library), result_(result), row_(row) {}

  // What is null or no number is 0.
  std::string text(int column) const;
  int64_t integer(int column) const;
  double number(int column) const;

 private:
  const libpq::Functions& library_;
  const libpq::Result* result_;
  int row_;
};

// An array of texts, or of what is written as texts, as a statement's parameter.
std::string postgres_array(const std::vector<std::string>& elements);

// All functions throw Log errors, whose texts never contain a password.
class PostgresConnection {
 public:
  // Connects. Anything else than a socket or an address of this machine needs TLS with a certificate that is
  // verified for the server's name; a URL that asks for less is refused. With `read_only`, the server refuses
  // to change anything on this connection.
  PostgresConnection(const std::string& place, bool read_only);
  ~PostgresConnection();
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  const std::string& name() const { return name_; }
  // The role that has logged in.
  const std::string& role() const { return role_; }

  using Take = std::function<void(const PostgresRow&)>;
  // Runs one statement, and calls `take` for each row as it arrives. Outside of transaction() the statement
  // must be one that can be run twice: where the connection is lost before the first row, tc connects once
  // more and runs it again.
  void run(const std::string& sql, const std::vector<std::string>& parameters = {},
           const Take& take = nullptr);
  // The first column of the first row; nothing where there is no row.
  std::optional<std::string> value(const std::string& sql, const std::vector<std::string>& parameters = {});

  // Runs the action in a transaction. Where the connection is lost or the server sees a conflict, the action
  // is run again. It may so be committed twice, unless `once`: then tc asks the server what became of a
  // transaction whose end it did not hear of.
  void transaction(const std::function<void()>& action, bool once = false);

  [[noreturn]] void fail_damaged(const std::string& why) const;

 private:
  struct Failure;
  using Settings = std::vector<std::pair<std::string, std::string>>;

  Settings settings() const;
  void connect();
  void reconnect();
  void disconnect();
  void prepare_session();
  void run_once(const std::string& sql, const std::vector<std::string>& parameters, const Take& take);
  libpq::Result* next_result(double end);
  void wait(bool also_writable, double end);
  void repeat(const std::function<void()>& action);
  void transact(const std::function<void()>& action, bool once);
  bool was_committed(const std::string& transaction);
  [[noreturn]] void fail_connection(const std::string& why) const;
  [[noreturn]] void raise(const Failure& failure) const;
  [[noreturn]] void throw_failure(const libpq::Result* result);

  const libpq::Functions& library_;
  const std::string name_;
  const std::string url_;
  const bool read_only_;
  std::string role_;
  libpq::Connection* connection_ = nullptr;
  bool in_transaction_ = false;
};

}  // namespace tc
