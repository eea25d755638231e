// Products of bytes on the general-purpose registers of Arm's microcontrollers.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/llvm/emit/kernel_context.h"

namespace tc {

// The even or the odd bytes of a word as two numbers of 16 bits (`sxtb16`, `uxtb16`).
llvm::Value* bytes_as_halves(Builder& builder, llvm::Value* word, bool is_signed, bool odd);

// The sum plus the products of both pairs of numbers of 16 bits (`smlad`).
llvm::Value* add_products_of_halves(Builder& builder, const NarrowProduct& row, llvm::Value* sum,
                                    llvm::Value* first, llvm::Value* second);

// Where the operands of products of bytes are: a word of each column, and four adjacent words of weights, one
// for each lane, all at distances in bytes from two addresses.
struct WordStep {
  std::vector<int64_t> columns;  // one or two
  int64_t weights = 0;
};
constexpr int kLanesOfStep = 4, kMostColumns = 2;

// Adds the products of the steps to the sums, column after column, in one piece of assembly. All its values
// are in registers, of which LLVM's allocator would spill several. The weights' address is a multiple of 4.
void add_word_steps(Builder& builder, std::vector<llvm::Value*>& sums, llvm::Value* words,
                    llvm::Value* weights, const std::vector<WordStep>& steps,
                    const std::pair<bool, bool>& are_signed);

// Sums of half of the lanes, column after column, over words that were widened beforehand: for each step the
// even bytes of each column's word, then the odd ones, each as two numbers of 16 bits. The words and weights
// of all steps are adjacent; `weights` are those of the first step, at a multiple of 4.
struct WidenedSteps {
  llvm::Value *words = nullptr, *weights = nullptr;
  int64_t columns = 0, steps = 0;
  bool weights_are_signed = false;
};
constexpr int kLanesOfHalf = kLanesOfStep / 2;
void add_widened_steps(Builder& builder, std::vector<llvm::Value*>& sums, const WidenedSteps& steps);

// Sums of windows of three columns over rows of numbers of 16 bits, one for each of a few columns that are
// `stride` numbers from each other. Weights are two words for each row of the window: its columns 0 and 1,
// then 1 and 2. Both addresses are multiples of 4.
struct WindowRows {
  llvm::Value *pixels = nullptr, *weights = nullptr;  // of the first row
  int64_t stride = 1, rows = 0;                       // 1 or 2; rows of the window
  int64_t row_bytes = 0;                              // from one row to the next
};
constexpr int64_t kTapsOfWindow = 3, kMostColumnsOfWindow = 7;
void add_window_rows(Builder& builder, std::vector<llvm::Value*>& sums, const WindowRows& window);
// Whether the loads of so many rows reach them from the address of the first one.
bool reaches_window(int64_t rows, int64_t row_bytes);

}  // namespace tc
