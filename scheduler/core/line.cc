// Lines of traces, read by the rows of the primitives.
#include <map>
#include <sstream>

#include "scheduler/core/primitive.h"
#include "scheduler/core/refusal.h"

namespace tc {
namespace {

bool is_identifier(const std::string& word) {
  if (word.empty() || std::isdigit(static_cast<unsigned char>(word[0]))) return false;
  for (char c : word) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return true;
}

// Refuses a word that the argument cannot be.
void check_word(const std::string& word, const Argument& argument) {
  if (argument.kind != Argument::Kind::Number) {
    if (!is_identifier(word)) refuse("expected ", argument.what, ", got '", word, "'");
    return;
  }
  const bool digits = word.size() <= 15 && word.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) refuse("expected ", argument.what, ", a number, got '", word, "'");
  const int64_t value = std::stoll(word);
  if (value < argument.minimum)
    refuse(argument.what, " must be at least ", argument.minimum, ", got ", value);
}

class LineReader {
 public:
  explicit LineReader(const std::string& line) {
    std::istringstream in(line);
    for (std::string word; in >> word;) line_.words.push_back(word);
    line_.arguments.resize(line_.words.size(), nullptr);
  }

  PrimitiveLine read() {
    line_.row = &find_row();
    position_ = 1;
    const std::vector<Argument>& form = line_.row->form;
    for (size_t i = 0; i < form.size(); ++i)
      read_argument(form[i], i + 1 < form.size() ? &form[i + 1] : nullptr);
    if (!at_end()) refuse("unexpected '", line_.words[position_], "' at the end of the line");
    return line_;
  }

 private:
  bool at_end() const { return position_ == line_.words.size(); }

  void take(const Argument& argument) {
    if (at_end()) refuse("expected ", argument.what, " at the end of the line");
    const std::string& word = line_.words[position_];
    if (argument.kind != Argument::Kind::Keyword) check_word(word, argument);
    else if (word != argument.name) refuse("expected ", argument.what, ", got '", word, "'");
    line_.arguments[position_++] = &argument;
  }

  // A list ends before the keyword that follows it.
  void read_argument(const Argument& argument, const Argument* next) {
    auto ends = [&] {
      const bool before_keyword = next != nullptr && next->kind == Argument::Kind::Keyword;
      return at_end() || (before_keyword && line_.words[position_] == next->name);
    };
    const bool always = argument.least == argument.most;
    int count = 0;
    while (count < argument.most && (always || !ends())) {
      take(argument);
      ++count;
    }
    if (count >= argument.least) return;
    if (argument.least == 1) refuse("expected ", argument.what);
    refuse("expected at least two ", argument.what.substr(argument.what.find(' ') + 1), "s");
  }

  const PrimitiveRow& find_row() const {
    if (line_.words.empty()) refuse("expected a primitive at the end of the line");
    const std::string& verb = line_.words[0];
    if (!is_identifier(verb)) refuse("expected a primitive, got '", verb, "'");
    std::vector<const PrimitiveRow*> found;
    std::vector<std::string> known;
    for (const PrimitiveRow& row : primitive_table()) {
      if (row.first_word() == verb) found.push_back(&row);
      if (known.empty() || known.back() != row.first_word()) known.push_back(row.first_word());
    }
    if (found.empty()) refuse("no primitive '", verb, "'; there are: ", listed(known));
    return found.size() == 1 ? *found[0] : told_apart(found);
  }

  // The row, where several have the same first word: the one whose first keyword the line has at that place.
  const PrimitiveRow& told_apart(const std::vector<const PrimitiveRow*>& rows) const {
    std::string keywords;
    size_t place = 0;
    for (const PrimitiveRow* row : rows) {
      for (place = 0; row->form.at(place).kind != Argument::Kind::Keyword;) ++place;
      const std::string& keyword = row->form[place].name;
      if (place + 1 < line_.words.size() && line_.words[place + 1] == keyword) return *row;
      keywords += text(keywords.empty() ? "" : row == rows.back() ? " or " : ", ", "'", keyword, "'");
    }
    if (line_.words.size() <= place) return *rows[0];  // reports what is missing before the keyword
    if (line_.words.size() == place + 1) refuse("expected ", keywords, " at the end of the line");
    refuse("expected ", keywords, ", got '", line_.words[place + 1], "'");
  }

  PrimitiveLine line_;
  size_t position_ = 0;
};

}  // namespace

const char* name_of(PrimitiveKind kind) {
  switch (kind) {
    case PrimitiveKind::Rewrite: return "rewrite";
    case PrimitiveKind::Order: return "order";
    case PrimitiveKind::Mark: return "mark";
  }
  return "";
}

std::string PrimitiveRow::signature() const {
  std::string result = first_word();
  for (const Argument& argument : form) {
    const std::string name =
        argument.kind == Argument::Kind::Part ? argument.name + "|STATEMENT|root" : argument.name;
    if (argument.least == 0 && !argument.is_list()) result += " [" + name + "]";
    else result += " " + name;
    for (int more = 1; more < argument.least; ++more) result += " " + name;
    if (argument.is_list()) result += " ...";
  }
  return result;
}

const char* name_of(Argument::Kind kind) {
  switch (kind) {
    case Argument::Kind::Keyword: return "keyword";
    case Argument::Kind::Loop: return "loop";
    case Argument::Kind::Statement: return "statement";
    case Argument::Kind::Iterator: return "iterator";
    case Argument::Kind::IteratorName: return "iterator's name";
    case Argument::Kind::Buffer: return "buffer";
    case Argument::Kind::Number: return "number";
    case Argument::Kind::Name: return "new name";
    case Argument::Kind::Part: return "loop, statement or root";
  }
  return "";
}

std::string description(const Argument& argument) {
  std::string result = name_of(argument.kind);
  if (argument.kind == Argument::Kind::Number) result += text(" >= ", argument.minimum);
  if (argument.kind == Argument::Kind::Keyword) result += " '" + argument.name + "'";
  if (argument.is_list())
    result += argument.least > 0 ? text(", ", argument.least, " or more") : ", any number";
  else if (argument.least == 0) result += ", may be left out";
  if (argument.change == Argument::Change::Number) result += "; the tuner tries others";
  if (argument.change == Argument::Change::Order) result += "; the tuner tries other orders";
  return result;
}

std::optional<PrimitiveLine> read_line(const std::string& line, std::string* why) {
  try {
    return LineReader(line).read();
  } catch (const Refusal& refusal) {
    if (why != nullptr) *why = refusal.why;
    return std::nullopt;
  }
}

const std::vector<PrimitiveRow>& primitive_table() {
  static const std::vector<PrimitiveRow> rows = [] {
    std::vector<PrimitiveRow> result;
    for (const Primitive& primitive : primitives()) result.push_back(primitive.row);
    return result;
  }();
  return rows;
}

const MarkRow& row_of(const LoopMark& mark) {
  for (const PrimitiveRow& row : primitive_table()) {
    if (row.mark && row.mark->word == mark.word) return *row.mark;
  }
  fail(ErrorKind::Internal, "no primitive declares the mark '", mark.word, "'");
}

const Primitive& primitive_of(const PrimitiveRow& row) {
  return primitives().at(static_cast<size_t>(&row - primitive_table().data()));
}

}  // namespace tc
