// A schedule primitive: its row and what it does to a state. All primitives are listed in
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
  // Changes the state; throws Refusal. A primitive that changes the order of instances checks legality
  // itself, by refuse_illegal.
  std::function<void(ScheduleState&, const Arguments&)> apply;
  // For a rewrite that replaces the kernel's own statements by an algorithm: what a line of it computes.
  // Empty for all other primitives.
  std::function<TraceAlgorithm(const PrimitiveLine&)> algorithm;
};
const std::vector<Primitive>& primitives();
// The row of a mark, as its primitive declares it.
const MarkRow& row_of(const LoopMark& mark);
// The primitive of a row of primitive_table().
const Primitive& primitive_of(const PrimitiveRow& row);

}  // namespace tc
