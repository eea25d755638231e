// Depthwise convolutions of bytes where one instruction adds up the products of two vectors of bytes in a
// general-purpose register (`vmladava`): a patch of one channel's map is a vector, whose elements one load
// gathers, and windows of it are products with weights that have zeros elsewhere.
#include <algorithm>

#include "ir/target/register_groups.h"
#include "scheduler/default/channel_windows.h"
#include "scheduler/default/facts.h"
#include "scheduler/default/write.h"

namespace tc {
namespace {

int64_t parts_of(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

// Results of a tile: the lanes of a vector of their sums.
constexpr int64_t kResults = 4;
constexpr int64_t kVectorBytes = 16;
// Of the channel's map on the stack, its borders included; the emitter adds a vector at either end.
constexpr int64_t kMaxMapBytes = 4096;
// The largest distance, in bytes, of elements that one load gathers.
constexpr int64_t kReach = 255;

}  // namespace

bool gathers_windows(const Target& target) {
  return sums_are_scalars(target.matrix) && target.matrix.format(DType::U8) != nullptr;
}

ChannelWindows find_gathered_windows(const TraceBuilder& builder) {
  const ReductionKernel reduction = prepare_reduction(builder);
  const ReductionFacts facts(reduction);
  if (facts.reduction_class() != ReductionClass::Depthwise)
    throw NotApplicable{"the kernel is no depthwise convolution"};
  ChannelWindows plan;
  const MapWindow window = find_map_window(facts, plan);
  const auto extent = [&](const std::string& name) { return facts.extent(name, 0); };
  const int64_t rows = extent(plan.row), columns = extent(plan.column), tap_rows = extent(plan.tap_row),
                tap_columns = extent(plan.tap_column), blocks = plan.block.empty() ? 1 : extent(plan.block);
  if (rows == 0 || columns == 0 || tap_rows == 0 || tap_columns == 0 || blocks == 0)
    throw NotApplicable{"sizes that are open"};
  // The map as the emitter stores it: whole vectors, or several rows in one.
  const int64_t width = (columns - 1) * window.column_stride + (tap_columns - 1) * window.column_dilation + 1,
                height = (rows - 1) * window.row_stride + (tap_rows - 1) * window.row_dilation + 1;
  const int64_t pitch = parts_of(width, kVectorBytes) * kVectorBytes;
  if (pitch * height > kMaxMapBytes) throw NotApplicable{"a map that is too large to be copied"};
  if ((tap_rows - 1) * window.row_dilation * pitch + (tap_columns - 1) * window.column_dilation > kReach)
    throw NotApplicable{"rows of the window that are too far apart"};
  if ((tap_rows * tap_columns - 1) * kLanesOfWord > kReach)
    throw NotApplicable{"weights of a channel that are too far apart"};
  for (const Access& load : loads_of(facts.sum())) {
    const Buffer& buffer = facts.buffer(load);
    const bool fits = facts.packable(load) ? buffer.dtype == DType::I8 : buffer.scope == Scope::Input;
    if (!fits) throw NotApplicable{"operands other than an input and constants of i8"};
  }
  const auto tiles = [&](int64_t along, int64_t other) { return parts_of(along, kResults) * other; };
  const bool along_rows =
      tiles(rows, columns) < tiles(columns, rows) && kResults * window.row_stride * pitch <= kReach;
  plan.lanes = along_rows ? plan.row : plan.column;
  const auto count = static_cast<double>(along_rows ? tiles(rows, columns) : tiles(columns, rows));
  // Instructions of a tile, of a vector of the map, and of a channel: its weights and constants.
  constexpr double kTile = 20, kCopy = 7, kChannel = 150;
  const double vectors = static_cast<double>(pitch * height) / kVectorBytes;
  plan.cycles = static_cast<double>(blocks * kLanesOfWord) * (kChannel + kTile * count + kCopy * vectors);
  return plan;
}

TraceBuilder schedule_gathered_windows(const TraceBuilder& start, const ChannelWindows& plan) {
  ReductionKernel reduction = prepare_reduction(start);
  TraceBuilder& builder = reduction.builder;
  const LaneLayout layout = lay_out_channels(reduction, plan);
  const ReductionFacts facts(reduction);
  const auto loop = [&](const std::string& iterator) { return reduction.sum + "_" + iterator; };
  const std::string lanes = loop(plan.lanes), tiles = lanes + "_o", inner = lanes + "_i",
                    other = loop(plan.lanes == plan.row ? plan.column : plan.row);
  builder.apply("split ", lanes, " ", kResults, " as ", tiles, " ", inner);
  std::vector<std::string> order;
  if (!plan.block.empty()) order.push_back(loop(plan.block));
  order.insert(order.end(),
               {loop(layout.lane), tiles, other, loop(plan.tap_row), loop(plan.tap_column), inner});
  builder.apply("order", joined(order));
  builder.apply("compute_at ", reduction.init, joined(reduction.epilogue), " at ", other);
  vectorize_results(reduction);
  builder.apply("register_tile ", other);
  builder.apply("unroll ", loop(plan.tap_row));
  builder.apply("unroll ", loop(plan.tap_column));
  builder.apply("vectorize ", inner);
  if (facts.extent(plan.lanes, 0) % kResults != 0) builder.apply("isolate ", tiles);
  builder.apply("widen ", loop(layout.lane));
  builder.parallelise();
  return builder;
}

}  // namespace tc
