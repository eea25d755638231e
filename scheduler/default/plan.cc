#include "scheduler/default/plan.h"

#include "ir/error.h"

namespace tc {
namespace {

std::string str(const Division& division) {
  return text(division.name, " in parts of ", division.size, " as ", division.outer, " and ", division.inner);
}

// A line of a plan; nothing where there is nothing to say.
std::string line(const char* name, const std::string& value) {
  return value.empty() ? "" : text(name, ": ", value, "\n");
}

template <class Items, class ToText>
std::string listed(const Items& items, const ToText& to_text) {
  std::string result;
  for (const auto& item : items) result += text(result.empty() ? "" : ", ", to_text(item));
  return result;
}

const char* str(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::InTile: return "in the tile";
    case Epilogue::AfterTile: return "behind the tile";
    case Epilogue::AfterSums: return "behind all sums, which wait in memory";
    case Epilogue::OfScalars: return "of scalars";
    case Epilogue::OfVectors: return "of vectors";
  }
  return "";
}

}  // namespace

std::string str(const IteratorPlan& plan) {
  std::string result = line("lanes", plan.lane);
  if (!plan.vectors.empty()) result += line("vectors of a tile", text(plan.vectors, ", ", plan.vector_count));
  if (!plan.panels.empty()) result += line("panels", text(plan.panels, ", ", plan.panel_count));
  result += line("groups", plan.group) + line("K-blocks of a panel", plan.panel_part);
  return result +
         line("iterators divided", listed(plan.strips, [](const Division& each) { return str(each); }));
}

std::string str(const LoopPlan& plan) {
  std::string result = line("input packed", listed(plan.packings, [](const LoopPlan::InputCopy& each) {
                              return text(each.buffer, " by", joined(each.iterators), " in ", each.at);
                            }));
  result += line("loops divided", listed(plan.splits, [](const Division& each) { return str(each); }));
  result += line("order", listed(plan.order, [](const std::string& each) { return each; }));
  if (plan.held) result += line("held apart", str(*plan.held));
  result += line("register tile in", plan.tile.empty() ? "the kernel" : plan.tile);
  result += line("initialisation in", plan.init_at) + line("epilogue in", plan.epilogue_at);
  result += line("epilogue", str(plan.epilogue)) + line("vectors along", plan.lanes);
  result += line("unrolled", listed(plan.unrolled, [](const LoopPlan::Unrolling& each) {
                   return each.copies > 0 ? text(each.loop, " by ", each.copies) : each.loop;
                 }));
  if (plan.blocks) result += line("sum in blocks", text(plan.blocks->loop, " by ", plan.blocks->copies));
  result += line("isolated", listed(plan.isolated, [](const std::string& each) { return each; }));
  return result + line("prefetched", listed(plan.prefetched, [](const LoopPlan::Prefetch& each) {
                         return text(each.buffer, " in ", each.loop);
                       }));
}

LoopPlan::InputCopy copy_of_input(const ReductionFacts& facts, const Access& load,
                                  const std::vector<std::string>& iterators, const std::string& at) {
  LoopPlan::InputCopy copy{facts.buffer(load).name, {}, at};
  for (const std::string& name : iterators) {
    if (!name.empty() && depends_on(load, name)) copy.iterators.push_back(name);
  }
  return copy;
}

}  // namespace tc
