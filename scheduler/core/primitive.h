// A schedule primitive: its row and what it does to a state. The list of all is
// scheduler/primitives/table.cc.
#pragma once

#include <functional>
#include <vector>

#include "scheduler/core/arguments.h"
#include "scheduler/core/state.h"
#include "scheduler/primitive_row.h"
#include "scheduler/scheduler.h"

namespace tc {

struct Primitive {
  PrimitiveRow row;
  // Changes the state; throws Refusal. One that changes the order of instances asks for legality itself, by
  // refuse_illegal.
  std::function<void(ScheduleState&, const Arguments&)> apply;
  // Of a rewrite that computes something else than the kernel's own statements: what a line of it computes.
  std::function<TraceAlgorithm(const PrimitiveLine&)> algorithm;
};
const std::vector<Primitive>& primitives();
// What the mark is, as its primitive declares it.
const MarkRow& row_of(const LoopMark& mark);
// The one of that row, which is of the table.
const Primitive& primitive_of(const PrimitiveRow& row);

}  // namespace tc
