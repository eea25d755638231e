// What is particular to logs on a PostgreSQL server: who may do what, what is trusted, and what a server or
// its other users can do to a log.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/stores.h"
#include "tuner/postgres_connection.h"

namespace tc::testing {
namespace {

using Mode = RecordStore::Mode;

std::string place_of(const std::string& url) { return url.substr(url.find(':') + 1); }

// Roles are the whole server's, so each has a name of its own.
std::string fresh_user() {
  static int number = 0;
  return text("user", ++number);
}

class TunerPostgresStore : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = missing_store("postgresql"); !why.empty()) GTEST_SKIP() << why;
    server_ = PostgresServer::get();
    fresh();
  }

  void fresh() {
    database_ = server_->fresh_database("store");
    url_ = server_->url(database_);
    make_store(url_);
  }

  // The URL of a new user.
  std::string of_user(const std::string& member_of) {
    user_ = fresh_user();
    server_->add_user(user_, member_of);
    return server_->url(database_, user_);
  }

  // Statements of who may do anything with the log.
  void tamper(const std::vector<std::string>& statements) const { server_->execute(database_, statements); }

  PostgresServer* server_ = nullptr;
  std::string database_, url_, user_;
};

TEST_F(TunerPostgresStore, NamesHaveNoPassword) {
  const auto shown = [](const char* url) { return shown_store(url); };
  EXPECT_EQ(shown("postgresql://me:secret@host:5432/db?sslmode=verify-full&password=secret"),
            "postgresql://me@host:5432/db");
  EXPECT_EQ(shown("postgres://me:secret@host/db"), "postgresql://me@host/db");
  EXPECT_EQ(shown("postgresql://me@host/db"), "postgresql://me@host/db");
  EXPECT_EQ(shown("postgresql:///db?password=secret"), "postgresql:///db");
  EXPECT_EQ(shown("postgresql://:secret@host:1/db"), "postgresql://@host:1/db");
  EXPECT_EQ(shown("postgresql://host:1/db"), "postgresql://host:1/db");
  EXPECT_EQ(shown("sqlite:a@b?c"), "sqlite:a@b?c");
  // What libpq would take for a host may be a part of the password.
  for (const char* url :
       {"postgresql://me:sec@ret@host/db", "postgresql://me:sec/ret@host/db", "postgresql:me:secret",
        "postgresql://me:sec?ret@host/db", "postgresql://host/db?user=me@secret"}) {
    EXPECT_EQ(shown(url), "postgresql:");
    const std::string why = refusal([&] { open_store(url, Mode::Read); });
    EXPECT_NE(why.find("write @ as %40"), std::string::npos) << why;
    EXPECT_EQ(why.find("ret"), std::string::npos) << why;
  }
  EXPECT_EQ(open_store(url_, Mode::Read)->name(), shown_store(url_));
  EXPECT_EQ(open_store(url_, Mode::Read)->name().find("admin:"), std::string::npos);
  const auto why = [](const std::string& url) {
    const std::string words = refusal([&] { open_store(url, Mode::Read); });
    EXPECT_EQ(words.find("secret"), std::string::npos) << words;
    EXPECT_EQ(words.find('\n'), std::string::npos) << words;
    return words;
  };
  EXPECT_NE(why("postgresql://me:se%zzcret@127.0.0.1/db").find("the URL cannot be read"), std::string::npos);
  EXPECT_NE(why("postgresql://me:secret@127.0.0.1:1/db").find("check that the server runs"),
            std::string::npos);
  std::string wrong = url_;
  wrong.replace(wrong.find("admin@"), 5, "secret");
  EXPECT_NE(why(wrong).find("password authentication failed for user \"tc_admin\""), std::string::npos)
      << why(wrong);
  EXPECT_NE(why(wrong).find("its password belongs in ~/.pgpass"), std::string::npos);
}

TEST_F(TunerPostgresStore, OtherMachinesNeedACertificateOfTheirName) {
  const auto why = [](const std::string& url) { return refusal([&] { open_store(url, Mode::Read); }); };
  for (const char* mode : {"disable", "allow", "prefer", "require", "verify-ca", "no"}) {
    for (const char* place :
         {"//me@db.test/x?", "///x?host=db.test&", "//127.0.0.1,db.test/x?", "///x?hostaddr=192.0.2.1&",
          "//localhost.db.test/x?", "//127.0.0.1.db.test/x?", "///x?service=lab&"}) {
      const std::string words = why(text("postgresql:", place, "sslmode=", mode));
      EXPECT_NE(words.find(text(": with sslmode=", mode,
                                " another machine could pass itself off as the server; write "
                                "sslmode=verify-full, and sslrootcert=FILE with")),
                std::string::npos)
          << place << " " << words;
    }
  }
  setenv("PGHOST", "db.test", 1);
  EXPECT_NE(why("postgresql:///x?sslmode=require").find("could pass itself off"), std::string::npos);
  unsetenv("PGHOST");
  // Where nothing is said, the certificate is verified all the same. 0.0.0.0 leads here, but is not said to.
  const auto at = [&](const char* host, const std::string& options) {
    const size_t begin = url_.find('@') + 1;
    std::string url = url_.substr(0, url_.find('?')) + options;
    return url.replace(begin, url.find(':', begin) - begin, host);
  };
  const std::string authority = url_.substr(url_.find("sslrootcert="));
  EXPECT_NE(why(at("0.0.0.0", "?" + authority)).find("does not match host name \"0.0.0.0\""),
            std::string::npos)
      << why(at("0.0.0.0", "?" + authority));
  EXPECT_NE(why(at("0.0.0.0", "?sslrootcert=/none")).find("root certificate file \"/none\" does not exist"),
            std::string::npos);
  setenv("PGSSLMODE", "disable", 1);
  EXPECT_NE(why(at("0.0.0.0", "?" + authority)).find("does not match host name"), std::string::npos);
  unsetenv("PGSSLMODE");
  EXPECT_EQ(open_store(at("localhost", "?sslmode=verify-full&" + authority), Mode::Read)->integrity(), "ok");
}

TEST_F(TunerPostgresStore, EachRoleMayDoItsPart) {
  const std::string reader = of_user("tc_reader"), reader_name = user_;
  const std::string writer = of_user("tc_writer"), writer_name = user_;
  user_ = fresh_user();
  server_->add_user(user_, "pg_monitor");
  server_->execute(database_, {text("GRANT CONNECT ON DATABASE \"", database_, "\" TO ", user_)});
  const std::string stranger = server_->url(database_, user_);
  const auto why = [](const std::string& url, Mode mode) { return refusal([&] { open_store(url, mode); }); };
  EXPECT_NE(why(stranger, Mode::Read)
                .find("may not read this log; its owner allows it by GRANT tc_reader TO " + user_),
            std::string::npos);

  open_store(writer, Mode::Write)->add({some_record("w", 1), some_record("v", 1)});
  EXPECT_EQ(open_store(reader, Mode::Read)->records({}).size(), 2u);
  EXPECT_NE(
      why(reader, Mode::Write)
          .find("the role " + reader_name +
                " may only read this log; its owner allows it to write by GRANT tc_writer TO " + reader_name),
      std::string::npos);
  // Whoever leaves tc out has no other rights.
  const auto may_not = [&](const std::string& url, const std::string& sql) {
    PostgresConnection connection(place_of(url), false);
    const std::string words = refusal([&] { connection.run(sql); });
    EXPECT_NE(words.find(" may not do this ("), std::string::npos) << sql << "\n" << words;
  };
  for (const char* sql : {"UPDATE tc_log.record SET ratio = 0.1", "DELETE FROM tc_log.record",
                          "INSERT INTO tc_log.session VALUES ('', '', 0)"})
    may_not(reader, sql);
  for (const std::string& url : {reader, writer}) {
    for (const char* sql :
         {"DELETE FROM tc_log.record", "UPDATE tc_log.meta SET schema = 9", "TRUNCATE tc_log.record",
          "UPDATE tc_log.workload SET key = ''", "CREATE TABLE tc_log.t (a int)",
          "CREATE TABLE public.t (a int)", "DROP TABLE tc_log.record",
          "ALTER TABLE tc_log.record DISABLE TRIGGER ALL", "CREATE TEMP TABLE record (a int)"}) {
      PostgresConnection connection(place_of(url), false);
      EXPECT_FALSE(refusal([&] { connection.run(sql); }).empty()) << sql;
    }
  }
  EXPECT_EQ(open_store(reader, Mode::Read)->stats().by_author,
            (std::map<std::string, int64_t>{{writer_name, 2}}));
}

TEST_F(TunerPostgresStore, SaysWhoWroteWhateverAWriterClaims) {
  const std::string one = of_user("tc_writer"), name_of_one = user_;
  const std::string other = of_user("tc_writer"), name_of_other = user_;
  open_store(one, Mode::Write)->add({some_record("w", 1), some_record("v", 1)});
  open_store(other, Mode::Write)->choose({some_record("w", 1)});
  const auto authors = [&] { return open_store(url_, Mode::Read)->stats().by_author; };
  EXPECT_EQ(authors(), (std::map<std::string, int64_t>{{name_of_one, 2}})) << "who chooses has not measured";
  PostgresConnection(place_of(other), false)
      .run("UPDATE tc_log.record SET ratio = 0.1, chosen = true, author = $1 WHERE NOT chosen",
           {name_of_one});
  EXPECT_EQ(authors(), (std::map<std::string, int64_t>{{name_of_one, 1}, {name_of_other, 1}}));
  PostgresConnection(place_of(other), false).run("UPDATE tc_log.record SET author = $1", {"nobody"});
  EXPECT_EQ(authors(), (std::map<std::string, int64_t>{{name_of_other, 2}}));
  // A record cannot pass for another one, nor be larger than tc allows.
  for (const char* sql :
       {"UPDATE tc_log.record SET trace = 'x'", "UPDATE tc_log.record SET threads = 0",
        "UPDATE tc_log.record SET detail = repeat('x', 4097)", "UPDATE tc_log.record SET median = 0"}) {
    PostgresConnection connection(place_of(other), false);
    EXPECT_NE(refusal([&] { connection.run(sql); }).find("violates check constraint"), std::string::npos)
        << sql;
  }
}

TEST_F(TunerPostgresStore, ALogOfTheFirstVersionIsReadAndItsOwnerUpgradesIt) {
  open_store(url_, Mode::Write)->add({some_record("w", 1)});
  tamper({"UPDATE tc_log.meta SET schema = 1", "DROP INDEX tc_log.record_by_number"});
  EXPECT_EQ(open_store(url_, Mode::Read)->stats().schema, 1);
  EXPECT_EQ(open_store(url_, Mode::Read)->number_before_last(0), 1);
  EXPECT_EQ(refusal([&] { open_store(url_, Mode::Write); }),
            shown_store(url_) +
                ": the log has schema 1 and this tc writes 2; its owner upgrades it by `python -m tc log "
                "upgrade URL`");
  upgrade_store(url_);
  open_store(url_, Mode::Write)->add({some_record("w", 1, "unroll b")});
  EXPECT_EQ(open_store(url_, Mode::Read)->stats().schema, 2);
  // Whoever follows a log finds its last records by the index.
  PostgresConnection server(place_of(url_), true);
  server.run("SET enable_seqscan = off");
  std::string plan;
  server.run("EXPLAIN SELECT * FROM tc_log.record WHERE number > 1 ORDER BY number LIMIT 5", {},
             [&](const PostgresRow& row) { plan += row.text(0) + "\n"; });
  EXPECT_NE(plan.find("Index Scan using record_by_number"), std::string::npos) << plan;
}

TEST_F(TunerPostgresStore, RefusesASchemaFromTheFuture) {
  tamper({"UPDATE tc_log.meta SET schema = 7", "ALTER TABLE tc_log.record ADD COLUMN more text"});
  for (const auto& use : {std::function<void()>([&] { open_store(url_, Mode::Read); }),
                          std::function<void()>([&] { open_store(url_, Mode::Write); }),
                          std::function<void()>([&] { make_store(url_); }),
                          std::function<void()>([&] { upgrade_store(url_); })})
    EXPECT_EQ(refusal(use),
              shown_store(url_) +
                  ": the log has schema 7 and this tc knows up to 2; update tc, or give another log");
}

TEST_F(TunerPostgresStore, RefusesTablesThatAreNotThoseOfTc) {
  const std::string endless =
      "AS SELECT i AS number, ''::bytea AS digest, ''::bytea AS workload, 'x'::text AS target FROM generate_series(1, "
      "1000000000000) i";
  const std::pair<std::vector<std::string>, const char*> attacks[] = {
      {{"DROP TABLE tc_log.record", "CREATE VIEW tc_log.record " + endless},
       "the part 'view record' is none of those that tc makes"},
      {{"DROP TABLE tc_log.meta",
        "CREATE VIEW tc_log.meta AS SELECT 'tc log'::text AS application, 1 AS schema"},
       "the table 'meta' is missing"},
      {{"DROP TABLE tc_log.session"}, "the column session.digest is missing"},
      {{"UPDATE tc_log.meta SET schema = 0"}, "it has no schema version"},
      {{"INSERT INTO tc_log.meta VALUES ('tc log', 1)"}, "it has no schema version"},
      {{"DELETE FROM tc_log.meta"}, "it has no schema version"},
      {{"ALTER TABLE tc_log.record ALTER COLUMN median DROP NOT NULL"},
       "the part 'column record.median' is not defined as tc defines it"},
      {{"ALTER TABLE tc_log.record ALTER COLUMN seed TYPE text"},
       "the part 'column record.seed' is not defined"},
      {{"ALTER TABLE tc_log.record ADD COLUMN more text"}, "the part 'column record.more' is none of those"},
      {{"ALTER TABLE tc_log.record DROP CONSTRAINT trace_size"},
       "the constraint record.trace_size is missing"},
      {{"ALTER TABLE tc_log.record ADD CHECK (pg_sleep(1) IS NOT NULL)"}, "is none of those that tc makes"},
      {{"ALTER TABLE tc_log.record DISABLE TRIGGER record_author"},
       "the part 'trigger record.record_author' is not defined as"},
      {{"ALTER TABLE tc_log.record ENABLE ROW LEVEL SECURITY"}, "the part 'table record' is not defined as"},
      {{"CREATE POLICY p ON tc_log.record USING (false)"}, "the part 'policy record.p' is none of those"},
      {{"CREATE RULE r AS ON INSERT TO tc_log.session DO INSTEAD NOTHING"},
       "the part 'rule session.r' is none of"},
      {{"CREATE INDEX i ON tc_log.record (md5(detail))"}, "the part 'index i' is none of those"},
      {{"CREATE TABLE public.child () INHERITS (tc_log.record)"},
       "the part 'table record' is not defined as"},
      {{"ALTER TABLE tc_log.record OWNER TO tc_writer"}, " is not defined as tc defines it"},
      {{"CREATE TABLE tc_log.\"a\x1b[2J\" (a int)"}, "is none of those"},
      {{"CREATE FUNCTION tc_log.f() RETURNS int LANGUAGE sql AS 'SELECT 1'"},
       "the part 'function f' is none of"},
      {{"DO $$ BEGIN FOR i IN 1..500 LOOP EXECUTE format('CREATE TABLE tc_log.t%s (a int)', i); END LOOP; END $$"},
       "is none of those"},
  };
  for (const auto& [statements, part] : attacks) {
    fresh();
    open_store(url_, Mode::Write)->add({some_record("w", 1)});
    tamper(statements);
    for (const Mode mode : {Mode::Read, Mode::Write}) {
      const std::string why = refusal([&] { open_store(url_, mode); });
      EXPECT_NE(why.find(part), std::string::npos) << statements[0] << "\n" << why;
      EXPECT_NE(why.find("the log is damaged ("), std::string::npos) << why;
      EXPECT_NE(why.find("put a copy of the database back, or give another log"), std::string::npos) << why;
      EXPECT_EQ(why.find('\x1b'), std::string::npos);
    }
  }
}

// Rows of who may switch the tables' constraints off.
TEST_F(TunerPostgresStore, LeavesOutRowsThatNoTcWrites) {
  const std::pair<const char*, const char*> rows[] = {
      {"median = -1", "it is marked as measured and its times are no times"},
      {"median = 'NaN'", "its times are no times"},
      {"threads = 2147483647", "2147483647 threads"},
      {"outcome = 77", "the outcome 77 is unknown"},
      {"unit = repeat('x', 5000)", "target, device, unit or build is empty, too long"},
      {"target = E'\\x1b[2J'", "other characters than printable ASCII"},
      {"trace = repeat('x', 70000000)", "more than 500 lines or 65536 bytes"},
      {"detail = E'\\x1b[2J'", "the detail has control characters"},
      {"language_major = 2", "the trace is in language 2.0"},
  };
  for (const auto& [change, part] : rows) {
    fresh();
    open_store(url_, Mode::Write)->add({some_record("w", 1), some_record("w", 2, "unroll c")});
    std::vector<std::string> statements;
    for (const char* name :
         {"record_digest", "record_outcome", "record_threads", "record_time", "unit_size", "trace_size"})
      statements.push_back(text("ALTER TABLE tc_log.record DROP CONSTRAINT ", name));
    statements.push_back(text("UPDATE tc_log.record SET ", change, " WHERE trace LIKE '%unroll c%'"));
    for (const char* name :
         {"record_digest", "record_outcome", "record_threads", "record_time", "unit_size", "trace_size"})
      statements.push_back(
          text("ALTER TABLE tc_log.record ADD CONSTRAINT ", name, " CHECK (threads > 0) NOT VALID"));
    tamper(statements);
    std::vector<std::string> problems;
    EXPECT_EQ(open_store(url_, Mode::Read)->records({}, &problems).size(), 1u) << change;
    ASSERT_EQ(problems.size(), 1u) << change;
    EXPECT_NE(problems[0].find(part), std::string::npos) << problems[0];
    EXPECT_LT(problems[0].size(), 1000u);
  }
}

TEST_F(TunerPostgresStore, ReadsNoMoreTextThanAFewTimesTheDatabase) {
  open_store(url_, Mode::Write)->add({some_record(std::string(1 << 20, 'k'), 1)});
  tamper(
      {"INSERT INTO tc_log.record (digest, workload, target, device, unit, threads, trace, outcome, detail, "
       "samples, minimum, median, spread, ratio, worst_error, build, language_major, language_minor, seed, "
       "created, author) SELECT sha256(convert_to(encode(workload, 'hex') || E'\\n' || target || E'\\n' || device "
       "|| E'\\n' || threads || E'\\n' || build || E'\\n' || i, 'UTF8')), workload, target, device, unit, "
       "threads, i::text, outcome, detail, samples, minimum, median, spread, ratio, worst_error, build, "
       "language_major, language_minor, seed, created, '' FROM tc_log.record, generate_series(1, 300) i"});
  const auto log = open_store(url_, Mode::Read);
  EXPECT_NE(refusal([&] { log->records({}); }).find("its records have more than 1"), std::string::npos);
  EXPECT_EQ(log->stats().records, 301) << "the store can be used after that";
}

TEST_F(TunerPostgresStore, EndsAStatementThatTakesTooLong) {
  PostgresConnection connection(place_of(url_), true);
  connection.run("SELECT set_config('statement_timeout', '200', false)");
  EXPECT_NE(refusal([&] { connection.run("SELECT pg_sleep(20)"); }).find("a statement took more than"),
            std::string::npos);
  EXPECT_NE(refusal([&] { connection.run("DELETE FROM tc_log.record"); }).find("the server takes no changes"),
            std::string::npos);
  PostgresConnection waiting(place_of(url_), false), holding(place_of(url_), false);
  waiting.run("SELECT set_config('lock_timeout', '200', false)");
  holding.transaction([&] {
    holding.run("LOCK TABLE tc_log.record");
    EXPECT_NE(refusal([&] {
                waiting.run("INSERT INTO tc_log.record SELECT FROM tc_log.record");
              }).find("another process has been writing for"),
              std::string::npos);
  });
}

// The server ends connections, as it does when it is started again: nothing is lost, and nothing done twice.
TEST_F(TunerPostgresStore, ConnectsAgainWhereTheConnectionIsLost) {
  const auto log = open_store(url_, Mode::Write);
  const auto end_connections = [&] {
    PostgresServer::get()->execute(
        "postgres",
        {"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + database_ + "'"});
    usleep(50000);
  };
  end_connections();
  log->add({some_record("w", 1)});
  for (int i = 0; i < 3; ++i) {
    end_connections();
    log->add_seconds_spent("s", 1);
  }
  end_connections();
  EXPECT_EQ(log->seconds_spent("s"), 3);
  end_connections();
  log->choose({some_record("w", 1)});
  end_connections();
  ASSERT_EQ(log->records({}).size(), 1u);
  EXPECT_TRUE(log->records({})[0].chosen);
}

// The connection goes when the transaction has been committed, and its end is not heard of.
TEST_F(TunerPostgresStore, ATransactionIsDoneOnceWhoseEndIsNotHeardOf) {
  const auto log = open_store(url_, Mode::Write);
  log->add_seconds_spent("s", 1);
  const auto wait_for_standby = [&](const char* name) {
    server_->execute("postgres", {text("ALTER SYSTEM SET synchronous_standby_names = '", name, "'"),
                                  "SELECT pg_reload_conf()"});
    usleep(300000);
  };
  wait_for_standby("none");
  std::thread spending([&] { log->add_seconds_spent("s", 1); });
  PostgresConnection watching(place_of(url_), true);
  for (int tries = 0; tries < 100; ++tries, usleep(50000)) {
    if (watching.value(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = $1",
            {database_}))
      break;
  }
  spending.join();
  wait_for_standby("");
  EXPECT_EQ(log->seconds_spent("s"), 2);
}

TEST_F(TunerPostgresStore, ATransactionIsDoneOnceWhateverIsLost) {
  PostgresConnection connection(place_of(url_), false);
  int runs = 0;
  connection.transaction(
      [&] {
        ++runs;
        connection.run("UPDATE tc_log.session SET seconds = 0");
        if (runs == 1) {
          const std::string own = *connection.value("SELECT pg_backend_pid()");
          PostgresConnection(place_of(url_), false).run("SELECT pg_terminate_backend($1::integer)", {own});
          usleep(50000);
        }
      },
      true);
  EXPECT_EQ(runs, 2);
  EXPECT_NE(
      refusal([&] {
        connection.transaction([&] {
          const std::string own = *connection.value("SELECT pg_backend_pid()");
          PostgresConnection(place_of(url_), false).run("SELECT pg_terminate_backend($1::integer)", {own});
          usleep(50000);
        });
      }).find("the connection was lost (terminating connection due to administrator command); run the command again"),
      std::string::npos);
}

TEST_F(TunerPostgresStore, WritersOfTheSameKeysInAnyOrderAllEnd) {
  constexpr int kWriters = 4, kRounds = 4;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      const auto log = open_store(url_, Mode::Write);
      std::vector<Record> records;
      for (int i = 0; i < 200; ++i) records.push_back(some_record(text("w", i), 1 + writer));
      for (int round = 0; round < kRounds; ++round) {
        std::rotate(records.begin(), records.begin() + 37 * (writer + 1), records.end());
        log->add(records);
        log->choose(records);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const auto found = open_store(url_, Mode::Read)->records({});
  EXPECT_EQ(found.size(), 200u);
  for (const Record& record : found) EXPECT_TRUE(record.chosen);
}

TEST_F(TunerPostgresStore, EightAtOnceMakeOneLog) {
  database_ = server_->fresh_database("eight");
  url_ = server_->url(database_);
  std::vector<std::thread> makers;
  for (int i = 0; i < 8; ++i) makers.emplace_back([&] { make_store(url_); });
  for (std::thread& maker : makers) maker.join();
  EXPECT_EQ(open_store(url_, Mode::Write)->stats().schema, 2);
}

// A person who owns a database and may create roles needs no administrator; others cannot make a log.
TEST_F(TunerPostgresStore, IsMadeByWhoMayCreateRolesAndSchemas) {
  const std::string owner = fresh_user(), other = fresh_user();
  server_->add_user(owner, "pg_monitor");
  server_->add_user(other, "tc_writer");
  const std::string own = owner + "_database";
  server_->execute("postgres", {text("ALTER ROLE ", owner, " CREATEROLE"),
                                text("CREATE DATABASE ", own, " OWNER ", owner)});
  EXPECT_NE(refusal([&] {
              make_store(server_->url(own, other));
            }).find("the role " + other + " may not make a log; that needs"),
            std::string::npos);
  make_store(server_->url(own, owner));
  open_store(server_->url(own, other), Mode::Write)->add({some_record("w", 1)});
  EXPECT_EQ(open_store(server_->url(own, owner), Mode::Write)->records({}).size(), 1u);
  upgrade_store(server_->url(own, owner));
}

// A database that has nothing but the log is closed to others; one that has more stays as it is.
TEST_F(TunerPostgresStore, ClosesADatabaseOfItsOwnAlone) {
  user_ = fresh_user();
  server_->add_user(user_, "pg_monitor");
  const auto why = [&] { return refusal([&] { open_store(server_->url(database_, user_), Mode::Read); }); };
  EXPECT_NE(why().find("permission denied for database"), std::string::npos) << why();
  database_ = server_->fresh_database("shared");
  server_->execute(database_, {"CREATE TABLE public.song (name text)"});
  make_store(server_->url(database_));
  EXPECT_NE(why().find("may not read this log"), std::string::npos) << why();
}

TEST_F(TunerPostgresStore, NeedsADatabaseOfUtf8) {
  server_->execute("postgres", {"CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"});
  EXPECT_NE(refusal([&] {
              make_store(server_->url("latin"));
            }).find("the database's encoding is LATIN1, and a log needs UTF8"),
            std::string::npos);
}

}  // namespace
}  // namespace tc::testing
