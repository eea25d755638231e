// Changes of candidates.
#include "tuner/space.h"

#include <algorithm>
#include <set>
#include <sstream>

namespace tc {
namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& line) {
  std::istringstream in(line);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string line_of(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

// Position of the number in a line that may have another; 0 where there is none.
size_t number_place(const Words& words) {
  const bool numbered = words.size() >= 3 && words[2].size() < 10 &&
                        words[2].find_first_not_of("0123456789") == std::string::npos;
  if (!numbered) return 0;
  return words[0] == "split" || words[0] == "strip" || words[0] == "unroll" ? 2 : 0;
}

int64_t other_number(int64_t number, Random& random) {
  constexpr int64_t kLargest = 512;
  int64_t result = number;
  switch (random.below(4)) {
    case 0: result = number * 2; break;
    case 1: result = number / 2; break;
    case 2: result = number + 1; break;
    default: result = number - 1;
  }
  return std::clamp<int64_t>(result, 1, kLargest);
}

class LineChange {
 public:
  LineChange(const Trace& trace, size_t fixed, Random& random)
      : trace_(trace), fixed_(fixed), random_(random) {}

  bool number() {
    std::vector<size_t> lines;
    for (size_t i = fixed_; i < trace_.size(); ++i) {
      if (number_place(words_of(trace_[i])) != 0) lines.push_back(i);
    }
    if (lines.empty()) return false;
    std::string& line = trace_[pick(lines)];
    Words words = words_of(line);
    std::string& number = words[number_place(words)];
    number = std::to_string(other_number(std::stoll(number), random_));
    return replace(line, words);
  }

  bool order() {
    const std::vector<size_t> lines = starting_with({"order"});
    if (lines.empty()) return false;
    std::string& line = trace_[pick(lines)];
    Words words = words_of(line);
    // The last is mostly the vector and has to stay.
    const auto count = static_cast<int64_t>(words.size()) - 2;
    if (count < 2) return false;
    const int64_t from = 1 + random_.below(count);
    int64_t to = 1 + random_.below(count);
    if (random_.chance(0.5)) to = from < count ? from + 1 : from - 1;
    const std::string moved = words[static_cast<size_t>(from)];
    words.erase(words.begin() + from);
    words.insert(words.begin() + to, moved);
    return replace(line, words);
  }

  bool drop() {
    const std::vector<size_t> lines = starting_with({"isolate", "unroll"});
    if (lines.empty()) return false;
    trace_.erase(trace_.begin() + static_cast<std::ptrdiff_t>(pick(lines)));
    return true;
  }

  bool add() {
    const std::string loop = any_loop();
    if (loop.empty()) return false;
    for (size_t i = fixed_; i < trace_.size(); ++i) {
      const Words words = words_of(trace_[i]);
      const bool marks = words[0] == "isolate" || words[0] == "unroll" || words[0] == "vectorize" ||
                         words[0] == "parallel";
      if (marks && std::find(words.begin() + 1, words.end(), loop) != words.end()) return false;
    }
    const int64_t copies = int64_t{2} << random_.below(3);
    std::string line = random_.chance(0.3) ? "isolate " + loop
                                           : "unroll " + loop + " " + std::to_string(copies);
    // Parallel marks judge the whole tree: they stay last.
    auto place = trace_.end();
    if (place != trace_.begin() && words_of(trace_.back())[0] == "parallel") --place;
    if (place < trace_.begin() + static_cast<std::ptrdiff_t>(fixed_)) return false;
    trace_.insert(place, line);
    return true;
  }

  // `order a b c` -> `split c 8 as c_z c; order a c_z b c`.
  bool divide() {
    const std::vector<size_t> lines = starting_with({"order"});
    if (lines.empty()) return false;
    const size_t place = pick(lines);
    Words words = words_of(trace_[place]);
    const auto count = static_cast<int64_t>(words.size()) - 2;
    if (count < 2) return false;
    const int64_t which = 2 + random_.below(count - 1);
    const std::string loop = words[static_cast<size_t>(which)], outer = loop + "_z";
    for (const std::string& line : trace_) {
      const Words others = words_of(line);
      if (std::find(others.begin(), others.end(), outer) != others.end()) return false;
    }
    words.insert(words.begin() + 1 + random_.below(which - 1), outer);
    trace_[place] = line_of(words);
    const std::string size = std::to_string(int64_t{2} << random_.below(5));
    trace_.insert(trace_.begin() + static_cast<std::ptrdiff_t>(place),
                  "split " + loop + " " + size + " as " + outer + " " + loop);
    return true;
  }

  const Trace& trace() const { return trace_; }

 private:
  size_t pick(const std::vector<size_t>& lines) {
    return lines[static_cast<size_t>(random_.below(static_cast<int64_t>(lines.size())))];
  }
  std::vector<size_t> starting_with(const std::set<std::string>& names) const {
    std::vector<size_t> lines;
    for (size_t i = fixed_; i < trace_.size(); ++i) {
      if (names.count(words_of(trace_[i])[0]) > 0) lines.push_back(i);
    }
    return lines;
  }
  std::string any_loop() {
    const std::vector<size_t> lines = starting_with({"order"});
    if (lines.empty()) return "";
    const Words words = words_of(trace_[pick(lines)]);
    return words[static_cast<size_t>(1 + random_.below(static_cast<int64_t>(words.size()) - 1))];
  }
  static bool replace(std::string& line, const Words& words) {
    const std::string changed = line_of(words);
    if (changed == line) return false;
    line = changed;
    return true;
  }

  Trace trace_;
  size_t fixed_;
  Random& random_;
};

}  // namespace

uint64_t Random::next() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

int64_t Random::below(int64_t count) { return static_cast<int64_t>(next() % static_cast<uint64_t>(count)); }
double Random::unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

Point random_point(const ScheduleSpace& space, Random& random) {
  Point point = space.default_point();
  for (size_t axis = 0; axis < point.size(); ++axis) {
    const auto& dimension = space.dimensions()[axis];
    point[axis] = static_cast<int>(random.below(static_cast<int64_t>(dimension.values.size())));
  }
  return space.canonical(std::move(point));
}

Point mutate(const ScheduleSpace& space, const Point& point, Random& random) {
  constexpr int kAttempts = 20;
  for (int attempt = 0; attempt < kAttempts && !point.empty(); ++attempt) {
    const auto axis = static_cast<size_t>(random.below(static_cast<int64_t>(point.size())));
    const auto& dimension = space.dimensions()[axis];
    const auto size = static_cast<int>(dimension.values.size());
    Point changed = point;
    const bool ordered = point[axis] >= static_cast<int>(dimension.ordered_from);
    if (ordered && random.chance(0.75)) {
      changed[axis] += static_cast<int>(random.chance(0.7) ? 1 : 2) * (random.chance(0.5) ? 1 : -1);
      changed[axis] = std::clamp(changed[axis], 0, size - 1);
    } else {
      changed[axis] = static_cast<int>(random.below(size));
    }
    changed = space.canonical(std::move(changed));
    if (changed != point) return changed;
  }
  return point;
}

Point crossover(const Point& a, const Point& b, Random& random) {
  Point point = a;
  for (size_t axis = 0; axis < point.size(); ++axis) {
    if (random.chance(0.5)) point[axis] = b[axis];
  }
  return point;
}

std::vector<Point> neighbours(const ScheduleSpace& space, const Point& point) {
  std::vector<Point> result;
  for (size_t axis = 0; axis < point.size(); ++axis) {
    const auto& dimension = space.dimensions()[axis];
    for (int index = 0; index < static_cast<int>(dimension.values.size()); ++index) {
      const auto from = static_cast<int>(dimension.ordered_from);
      const bool far = index >= from && point[axis] >= from && std::abs(index - point[axis]) > 2;
      if (index == point[axis] || far) continue;
      Point changed = point;
      changed[axis] = index;
      result.push_back(space.canonical(std::move(changed)));
    }
  }
  return result;
}

std::optional<Trace> mutate_lines(const Trace& trace, size_t fixed, Random& random, std::string* kind) {
  LineChange change(trace, fixed, random);
  bool done = false;
  switch (random.below(8)) {
    case 0:
    case 1:
    case 2: *kind = "number"; done = change.number(); break;
    case 3:
    case 4: *kind = "order"; done = change.order(); break;
    case 5: *kind = "drop"; done = change.drop(); break;
    case 6: *kind = "add"; done = change.add(); break;
    default: *kind = "divide"; done = change.divide();
  }
  if (!done) return std::nullopt;
  return change.trace();
}

}  // namespace tc
