// Lines and words of a text, changed from a seed.
#include "tests/text_mutator.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>

namespace tc {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// Begin and length of the words of a line.
std::vector<std::pair<size_t, size_t>> words_of(const std::string& line) {
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t i = 0; i < line.size();) {
    size_t end = i;
    while (end < line.size() && is_word(line[end])) ++end;
    if (end > i) words.emplace_back(i, end - i);
    i = std::max(end, i + 1);
  }
  return words;
}

}  // namespace

std::string TextMutator::number() {
  // clang-format off
  static const char* const known[] = {"0", "1", "-1", "2", "3", "7", "16", "64", "256", "1000", "65536",
                                      "4294967296", "1099511627776",
                                      "9223372036854775807", "-9223372036854775808", "99999999999999999999",
                                      "1e308", "nan", "0.5"};
  // clang-format on
  return pick(2) ? known[pick(std::size(known))] : std::to_string(pick(20));
}

void TextMutator::mutate_lines(std::vector<std::string>& lines) {
  const size_t at = pick(lines.size());
  switch (pick(4)) {
    case 0: lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(pick(lines.size() + 1)),
                   std::string(lines[at]));
      break;
    case 2: std::swap(lines[at], lines[pick(lines.size())]); break;
    default: lines.resize(at + 1);
  }
}

void TextMutator::mutate_word(std::vector<std::string>& lines, const std::vector<std::string>& vocabulary) {
  std::string& line = lines[pick(lines.size())];
  const auto words = words_of(line);
  if (words.empty()) return;
  const auto [begin, size] = words[pick(words.size())];
  const std::string& from = lines[pick(lines.size())];
  const auto others = words_of(from);
  const auto [other, other_size] =
      others.empty() ? std::pair<size_t, size_t>{0, 0} : others[pick(others.size())];
  const bool numeric = std::isdigit(static_cast<unsigned char>(line[begin])) != 0;
  switch (pick(5)) {
    case 0: line.erase(begin, size); break;
    case 1: line.replace(begin, size, std::string(from, other, other_size)); break;
    case 2: line[begin + pick(size)] = static_cast<char>(32 + pick(95)); break;
    case 3:
      if (!numeric && !vocabulary.empty()) {
        line.replace(begin, size, vocabulary[pick(vocabulary.size())]);
        break;
      }
      [[fallthrough]];
    default:
      if (numeric || pick(3) == 0) line.replace(begin, size, number());
      else line.insert(begin, std::string(from, other, other_size) + " ");
  }
}

std::string TextMutator::mutate(const std::string& text, const std::vector<std::string>& vocabulary) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  for (size_t i = 0, count = 1 + pick(4); i < count && !lines.empty(); ++i) {
    if (pick(4) == 0) mutate_lines(lines);
    else mutate_word(lines, vocabulary);
  }
  std::string result;
  for (const std::string& line : lines) result += line + "\n";
  return result;
}

}  // namespace tc
