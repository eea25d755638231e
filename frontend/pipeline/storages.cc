// The memory of a plan while it is built: blocks, and the steps that use them.
#include "frontend/pipeline/storages.h"

#include <algorithm>

#include "frontend/pipeline/memory_plan.h"

namespace tc {

int Storages::add(Location::Kind kind, int index, const std::string& name, const Dim& bytes) {
  storages_.push_back({kind, index, name, bytes, -1, -1, Dim(0), false, -1});
  return static_cast<int>(storages_.size()) - 1;
}

bool Storages::is_output(const Place& place, int index) const {
  const Storage& storage = storages_[place.storage];
  return storage.kind == Location::Kind::Output && storage.index == index;
}

int Storages::find(Location::Kind kind, int index) const {
  const auto found = std::find_if(storages_.begin(), storages_.end(), [&](const Storage& each) {
    return each.kind == kind && each.index == index;
  });
  return found == storages_.end() ? -1 : static_cast<int>(found - storages_.begin());
}

void Storages::touch(int storage) {
  Storage& s = storages_[storage];
  if (s.first < 0) s.first = step_;
  s.last = std::max(s.last, step_);
}

Location Storages::locate(const Place& place) {
  touch(place.storage);
  return {storages_[place.storage].kind, place.storage, place.offset};
}

Location Storages::scratch(const std::string& name, int64_t bytes) {
  const int storage = add(Location::Kind::Arena, -1, name, Dim(bytes));
  storages_[storage].scratch = true;
  return locate({storage, 0});
}

PlanStep Storages::copy_step(const Place& to, const Place& from, const Dim& bytes, const std::string& label) {
  PlanStep step;
  step.kind = PlanStep::Kind::Copy;
  Storage& written = storages_[to.storage];
  if (written.first < 0 && bytes == written.bytes && bytes == storages_[from.storage].bytes)
    written.copied_from = from.storage;
  step.locations = {locate(to), locate(from)};
  step.bytes = bytes;
  step.label = label;
  ++step_;
  return step;
}

bool Storages::may_replace(int output, int input) const {
  const Storage &to = storages_[output], &from = storages_[input];
  return to.first > from.last || (to.copied_from == input && to.first == from.last);
}

void Storages::extend_over_loop(int begin) {
  for (Storage& storage : storages_) {
    // An input is alive from the beginning.
    const bool before = storage.kind == Location::Kind::Input || storage.first < begin;
    if (storage.first >= 0 && before && storage.last >= begin) storage.last = step_;
  }
}

int Storages::planned_segment() {
  planned_[segments_] = 0;
  return segments_++;
}

void Storages::resolve(Location& location) const {
  const Storage& storage = storages_[location.index];
  location.kind = storage.kind;  // that of an output may have changed
  location.offset = location.offset + storage.offset;
  location.index = storage.index;  // finish() has numbered the blocks of the arena
}

void Storages::resolve(PlanSteps& steps) const {
  for (PlanStep& step : steps) {
    for (Location& location : step.locations) resolve(location);
    if (step.scratch) resolve(*step.scratch);
    const auto planned = step.kind == PlanStep::Kind::Grow ? planned_.find(step.segment) : planned_.end();
    if (planned != planned_.end()) step.bytes = planned->second;
    resolve(step.body);
    resolve(step.otherwise);
  }
  steps.erase(std::remove_if(steps.begin(), steps.end(),
                             [](const PlanStep& step) {
                               return step.kind == PlanStep::Kind::Grow &&
                                      step.bytes == Dim(0);  // the segment is empty
                             }),
              steps.end());
}

Dim Storages::place_blocks(int segment, Plan& plan) {
  std::vector<LiveBlock> blocks;
  std::vector<int> owners;
  for (size_t s = 0; s < storages_.size(); ++s) {
    const Storage& storage = storages_[s];
    const bool here = segment < 0 ? storage.kind == Location::Kind::Arena
                                  : storage.kind == Location::Kind::Segment && storage.index == segment;
    if (!here || storage.first < 0) continue;
    blocks.push_back({storage.name, storage.bytes, storage.first, storage.last, storage.scratch, Dim(0)});
    owners.push_back(static_cast<int>(s));
  }
  const Dim bytes = plan_memory(blocks);
  for (size_t b = 0; b < blocks.size(); ++b) {
    storages_[owners[b]].offset = blocks[b].offset;
    if (segment < 0) storages_[owners[b]].index = static_cast<int>(plan.blocks.size());
    plan.blocks.push_back(
        {blocks[b].name, blocks[b].offset, blocks[b].bytes, blocks[b].first, blocks[b].last, segment});
  }
  return bytes;
}

void Storages::finish(Plan& plan) {
  plan.arena_bytes = place_blocks(-1, plan);
  for (auto& [segment, bytes] : planned_) bytes = place_blocks(segment, plan);
  plan.segments = segments_;
  resolve(plan.steps);
  for (PortInfo& output : plan.outputs) {
    if (output.data) resolve(*output.data);
  }
}

}  // namespace tc
