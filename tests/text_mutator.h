// Changes to texts of lines and words: numbers, words of the same text or of a vocabulary, lines moved, left
// out or doubled.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tc {

class TextMutator {
 public:
  // The same seed makes the same changes.
  explicit TextMutator(uint64_t seed) : random_(seed) {}

  size_t pick(size_t count) {
    return count == 0 ? 0 : std::uniform_int_distribution<size_t>(0, count - 1)(random_);
  }
  std::string number();
  // Changes one to four places of the text; `vocabulary` has words that may come in besides those of the
  // text.
  std::string mutate(const std::string& text, const std::vector<std::string>& vocabulary);

 private:
  void mutate_lines(std::vector<std::string>& lines);
  void mutate_word(std::vector<std::string>& lines, const std::vector<std::string>& vocabulary);

  std::mt19937_64 random_;
};

}  // namespace tc
