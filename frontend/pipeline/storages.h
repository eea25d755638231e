// The memory of a plan while it is built: blocks, and the steps that use them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/plan.h"

namespace tc {

// Where a value lies: a range inside a block.
struct Place {
  int storage = -1;
  Dim offset;
};

// All blocks that values lie in.
class Storages {
 public:
  // A new block; in the arena or the segment where `kind` says so, else number `index` of its kind.
  int add(Location::Kind kind, int index, const std::string& name, const Dim& bytes);
  // A new segment: the blocks in it are planned, or it is one block, which steps grow.
  int planned_segment();
  int own_segment() { return segments_++; }
  const std::string& name(int storage) const { return storages_[static_cast<size_t>(storage)].name; }
  int segment(int storage) const { return storages_[static_cast<size_t>(storage)].index; }
  Location::Kind kind(int storage) const { return storages_[static_cast<size_t>(storage)].kind; }
  // Whether the place is in the memory of that output of the model.
  bool is_output(const Place& place, int index) const;

  // Steps are counted in the order in which they are made; what the current one uses lives in it.
  int step() const { return step_; }
  void next_step() { ++step_; }
  void touch(int storage);
  // Location with the storage's number in place of its address until finish().
  Location locate(const Place& place);
  // Scratch memory for the current step, in the arena, as locate() gives it.
  Location scratch(const std::string& name, int64_t bytes);
  // A step of its own.
  PlanStep copy_step(const Place& to, const Place& from, const Dim& bytes, const std::string& label);
  // Everything that lived before the loop that began at step `begin` and is used in it lives until its end.
  void extend_over_loop(int begin);

  // Places the blocks of the arena and of the segments, and gives the plan's steps their addresses.
  void finish(Plan& plan);

 private:
  struct Storage {
    Location::Kind kind = Location::Kind::Arena;
    int index = 0;
    std::string name;
    Dim bytes;
    int first = -1, last = -1;  // life in steps
    Dim offset;
    bool scratch = false;
  };

  void resolve(Location& location) const;
  void resolve(PlanSteps& steps) const;
  // The bytes of the arena (-1) or of a segment.
  Dim place_blocks(int segment, Plan& plan);

  std::vector<Storage> storages_;
  std::map<int, Dim> planned_;  // segments with their bytes
  int segments_ = 0;
  int step_ = 0;
};

}  // namespace tc
