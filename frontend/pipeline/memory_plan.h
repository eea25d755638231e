// Where the blocks of the arena lie: offsets from lifetimes, decided while compiling.
#pragma once

#include <string>
#include <vector>

#include "ir/dim.h"

namespace tc {

// A block with its life in steps, first and last included. Two blocks that are in use at the same step do not
// overlap.
struct LiveBlock {
  std::string name;
  Dim bytes;
  int first = 0, last = 0;
  bool scratch = false;  // scratch memory of a kernel, for one step
  Dim offset;            // filled by plan_memory; a multiple of 64
};

// Places the blocks and returns the arena's size. Blocks of constant size are placed largest first, each in
// the smallest gap that holds it (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net
// inference", greedy by size). Scratch, whose size is constant too, comes last and fills the gaps, so that it
// makes the arena grow by at most its largest block. Where that takes more than the blocks which are in use
// together at the fullest step, some other orders of placing them are tried, and the smallest arena is taken.
// Blocks of symbolic size follow; those that are never in
// use together share a slot. Where there are more than a few thousand blocks, they are placed in the order in
// which their lives begin, in memory that blocks no longer in use have left.
Dim plan_memory(std::vector<LiveBlock>& blocks);

}  // namespace tc
