// Constants of which two numbers are in one word: packings in words without scales (Packing::words, loop.h).
#pragma once

#include <cstdint>
#include <vector>

#include "ir/tensor.h"

namespace tc {

// How many numbers are stored in a word, and by how many bits the second one is shifted.
constexpr int64_t kValuesInPair = 2;
constexpr int kPairShift = 16;

// Words of that shape of numbers of i8, which have two elements along the dimension where the words have one.
Tensor in_pairs(const Tensor& values, size_t dimension, const std::vector<int64_t>& shape);

}  // namespace tc
