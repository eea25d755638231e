// What a schedule primitive says of itself: its arguments as typed data, from which the parsing of lines, the
// documentation, the methods of tc.Schedule and the changes that the tuner tries all follow.
#pragma once

#include <climits>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tc {

// One place of a primitive's line.
struct Argument {
  enum class Kind : uint8_t {
    Keyword,       // this very word: "as"
    Loop,          // a loop of the tree
    Statement,     // a statement of the kernel
    Iterator,      // an iterator of a statement, as STATEMENT_ITERATOR
    IteratorName,  // the name of an iterator, of the statement that the primitive finds
    Buffer,        // a buffer of the kernel
    Number,        // a whole number of at least `minimum`
    Name,          // a name that is new
    Part           // a loop, a statement or the word "root"
  };
  // What the tuner may write in its place.
  enum class Change : uint8_t { None, Number, Order };
  static constexpr int kMany = INT_MAX;

  Kind kind = Kind::Keyword;
  std::string name;     // a keyword itself, or the name of the place: "OUTER"
  std::string what;     // in refusals: "the outer loop's name"
  int64_t minimum = 0;  // Number
  int least = 1,
      most = 1;  // how many words stand there: 0 to 1 for an optional argument, up to kMany for a list
  Change change = Change::None;
  bool changes_layout = false;  // Buffer: it is stored otherwise afterwards, for who calls the kernel too

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
  // Whether its iterations have to be independent of each other: in every way, or but for the order of sums.
  enum class Needs : uint8_t { Nothing, Independence, IndependenceButSums };

  std::string word;       // in scheduled loops and keys: "vector"
  std::string adjective;  // in refusals: "vectorized"
  Needs needs = Needs::Nothing;
  bool in_tile = true;                  // it may stand inside of a register tile
  bool scheduled = false;               // it stands at the scheduled loop, too, for code generation
  std::vector<std::string> joins = {};  // words of the marks that a loop may have already
};

struct PrimitiveRow {
  std::string name;  // "split": unique, the method's name in Python
  PrimitiveKind kind = PrimitiveKind::Order;
  std::vector<Argument> form;  // what follows on the first word of its lines
  std::string doc = {};        // before -> after, one or two sentences
  // The first word of its lines, where that is not the name: several primitives may share it, and the first
  // keyword of each form then tells them apart.
  std::string verb = {};
  std::optional<MarkRow> mark = {};  // of the kind Mark
  bool tuned = false;                // Mark: the tuner may add and drop it; takes a loop and numbers only
  bool matrix_unit = false;          // only for targets that have one
  bool last = false;                 // it judges the whole tree, and so stands behind all others

  const std::string& first_word() const { return verb.empty() ? name : verb; }
  std::string signature() const;  // "split LOOP SIZE as OUTER INNER"
};
const std::vector<PrimitiveRow>& primitive_table();

// A line as its primitive reads it, before anything that it names is looked up.
struct PrimitiveLine {
  const PrimitiveRow* row = nullptr;
  std::vector<std::string> words;
  std::vector<const Argument*> arguments;  // what each word is; null for the first
};
// Nothing, and in `why` the reason, where no primitive has such a line.
std::optional<PrimitiveLine> read_line(const std::string& line, std::string* why = nullptr);

// What an argument may be, in words: "a number, at least 1".
std::string description(const Argument& argument);

}  // namespace tc
