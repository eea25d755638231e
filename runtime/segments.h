// Memory of a context in addition to its arena, for tensors whose sizes only a run knows. It grows during a
// run and is kept for the next one.
#pragma once

#include <stdint.h>

namespace tc::runtime {

struct Segments {
  uint8_t** places = nullptr;  // null: no memory yet, or growing failed
  int64_t* bytes = nullptr;
  int32_t count = 0;
  int64_t all_bytes = 0;
};

// False where the system has no memory for the tables.
bool make_segments(Segments& segments, int32_t count);
// Gives all memory back; the tables stay.
void clear_segments(Segments& segments);
void destroy_segments(Segments& segments);
// Makes room for `needed` bytes in the segment, whose contents are kept. All segments together may have
// `most` bytes. The segment becomes null where the memory cannot be had.
void grow_segment(Segments& segments, int32_t segment, int64_t needed, int64_t most);

}  // namespace tc::runtime
