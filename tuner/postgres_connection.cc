#include "tuner/postgres_connection.h"

#include <poll.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "ir/error.h"

namespace tc {
namespace {

constexpr int kConnectSeconds = 10;
// A server that was killed replays its log before it lets anyone in.
constexpr int kReconnectSeconds = 30;
// For the server to say what became of a transaction.
constexpr int kOutcomeSeconds = 10;
constexpr int kStatementSeconds = 60;
constexpr int kLockSeconds = 20;
// How long tc waits for the end of a statement by its own clock, since a server may ignore its limit.
constexpr double kAnswerSeconds = kStatementSeconds + 15;
constexpr int kMaxConflicts = 20;  // of one transaction
constexpr int kMaxLosses = 10;     // of the connection during one action
constexpr int kOldestServer = 130000;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Words of the server or of libpq, made fit for a message: printable ASCII in one line, shortened.
std::string shown(const char* words) {
  std::string result(words == nullptr ? "" : words, words == nullptr ? 0 : strnlen(words, 401));
  while (!result.empty() && result.back() == '\n') result.pop_back();
  if (result.size() > 400) result = result.substr(0, 397) + "...";
  for (char& c : result) {
    if (c == '\n' || c == '\t') c = ' ';
    if (c < 32 || c > 126) c = '?';
  }
  return result;
}

// Whether the URL's first @ is where libpq looks for it: after the user and the password. Otherwise a part of
// the password would be taken for the name of a host, and be shown.
bool has_clear_password(const std::string& place) {
  if (place.compare(0, 2, "//") != 0) return false;
  const size_t at = place.find('@');
  return at == std::string::npos ||
         (place.find('@', at + 1) == std::string::npos && at < place.find_first_of("/?#", 2));
}

// One of several hosts that a URL names: an empty one is the server's socket.
bool is_this_machine(const std::string& host) {
  return host.empty() || host[0] == '/' || host[0] == '@' || host == "localhost" || host == "::1" ||
         (host.compare(0, 4, "127.") == 0 && host.find_first_not_of("0123456789.") == std::string::npos);
}

bool all_on_this_machine(const std::string& hosts) {
  for (size_t begin = 0; begin <= hosts.size();) {
    const size_t end = std::min(hosts.find(',', begin), hosts.size());
    if (!is_this_machine(hosts.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

// Moves options into a map; those without a value are left out.
std::map<std::string, std::string> values_of(const libpq::Functions& library, libpq::Option* options) {
  std::map<std::string, std::string> values;
  for (const libpq::Option* option = options; option != nullptr && option->keyword != nullptr; ++option) {
    if (option->value != nullptr) values[option->keyword] = option->value;
  }
  if (options != nullptr) library.PQconninfoFree(options);
  return values;
}

}  // namespace

// Why a statement failed.
struct PostgresConnection::Failure {
  std::string state;  // SQLSTATE; empty where no server answered
  std::string message;
  bool is_lost = false;  // the connection

  bool is_conflict() const {
    return state == "40P01" || state == "40001" || state == "23505" || state == "42710";
  }
};

std::string shown_postgres_url(const std::string& place) {
  if (!has_clear_password(place)) return "postgresql:";
  const std::string shown = place.substr(0, place.find_first_of("?#"));
  const size_t at = shown.find('@');
  if (at == std::string::npos) return "postgresql:" + shown;
  return "postgresql:" + shown.substr(0, std::min(shown.find(':'), at)) + shown.substr(at);
}

std::string PostgresRow::text(int column) const {
  return {library_.PQgetvalue(result_, row_, column),
          static_cast<size_t>(library_.PQgetlength(result_, row_, column))};
}

int64_t PostgresRow::integer(int column) const {
  const std::string digits = text(column);
  int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

double PostgresRow::number(int column) const {
  const std::string digits = text(column);
  double value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::string postgres_array(const std::vector<std::string>& elements) {
  std::string array = "{";
  for (const std::string& element : elements) {
    array += array.size() == 1 ? "\"" : ",\"";
    for (const char c : element) {
      if (c == '"' || c == '\\') array += '\\';
      array += c;
    }
    array += '"';
  }
  return array + "}";
}

PostgresConnection::PostgresConnection(const std::string& place, bool read_only)
    : library_(libpq::load()),
      name_(shown_postgres_url(place)),
      url_("postgresql:" + place),
      read_only_(read_only) {
  if (!has_clear_password(place))
    fail(ErrorKind::Log,
         "the log's URL has not the form postgresql://USER@HOST:PORT/DATABASE?OPTION=VALUE&...; in names and "
         "passwords write @ as %40, / as %2F, : as %3A, ? as %3F and # as %23");
  try {
    connect();
  } catch (const Failure& failure) {
    raise(failure);
  }
}

PostgresConnection::~PostgresConnection() { disconnect(); }

// What libpq is asked for: what the URL says, and what it does not say in tc's own way.
PostgresConnection::Settings PostgresConnection::settings() const {
  char* why = nullptr;
  libpq::Option* parsed = library_.PQconninfoParse(url_.c_str(), &why);
  library_.PQfreemem(why);  // not shown, for it may quote the password
  if (parsed == nullptr)
    fail(
        ErrorKind::Log, name_,
        ": the URL cannot be read; it has the form postgresql://USER@HOST:PORT/DATABASE?OPTION=VALUE&... with "
        "the options of libpq, other characters being written as %XX");
  std::map<std::string, std::string> values = values_of(library_, parsed);
  const std::map<std::string, std::string> defaults = values_of(library_, library_.PQconndefaults());
  // A service of libpq's configuration names a host that is not known here: it may be anywhere.
  bool is_remote = values.count("service") > 0;
  for (const char* key : {"host", "hostaddr"}) {
    if (!values.count(key) && defaults.count(key) && !is_remote) values[key] = defaults.at(key);
  }
  const std::string address = values["hostaddr"];  // goes before the host
  is_remote =
      is_remote || !(address.empty() ? all_on_this_machine(values["host"]) : is_this_machine(address));
  if (is_remote) {
    std::string& mode = values["sslmode"];
    if (!mode.empty() && mode != "verify-full")
      fail(ErrorKind::Log, name_, ": with sslmode=", shown(mode.c_str()),
           " another machine could pass itself off as the server; write sslmode=verify-full, and "
           "sslrootcert=FILE with the certificate of the authority that has signed the server's");
    mode = "verify-full";
    values["gssencmode"] = "disable";  // which would come before TLS
  }
  values["client_encoding"] = "UTF8";
  for (const auto& [key, value] : {std::pair<const char*, std::string>{"application_name", "tc"},
                                   {"connect_timeout", std::to_string(kConnectSeconds)},
                                   {"keepalives_idle", "30"},
                                   {"keepalives_interval", "10"},
                                   {"keepalives_count", "3"},
                                   {"tcp_user_timeout", "30000"}})
    values.emplace(key, value);
  return {values.begin(), values.end()};
}

void PostgresConnection::connect() {
  const Settings all = settings();
  std::vector<const char*> keywords, values;
  for (const auto& [key, value] : all) {
    if (value.empty()) continue;
    keywords.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  connection_ = library_.PQconnectdbParams(keywords.data(), values.data(), 0);
  if (connection_ == nullptr || library_.PQstatus(connection_) != libpq::kConnectionOk) {
    const std::string why = connection_ == nullptr ? "" : shown(library_.PQerrorMessage(connection_));
    disconnect();
    throw Failure{"", why, true};
  }
  library_.PQsetNoticeProcessor(connection_, [](void*, const char*) {}, nullptr);
  library_.PQsetnonblocking(connection_, 1);
  if (library_.PQserverVersion(connection_) < kOldestServer) {
    disconnect();
    fail(ErrorKind::Log, name_, ": the server is older than PostgreSQL ", kOldestServer / 10000,
         "; use a newer one");
  }
  const char* encoding = library_.PQparameterStatus(connection_, "server_encoding");
  if (encoding == nullptr || std::strcmp(encoding, "UTF8") != 0) {
    const std::string found = shown(encoding);
    disconnect();
    fail(ErrorKind::Log, name_, ": the database's encoding is ", found,
         ", and a log needs UTF8: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0");
  }
  prepare_session();
}

// Names in statements are those of PostgreSQL itself or have their schema, whatever others have created.
void PostgresConnection::prepare_session() {
  const auto milliseconds = [](int seconds) { return std::to_string(1000 * seconds); };
  const std::pair<const char*, std::string> wanted[] = {
      {"search_path", "pg_catalog, pg_temp"},
      {"statement_timeout", milliseconds(kStatementSeconds)},
      {"lock_timeout", milliseconds(kLockSeconds)},
      {"idle_in_transaction_session_timeout", milliseconds(kStatementSeconds)},
      {"synchronous_commit", "on"},
      {"default_transaction_isolation", "read committed"},
      {"default_transaction_read_only", read_only_ ? "on" : "off"},
      {"client_min_messages", "error"},
      {"extra_float_digits", "1"},
      {"bytea_output", "hex"},
      {"standard_conforming_strings", "on"},
      {"jit", "off"},
  };
  std::string sql = "SELECT session_user";
  std::vector<std::string> parameters;
  for (const auto& [setting, value] : wanted) {
    parameters.push_back(value);
    sql += text(", pg_catalog.set_config('", setting, "', $", parameters.size(), ", false)");
  }
  run_once(sql, parameters, [&](const PostgresRow& row) { role_ = row.text(0); });
}

void PostgresConnection::disconnect() {
  if (connection_ != nullptr) library_.PQfinish(connection_);
  connection_ = nullptr;
}

// A server that is started again after a crash takes some seconds before it answers.
void PostgresConnection::reconnect() {
  for (const double end = now() + kReconnectSeconds;; sleep_for(0.2)) {
    disconnect();
    try {
      return connect();
    } catch (const Failure& failure) {
      if (!failure.is_lost || now() > end) throw;
    }
  }
}

void PostgresConnection::wait(bool also_writable, double end) {
  pollfd socket = {library_.PQsocket(connection_), static_cast<short>(POLLIN | (also_writable ? POLLOUT : 0)),
                   0};
  const double left = end - now();
  if (left <= 0) {
    disconnect();
    throw Failure{"57014", "no answer", false};
  }
  poll(&socket, 1, static_cast<int>(std::min(left, 1.0) * 1000) + 1);
}

libpq::Result* PostgresConnection::next_result(double end) {
  while (library_.PQisBusy(connection_)) {
    wait(false, end);
    if (!library_.PQconsumeInput(connection_)) throw_failure(nullptr);
  }
  return library_.PQgetResult(connection_);
}

// The failure that a result or, without one, the connection tells of.
void PostgresConnection::throw_failure(const libpq::Result* result) {
  Failure failure;
  if (result != nullptr) {
    failure.state = shown(library_.PQresultErrorField(result, libpq::kStateField));
    failure.message = shown(library_.PQresultErrorField(result, libpq::kMessageField));
  }
  if (failure.message.empty()) failure.message = shown(library_.PQerrorMessage(connection_));
  const bool is_end = failure.state.compare(0, 2, "08") == 0 || failure.state.compare(0, 4, "57P0") == 0;
  failure.is_lost = is_end || library_.PQstatus(connection_) != libpq::kConnectionOk;
  if (failure.is_lost) disconnect();
  throw failure;
}

void PostgresConnection::run_once(const std::string& sql, const std::vector<std::string>& parameters,
                                  const Take& take) {
  if (connection_ == nullptr) reconnect();
  std::vector<const char*> values;
  for (const std::string& parameter : parameters) values.push_back(parameter.c_str());
  const double end = now() + kAnswerSeconds;
  if (!library_.PQsendQueryParams(connection_, sql.c_str(), static_cast<int>(values.size()), nullptr,
                                  values.data(), nullptr, nullptr, 0) ||
      !library_.PQsetSingleRowMode(connection_))
    throw_failure(nullptr);
  for (int left; (left = library_.PQflush(connection_)) != 0;) {
    if (left < 0) throw_failure(nullptr);
    wait(true, end);
    if (!library_.PQconsumeInput(connection_)) throw_failure(nullptr);
  }
  const auto clear = [&](libpq::Result* result) { library_.PQclear(result); };
  std::optional<Failure> failure;
  while (const std::unique_ptr<libpq::Result, decltype(clear)> result{next_result(end), clear}) {
    const int status = library_.PQresultStatus(result.get());
    if (status == libpq::kSingleRow && take) {
      try {
        take(PostgresRow(library_, result.get(), 0));
      } catch (...) {
        disconnect();  // the rest of the rows is still to come
        throw;
      }
    } else if (status != libpq::kSingleRow && status != libpq::kRowsOk && status != libpq::kCommandOk) {
      try {
        throw_failure(result.get());
      } catch (const Failure& found) {
        failure = found;
      }
      if (connection_ == nullptr) break;
    }
  }
  if (failure) throw *failure;
}

// Runs the action, and again where that helps. A server that has just come back may be stopped again.
void PostgresConnection::repeat(const std::function<void()>& action) {
  double first_loss = 0;
  for (int conflicts = 0, losses = 0;;) {
    try {
      return action();
    } catch (const Failure& failure) {
      if (failure.is_lost && ++losses == 1) first_loss = now();
      const bool again = failure.is_lost ? losses <= kMaxLosses && now() < first_loss + kReconnectSeconds
                                         : failure.is_conflict() && ++conflicts < kMaxConflicts;
      if (!again) raise(failure);
    }
    static thread_local std::minstd_rand random(std::random_device{}());
    sleep_for(std::uniform_real_distribution<>(0, 0.02 * (1 + conflicts))(random));
  }
}

void PostgresConnection::run(const std::string& sql, const std::vector<std::string>& parameters,
                             const Take& take) {
  if (in_transaction_) return run_once(sql, parameters, take);
  bool taken = false;
  const auto take_one = [&](const PostgresRow& row) {
    taken = true;
    if (take) take(row);
  };
  repeat([&] {
    try {
      run_once(sql, parameters, take_one);
    } catch (const Failure& failure) {
      if (taken) raise(failure);
      throw;
    }
  });
}

std::optional<std::string> PostgresConnection::value(const std::string& sql,
                                                     const std::vector<std::string>& parameters) {
  std::optional<std::string> first;
  run(sql, parameters, [&](const PostgresRow& row) {
    if (!first) first = row.text(0);
  });
  return first;
}

void PostgresConnection::transaction(const std::function<void()>& action, bool once) {
  repeat([&] { transact(action, once); });
}

void PostgresConnection::transact(const std::function<void()>& action, bool once) {
  std::string number;  // of the transaction
  bool committing = false;
  in_transaction_ = true;
  try {
    run_once("BEGIN", {}, nullptr);
    action();
    if (once)
      run_once("SELECT pg_current_xact_id()", {}, [&](const PostgresRow& row) { number = row.text(0); });
    committing = true;
    run_once("COMMIT", {}, nullptr);
    in_transaction_ = false;
  } catch (const Failure& failure) {
    in_transaction_ = false;
    if (connection_ != nullptr) run_once("ROLLBACK", {}, nullptr);
    if (once && committing && failure.is_lost && was_committed(number)) return;
    throw;
  } catch (...) {
    in_transaction_ = false;
    disconnect();
    throw;
  }
}

// What became of a transaction during whose end the connection was lost. After a crash of the server another
// transaction may have been given the number of one that was lost, so this is not to be asked where losing a
// change would matter more than doing it twice.
bool PostgresConnection::was_committed(const std::string& transaction) {
  std::string status = "in progress";
  try {
    for (const double end = now() + kOutcomeSeconds; status == "in progress" && now() < end; sleep_for(0.1))
      run_once("SELECT pg_xact_status($1::xid8)", {transaction},
               [&](const PostgresRow& row) { status = row.text(0); });
  } catch (const Failure& failure) {
    // The server has not come to that number yet: it forgot the transaction when it crashed.
    if (failure.state == "22023") status = "aborted";
  }
  if (status != "committed" && status != "aborted")
    fail(
        ErrorKind::Log, name_,
        ": the connection was lost while the server wrote, and it does not say whether it has; look at the log "
        "before you run the command again");
  return status == "committed";
}

void PostgresConnection::fail_damaged(const std::string& why) const {
  fail(ErrorKind::Log, name_, ": the log is damaged (", why,
       "); put a copy of the database back, or give another log");
}

void PostgresConnection::raise(const Failure& failure) const {
  const std::string& state = failure.state;
  const std::string& why = failure.message;
  if (failure.is_lost && role_.empty())
    fail(ErrorKind::Log, name_, ": cannot be opened (", why,
         "); check that the server runs and lets this role in: its password belongs in ~/.pgpass or in the "
         "file that PGPASSFILE names, the certificate of its authority in the file of sslrootcert");
  if (failure.is_lost)
    fail(ErrorKind::Log, name_, ": the connection was lost (", why,
         "); run the command again when the server is there: what was recorded before is kept");
  if (state == "42501")
    fail(ErrorKind::Log, name_, ": the role ", shown(role_.c_str()), " may not do this (", why,
         "); the log's owner lets it read by GRANT tc_reader TO ", shown(role_.c_str()),
         ", and write by GRANT tc_writer TO ", shown(role_.c_str()));
  if (state.compare(0, 2, "53") == 0 || state.compare(0, 2, "58") == 0)
    fail(ErrorKind::Log, name_, ": cannot be written (", why,
         "); free some space on the server: what was recorded before is kept");
  if (state == "25006")
    fail(ErrorKind::Log, name_, ": the server takes no changes (", why,
         "); give the address of the one that does");
  if (state == "55P03")
    fail(ErrorKind::Log, name_, ": another process has been writing for ", kLockSeconds,
         " seconds; try again when it is done");
  if (state == "57014")
    fail(ErrorKind::Log, name_, ": a statement took more than ", kStatementSeconds,
         " seconds, which none on a log of tc does; ask who runs the server what it is doing");
  if (state.compare(0, 2, "42") == 0 || state.compare(0, 2, "22") == 0) fail_damaged(why);
  fail(ErrorKind::Log, name_, ": ", why);
}

}  // namespace tc
