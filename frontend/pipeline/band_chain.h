// Consecutive kernels that are run band of rows by band of rows, with few rows of what is between them in
// memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontend/pipeline/attention.h"
#include "frontend/pipeline/band_kernel.h"

namespace tc {

// The memory of a value between kernels of a chain: the rows that the next bands still read. When a band is
// done, those that it shares with the next one are moved to the beginning, and nothing is computed twice.
struct RowBuffer {
  size_t axis = 0;
  int64_t rows = 0;
};

// A call of a kernel for a band of rows, or of one that moves rows inside a buffer of rows.
struct BandCall {
  KernelPart part;
  // By argument: the row of the value's memory at which the argument begins, and the dimension that counts
  // rows.
  struct FirstRow {
    size_t axis = 0;
    int64_t row = 0;
  };
  std::map<std::string, FirstRow> first_rows;
};

// Kernels, each of which reads results of earlier ones, in bands of rows of the last one's result.
class BandChain {
 public:
  // Nothing where the kernels cannot be run in `bands` bands of rows along that dimension of the result.
  static std::optional<BandChain> of(const Graph& graph, const std::vector<KernelPart>& kernels,
                                     const std::vector<ValueId>& results, size_t axis, int64_t bands);

  const std::map<ValueId, RowBuffer>& buffers() const { return buffers_; }
  // How many calls there are, those that move rows included.
  size_t calls() const { return events_.size(); }
  // The calls, in their order.
  std::vector<BandCall> steps(const std::vector<KernelPart>& kernels) const;
  // The dimension that counts the rows of a value which is read or written in bands.
  const std::map<ValueId, size_t>& axes() const { return axes_; }

 private:
  friend class BandPlanner;
  // Of kernel `kernel`: the rows of its buffers, counted in the whole value, and at which of these the memory
  // of the buffer begins. Without a kernel: rows `from` and further ones of a buffer of rows become its rows
  // `to` and further ones.
  struct Event {
    int kernel = -1;
    RowsOfBuffers rows;
    std::map<std::string, int64_t> bases;
    ValueId moved = kNoValue;
    int64_t from = 0, to = 0, count = 0;
  };

  std::map<ValueId, RowBuffer> buffers_;
  std::map<ValueId, size_t> axes_;
  std::vector<Event> events_;
};

}  // namespace tc
