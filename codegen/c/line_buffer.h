// The written lines of C of one leaf, with constants declared at the levels of its loops.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/c/spelling.h"

namespace tc::c {

// A value of one instance: the same for all lanes, or a vector. The text is an expression of C without side
// effects.
struct Value {
  std::string text;
  bool vector = false;
};

// The lines of a leaf. Levels are the leaf itself and the serial loops inside it: what depends only on the
// variables of a level and those around it is declared once, at the level's beginning.
class LineBuffer {
 public:
  explicit LineBuffer(Names& names) : names_(names) { levels_.emplace_back(); }

  void add(const std::string& line) { levels_.back().body += line + "\n"; }
  // `head {`, the lines that `body` adds, `}`. Loads done inside are not reused afterwards.
  void block(const std::string& head, const std::function<void()>& body);
  // Returns the lines that `body` would add, without adding them.
  std::string captured(const std::function<void()>& body);
  // Declares a constant with the value; returns its name. An expression that is a name or a number is
  // returned as it is.
  std::string named(const std::string& type, const std::string& wish, const std::string& value);
  // Declares a variable at the leaf's beginning; returns its name.
  std::string variable(const std::string& type, const std::string& wish);

  // A loop of C, whose body is a level of its own.
  void loop(const std::string& head, const std::function<void()>& body);
  int level() const { return static_cast<int>(levels_.size()) - 1; }
  // The name of a constant of that value, declared at the beginning of a level; equal values share it.
  std::string at_level(int level, const std::string& wish, const std::string& value);

  // The value that was loaded, under this key, in a block that is still open; null where none was.
  const Value* loaded(const std::string& key) const;
  void remember(const std::string& key, const Value& value) { loaded_.back()[key] = value; }

  // All lines as a block of C.
  std::string finish();

 private:
  struct Level {
    std::string head, body;
    std::map<std::string, std::string> values;
  };
  Names& names_;
  std::vector<Level> levels_;
  std::vector<std::map<std::string, Value>> loaded_{1};
};

}  // namespace tc::c
