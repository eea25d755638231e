// The list of all schedule primitives, in the order of the documentation: each is a file of this folder.
#include "scheduler/core/primitive.h"

// clang-format off
#define TC_FOR_EACH_PRIMITIVE(X) \
  X(layout)                      \
  X(strip)                       \
  X(skew)                        \
  X(shift)                       \
  X(join)                        \
  X(pack)                        \
  X(merge)                       \
  X(stage)                       \
  X(winograd)                    \
  X(bf16)                        \
  X(int16)                       \
  X(int8x3)                      \
  X(int8x6)                      \
  X(bf16x3)                      \
  X(uint8)                       \
  X(int21)                       \
  X(pairs)                       \
  X(unit)                        \
  X(load_tile)                   \
  X(place)                       \
  X(split)                       \
  X(order)                       \
  X(fuse)                        \
  X(compute_at)                  \
  X(register_tile)               \
  X(isolate)                     \
  X(vectorize)                   \
  X(unroll)                      \
  X(tensorize)                   \
  X(command)                     \
  X(sum_blocks)                  \
  X(prefetch)                    \
  X(alternate)                   \
  X(widen)                       \
  X(hold)                        \
  X(parallel)
// clang-format on

namespace tc {

#define TC_DECLARE(name) Primitive name##_primitive();
TC_FOR_EACH_PRIMITIVE(TC_DECLARE)
#undef TC_DECLARE

const std::vector<Primitive>& primitives() {
#define TC_MAKE(name) name##_primitive(),
  static const std::vector<Primitive> table = {TC_FOR_EACH_PRIMITIVE(TC_MAKE)};
#undef TC_MAKE
  return table;
}

}  // namespace tc
