// Where the blocks of the arena lie: offsets from lifetimes, decided while compiling.
#pragma once

#include <string>
#include <vector>

#include "ir/dim.h"

namespace tc {

// A block with its life in steps, both ends included. Two blocks whose lives meet do not overlap.
struct LiveBlock {
  std::string name;
  Dim bytes;
  int first = 0, last = 0;
  bool scratch = false;  // of a kernel's own, during one step
  Dim offset;            // filled by plan_memory; a multiple of 64
};

// Places the blocks and returns the arena's size. Blocks of constant size: largest first, each at the lowest
// free offset that fits best (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net
// inference", greedy by size); scratch, whose size is constant, comes last and takes what they leave, so that
// the arena never grows by more than the largest of it. Blocks of symbolic size lie behind them; those that
// do not live together share a slot. Of more than some thousand blocks each is placed as it begins to live,
// in what dead ones left.
Dim plan_memory(std::vector<LiveBlock>& blocks);

}  // namespace tc
