// Weights of which two are in one word, so that a multiplication of words computes two products.
#pragma once

#include "ir/target/target.h"

namespace tc {

// Whether multiplying two weights at a time pays on the target (the primitive `pairs`): a multiplication of
// words takes as long as an addition, and no instruction adds up products of bytes.
bool pairs_weights(const Target& target);

// The target for kernels whose constants take no more bytes than the model's.
Target for_least_constants(Target target);

}  // namespace tc
