// algorithm: a sum of products computed by another algorithm.
#include "scheduler/primitives/algorithm.h"

namespace tc {

Primitive algorithm_primitive() {
  Primitive primitive;
  primitive.row = {"algorithm", "rewrite",
                   "algorithm STATEMENT winograd OUTPUTS TAPS ROWS COLUMNS | bf16|bf16x3|int16|int8x3|int8x6 BAND PANEL BLOCKS TILES ROWS",
                   "winograd: O[y, x] += I[y+r, x+s] * K[r, s]  ->  U = B' I B; P += U * (G K G'); O = A' P A: a "
                   "convolution of TAPS x TAPS is computed by Winograd's F(2, 3), F(4, 3), F(6, 3), F(2, 5) or F(4, 5), in blocks of "
                   "ROWS x COLUMNS tiles of OUTPUTS x OUTPUTS. G K G' is computed while compiling. "
                   "bf16x3: O += I * K  ->  H = bf16(I); L = bf16(I - H); O += H * KH + H * KL + L * KH, where "
                   "KH + KL is K, divided while compiling: operands as the target's matrix unit takes them, in "
                   "bands of BAND rows and panels of PANEL x BLOCKS blocks of features; BLOCKS x TILES accumulators of "
                   "ROWS rows at a time. int8x6: the same with numbers as three digits to base 256, I in units of "
                   "a band's largest / 127 / 256^2, K of a feature's: six products, summed up in whole numbers. "
                   "int8x3: with two digits. bf16 and int16: one product, of numbers of 16 bits."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    const std::string name = words.name("a statement");
    if (apply_terms(state, name, words)) return;
    words.expect("winograd");
    apply_winograd(state, name, words);
  };
  return primitive;
}

}  // namespace tc
