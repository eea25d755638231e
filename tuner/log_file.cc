#include "tuner/log_file.h"

#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>

#include "ir/error.h"

namespace tc {
namespace {

constexpr int kBusyMilliseconds = 30000;
constexpr int kOperationsPerLook = 2000;
// In calls of LogFile::progress. Reading tc's own schema takes less than a hundred operations, while a file
// with a huge schema would take memory for each of its parts.
constexpr int kMaxSchemaLooks = 2;

// Limits of SQLite, for the definitions in a log as well as for our own statements. The longest text is a
// workload.
constexpr std::pair<int, int> kLimits[] = {
    {SQLITE_LIMIT_LENGTH, 1 << 22},
    {SQLITE_LIMIT_SQL_LENGTH, 16 << 10},
    {SQLITE_LIMIT_COLUMN, 40},
    {SQLITE_LIMIT_EXPR_DEPTH, 40},
    {SQLITE_LIMIT_COMPOUND_SELECT, 2},
    {SQLITE_LIMIT_VDBE_OP, 20000},
    {SQLITE_LIMIT_FUNCTION_ARG, 8},
    {SQLITE_LIMIT_ATTACHED, 0},
    {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100},
    {SQLITE_LIMIT_VARIABLE_NUMBER, 40},
    {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

constexpr std::pair<int, int> kSwitches[] = {
    {SQLITE_DBCONFIG_DEFENSIVE, 1},
    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
    {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
    {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
    {SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0},
    {SQLITE_DBCONFIG_DQS_DDL, 0},
    {SQLITE_DBCONFIG_DQS_DML, 0},
};

double processor_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Words from the file, made fit for a message: printable ASCII, shortened.
std::string shown(const char* words) {
  std::string result = std::string(words, strnlen(words, 201));
  if (result.size() > 200) result = result.substr(0, 197) + "...";
  for (char& c : result) {
    if (c < 32 || c > 126) c = '?';
  }
  return result;
}

// The journal next to the database may name a super-journal (of a transaction over several files), and SQLite
// removes that file after it has rolled the changes back. A hostile journal could thus have any file removed.
// tc writes to one file at a time, so its own journals name no super-journal.
void need_plain_journal(const std::string& path) {
  constexpr unsigned char kMagic[] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
  std::ifstream journal(path + "-journal", std::ios::binary);
  char end[sizeof kMagic];
  if (!journal.seekg(-static_cast<int>(sizeof end), std::ios::end) || !journal.read(end, sizeof end)) return;
  if (std::memcmp(end, kMagic, sizeof end) == 0)
    fail(ErrorKind::Log, path, ": the journal beside it, '", path,
         "-journal', names another file that is to be removed: tc writes none "
         "such; move log and journal away, or put a copy of the log back");
}

// Kind, name, table and definition of a part of a schema; SQLite's own indexes have no definition.
using Part = std::array<std::string, 4>;

// The parts of the main schema, at most `most` of them: a hostile file may have millions, and its first ones
// are enough to recognise it.
std::vector<Part> parts_of(LogFile& file, size_t most) {
  Query query(file, "SELECT type, name, tbl_name, sql FROM sqlite_master");
  std::vector<Part> parts;
  while (parts.size() < most && query.step())
    parts.push_back({query.text(0), query.text(1), query.text(2), query.text(3)});
  return parts;
}

}  // namespace

LogFile::LogFile(const std::string& path, bool write, double most_seconds)
    : path_(path), most_seconds_(most_seconds) {
  std::error_code code;
  const bool exists = std::filesystem::exists(path, code);
  if (!exists && !write) fail(ErrorKind::Log, path, ": no such log; tuning with log= makes one");
  if (exists && !std::filesystem::is_regular_file(path, code))
    fail(ErrorKind::Log, path, ": is no regular file");
  need_plain_journal(path);
  // A reader that has the right to write opens the file for writing, so that SQLite can roll back what a
  // killed writer left unfinished. query_only below keeps it from writing anything else.
  const bool writable = write || access(path.c_str(), W_OK) == 0;
  open(write      ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
       : writable ? SQLITE_OPEN_READWRITE
                  : SQLITE_OPEN_READONLY);
  try {
    // The header may ask for a cache of any size.
    execute("PRAGMA cell_size_check = ON; PRAGMA cache_size = -8000; PRAGMA mmap_size = 0");
    // RecordStore::records leaves out rows that break a rule, one by one.
    if (!write) execute("PRAGMA query_only = ON; PRAGMA ignore_check_constraints = ON");
  } catch (...) {
    sqlite3_close(db_);
    throw;
  }
}

LogFile::LogFile() : path_(":memory:"), most_seconds_(10), schema_known_(true) {
  open(SQLITE_OPEN_READWRITE);
}

void LogFile::open(int flags) {
  if (sqlite3_open_v2(path_.c_str(), &db_, flags | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK) {
    const std::string why = shown(sqlite3_errmsg(db_));
    sqlite3_close(db_);
    fail(ErrorKind::Log, path_, ": cannot be opened (", why,
         "); check that the folder exists and may be written");
  }
  sqlite3_extended_result_codes(db_, 0);
  sqlite3_busy_timeout(db_, kBusyMilliseconds);
  for (const auto& [name, value] : kSwitches) sqlite3_db_config(db_, name, value, nullptr);
  for (const auto& [name, value] : kLimits) sqlite3_limit(db_, name, value);
  sqlite3_progress_handler(db_, kOperationsPerLook, progress, this);
}

LogFile::~LogFile() { sqlite3_close(db_); }

void LogFile::need_schema_of(const std::vector<const char*>& statements) {
  LogFile model;
  for (const char* sql : statements) model.execute(sql);
  std::vector<Part> due = parts_of(model, 1000);
  for (const Part& part : parts_of(*this, due.size() + 1)) {
    const auto name = [&] { return "the " + shown(part[0].c_str()) + " '" + shown(part[1].c_str()) + "'"; };
    const auto found = std::find_if(due.begin(), due.end(), [&](const Part& other) {
      return other[0] == part[0] && other[1] == part[1];
    });
    if (found == due.end()) fail_damaged(name() + " is none of those that tc makes");
    if (*found != part) fail_damaged(name() + " is not defined as tc defines it");
    due.erase(found);
  }
  if (!due.empty()) fail_damaged("the " + due[0][0] + " '" + due[0][1] + "' is missing");
  schema_known_ = true;
}

void LogFile::execute(const std::string& sql) {
  for (const char* rest = sql.c_str(); *rest != '\0';) {
    const char* end = std::strchr(rest, ';');
    // All statements are our own, and none contains a semicolon.
    Query one(*this, end == nullptr ? std::string(rest) : std::string(rest, end));
    while (one.step()) {}
    if (end == nullptr) return;
    rest = end + 1;
    rest += std::strspn(rest, " \n");
  }
}

void LogFile::compact() {
  // SQLite attaches a temporary database for it.
  const int before = sqlite3_limit(db_, SQLITE_LIMIT_ATTACHED, 1);
  execute("VACUUM");
  sqlite3_limit(db_, SQLITE_LIMIT_ATTACHED, before);
}

int64_t LogFile::pragma(const std::string& name) {
  Query query(*this, "PRAGMA " + name);
  return query.step() ? query.integer(0) : 0;
}

void LogFile::roll_back() { sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr); }

void LogFile::restart_clock() {
  if (held_ == 0) clock_end_ = processor_seconds() + most_seconds_;
}

int LogFile::progress(void* self) {
  LogFile& file = *static_cast<LogFile*>(self);
  if (!file.schema_known_ && ++file.schema_looks_ > kMaxSchemaLooks) return 1;
  return processor_seconds() > file.clock_end_;
}

void LogFile::fail_damaged(const std::string& why) const {
  fail(ErrorKind::Log, path_, ": the log is damaged (", why, "); move it away, or put a copy of it back");
}

Query::Query(LogFile& file, const std::string& sql) : file_(file) {
  file.restart_clock();
  if (sqlite3_prepare_v2(file.db_, sql.c_str(), -1, &statement_, nullptr) != SQLITE_OK) raise();
}

Query::~Query() { sqlite3_finalize(statement_); }

Query& Query::bind(const std::string& value) {
  sqlite3_bind_text(statement_, ++bound_, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
  return *this;
}

Query& Query::bind(int64_t value) {
  sqlite3_bind_int64(statement_, ++bound_, value);
  return *this;
}

Query& Query::bind(double value) {
  sqlite3_bind_double(statement_, ++bound_, value);
  return *this;
}

bool Query::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) raise();
  return false;
}

void Query::reset() {
  sqlite3_reset(statement_);
  bound_ = 0;
  file_.restart_clock();
}

std::string Query::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return data ? std::string(data, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : "";
}

int64_t Query::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Query::number(int column) const { return sqlite3_column_double(statement_, column); }

void Query::raise() const {
  const std::string& file = file_.path_;
  const int code = sqlite3_errcode(file_.db_);
  const std::string why = shown(sqlite3_errmsg(file_.db_));
  switch (code) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
      fail(ErrorKind::Log, file, ": cannot be written (", why,
           "); free some disk space: what was recorded before is kept");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      fail(ErrorKind::Log, file, ": another process has been writing for ", kBusyMilliseconds / 1000,
           " seconds; try again when it is done");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      fail(ErrorKind::Log, file, ": cannot be written (", why,
           "); check the file's and folder's permissions");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:   // definitions that SQLite does not understand
    case SQLITE_TOOBIG:  // definitions or texts longer than any of ours
      file_.fail_damaged(why);
    case SQLITE_INTERRUPT:
      if (file_.schema_looks_ > kMaxSchemaLooks)
        file_.fail_damaged("it has more tables and indexes than tc makes");
      fail(ErrorKind::Log, file, ": a statement took more than ", file_.most_seconds_,
           " seconds of processor time, which none on a log of tc "
           "does; move the log away, or put a copy of it back");
    default: fail(ErrorKind::Log, file, ": ", why);
  }
}

}  // namespace tc
