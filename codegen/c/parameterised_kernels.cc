#include "codegen/c/parameterised_kernels.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "ir/error.h"

namespace tc::c {
namespace {

// A function's text, divided at the integers that arguments can replace: piece 0, integer 0, piece 1, …
struct Divided {
  std::vector<std::string> pieces;
  std::vector<int64_t> integers;

  std::string key() const {
    std::string result;
    for (const std::string& piece : pieces) result += piece + '\n' + '\0';
    return result;
  }
};

// Whether the text at `at` follows the sign of a float's exponent, as in 1e-05 and 0x1p-3.
bool follows_exponent(const std::string& text, size_t at) {
  return at >= 3 && (text[at - 1] == '-' || text[at - 1] == '+') &&
         std::string("eEpP").find(text[at - 2]) != std::string::npos &&
         (std::isxdigit(static_cast<unsigned char>(text[at - 3])) || text[at - 3] == '.');
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// Where the integer that begins at `at`, with its brackets if it is negative, ends; `at` where there is none
// that an argument can replace: macros and the sizes of arrays take constants.
size_t end_of_integer(const std::string& text, size_t at) {
  if ((at > 0 && is_word(text[at - 1])) || follows_exponent(text, at)) return at;
  const bool is_negative = text.compare(at, 2, "(-") == 0;
  const size_t first = is_negative ? at + 2 : at;
  size_t end = first;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
  constexpr size_t kMostDigits = 9;  // of an int of 32 bits
  if (end == first || end - first > kMostDigits || (end < text.size() && is_word(text[end]))) return at;
  if (is_negative) return end < text.size() && text[end] == ')' ? end + 1 : at;
  if (at == 0) return at;
  if (text[at - 1] == '[') return at;
  const size_t before = at >= 2 ? at - 2 : 0;
  const bool of_macro = text[at - 1] == '(' && std::isupper(static_cast<unsigned char>(text[before]));
  return of_macro ? at : end;
}

Divided divided(const std::string& text) {
  Divided result;
  std::string piece;
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, 2, "/*") == 0) {
      at = std::min(text.size(), text.find("*/", at) + 2);
      continue;
    }
    const size_t end = end_of_integer(text, at);
    if (end == at) {
      piece += text[at++];
      continue;
    }
    const bool is_negative = text[at] == '(';
    const int64_t number = std::stoll(text.substr(is_negative ? at + 1 : at, end - at));
    result.pieces.push_back(std::move(piece));
    piece.clear();
    result.integers.push_back(number);
    at = end;
  }
  result.pieces.push_back(std::move(piece));
  return result;
}

// The values that one integer of the text has in the functions.
using Values = std::vector<int64_t>;

// The arguments of functions that differ in integers, and the text that each integer becomes.
struct Numbered {
  std::vector<Values> arguments;
  std::vector<std::string> texts;
};

std::string argument_name(size_t number) { return text("tc_n", number); }

// The number by which all values are larger than the others, where there is one.
std::optional<int64_t> distance(const Values& from, const Values& to) {
  for (size_t i = 1; i < from.size(); ++i) {
    if (to[i] - from[i] != to[0] - from[0]) return std::nullopt;
  }
  return to[0] - from[0];
}

std::string literal_text(int64_t number) { return number < 0 ? text("(", number, ")") : text(number); }

Numbered numbered(const std::vector<Divided>& group) {
  Numbered result;
  for (size_t place = 0; place < group[0].integers.size(); ++place) {
    Values values;
    for (const Divided& each : group) values.push_back(each.integers[place]);
    if (std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == values[0]; })) {
      result.texts.push_back(literal_text(values[0]));
      continue;
    }
    std::string found;
    for (size_t i = 0; i < result.arguments.size() && found.empty(); ++i) {
      const auto more = distance(result.arguments[i], values);
      if (!more) continue;
      found = *more == 0 ? argument_name(i)
                         : text("(", argument_name(i), *more < 0 ? " - " : " + ", std::abs(*more), ")");
    }
    if (found.empty()) {
      found = argument_name(result.arguments.size());
      result.arguments.push_back(std::move(values));
    }
    result.texts.push_back(found);
  }
  return result;
}

// Whether one function with arguments takes less code than several without.
bool pays(const std::vector<size_t>& members, const std::vector<FunctionText>& functions,
          const std::vector<int>& steps, size_t arguments) {
  constexpr double kFunction = 100, kOperation = 6;  // bytes, of a function and of each of its operations
  constexpr double kArgument = 7;                    // of a call
  double less = 0, more = 0;
  for (const size_t member : members) {
    if (member != members[0]) less += kFunction + kOperation * functions[member].operations;
    more += kArgument * static_cast<double>(arguments) * steps[member];
  }
  return less > more;
}

std::string with_texts(const Divided& function, const std::vector<std::string>& texts) {
  std::string result = function.pieces[0];
  for (size_t i = 0; i < texts.size(); ++i) result += texts[i] + function.pieces[i + 1];
  return result;
}

}  // namespace

std::string str(const FunctionText& function, const std::string& head) {
  return function.comment + head + function.name + "(" + function.arguments + ")\n{\n" + function.body +
         "}\n";
}

std::vector<KernelCall> share_functions(std::vector<FunctionText>& functions, const std::vector<int>& steps) {
  std::vector<Divided> texts;
  std::map<std::string, std::vector<size_t>> groups;
  for (size_t i = 0; i < functions.size(); ++i) {
    texts.push_back(divided(functions[i].body));
    groups[functions[i].arguments + '\n' + texts.back().key()].push_back(i);
  }
  std::vector<KernelCall> calls(functions.size());
  std::vector<size_t> shares(functions.size());  // the function of each kernel
  for (size_t i = 0; i < functions.size(); ++i) shares[i] = i;
  for (const auto& [key, members] : groups) {
    if (members.size() < 2) continue;
    std::vector<Divided> group;
    for (const size_t member : members) group.push_back(texts[member]);
    const Numbered made = numbered(group);
    if (!pays(members, functions, steps, made.arguments.size())) continue;
    FunctionText& function = functions[members[0]];
    function.body = with_texts(group[0], made.texts);
    std::string arguments;
    for (size_t i = 0; i < made.arguments.size(); ++i) arguments += "int32_t " + argument_name(i) + ", ";
    function.arguments = arguments + function.arguments;
    function.comment =
        text("/* For ", members.size(), " kernels, of which this is the first. */\n") + function.comment;
    for (size_t i = 0; i < members.size(); ++i) {
      shares[members[i]] = members[0];
      for (const Values& values : made.arguments) calls[members[i]].numbers.push_back(values[i]);
    }
  }
  std::vector<FunctionText> left;
  std::vector<size_t> places(functions.size());
  for (size_t i = 0; i < functions.size(); ++i) {
    if (shares[i] == i) {
      places[i] = left.size();
      left.push_back(std::move(functions[i]));
    }
    calls[i].function = places[shares[i]];
  }
  functions = std::move(left);
  return calls;
}

}  // namespace tc::c
