// Memory of a context in addition to its arena.
#include "segments.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model.h"

namespace tc::runtime {
namespace {

void drop(Segments& segments, int32_t segment) {
  if (segments.places[segment] != nullptr)
    munmap(segments.places[segment], static_cast<size_t>(segments.bytes[segment]));
  segments.all_bytes -= segments.bytes[segment];
  segments.places[segment] = nullptr;
  segments.bytes[segment] = 0;
}

}  // namespace

bool make_segments(Segments& segments, int32_t count) {
  segments.count = count;
  segments.places = static_cast<uint8_t**>(calloc(static_cast<size_t>(count) + 1, sizeof(uint8_t*)));
  segments.bytes = static_cast<int64_t*>(calloc(static_cast<size_t>(count) + 1, sizeof(int64_t)));
  return segments.places != nullptr && segments.bytes != nullptr;
}

void clear_segments(Segments& segments) {
  if (segments.places == nullptr || segments.bytes == nullptr) return;
  for (int32_t i = 0; i < segments.count; ++i) drop(segments, i);
}

void destroy_segments(Segments& segments) {
  clear_segments(segments);
  free(segments.places);
  free(segments.bytes);
}

void grow_segment(Segments& segments, int32_t segment, int64_t needed, int64_t most) {
  uint8_t*& place = segments.places[segment];
  int64_t& present = segments.bytes[segment];
  if (needed >= 0 && needed <= present && place != nullptr) return;
  most -= segments.all_bytes - present;
  const int64_t page = sysconf(_SC_PAGESIZE);
  int64_t wanted = needed < 0 || needed > kMaxBytes ? -1 : (needed + page) / page * page;
  // Doubles the segment where the limit permits it, so that one that grows step by step is seldom moved.
  if (wanted >= 0 && present > 0 && wanted < 2 * present && 2 * present <= most) wanted = 2 * present;
  if (wanted < 0 || wanted > most) return drop(segments, segment);
  void* mapped = place == nullptr ? mmap(nullptr, static_cast<size_t>(wanted), PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                  : mremap(place, static_cast<size_t>(present), static_cast<size_t>(wanted),
                                           MREMAP_MAYMOVE);
  if (mapped == MAP_FAILED) return drop(segments, segment);
  segments.all_bytes += wanted - present;
  place = static_cast<uint8_t*>(mapped);
  present = wanted;
}

}  // namespace tc::runtime
