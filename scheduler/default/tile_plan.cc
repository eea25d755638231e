// A reduction with lanes along an output: the loops of register tiles of vectors by columns.
#include <algorithm>
#include <cmath>
#include <utility>

#include "scheduler/default/plan.h"
#include "ir/target/narrow_product.h"
#include "ir/target/register_groups.h"

namespace tc {
namespace {

constexpr double kMaxCopies = 900;  // multiply-adds of one tile's straight-line code
// Operations of the epilogue of a tile that sums up bytes: such sums are short.
constexpr double kHeavyOfBytes = 600;
constexpr double kTaps = 3;           // of a window that is unrolled around the sum's copies
constexpr double kMaxOfWindow = 128;  // as kMaxCopies, of a window whose elements are used once or twice
// The same where each column goes through its window before the next one.
constexpr double kMaxOfStream = 256;
// Terms of a block of a sum, which are added up separately. Blocks of 192 (144 of a window of 3 x 3) cost 0.7
// % of the time over seven of the zoo's networks and 1.1 % at most. Their error from float64 is that of ONNX
// Runtime, which adds up blocks of 128 or 144 terms (python -m tests.bench.rounding); without blocks it was
// twice that.
constexpr int64_t kSumBlock = 192;
// Terms of one channel of a large window, as first layers have it: too few terms for blocks of 192, but every
// later layer inherits their error. ONNX Runtime adds up the channels of an image separately, too.
constexpr int64_t kWindowBlock = 48;

// Decides the fields of a plan one after the other; later ones depend on earlier ones.
class TilePlanner {
 public:
  TilePlanner(const ReductionFacts& facts, const IteratorPlan& iterators, const Choice& choice,
              const ReductionKnobs& knobs);
  LoopPlan plan();

 private:
  std::string loop(const std::string& iterator) const { return facts_.reduction().sum + "_" + iterator; }
  int64_t trips(const std::string& iterator) const { return facts_.extent(iterator, kAssumedSymbolic); }
  double column_tiles() const {
    return std::ceil(static_cast<double>(trips(columns_)) / static_cast<double>(choice_.tile.columns));
  }
  // Whether the loop over panels is outside of the other output loops: then a panel is read again and again
  // from a near cache, otherwise the other operand is.
  bool panels_outermost(double others) const;
  // Whether the loop over panels goes inside of the loop over tiles of columns, where these two are the only
  // loops around the tile: where an instruction waits for the first cache, it is better to read again and
  // again from there what a tile of columns reads.
  bool panels_inside() const;
  // Whether each tile of columns widens what it reads once for all panels, of which there are several.
  bool widens() const;
  // Finds the output loops around the tile, except the loop over tiles of columns.
  void find_outer();
  void pack_inputs();
  // Returns the rows of a tile.
  int64_t rows_of_small_map() const;
  int64_t split_rows();
  void order_loops();
  // How many trips of the innermost loop around the tile run inside of the loop over panels; 0 for all of
  // them. An in-order core waits for what each panel reads again from beyond the second cache, so there are
  // as many trips as this cache holds the input of.
  int64_t outer_block() const;
  // Whether each column goes through its window before the next column does: elements of the window are then
  // loaded one after the other and leave their registers soon. An out-of-order core does the same by itself.
  bool streams_window() const;
  // Whether the plan counts registers of vectors.
  bool counts() const { return counts_registers(facts_.target()) && facts_.target().vector_bits > 0; }
  void place_epilogue(int64_t copies);
  void unroll(int64_t copies);
  bool is_block_in_one_basic_block(const std::vector<std::string>& sums, double copies) const;
  // How the loop of an iterator is unrolled, as far as that is decided; null where it is not.
  const LoopPlan::Unrolling* unrolling_of(const std::string& iterator) const;
  void decide_copies(const std::vector<std::string>& sums, int64_t copies);
  void unroll_copies_of_sums(const std::vector<std::string>& sums, double& copies);
  void unroll_windows(const std::vector<std::string>& sums, double copies);
  void isolate();
  // Computes the sum in blocks, where it is long and should have the least error.
  void block_sums(const std::vector<std::string>& sums);
  // Prefetches the next panel, or its next K-block, of constants that are not in the cache from the last run.
  void prefetch_panels();
  // Prefetches what the next tile of columns reads of the input.
  void prefetch_input();

  const ReductionFacts& facts_;
  const IteratorPlan& iterators_;
  const Choice& choice_;
  const ReductionKnobs& knobs_;
  const std::string& columns_;
  const bool parts_;                 // whether panels are divided into K-blocks
  std::vector<std::string> sums_;    // iterators that are summed over, in the order of their loops
  std::vector<std::string> outer_;   // iterators
  std::vector<std::string> inside_;  // loops inside of those that sum: copies of the tile
  std::string around_;               // the innermost loop around the tile; may be empty
  std::string innermost_;            // of the loops around the tile, before blocks
  bool outside_ = false;             // the outermost loop that sums is outside of the tile
  int64_t rows_ = 1;                 // of the tile
  double others_ = 1;                // trips of the loops around the tile that are not the panels'
  LoopPlan plan_;
};

TilePlanner::TilePlanner(const ReductionFacts& facts, const IteratorPlan& iterators, const Choice& choice,
                         const ReductionKnobs& knobs)
    : facts_(facts),
      iterators_(iterators),
      choice_(choice),
      knobs_(knobs),
      columns_(choice.columns),
      parts_(!iterators.panel_part.empty()),
      sums_(order_of_sums(facts, iterators, choice.columns, knobs)) {}

LoopPlan TilePlanner::plan() {
  find_outer();
  rows_ = knobs_.rows != 0 ? knobs_.rows : rows_of_small_map();
  pack_inputs();
  if (!columns_.empty())
    plan_.splits.push_back(
        {loop(columns_), choice_.tile.columns, loop(columns_) + "_o", loop(columns_) + "_i"});
  const int64_t rows = split_rows();
  order_loops();
  const int64_t copies = iterators_.vector_count * rows * (columns_.empty() ? 1 : choice_.tile.columns);
  place_epilogue(copies);
  plan_.lanes = loop(iterators_.lane);
  unroll(copies);
  isolate();
  prefetch_panels();
  prefetch_input();
  return plan_;
}

bool TilePlanner::panels_outermost(double others) const {
  double constants = 0, inputs = 0;
  for (const Access& load : loads_of(facts_.sum())) {
    (depends_on(load, iterators_.panels) ? constants : inputs) += facts_.bytes_of(load);
  }
  auto cycles = [&](double bytes, double again) {
    const Target& target = facts_.target();
    const bool near = bytes <= calibration::kReadAgain * static_cast<double>(target.l2_bytes);
    return bytes / target.l3_bandwidth +
           (again - 1) * bytes / (near ? target.l2_bandwidth : target.l3_bandwidth);
  };
  return cycles(constants, 1) + cycles(inputs, static_cast<double>(iterators_.panel_count)) <=
         cycles(constants, others) + cycles(inputs, 1);
}

bool TilePlanner::panels_inside() const {
  if (!counts()) return false;
  if (iterators_.panels.empty() || columns_.empty() || parts_ || outer_.size() != 1) return false;
  return !panels_outermost(others_);
}

bool TilePlanner::widens() const {
  const bool plain = knobs_.outer_order == 0 && knobs_.outer_block == 0 && knobs_.outside == 0 && !parts_;
  return plain && adds_words(facts_, iterators_) && iterators_.vector_count == 1 &&
         !iterators_.panels.empty() && choice_.tile.columns == kWidenedColumns &&
         may_widen(facts_, iterators_.lane, columns_);
}

void TilePlanner::find_outer() {
  for (const std::string& name : facts_.outputs()) {
    if (name == iterators_.vectors || name == iterators_.lane || name == columns_ ||
        name == iterators_.panels)
      continue;
    outer_.push_back(name);
    others_ *= static_cast<double>(trips(name));
  }
  if (!columns_.empty()) others_ *= column_tiles();
  if (iterators_.panels.empty()) return;
  // Groups and batch stay outside of the panels.
  size_t place = 0;
  while (place < outer_.size() && facts_.shares_dimension(outer_[place], iterators_.dimension)) ++place;
  if (!parts_ && !panels_outermost(others_)) place = outer_.size();
  outer_.insert(outer_.begin() + static_cast<std::ptrdiff_t>(place), iterators_.panels);
}

// Packs an input whose lanes are not contiguous and that is read again and again: the copy is made where the
// loops begin that repeat the reading.
void TilePlanner::pack_inputs() {
  if (knobs_.outer_order != 0 || knobs_.outer_block != 0 || knobs_.outside != 0 || rows_ > 1) return;
  for (const Access& load : loads_of(facts_.sum())) {
    if (!facts_.is_packable_input(load, iterators_.lane, columns_)) continue;
    // Loops inside of all loops that the input depends on read it again.
    size_t last = outer_.size();
    for (size_t i = 0; i < outer_.size(); ++i) {
      if (depends_on(load, outer_[i])) last = i;
    }
    if (last == outer_.size()) continue;
    double again = columns_.empty() ? 1 : column_tiles();
    for (size_t i = last + 1; i < outer_.size(); ++i) again *= static_cast<double>(trips(outer_[i]));
    if (again < 2) continue;
    std::vector<std::string> iterators = outer_;
    iterators.insert(iterators.end(), sums_.begin(), sums_.end());
    iterators.insert(iterators.end(), {iterators_.vectors, iterators_.lane});
    plan_.packings.push_back(copy_of_input(facts_, load, iterators, loop(outer_[last])));
  }
}

// All rows of a map that is as small as a tile; else 1. Constants too large for a cache are then read once,
// in the order in which they are stored, instead of once for each row: read by rows, filters of 3 x 3 on maps
// of 2 x 2 reached half of the memory's bandwidth.
int64_t TilePlanner::rows_of_small_map() const {
  const bool plain = knobs_.outer_order == 0 && knobs_.outer_block == 0 && knobs_.outside == 0 && !parts_;
  if (!facts_.target().out_of_order() || !plain || columns_.empty() || column_tiles() > 1) return 1;
  int64_t rows = 1;
  for (const std::string& name : outer_) {
    if (name == iterators_.panels || trips(name) == 1) continue;
    if (rows > 1 || facts_.extent(name, 0) == 0) return 1;
    rows = trips(name);
  }
  const bool fits =
      rows * trips(columns_) * iterators_.vector_count <= facts_.target().vector_registers / 4 * 3;
  const std::vector<Access> loads = loads_of(facts_.sum());
  const bool large = std::any_of(loads.begin(), loads.end(), [&](const Access& load) {
    return facts_.packable(load) && facts_.bytes_of(load) > static_cast<double>(facts_.target().l2_bytes) * 2;
  });
  return fits && large ? rows : 1;
}

int64_t TilePlanner::split_rows() {
  if (rows_ <= 1) return 1;
  std::string row;
  for (const std::string& name : outer_) {
    if (name != iterators_.panels && trips(name) > 1) row = name;
  }
  if (row.empty()) throw NotApplicable{"no rows"};
  plan_.splits.push_back({loop(row), rows_, loop(row) + "_o", loop(row) + "_i"});
  return rows_;
}

// From the outermost to the innermost: the output loops as they are, the loop over tiles of columns, the
// loops that sum, the unrolled loops of the tile, the lanes.
void TilePlanner::order_loops() {
  std::vector<std::string>& order = plan_.order;
  for (const std::string& name : outer_) {
    order.push_back(loop(name));
    if (name == iterators_.panels && parts_) order.push_back(loop(iterators_.panel_part));
  }
  for (const Division& split : plan_.splits) {
    if (split.name == loop(columns_)) order.push_back(split.outer);
    else std::replace(order.begin(), order.end(), split.name, split.outer);
    inside_.push_back(split.inner);
  }
  std::reverse(inside_.begin(), inside_.end());  // rows around columns
  if (panels_inside()) std::swap(order[0], order[1]);
  if (widens()) {
    const auto panels = std::find(order.begin(), order.end(), loop(iterators_.panels));
    std::rotate(panels, panels + 1, order.end());
  }
  order = moved(order, knobs_.outer_order);
  innermost_ = around_ = order.empty() ? "" : order.back();
  outside_ = !parts_ && knobs_.outside != 0 && sums_.size() > 1 && !innermost_.empty();
  const int64_t block = outer_block();
  if (block > 0) {
    if (order.size() < (outside_ ? 1 : 2)) throw NotApplicable{"one loop around the tile"};
    // `block` trips of the innermost loop run before the next trip of the others.
    plan_.splits.push_back({innermost_, block, innermost_ + "_b", innermost_});
    order.insert(outside_ ? order.end() - 1 : order.begin(), innermost_ + "_b");
    if (outside_) around_ = innermost_ + "_b";
  }
  if (outside_ && block > 0) order.insert(order.end() - 1, loop(sums_.front()));
  for (const std::string& name : sums_) {
    if (std::find(order.begin(), order.end(), loop(name)) == order.end()) order.push_back(loop(name));
  }
  if (!iterators_.vectors.empty()) inside_.push_back(loop(iterators_.vectors));
  if (!iterators_.bytes.empty()) inside_.push_back(loop(iterators_.bytes));
  order.insert(order.end(), inside_.begin(), inside_.end());
  if (streams_window()) {
    const std::string window = loop(sums_.back());
    order.erase(std::find(order.begin(), order.end(), window));
    order.push_back(window);
  }
  order.push_back(loop(iterators_.lane));
}

int64_t TilePlanner::outer_block() const {
  if (knobs_.outer_block > 0) return knobs_.outer_block;
  const bool plain = knobs_.outer_order == 0 && knobs_.outside == 0 && !parts_ && plan_.packings.empty();
  if (!counts() || !plain || iterators_.panels.empty() || columns_.empty() || outer_.size() != 1) return 0;
  if (panels_inside()) return 0;
  double inputs = 0;
  for (const Access& load : loads_of(facts_.sum()))
    inputs += depends_on(load, iterators_.panels) ? 0 : facts_.bytes_of(load);
  const double room = calibration::kReadAgain * static_cast<double>(facts_.target().l2_bytes);
  if (inputs <= room) return 0;
  const double blocks = std::ceil(inputs / room);
  // Each block reads the constant again; without blocks, each panel would read from beyond the cache.
  return blocks >= static_cast<double>(iterators_.panel_count)
             ? 0
             : static_cast<int64_t>(std::ceil(column_tiles() / blocks));
}

bool TilePlanner::streams_window() const {
  if (!counts() || outside_ || parts_) return false;
  if (sums_.empty() || !facts_.is_window(sums_.back(), columns_)) return false;
  const std::vector<Access> loads = loads_of(facts_.sum());
  return std::all_of(loads.begin(), loads.end(),
                     [&](const Access& load) { return depends_on(load, iterators_.lane); });
}

void TilePlanner::place_epilogue(int64_t copies) {
  const bool bytes =
      !iterators_.bytes.empty() || (counts() && facts_.buffer(facts_.sum().write).dtype == DType::I32);
  const double heavy = bytes ? kHeavyOfBytes : kHeavyEpilogue;
  bool separate = !around_.empty() && epilogue_weight(facts_) * static_cast<double>(copies) > heavy;
  if (knobs_.separate_epilogue != 0) separate = knobs_.separate_epilogue == 2 && !around_.empty();
  // Where the loop over panels is the innermost one, the initialisation and the epilogue are in it as well:
  // it cannot be divided for the sums alone.
  separate = separate && !((panels_inside() || widens()) && around_ == loop(iterators_.panels));
  plan_.tile = plan_.init_at = plan_.epilogue_at = around_;
  if (outside_) {
    plan_.epilogue = Epilogue::AfterSums;
    plan_.tile = knobs_.outer_block > 0 ? innermost_ : loop(sums_.front());
  } else if (parts_) {
    plan_.epilogue = Epilogue::AfterSums;
    plan_.init_at = plan_.epilogue_at = loop(iterators_.panels);
  } else if (separate) {
    plan_.epilogue = Epilogue::AfterTile;
    plan_.held = Division{around_, 1, around_, around_ + "_t"};
    plan_.tile = plan_.init_at = around_ + "_t";
  }
}

void TilePlanner::unroll(int64_t copies) {
  for (const std::string& name : inside_) plan_.unrolled.push_back({name, 0});
  std::vector<std::string> sums = sums_;
  if (outside_ || parts_) sums.erase(sums.begin());
  if (sums.empty()) return;
  decide_copies(sums, copies);
  if (facts_.reduction().least_error) block_sums(sums);
}

const LoopPlan::Unrolling* TilePlanner::unrolling_of(const std::string& iterator) const {
  const auto found =
      std::find_if(plan_.unrolled.begin(), plan_.unrolled.end(),
                   [&](const LoopPlan::Unrolling& each) { return each.loop == loop(iterator); });
  return found == plan_.unrolled.end() ? nullptr : &*found;
}

void TilePlanner::decide_copies(const std::vector<std::string>& sums, int64_t copies) {
  double all = static_cast<double>(copies);
  for (const std::string& name : sums) all *= static_cast<double>(facts_.extent(name, INT32_MAX));
  if (knobs_.unroll == 0 && knobs_.windows == 0 && all <= kMaxOfWindow && facts_.is_window_alone()) {
    for (const std::string& name : sums) plan_.unrolled.push_back({loop(name), 0});
    return;
  }
  if (adds_words(facts_, iterators_) && knobs_.unroll == 0 && knobs_.windows == 0) {
    for (const LoopPlan::Unrolling& each : copies_of_words(facts_, columns_, sums))
      plan_.unrolled.push_back({loop(each.loop), each.copies});
    return;
  }
  auto straight = static_cast<double>(copies);
  unroll_copies_of_sums(sums, straight);
  unroll_windows(sums, straight);
}

// How many steps of a sum one trip takes, where lanes are twice those of a block: its few columns leave room
// for more code, and a number that divides the sum leaves no remainder.
static int64_t steps_of_doubled(int64_t extent) {
  constexpr int64_t kFewest = 16, kMost = 40;
  for (int64_t steps = kMost; steps > kFewest; --steps) {
    if (extent > 0 && extent % steps == 0) return steps;
  }
  return kFewest;
}

// Whether the steps of a block of channels are unrolled as a whole: there is no window, and the code stays
// small. Not for sums of at most four blocks whose results are larger than the second cache: with prefetching
// loads of the lines that are stored, sums would be spilled.
bool TilePlanner::is_block_in_one_basic_block(const std::vector<std::string>& sums, double copies) const {
  constexpr double kFewBlocks = 4;
  const auto block = static_cast<double>(facts_.target().block);
  if (!counts() || columns_.empty() || has_doubled_lanes(facts_, choice_.lanes) ||
      facts_.extent(sums.back(), 0) != facts_.target().block || copies * block > kMaxCopies)
    return false;
  double steps = 1;
  for (const std::string& name : sums) {
    if (facts_.is_window(name, columns_)) return false;
    steps *= static_cast<double>(facts_.extent(name, INT32_MAX));
  }
  return steps > kFewBlocks * block ||
         facts_.bytes_of(facts_.sum().write) <= static_cast<double>(facts_.target().l2_bytes);
}

// Unrolls as a whole the loops whose trips only unrolled copies can tell apart; unrolls the innermost loop,
// where it is no window, by a few copies.
void TilePlanner::unroll_copies_of_sums(const std::vector<std::string>& sums, double& copies) {
  for (const std::string& name : sums) {
    const auto extent = static_cast<double>(facts_.extent(name, 0));
    const bool cut = facts_.cuts_lanes(name, iterators_.lane) && extent != 0 && copies * extent <= kMaxCopies;
    if (!facts_.moves_groups(name) && !cut) continue;
    plan_.unrolled.push_back({loop(name), 0});
    copies *= std::max(1.0, extent);
    if (name == sums.back()) return;
  }
  const std::string& last = sums.back();
  if (facts_.is_window(last, columns_)) return;
  // On an in-order core nothing of the next trip begins before the end of this one: fewer trips wait less
  // often.
  int64_t few = counts() ? 16 : copies >= 16 ? 4 : 8;
  if (!columns_.empty() && has_doubled_lanes(facts_, choice_.lanes))
    few = steps_of_doubled(facts_.extent(last, 0));
  while (counts() && few > 4 && copies * static_cast<double>(few) * kTaps > kMaxCopies) few /= 2;
  if (is_block_in_one_basic_block(sums, copies)) few = facts_.target().block;
  const int64_t extent = facts_.extent(last, 0), wanted = knobs_.unroll > 0 ? knobs_.unroll : few;
  if (wanted == 1 || copies * static_cast<double>(wanted) > kMaxCopies) return;
  if (extent == 0 || extent >= wanted) {
    plan_.unrolled.push_back({loop(last), wanted});
    copies *= static_cast<double>(wanted);
  } else if (extent > 1) {
    plan_.unrolled.push_back({loop(last), 0});
    copies *= static_cast<double>(extent);
  }
}

// A block is a number of trips of the innermost loop that has at least a block of terms and is not unrolled
// as a whole.
void TilePlanner::block_sums(const std::vector<std::string>& sums) {
  const Buffer& buffer = facts_.buffer(facts_.sum().write);
  // An in-order core would wait for each of the totals.
  if (facts_.sum().reduction != Reduction::Sum || !is_float(buffer.dtype) || !facts_.target().out_of_order())
    return;
  auto in_window = [&](const std::string& name) {
    const auto outputs = facts_.outputs();
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](const std::string& output) { return facts_.is_window(name, output); });
  };
  int64_t inside = 1, terms = 1;
  for (const std::string& name : sums_) terms *= facts_.extent(name, 1);
  for (auto name = sums.rbegin(); name != sums.rend(); ++name) {
    const int64_t extent = facts_.extent(*name, 0);
    const LoopPlan::Unrolling* unrolled = unrolling_of(*name);
    const bool copies = unrolled != nullptr && unrolled->copies == 0;
    const bool outermost = name + 1 == sums.rend();
    if (extent == 0) return;
    // Partial sums that wait in memory between the parts of a panel are totals already: each part is a block
    // or more.
    const bool fills_block = inside * extent >= kSumBlock || (outermost && sums.size() < sums_.size());
    if (!copies && outermost && inside >= kWindowBlock && extent > 2 && terms <= 2 * kSumBlock &&
        std::all_of(sums.rbegin(), name, in_window)) {
      plan_.blocks = LoopPlan::Unrolling{loop(*name), 1};
      return;
    }
    if (!copies && fills_block) {
      int64_t trips = std::clamp<int64_t>((kSumBlock + inside / 2) / inside, 1, extent);
      // A sum of one block gains nothing, one of two too little for its cost.
      if (trips * inside * 2 >= terms) return;
      // A block of a whole loop is one trip of the loop around it, whose first and last block need no totals
      // in memory.
      if (trips == extent && !outermost && unrolling_of(*(name + 1)) == nullptr &&
          facts_.extent(*(name + 1), 0) > 1) {
        ++name;
        trips = 1;
      }
      plan_.blocks = LoopPlan::Unrolling{loop(*name), trips};
      return;
    }
    inside *= extent;
  }
}

// Unrolls windows along the columns, so that their conditions are decided at compile time. They stay loops
// where the same broadcast would serve several columns (the innermost loop of a first layer).
void TilePlanner::unroll_windows(const std::vector<std::string>& sums, double copies) {
  const bool innermost_window = facts_.is_window(sums.back(), columns_);
  const bool channels = sums.size() > 1 && !innermost_window;
  for (const std::string& name : sums) {
    const bool last = name == sums.back();
    if (last && !innermost_window) continue;
    const bool already = unrolling_of(name) != nullptr;
    const int64_t size = facts_.extent(name, 0);
    if (!facts_.is_window(name, columns_) || size == 0 || already) continue;
    bool worth = last ? !facts_.shares_broadcasts(name, columns_, iterators_.lane)
                      : facts_.constrained(columns_) && channels;
    if (knobs_.windows != 0) worth = knobs_.windows == 2;
    if (!worth || copies * static_cast<double>(size) > kMaxCopies) continue;
    plan_.unrolled.push_back({loop(name), 0});
    copies *= static_cast<double>(size);
  }
  if (!streams_window() || knobs_.windows == 1) return;
  // The whole window becomes one basic block: its sums begin with a product and end with the last row of
  // taps.
  for (const std::string& name : sums) {
    const auto size = static_cast<double>(facts_.extent(name, 0));
    if (unrolling_of(name) != nullptr || size == 0 || size > kTaps || copies * size > kMaxOfStream) continue;
    plan_.unrolled.push_back({loop(name), 0});
    copies *= size;
  }
}

// Isolates the loops that are worth a version without conditions.
void TilePlanner::isolate() {
  if (knobs_.isolate != 0) return;
  if (!around_.empty()) plan_.isolated.push_back(around_);
  if (widens()) {
    // Padding does not divide the loop: where a word does not exist, it is widened as 0.
    if (trips(columns_) % kWidenedColumns != 0) plan_.isolated.push_back(loop(columns_) + "_o");
    plan_.widened = loop(columns_) + "_o";
    return;
  }
  if (streams_window() && !outer_.empty()) {
    const std::string rows = loop(outer_.back());
    const bool splits = std::any_of(plan_.splits.begin(), plan_.splits.end(),
                                    [&](const Division& each) { return each.name == rows; });
    if (rows != around_ && !splits && facts_.constrained(outer_.back())) plan_.isolated.push_back(rows);
  }
  const std::string panels = loop(iterators_.panels);
  if (!iterators_.panels.empty() && panels != around_ && panels != plan_.tile)
    plan_.isolated.push_back(panels);
}

void TilePlanner::prefetch_panels() {
  constexpr double kMinUses = 2, kMinBytes = 128 << 10;
  double uses = others_;
  std::string outer = parts_ ? iterators_.panel_part : iterators_.panels;
  if (outer.empty()) {
    // The tile takes all vectors of a group: each group has its panel.
    outer = iterators_.group;
    uses /= static_cast<double>(outer.empty() ? 1 : trips(outer));
  }
  if (outer.empty()) return;
  auto panels = static_cast<double>(facts_.extent(outer, 1));
  if (parts_) panels *= static_cast<double>(facts_.extent(iterators_.panels, 1));
  if (!facts_.target().prefetches() || panels < 2 || uses < kMinUses) return;
  for (const Access& load : loads_of(facts_.sum())) {
    if (!facts_.is_constant(load) || !depends_on(load, outer)) continue;
    const double bytes = facts_.bytes_of(load);
    if (bytes < kMinBytes ||
        bytes / panels > calibration::kReadAgain * static_cast<double>(facts_.target().l2_bytes))
      continue;
    plan_.prefetched.push_back({facts_.buffer(load).name, loop(outer)});
  }
}

// Where neighbouring columns are about a cache line apart, a tile reads in many places (each row of a window,
// each block of channels), whose next lines the hardware prefetches too late: maps of 128 columns and more
// ran at 75 % of the peak.
void TilePlanner::prefetch_input() {
  if (!facts_.target().prefetches() || columns_.empty() || trips(columns_) <= choice_.tile.columns) return;
  for (const Access& load : loads_of(facts_.sum())) {
    const Buffer& buffer = facts_.buffer(load);
    const auto step = element_stride(facts_.kernel(), load, columns_);
    if (buffer.scope != Scope::Input || !step) continue;
    const int64_t bytes = *step * size_of(buffer.dtype);
    // Here no instruction overtakes one that waits for a line.
    const bool waits = facts_.target().prefetch_by_loads;
    if ((2 * bytes < kLineBytes && !waits) || bytes > 2 * kLineBytes ||
        facts_.bytes_of(load) < static_cast<double>(facts_.target().l1_bytes))
      continue;
    plan_.prefetched.push_back({buffer.name, loop(columns_) + "_o"});
  }
}

}  // namespace

std::vector<std::string> constant_packings(const ReductionFacts& facts, const IteratorPlan& iterators,
                                           const Choice& choice, const ReductionKnobs& knobs) {
  std::vector<std::string> lines;
  for (const Access& load : loads_of(facts.sum())) {
    if (!facts.packable(load) || !depends_on(load, iterators.lane)) continue;
    std::string line = "pack " + facts.buffer(load).name + " :";
    const bool split = !iterators.vectors.empty() && depends_on(load, iterators.vectors);
    // Without columns each constant is used once, and a tile's vectors are as many streams. On a core that
    // overtakes waiting loads these are far from each other and go on from tile to tile: hardware prefetchers
    // follow them. A core that executes in order follows one stream best.
    const bool streams = split && choice.columns.empty();
    const bool outermost = streams && facts.target().out_of_order();
    if (outermost) line += " " + iterators.vectors;
    for (const std::string& name : facts.outputs()) {
      if (name != iterators.vectors && name != iterators.lane && depends_on(load, name)) line += " " + name;
    }
    if (streams && !outermost) line += " " + iterators.vectors;
    for (const std::string& name : order_of_sums(facts, iterators, choice.columns, knobs)) {
      if (depends_on(load, name)) line += " " + name;
    }
    if (split && !streams) line += " " + iterators.vectors;
    line += " " + iterators.lane;
    if (!iterators.bytes.empty()) line += " " + iterators.bytes;
    lines.push_back(line);
  }
  return lines;
}

LoopPlan plan_tile_loops(const ReductionFacts& facts, const IteratorPlan& iterators, const Choice& choice,
                         const ReductionKnobs& knobs) {
  return TilePlanner(facts, iterators, choice, knobs).plan();
}

}  // namespace tc
