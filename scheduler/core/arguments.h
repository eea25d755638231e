// The arguments of primitives: how a row declares them, and how `apply` gets their values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/core/state.h"
#include "scheduler/primitive_row.h"

namespace tc {

// Declarations for rows. Where a row has two arguments of one kind, `what` tells them apart in refusals.
namespace argument {
Argument keyword(const std::string& word);
Argument loop(const std::string& name, const std::string& what = "a loop");
Argument statement(const std::string& name);
Argument iterator(const std::string& name, const std::string& what = "an iterator");
Argument iterator_name(const std::string& name);
Argument buffer(const std::string& name);
Argument number(const std::string& name, const std::string& what, int64_t minimum);
Argument name(const std::string& name, const std::string& what);
Argument part(const std::string& name);
// Two iterators next to each other in one statement that become one, `as NAME`; `what` describes NAME in
// refusals.
std::vector<Argument> neighbours(const std::string& what);
// optional: the argument may be left out. list: it is given at least `least` times.
Argument optional(Argument argument);
Argument list(Argument argument, int least);
// tuned: the tuner may try other numbers. permuted: it may try other orders of the list.
Argument tuned(Argument number);
Argument permuted(Argument list);
}  // namespace argument

// The words of one line, looked up in a state. Asking for an argument that the row does not declare with that
// name and kind is an internal error.
class Arguments {
 public:
  // Refuses what names nothing in the state. The loops stay valid until the tree changes.
  Arguments(ScheduleState& state, const PrimitiveLine& line);

  TreeNode& loop(const std::string& name) const;
  std::vector<TreeNode*> loops(const std::string& name) const;
  size_t statement(const std::string& name) const;
  std::vector<size_t> statements(const std::string& name) const;
  // A statement and the position of one of its iterators.
  std::pair<size_t, size_t> iterator(const std::string& name) const;
  // The arguments that argument::neighbours() declares: the statement and the positions of both iterators.
  // Refuses iterators that are not next to each other.
  struct Neighbours {
    size_t statement, outer, inner;
  };
  Neighbours neighbours() const;
  size_t buffer(const std::string& name) const;
  int64_t number(const std::string& name) const;
  std::optional<int64_t> number_if_given(const std::string& name) const;
  // Arguments that are given as plain words: new names, names of iterators, and parts (Kind::Part).
  const std::string& word(const std::string& name) const;
  std::vector<std::string> words(const std::string& name) const;

 private:
  struct Value {
    const Argument* argument = nullptr;
    std::string word;
    TreeNode* loop = nullptr;
    size_t index = 0, position = 0;  // of a statement or a buffer; of an iterator in its statement
    int64_t number = 0;
  };
  std::vector<const Value*> all(const std::string& name, const std::vector<Argument::Kind>& kinds) const;
  const Value& one(const std::string& name, const std::vector<Argument::Kind>& kinds) const;

  const PrimitiveRow& row_;
  std::vector<Value> values_;
};

}  // namespace tc
