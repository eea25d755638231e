// The arguments of primitives: declared by rows, looked up in a state.
#include "scheduler/core/arguments.h"

#include <algorithm>

#include "scheduler/core/refusal.h"

namespace tc {
namespace argument {
namespace {

Argument make(Argument::Kind kind, const std::string& name, const std::string& what) {
  Argument result;
  result.kind = kind;
  result.name = name;
  result.what = what;
  return result;
}

}  // namespace

using Kind = Argument::Kind;
Argument keyword(const std::string& word) { return make(Kind::Keyword, word, "'" + word + "'"); }
Argument loop(const std::string& name, const std::string& what) { return make(Kind::Loop, name, what); }
Argument statement(const std::string& name) { return make(Kind::Statement, name, "a statement"); }
Argument iterator(const std::string& name, const std::string& what) {
  return make(Kind::Iterator, name, what);
}
Argument iterator_name(const std::string& name) { return make(Kind::IteratorName, name, "an iterator"); }
Argument buffer(const std::string& name) { return make(Kind::Buffer, name, "a buffer"); }
Argument name(const std::string& name, const std::string& what) { return make(Kind::Name, name, what); }
Argument part(const std::string& name) { return make(Kind::Part, name, "a loop"); }

Argument number(const std::string& name, const std::string& what, int64_t minimum) {
  Argument result = make(Kind::Number, name, what);
  result.minimum = minimum;
  return result;
}

std::vector<Argument> neighbours(const std::string& what) {
  return {iterator("STATEMENT_OUTER", "the outer iterator"),
          iterator("STATEMENT_INNER", "the inner iterator"), keyword("as"), name("NAME", what)};
}

Argument optional(Argument argument) {
  argument.least = 0;
  return argument;
}

Argument list(Argument argument, int least) {
  argument.least = least;
  argument.most = Argument::kMany;
  return argument;
}

Argument tuned(Argument number) {
  number.change = Argument::Change::Number;
  return number;
}

Argument permuted(Argument list) {
  list.change = Argument::Change::Order;
  return list;
}

}  // namespace argument

Arguments::Arguments(ScheduleState& state, const PrimitiveLine& line) : row_(*line.row) {
  const Kernel& kernel = state.kernel->kernel;
  for (size_t i = 1; i < line.words.size(); ++i) {
    Value value;
    value.argument = line.arguments[i];
    value.word = line.words[i];
    switch (value.argument->kind) {
      case Argument::Kind::Keyword: continue;
      case Argument::Kind::Loop: value.loop = &loop_or_refuse(state, value.word); break;
      case Argument::Kind::Statement: value.index = statement_or_refuse(kernel, value.word); break;
      case Argument::Kind::Iterator:
        std::tie(value.index, value.position) = iterator_or_refuse(kernel, value.word);
        break;
      case Argument::Kind::Buffer: value.index = buffer_or_refuse(kernel, value.word); break;
      case Argument::Kind::Number: value.number = std::stoll(value.word); break;
      case Argument::Kind::IteratorName:
      case Argument::Kind::Name:
      case Argument::Kind::Part: break;
    }
    values_.push_back(std::move(value));
  }
}

std::vector<const Arguments::Value*> Arguments::all(const std::string& name,
                                                    const std::vector<Argument::Kind>& kinds) const {
  const bool declared = std::any_of(row_.form.begin(), row_.form.end(), [&](const Argument& each) {
    return each.name == name && std::find(kinds.begin(), kinds.end(), each.kind) != kinds.end();
  });
  TC_CHECK(declared, "argument ", name, " of ", row_.name, " in its row");
  std::vector<const Value*> result;
  for (const Value& value : values_) {
    if (value.argument->name == name) result.push_back(&value);
  }
  return result;
}

const Arguments::Value& Arguments::one(const std::string& name,
                                       const std::vector<Argument::Kind>& kinds) const {
  const std::vector<const Value*> values = all(name, kinds);
  TC_CHECK(values.size() == 1, "one argument ", name, " of ", row_.name);
  return *values[0];
}

TreeNode& Arguments::loop(const std::string& name) const { return *one(name, {Argument::Kind::Loop}).loop; }

std::vector<TreeNode*> Arguments::loops(const std::string& name) const {
  std::vector<TreeNode*> result;
  for (const Value* value : all(name, {Argument::Kind::Loop})) result.push_back(value->loop);
  return result;
}

size_t Arguments::statement(const std::string& name) const {
  return one(name, {Argument::Kind::Statement}).index;
}

std::vector<size_t> Arguments::statements(const std::string& name) const {
  std::vector<size_t> result;
  for (const Value* value : all(name, {Argument::Kind::Statement})) result.push_back(value->index);
  return result;
}

std::pair<size_t, size_t> Arguments::iterator(const std::string& name) const {
  const Value& value = one(name, {Argument::Kind::Iterator});
  return {value.index, value.position};
}

Arguments::Neighbours Arguments::neighbours() const {
  const auto [statement, outer] = iterator("STATEMENT_OUTER");
  const auto [other, inner] = iterator("STATEMENT_INNER");
  if (statement != other || inner != outer + 1)
    refuse("the iterators are not next to each other in one statement");
  return {statement, outer, inner};
}

size_t Arguments::buffer(const std::string& name) const { return one(name, {Argument::Kind::Buffer}).index; }
int64_t Arguments::number(const std::string& name) const {
  return one(name, {Argument::Kind::Number}).number;
}

std::optional<int64_t> Arguments::number_if_given(const std::string& name) const {
  if (all(name, {Argument::Kind::Number}).empty()) return std::nullopt;
  return number(name);
}

namespace {

const std::vector<Argument::Kind> kWords = {Argument::Kind::Name, Argument::Kind::IteratorName,
                                            Argument::Kind::Part};

}  // namespace

const std::string& Arguments::word(const std::string& name) const { return one(name, kWords).word; }

std::vector<std::string> Arguments::words(const std::string& name) const {
  std::vector<std::string> result;
  for (const Value* value : all(name, kWords)) result.push_back(value->word);
  return result;
}

}  // namespace tc
