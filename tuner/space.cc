// Random changes of candidates.
#include "tuner/space.h"

#include <algorithm>
#include <utility>

namespace tc {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
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

// Changes lines of a trace. The rows of the primitives say which numbers and orders may be changed, and which
// marks may be dropped.
class LineChange {
 public:
  LineChange(const Trace& trace, size_t fixed, Random& random)
      : trace_(trace), fixed_(fixed), random_(random) {
    for (const std::string& line : trace) lines_.push_back(read_line(line).value_or(PrimitiveLine{}));
  }

  bool number() {
    std::vector<std::pair<size_t, size_t>> places;  // line and word
    for (size_t i = fixed_; i < lines_.size(); ++i) {
      for (size_t word : words_with(lines_[i], Argument::Change::Number)) places.emplace_back(i, word);
    }
    if (places.empty()) return false;
    const auto [line, place] = pick(places);
    std::vector<std::string> words = lines_[line].words;
    words[place] = std::to_string(other_number(std::stoll(words[place]), random_));
    return replace(line, words);
  }

  bool order() {
    const std::vector<size_t> lines = with_orders();
    if (lines.empty()) return false;
    const size_t line = pick(lines);
    std::vector<std::string> words = lines_[line].words;
    const auto first = static_cast<int64_t>(words_with(lines_[line], Argument::Change::Order).front());
    // The last loop mostly runs along the vector's lanes, and has to stay last.
    const int64_t count = static_cast<int64_t>(words_with(lines_[line], Argument::Change::Order).size()) - 1;
    if (count < 2) return false;
    const int64_t from = first + random_.below(count);
    int64_t to = first + random_.below(count);
    if (random_.chance(0.5)) to = from < first + count - 1 ? from + 1 : from - 1;
    const std::string moved = words[static_cast<size_t>(from)];
    words.erase(words.begin() + from);
    words.insert(words.begin() + to, moved);
    return replace(line, words);
  }

  bool drop() {
    const std::vector<size_t> lines = those([](const PrimitiveLine& line) { return line.row->tuned; });
    if (lines.empty()) return false;
    trace_.erase(trace_.begin() + static_cast<std::ptrdiff_t>(pick(lines)));
    return true;
  }

  // Adds one of the marks that may be dropped, to a loop that has no mark.
  bool add() {
    const std::string loop = any_loop();
    if (loop.empty()) return false;
    const std::vector<size_t> marked = those([&](const PrimitiveLine& line) {
      return line.row->kind == PrimitiveKind::Mark &&
             std::count(line.words.begin() + 1, line.words.end(), loop) > 0;
    });
    if (!marked.empty()) return false;
    std::vector<const PrimitiveRow*> rows;
    for (const PrimitiveRow& row : primitive_table()) {
      if (row.tuned) rows.push_back(&row);
    }
    const PrimitiveRow& row = *pick(rows);
    std::vector<std::string> words = {row.first_word()};
    for (const Argument& argument : row.form) {
      const bool number = argument.kind == Argument::Kind::Number;
      words.push_back(number ? std::to_string(int64_t{2} << random_.below(3)) : loop);
    }
    // Primitives that work on the whole schedule tree (`last`) stay at the end.
    size_t place = trace_.size();
    while (place > fixed_ && lines_[place - 1].row != nullptr && lines_[place - 1].row->last) --place;
    trace_.insert(trace_.begin() + static_cast<std::ptrdiff_t>(place), joined(words));
    return true;
  }

  // `order a b c` -> `split c 8 as c_z c; order a c_z b c`.
  bool divide() {
    const std::vector<size_t> lines = with_orders();
    if (lines.empty()) return false;
    const size_t place = pick(lines);
    std::vector<std::string> words = lines_[place].words;
    const std::vector<size_t> loops = words_with(lines_[place], Argument::Change::Order);
    const auto count = static_cast<int64_t>(loops.size()) - 1;
    if (count < 2) return false;
    const int64_t which = 1 + random_.below(count - 1);
    const std::string loop = words[loops[static_cast<size_t>(which)]], outer = loop + "_z";
    for (const PrimitiveLine& line : lines_) {
      if (std::count(line.words.begin(), line.words.end(), outer) > 0) return false;
    }
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(loops[0]) + random_.below(which), outer);
    trace_[place] = joined(words);
    const std::string size = std::to_string(int64_t{2} << random_.below(5));
    trace_.insert(trace_.begin() + static_cast<std::ptrdiff_t>(place),
                  "split " + loop + " " + size + " as " + outer + " " + loop);
    return true;
  }

  const Trace& trace() const { return trace_; }

 private:
  template <class Item>
  const Item& pick(const std::vector<Item>& items) {
    return items[static_cast<size_t>(random_.below(static_cast<int64_t>(items.size())))];
  }
  // Positions of the words in the line that the tuner may change in that way.
  static std::vector<size_t> words_with(const PrimitiveLine& line, Argument::Change change) {
    std::vector<size_t> result;
    for (size_t i = 1; i < line.words.size(); ++i) {
      if (line.arguments[i]->change == change) result.push_back(i);
    }
    return result;
  }
  template <class Question>
  std::vector<size_t> those(const Question& question) const {
    std::vector<size_t> result;
    for (size_t i = fixed_; i < lines_.size(); ++i) {
      if (lines_[i].row != nullptr && question(lines_[i])) result.push_back(i);
    }
    return result;
  }
  std::vector<size_t> with_orders() const {
    return those(
        [](const PrimitiveLine& line) { return !words_with(line, Argument::Change::Order).empty(); });
  }
  std::string any_loop() {
    const std::vector<size_t> lines = with_orders();
    if (lines.empty()) return "";
    const PrimitiveLine& line = lines_[pick(lines)];
    return line.words[pick(words_with(line, Argument::Change::Order))];
  }
  bool replace(size_t line, const std::vector<std::string>& words) {
    const std::string changed = joined(words);
    if (changed == trace_[line]) return false;
    trace_[line] = changed;
    return true;
  }

  Trace trace_;
  std::vector<PrimitiveLine> lines_;  // of the original trace
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
    case 2:
      *kind = "number";
      done = change.number();
      break;
    case 3:
    case 4:
      *kind = "order";
      done = change.order();
      break;
    case 5:
      *kind = "drop";
      done = change.drop();
      break;
    case 6:
      *kind = "add";
      done = change.add();
      break;
    default: *kind = "divide"; done = change.divide();
  }
  if (!done) return std::nullopt;
  return change.trace();
}

}  // namespace tc
