// The SQLite file of a log, which a stranger may have written: what is in it is never run, and no statement
// on it goes on for long.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace tc {

class LogFile {
 public:
  // Opens an existing file, or with `write` makes one where none is. Before anything is read, views,
  // triggers, extensions and functions with side effects are switched off, and sizes are limited to what tc
  // needs. With `write` false, rows that break a rule of the tables can be read, and nothing is written but
  // what a killed writer left half done, which is taken back. A statement has `most_seconds` of processor
  // time. A Log error says why a file is none that can be opened.
  LogFile(const std::string& path, bool write, double most_seconds = 10);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // A Log error where the tables, indexes and other parts of the file are not exactly those that the
  // statements make: the same kinds, names and definitions, and nothing else. Reads no table but SQLite's
  // own.
  void need_schema_of(const std::vector<const char*>& statements);

  // Runs statements one after the other.
  void execute(const std::string& sql);
  // The number that a pragma answers; 0 where it answers nothing.
  int64_t pragma(const std::string& name);
  // All of the action's changes or none.
  template <class Action>
  void transaction(const Action& action) {
    execute("BEGIN IMMEDIATE");
    try {
      action();
      execute("COMMIT");
    } catch (...) {
      roll_back();
      throw;
    }
  }

  // How much processor time the statements may take from here on, all together; then a Log error ends the one
  // under way. Each Query begins anew unless a Limit lives.
  class Limit {
   public:
    explicit Limit(LogFile& file) : file_(file) {
      file.restart_clock();
      ++file.held_;
    }
    ~Limit() { --file_.held_; }
    Limit(const Limit&) = delete;
    Limit& operator=(const Limit&) = delete;

   private:
    LogFile& file_;
  };

  [[noreturn]] void fail_damaged(const std::string& why) const;

 private:
  friend class Query;

  LogFile();  // an empty one in memory
  void open(int flags);
  void restart_clock();
  void roll_back();
  static int progress(void* self);

  const std::string path_;
  const double most_seconds_;
  sqlite3* db_ = nullptr;
  bool schema_known_ = false;  // need_schema_of found it to be ours
  int schema_looks_ = 0;       // of `progress` before that
  int held_ = 0;
  double clock_end_ = 0;  // of this thread's processor time, in seconds
};

// A prepared statement; finalised with the object. Failures are Log errors.
class Query {
 public:
  Query(LogFile& file, const std::string& sql);
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // Values of the statement's parameters, in order.
  Query& bind(const std::string& value);
  Query& bind(int64_t value);
  Query& bind(double value);
  // Takes the next row; false at the end of the rows.
  bool step();
  // Makes it ready for other values.
  void reset();

  std::string text(int column) const;
  int64_t integer(int column) const;
  double number(int column) const;

 private:
  [[noreturn]] void raise() const;

  LogFile& file_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

}  // namespace tc
