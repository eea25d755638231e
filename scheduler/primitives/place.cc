// place: a private result is held by a memory of the target's accelerator.
#include "ir/accelerator.h"
#include "scheduler/core/accelerator_memory.h"
#include "scheduler/core/primitive.h"

namespace tc {

Primitive place_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "place",
      PrimitiveKind::Rewrite,
      {buffer("BUFFER"), name("MEMORY", "a memory of the accelerator"),
       number("COPIES", "the number of copies", 1)},
      "The private result BUFFER is in MEMORY of the target's accelerator, COPIES times: with 2, one copy "
      "is filled while the other is read. Changes no value."};
  primitive.row.accelerator = true;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    Kernel kernel = state.kernel->kernel;
    Buffer& buffer = kernel.buffers[given.buffer("BUFFER")];
    if (buffer.scope != Scope::Local) refuse("buffer ", buffer.name, " is no private result");
    put_in_memory(state.target, buffer, given.word("MEMORY"), given.number("COPIES"));
    replace_kernel(state, std::move(kernel));
  };
  return primitive;
}

}  // namespace tc
