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
  // A new block. `index` is the segment's number where `kind` is Segment, is ignored for the arena, and is
  // otherwise the block's number among its kind (inputs, outputs, constants).
  int add(Location::Kind kind, int index, const std::string& name, const Dim& bytes);
  // A new segment: planned_segment() for several blocks that are placed as in the arena, own_segment() for a
  // single block, which steps grow.
  int planned_segment();
  int own_segment() { return segments_++; }
  const std::string& name(int storage) const { return storages_[static_cast<size_t>(storage)].name; }
  int segment(int storage) const { return storages_[static_cast<size_t>(storage)].index; }
  Location::Kind kind(int storage) const { return storages_[static_cast<size_t>(storage)].kind; }
  // Whether the place is in the memory of that output of the model.
  bool is_output(const Place& place, int index) const;

  // The block of an input or output of the model; -1: there is none.
  int find(Location::Kind kind, int index) const;

  // Steps are numbered in the order in which they are made; a block that the current step uses is alive in
  // it.
  int step() const { return step_; }
  void next_step() { ++step_; }
  void touch(int storage);
  // The place as a location, which has the storage's number instead of an address until finish().
  Location locate(const Place& place);
  // Scratch memory for the current step, in the arena; a location like those of locate().
  Location scratch(const std::string& name, int64_t bytes);
  // A copy, as a step of its own.
  PlanStep copy_step(const Place& to, const Place& from, const Dim& bytes, const std::string& label);
  // Whether the output's block may be in the memory of the input's: nothing reads the input after something
  // has been written to the output, or the output begins as a copy of the whole input and nothing reads that
  // afterwards.
  bool may_replace(int output, int input) const;
  // Makes the block of an output one of the arena.
  void move_to_arena(int output) { storages_[output].kind = Location::Kind::Arena; }
  // Every block that was alive before step `begin`, at which a loop began, and is used in the loop stays
  // alive until its end.
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
    int copied_from = -1;  // the block of which step `first` copies all
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
