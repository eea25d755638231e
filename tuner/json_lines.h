// A record as a line of JSON, with the names of fields that `tc.Log` has in Python: the form of
// `python -m tc log export` and of stores of kind `jsonl`. SQLite's functions read and quote the JSON.
#pragma once

#include <string>
#include <variant>

#include "tuner/log_file.h"
#include "tuner/record.h"

namespace tc {

// What sessions of this name spent, in all.
struct SessionTime {
  std::string session;
  double seconds = 0;
};

class JsonLines {
 public:
  JsonLines();

  // One line, without a newline at its end.
  std::string line_of(const Record& record);
  std::string line_of(const SessionTime& time);

  // What a line holds; nothing (monostate) where it is no object of JSON. Fields that are missing or of
  // another type are empty or 0, so that check_record refuses such records.
  std::variant<std::monostate, Record, SessionTime> read(const std::string& line);

 private:
  std::string quoted(const std::string& words);

  LogFile file_;  // an empty one in memory, for its functions
  Query quote_, fields_, trace_;
};

}  // namespace tc
