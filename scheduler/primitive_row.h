// The declaration of a schedule primitive: its arguments as typed data. The parsing of lines, the
// documentation, the methods of tc.Schedule and the changes that the tuner tries all follow from it.
#pragma once

#include <climits>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tc {

// One argument or keyword of a primitive's line.
struct Argument {
  enum class Kind : uint8_t {
    Keyword,       // this very word: "as"
    Loop,          // a loop of the tree
    Statement,     // a statement of the kernel
    Iterator,      // an iterator of a statement, as STATEMENT_ITERATOR
    IteratorName,  // the name of an iterator; the primitive finds its statement
    Buffer,        // a buffer of the kernel
    Number,        // a whole number of at least `minimum`
    Name,          // a name that is new
    Part           // a loop, a statement or the word "root"
  };
  // What the tuner may change about the argument.
  enum class Change : uint8_t { None, Number, Order };
  static constexpr int kMany = INT_MAX;

  Kind kind = Kind::Keyword;
  std::string name;     // the keyword itself, or the name of the argument: "OUTER"
  std::string what;     // in refusals: "the outer loop's name"
  int64_t minimum = 0;  // Number
  int least = 1,
      most = 1;  // how many words it has in a line: 0 to 1 if optional, up to kMany for a list
  Change change = Change::None;
  // Buffer: the primitive changes how it is stored, also for the kernel's callers.
  bool changes_layout = false;

  bool is_list() const { return most == kMany; }
};

const char* name_of(Argument::Kind kind);

enum class PrimitiveKind : uint8_t {
  Rewrite,  // changes statements
  Order,    // changes when instances run
  Mark      // says how a loop is run
};
const char* name_of(PrimitiveKind kind);

// What a mark is: declared by the primitive that sets it.
struct MarkRow {
  // Whether the iterations of the marked loop have to be independent of each other: fully, or except that
  // they may add to the same sum.
  enum class Needs : uint8_t { Nothing, Independence, IndependenceButSums };

  std::string word;       // in scheduled loops and keys: "vector"
  std::string adjective;  // in refusals: "vectorized"
  Needs needs = Needs::Nothing;
  bool in_tile = true;  // a loop inside of a register tile may have it
  // The scheduled loop has the mark as well, for code generation.
  bool scheduled = false;
  // Words of the marks that a loop may have already when it gets this one.
  std::vector<std::string> joins = {};
};

struct PrimitiveRow {
  std::string name;  // "split": unique, the method's name in Python
  PrimitiveKind kind = PrimitiveKind::Order;
  std::vector<Argument> form;  // what follows the first word of its lines
  std::string doc = {};        // before -> after, one or two sentences
  // The first word of its lines, where that is not the name: several primitives may share it, and the first
  // keyword of each form then tells them apart.
  std::string verb = {};
  std::optional<MarkRow> mark = {};  // of primitives of the kind Mark
  bool tuned = false;                // Mark: the tuner may add and drop it; takes a loop and numbers only
  bool matrix_unit = false;          // only for targets that have one
  bool accelerator = false;          // the same
  bool last = false;                 // it checks the whole tree, so its line comes after all others

  const std::string& first_word() const { return verb.empty() ? name : verb; }
  std::string signature() const;  // "split LOOP SIZE as OUTER INNER"
};
const std::vector<PrimitiveRow>& primitive_table();

// A line divided into the arguments of its primitive, before the names in it are looked up.
struct PrimitiveLine {
  const PrimitiveRow* row = nullptr;
  std::vector<std::string> words;
  std::vector<const Argument*> arguments;  // what each word is; null for the first
};
// The line as its primitive reads it; nothing, with the reason in `why`, where no primitive has such a line.
std::optional<PrimitiveLine> read_line(const std::string& line, std::string* why = nullptr);

// What an argument may be, in words: "a number, at least 1".
std::string description(const Argument& argument);

}  // namespace tc
