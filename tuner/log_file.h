// The SQLite file of a log. A stranger may have written it, so nothing in it is ever executed, and no
// statement on it may take long.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace tc {

class LogFile {
 public:
  // Opens an existing file, or with `write` makes one where there is none. Before anything is read, views,
  // triggers, extensions and functions with side effects are switched off, and sizes are limited to what tc
  // needs. With `write` false, rows that break a rule of the tables can be read, and nothing is written,
  // except that what a killed writer left unfinished is rolled back. A statement may take `most_seconds` of
  // processor time. Throws a Log error that says why a file cannot be opened.
  LogFile(const std::string& path, bool write, double most_seconds = 10);
  // An empty one in memory.
  LogFile();
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Throws a Log error unless the tables, indexes and other parts of the file are exactly those that the
  // statements make: the same kinds, names and definitions, and nothing else. Reads only SQLite's own table.
  void need_schema_of(const std::vector<const char*>& statements);

  // Runs statements one after the other.
  void execute(const std::string& sql);
  // Writes the file anew, without the space of what was deleted.
  void compact();
  // The number that a pragma answers; 0 where it answers nothing.
  int64_t pragma(const std::string& name);
  // Runs the action in a transaction: the file gets all of its changes, or none where it throws.
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

  // While a Limit exists, all statements together may take most_seconds of processor time; a statement that
  // exceeds it ends with a Log error. Without a Limit, each Query has that time for itself.
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

  void open(int flags);
  void restart_clock();
  void roll_back();
  static int progress(void* self);

  const std::string path_;
  const double most_seconds_;
  sqlite3* db_ = nullptr;
  bool schema_known_ = false;  // need_schema_of found it to be ours
  int schema_looks_ = 0;       // calls of `progress` before schema_known_
  int held_ = 0;
  double clock_end_ = 0;  // in this thread's processor time, in seconds
};

// A prepared statement; finalised with the object. Failures are Log errors.
class Query {
 public:
  Query(LogFile& file, const std::string& sql);
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // Each call sets the statement's next parameter.
  Query& bind(const std::string& value);
  Query& bind(int64_t value);
  Query& bind(double value);
  // Takes the next row; false at the end of the rows.
  bool step();
  // Makes the statement ready for other values.
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
