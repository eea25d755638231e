// The default for depthwise convolutions of bytes on cores that multiply pairs of 16-bit numbers on
// general-purpose registers: one channel at a time, over rows that are widened beforehand (mark "widen").
#pragma once

#include <string>

#include "scheduler/default/builder.h"

namespace tc {

// A plan for such a kernel. Iterators are those of the sum.
struct ChannelWindows {
  std::string block, channel;  // counts blocks of channels, where there are several; channels of a block
  std::string row, column;     // of the result
  std::string tap_row, tap_column;
  int64_t columns = 1;  // of a tile
  int64_t band = 0;     // rows of the result whose inputs are widened at a time; 0: all of them
  double cycles = 0;

  std::string in_words() const;
};

// Throws NotApplicable where the kernel is not of this kind.
ChannelWindows find_channel_windows(const TraceBuilder& builder);
TraceBuilder schedule_channel_windows(const TraceBuilder& builder, const ChannelWindows& plan);

}  // namespace tc
