// Memory beside a context's arena, for sizes that only a run knows: it grows in runs and stays for the next.
#pragma once

#include <stdint.h>

namespace tc::runtime {

struct Segments {
  uint8_t** places = nullptr;  // null: no memory yet, or none to be had
  int64_t* bytes = nullptr;
  int32_t count = 0;
  int64_t all_bytes = 0;
};

// False where the system has no memory for the tables.
bool make_segments(Segments& segments, int32_t count);
// Gives all memory back; the tables stay.
void clear_segments(Segments& segments);
void destroy_segments(Segments& segments);
// Room for `needed` bytes, where `most` are the bytes that all segments may have together; what the segment
// holds is kept. The segment is null where that cannot be had.
void grow_segment(Segments& segments, int32_t segment, int64_t needed, int64_t most);

}  // namespace tc::runtime
