#include "scheduler/default/channel_windows.h"

#include <algorithm>

#include "ir/target/narrow_product.h"
#include "scheduler/default/facts.h"
#include "scheduler/default/write.h"

namespace tc {
namespace {

constexpr int64_t kLanes = kLanesOfWord;  // channels that are widened together
constexpr int64_t kTaps = 3;              // columns of the window
constexpr int64_t kMostColumns = 7;       // whose sums and operands are all in registers
constexpr int64_t kMostBytes = 2048;      // of widened rows, which are on the stack
constexpr int64_t kFewBytes = 1024;       // that need not be fewer
constexpr double kAgain = 1.25;           // times that rows are widened, where that saves memory
constexpr int64_t kMostOfWindow = 900;    // bytes between the first and the last row that a tile reads

int64_t parts_of(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

// The widest tile whose pairs of pixels begin at an even column, and that leaves no remainder.
int64_t columns_for(int64_t extent) {
  if (extent <= kMostColumns) return extent;
  for (int64_t columns = kMostColumns - 1; columns > 1; columns -= 2) {
    if (extent % columns == 0) return columns;
  }
  throw NotApplicable{"columns that make no tiles of two to six"};
}

}  // namespace

MapWindow find_map_window(const ReductionFacts& facts, ChannelWindows& plan) {
  const Expr& value = *facts.sum().value;
  if (value.kind != Expr::Kind::Binary || value.binary != BinaryOp::Mul || value.dtype != DType::I32 ||
      facts.sum().reduction != Reduction::Sum || !is_cast_byte(*value.operands[0]) ||
      !is_cast_byte(*value.operands[1]))
    throw NotApplicable{"it adds up no products of bytes"};
  const std::vector<Access> loads = loads_of(facts.sum());
  const bool first = facts.packable(loads[0]);
  if (loads.size() != 2 || first == facts.packable(loads[1])) throw NotApplicable{"no constant weights"};
  MapWindow window{loads[first ? 1 : 0]};
  const Access& weights = loads[first ? 0 : 1];
  const std::vector<std::string> outputs = facts.outputs(), sums = facts.reductions();
  if (outputs.size() < 3 || outputs.size() > 4 || sums.size() != 2)
    throw NotApplicable{"not one map of rows and columns"};
  int found = 0;
  for (size_t d = 0; d < window.input.index.size(); ++d) {
    const Affine& index = window.input.index[d].affine;
    for (const std::string& output : outputs) {
      for (const std::string& sum : sums) {
        if (index.coefficient(output) == 0 || index.coefficient(sum) == 0) continue;
        if (++found == 1) {
          plan.row = output, plan.tap_row = sum;
          window.row_stride = index.coefficient(output), window.row_dilation = index.coefficient(sum);
        } else {
          plan.column = output, plan.tap_column = sum;
          window.column_stride = index.coefficient(output), window.column_dilation = index.coefficient(sum);
        }
      }
    }
  }
  if (found != 2 || depends_on(weights, plan.row) || depends_on(weights, plan.column))
    throw NotApplicable{"no window of rows and columns"};
  for (const std::string& output : outputs) {
    if (output == plan.row || output == plan.column) continue;
    if (element_stride(facts.kernel(), window.input, output) == 1) plan.channel = output;
    else plan.block = output;
  }
  const auto step = element_stride(facts.kernel(), window.input, plan.column);
  if (plan.channel.empty() || facts.extent(plan.channel, 0) != kLanesOfWord ||
      step != kLanesOfWord * window.column_stride ||
      (outputs.size() == 4 && !depends_on(weights, plan.block)))
    throw NotApplicable{"channels that are not in blocks of a word"};
  return window;
}

std::string ChannelWindows::in_words() const {
  if (!lanes.empty()) return text("one channel, patches of its map for four results along ", lanes);
  return text("one channel, tiles of ", columns, " columns along ", column, ", ",
              band > 0 ? text(band, " rows") : text("all rows"), " widened at a time");
}

ChannelWindows find_channel_windows(const TraceBuilder& builder) {
  if (!reads_widened_words(builder.target()))
    throw NotApplicable{"the target does not add up products of 16-bit numbers in scalars"};
  const ReductionKernel reduction = prepare_reduction(builder);
  const ReductionFacts facts(reduction);
  if (facts.reduction_class() != ReductionClass::Depthwise)
    throw NotApplicable{"the kernel is no depthwise convolution"};
  ChannelWindows plan;
  const MapWindow window = find_map_window(facts, plan);
  if (window.column_dilation != 1) throw NotApplicable{"columns of the window that are apart"};
  const auto extent = [&](const std::string& name) { return facts.extent(name, 0); };
  const int64_t rows = extent(plan.row), columns = extent(plan.column), taps = extent(plan.tap_row),
                blocks = plan.block.empty() ? 1 : extent(plan.block);
  if (rows == 0 || columns == 0 || taps == 0 || blocks == 0) throw NotApplicable{"sizes that are open"};
  if (extent(plan.tap_column) != kTaps) throw NotApplicable{"a window of another width than 3"};
  if (window.column_stride > 2) throw NotApplicable{"a window that moves by more than two columns"};
  plan.columns = columns_for(columns);
  const int64_t pairs = parts_of((columns - 1) * window.column_stride + kTaps, 2);
  const int64_t row_bytes = 4 * pairs, span = (taps - 1) * window.row_dilation;
  if (span * row_bytes > kMostOfWindow) throw NotApplicable{"rows that are too long"};
  // As many rows as fit, in bands of equal size.
  const auto read = [&](int64_t band) { return (band - 1) * window.row_stride + span + 1; };
  const int64_t fitting = kMostBytes / (kLanes * row_bytes);
  if (fitting < read(1)) throw NotApplicable{"a row whose inputs do not fit"};
  const int64_t most = std::min(rows, (fitting - span - 1) / window.row_stride + 1);
  int64_t bands = parts_of(rows, most);
  // More bands take less memory; each one widens again what windows of the one before it have read.
  const auto widened_by = [&](int64_t count) { return count * read(parts_of(rows, count)); };
  while (kLanes * row_bytes * read(parts_of(rows, bands)) > kFewBytes &&
         widened_by(bands + 1) <= kAgain * static_cast<double>(read(rows)))
    ++bands;
  // Without blocks, all rows are a band, so that there is a loop that widens.
  plan.band = bands == 1 && !plan.block.empty() ? 0 : parts_of(rows, bands);
  // Cycles of a pair of pixels that is widened for four channels; of a tile, its sums, and their epilogue.
  constexpr double kWiden = 20, kRow = 12, kTile = 25, kOfWeights = 3, kProducts = 2, kLoads = 1.5,
                   kStore = 4, kMostOfEpilogue = 8;
  const auto width = static_cast<double>(plan.columns);
  const double loaded = width * static_cast<double>(window.column_stride) / 2 + 1;
  const double epilogue = kStore + std::min(kMostOfEpilogue, epilogue_weight(facts));
  const double tile = kTile + width * epilogue +
                      static_cast<double>(taps) * (kOfWeights + kProducts * width + kLoads * loaded);
  const auto widened = static_cast<double>(widened_by(bands));
  const double tiles = static_cast<double>(rows * columns * blocks * kLanes) / width;
  plan.cycles =
      tiles * tile + static_cast<double>(blocks) * widened * (kRow + kWiden * static_cast<double>(pairs));
  return plan;
}

LaneLayout lay_out_channels(ReductionKernel& reduction, const ChannelWindows& plan) {
  Choice choice;
  choice.vector = plan.channel;
  choice.columns = plan.column;
  choice.lanes = kLanesOfWord;
  LaneLayout layout = lay_out_lanes(reduction, choice);
  const ReductionFacts facts(reduction);
  for (const Access& load : loads_of(facts.sum())) {
    if (!facts.packable(load)) continue;
    reduction.builder.apply("pack ", facts.buffer(load).name, " : ", plan.block, " ", plan.tap_row, " ",
                            plan.tap_column, " ", layout.lane);
  }
  return layout;
}

TraceBuilder schedule_channel_windows(const TraceBuilder& start, const ChannelWindows& plan) {
  ReductionKernel reduction = prepare_reduction(start);
  TraceBuilder& builder = reduction.builder;
  const LaneLayout layout = lay_out_channels(reduction, plan);
  const ReductionFacts facts(reduction);
  const auto loop = [&](const std::string& iterator) { return reduction.sum + "_" + iterator; };
  const int64_t columns = facts.extent(plan.column, 0);
  std::string bands, rows = loop(plan.row), copies = loop(plan.column);
  std::vector<std::string> order;
  if (!plan.block.empty()) order.push_back(bands = loop(plan.block));
  if (plan.band > 0) {
    bands = rows + "_o";
    builder.apply("split ", rows, " ", plan.band, " as ", bands, " ", rows, "_i");
    rows += "_i";
    order.push_back(bands);
  }
  std::string tiles = rows;
  order.insert(order.end(), {loop(layout.lane), rows});
  if (columns > plan.columns) {
    tiles = copies + "_o";
    builder.apply("split ", copies, " ", plan.columns, " as ", tiles, " ", copies, "_i");
    copies += "_i";
    order.push_back(tiles);
  }
  order.insert(order.end(), {loop(plan.tap_row), loop(plan.tap_column), copies});
  builder.apply("order", joined(order));
  builder.apply("compute_at ", reduction.init, joined(reduction.epilogue), " at ", tiles);
  unroll_results(reduction);
  builder.apply("register_tile ", tiles);
  builder.apply("unroll ", loop(plan.tap_column));
  builder.apply("unroll ", copies);
  builder.apply("widen ", bands);
  builder.parallelise();
  return builder;
}

}  // namespace tc
