// The default for depthwise convolutions of bytes on cores that multiply pairs of 16-bit numbers on
// general-purpose registers: one channel at a time, over rows that are widened beforehand (mark "widen").
#pragma once

#include <string>

#include "scheduler/default/builder.h"
#include "scheduler/default/facts.h"
#include "scheduler/default/write.h"

namespace tc {

// A plan for such a kernel. Iterators are those of the sum.
struct ChannelWindows {
  std::string block, channel;  // counts blocks of channels, where there are several; channels of a block
  std::string row, column;     // of the result
  std::string tap_row, tap_column;
  std::string lanes;    // row or column: four of its results are the lanes of a vector; empty: of none
  int64_t columns = 1;  // of a tile
  int64_t band = 0;     // rows of the result whose inputs are widened at a time; 0: all of them
  double cycles = 0;

  std::string in_words() const;
};

constexpr int64_t kLanesOfWord = 4;  // channels whose bytes are a word

// How the window moves over the map, and the distances of its taps.
struct MapWindow {
  Access input;
  int64_t row_stride = 1, row_dilation = 1, column_stride = 1, column_dilation = 1;
};

// Finds the iterators and the window; throws NotApplicable where there is no such window.
MapWindow find_map_window(const ReductionFacts& facts, ChannelWindows& plan);

// Lays out the channels in blocks of a word, and packs the weights tap by tap with a word of channels
// innermost.
LaneLayout lay_out_channels(ReductionKernel& reduction, const ChannelWindows& plan);

// Throws NotApplicable where the kernel is not of this kind.
ChannelWindows find_channel_windows(const TraceBuilder& builder);
TraceBuilder schedule_channel_windows(const TraceBuilder& builder, const ChannelWindows& plan);

// The same where vectors of bytes are multiplied and added up by one instruction (gathered_windows.cc).
bool gathers_windows(const Target& target);
ChannelWindows find_gathered_windows(const TraceBuilder& builder);
TraceBuilder schedule_gathered_windows(const TraceBuilder& builder, const ChannelWindows& plan);

}  // namespace tc
