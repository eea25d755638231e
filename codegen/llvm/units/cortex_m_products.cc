// Products of bytes by the DSP instructions of Arm's microcontrollers. LLVM does not find these in loops.
#include "codegen/llvm/units/cortex_m_products.h"

#include <llvm/IR/InlineAsm.h>

#include <algorithm>

#include "codegen/llvm/units/matrix_unit.h"
#include "ir/error.h"

namespace tc {
namespace {

// How far the loads of a word and of two words reach from an address, in bytes.
constexpr int64_t kReachOfWord = 4095, kReachOfPair = 1020;
constexpr size_t kMostSteps = 16;  // of one piece, which limits the code

// Writes the instructions of steps. Operands of the piece: the sums, the registers that it needs, the sums
// again as inputs, the addresses of the words and of the weights.
class StepWriter {
 public:
  StepWriter(int columns, bool words_are_signed, bool weights_are_signed)
      : columns_(columns),
        widen_word_(words_are_signed ? "sxtb16" : "uxtb16"),
        widen_weight_(weights_are_signed ? "sxtb16" : "uxtb16") {}

  int sums() const { return columns_ * kLanesOfStep; }
  // With two columns, the sums and four more registers are all that the addresses leave.
  int temporaries() const { return columns_ == 1 ? 5 : 4; }
  std::string text() const { return text_; }

  void step(const std::vector<int64_t>& columns, int64_t weights) {
    if (columns_ == 1) one_column(columns.front(), weights);
    else two_columns(columns, weights);
  }

 private:
  std::string register_of(int operand) const { return tc::text("$", operand); }
  std::string temporary(int number) const { return register_of(sums() + number); }
  std::string sum(int column, int lane) const { return register_of(column * kLanesOfStep + lane); }
  std::string words() const { return register_of(2 * sums() + temporaries()); }
  std::string weights() const { return register_of(2 * sums() + temporaries() + 1); }
  void line(const std::string& instruction) { text_ += instruction + "\n"; }
  void widen(const std::string& with, const std::string& to, const std::string& from, bool odd) {
    line(with + " " + to + ", " + from + (odd ? ", ror #8" : ""));
  }
  void multiply(int column, int lane, const std::string& word, const std::string& weight) {
    line("smlad " + sum(column, lane) + ", " + word + ", " + weight + ", " + sum(column, lane));
  }
  void load_pair(int64_t offset, const std::string& first, const std::string& second) {
    line(tc::text("ldrd ", first, ", ", second, ", [", weights(), ", #", offset, "]"));
  }

  // Each weight is loaded once; both halves of the word stay in registers.
  void one_column(int64_t word, int64_t offset) {
    const std::string even = temporary(0), odd = temporary(1), half = temporary(4);
    line(tc::text("ldr ", even, ", [", words(), ", #", word, "]"));
    for (int lane = 0; lane < kLanesOfStep; lane += 2) {
      load_pair(offset + 4 * lane, temporary(2), temporary(3));
      if (lane == 0) {
        widen(widen_word_, odd, even, true);
        widen(widen_word_, even, even, false);
      }
      for (int i = 0; i < 2; ++i) {
        const std::string weight = temporary(2 + i);
        widen(widen_weight_, half, weight, false);
        widen(widen_weight_, weight, weight, true);
        multiply(0, lane + i, even, half);
        multiply(0, lane + i, odd, weight);
      }
    }
  }

  // Even and odd bytes one after the other, each with loads of its own: one half of each operand is in
  // registers at a time.
  void two_columns(const std::vector<int64_t>& columns, int64_t offset) {
    for (const bool odd : {false, true}) {
      for (int column = 0; column < kMostColumns; ++column)
        line(tc::text("ldr ", temporary(column), ", [", words(), ", #", columns[static_cast<size_t>(column)],
                      "]"));
      for (int lane = 0; lane < kLanesOfStep; lane += 2) {
        load_pair(offset + 4 * lane, temporary(2), temporary(3));
        for (int column = 0; column < kMostColumns && lane == 0; ++column)
          widen(widen_word_, temporary(column), temporary(column), odd);
        for (int i = 0; i < 2; ++i) widen(widen_weight_, temporary(2 + i), temporary(2 + i), odd);
        for (int i = 0; i < 2; ++i) {
          for (int column = 0; column < kMostColumns; ++column)
            multiply(column, lane + i, temporary(column), temporary(2 + i));
        }
      }
    }
  }

  const int columns_;
  const std::string widen_word_, widen_weight_;
  std::string text_;
};

// Writes the loop over steps of widened words. Operands: the sums, the addresses of the words and of the
// weights, which move on, four registers, and the address of the end of the words.
class WidenedWriter {
 public:
  explicit WidenedWriter(const WidenedSteps& steps)
      : columns_(static_cast<int>(steps.columns)), widen_(steps.weights_are_signed ? "sxtb16" : "uxtb16") {}

  int sums() const { return columns_ * kLanesOfHalf; }
  static constexpr int kTemporaries = 4, kAddresses = 2;

  // A loop of the largest number of copies that leaves no remainder; without a loop where they are all steps.
  std::string text(int64_t steps) {
    constexpr int64_t kMostCopies = 4;
    int64_t copies = std::min(steps, kMostCopies);
    while (steps % copies != 0) --copies;
    if (copies < steps) line("1:");
    for (int64_t i = 0; i < copies; ++i) {
      half(false);
      half(true);
    }
    if (copies < steps) {
      line(tc::text("vmov ", temporary(0), ", $", 2 * (sums() + kAddresses) + kTemporaries));
      line(tc::text("cmp ", words(), ", ", temporary(0)));
      line("bne 1b");
    }
    return text_;
  }

 private:
  void line(const std::string& instruction) { text_ += instruction + "\n"; }
  std::string sum(int column, int lane) const { return tc::text("$", column * kLanesOfHalf + lane); }
  std::string words() const { return tc::text("$", sums()); }
  std::string weights() const { return tc::text("$", sums() + 1); }
  std::string temporary(int number) const { return tc::text("$", sums() + kAddresses + number); }

  void half(bool odd) {
    line(tc::text("ldrd ", temporary(0), ", ", temporary(1), ", [", weights(), "]", odd ? ", #16" : ""));
    for (int column = 0; column < columns_; column += 2) {
      line(tc::text("ldrd ", temporary(2), ", ", temporary(3), ", [", words(), "], #8"));
      for (int lane = 0; lane < kLanesOfHalf && column == 0; ++lane)
        line(tc::text(widen_, " ", temporary(lane), ", ", temporary(lane), odd ? ", ror #8" : ""));
      for (int i = 0; i < 2; ++i) {
        for (int lane = 0; lane < kLanesOfHalf; ++lane)
          line(tc::text("smlad ", sum(column + i, lane), ", ", temporary(2 + i), ", ", temporary(lane), ", ",
                        sum(column + i, lane)));
      }
    }
  }

  const int columns_;
  const std::string widen_;
  std::string text_;
};

// Writes the sums of windows. Operands: the sums, the pairs of weights of a row, three pairs of pixels, the
// sums again as inputs, the addresses of pixels and weights.
class WindowWriter {
 public:
  WindowWriter(int64_t columns, int64_t stride) : columns_(columns), stride_(stride) {}

  static constexpr int64_t kPixels = 3, kTemporaries = 2 + kPixels;

  // Products of a row. A column that begins with a pair takes this pair and the first half of the next one;
  // another column takes the second half of a pair and the whole next one.
  void row(int64_t pixels, int64_t weights) {
    line(tc::text("ldrd ", weight(0), ", ", weight(1), ", [$", address(1), ", #", weights, "]"));
    const int64_t pairs = ((columns_ - 1) * stride_ + kTapsOfWindow - 1) / 2 + 1;
    int64_t loaded = 0;
    for (int64_t column = 0; column < columns_; ++column) {
      const int64_t first = column * stride_, pair = first / 2;
      // Two pairs at a time: the register of the one before `pair` is free.
      for (; loaded <= pair + 1; loaded += 2) load(loaded, loaded + 1 < pairs, pixels + 4 * loaded);
      const bool whole = first % 2 == 0;
      multiply(column, whole ? "smlad" : "smlatb", pair, 0);
      multiply(column, whole ? "smlabt" : "smlad", pair + 1, 1);
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string operand(int64_t number) const { return tc::text("$", number); }
  std::string weight(int64_t pair) const { return operand(columns_ + pair); }
  std::string pixel(int64_t pair) const { return operand(columns_ + 2 + pair % kPixels); }
  int64_t address(int64_t which) const { return 2 * columns_ + kTemporaries + which; }
  void line(const std::string& instruction) { text_ += instruction + "\n"; }
  void load(int64_t pair, bool two, int64_t offset) {
    const std::string from = tc::text(", [$", address(0), ", #", offset, "]");
    line(two ? "ldrd " + pixel(pair) + ", " + pixel(pair + 1) + from : "ldr " + pixel(pair) + from);
  }
  void multiply(int64_t column, const char* with, int64_t pair, int64_t weights) {
    line(tc::text(with, " ", operand(column), ", ", pixel(pair), ", ", weight(weights), ", ",
                  operand(column)));
  }

  const int64_t columns_, stride_;
  std::string text_;
};

int64_t first_word(const WordStep& step) {
  return *std::min_element(step.columns.begin(), step.columns.end());
}

// Whether a load of the step reaches its operands from the addresses of the first one.
bool reaches(const WordStep& first, const WordStep& step) {
  const int64_t weights = step.weights - first.weights;
  if (weights < 0 || weights + 2 * kLanesOfStep > kReachOfPair) return false;
  return std::all_of(step.columns.begin(), step.columns.end(), [&](int64_t column) {
    const int64_t offset = column - first_word(first);
    return offset >= 0 && offset <= kReachOfWord;
  });
}

// Steps whose operands are all within reach of the first one's.
void add_piece(Builder& builder, std::vector<llvm::Value*>& sums, llvm::Value* words, llvm::Value* weights,
               const std::vector<WordStep>& steps, const std::pair<bool, bool>& are_signed) {
  StepWriter writer(static_cast<int>(steps.front().columns.size()), are_signed.first, are_signed.second);
  TC_CHECK(static_cast<size_t>(writer.sums()) == sums.size(), "as the sums of products of words");
  const int64_t word = first_word(steps.front()), weight = steps.front().weights;
  for (const WordStep& step : steps) {
    std::vector<int64_t> columns = step.columns;
    for (int64_t& column : columns) column -= word;
    writer.step(columns, step.weights - weight);
  }
  std::string constraints;
  const auto outputs = static_cast<size_t>(writer.sums() + writer.temporaries());
  for (size_t i = 0; i < outputs; ++i) constraints += i < sums.size() ? "=r," : "=&r,";
  for (size_t i = 0; i < sums.size(); ++i) constraints += text(i, ",");
  constraints += "r,r,~{memory}";
  llvm::Type* byte = builder.getInt8Ty();
  std::vector<llvm::Value*> inputs = sums;
  inputs.push_back(builder.CreateConstGEP1_64(byte, words, static_cast<uint64_t>(word)));
  inputs.push_back(builder.CreateConstGEP1_64(byte, weights, static_cast<uint64_t>(weight)));
  std::vector<llvm::Type*> types;
  for (const llvm::Value* input : inputs) types.push_back(input->getType());
  llvm::Type* result =
      llvm::StructType::get(builder.getContext(), std::vector<llvm::Type*>(outputs, builder.getInt32Ty()));
  auto* type = llvm::FunctionType::get(result, types, false);
  auto* piece = llvm::InlineAsm::get(type, writer.text(), constraints, /*hasSideEffects=*/true);
  llvm::Value* outcome = builder.CreateCall(type, piece, inputs);
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = builder.CreateExtractValue(outcome, {static_cast<unsigned>(i)});
}

}  // namespace

llvm::Value* bytes_as_halves(Builder& builder, llvm::Value* word, bool is_signed, bool odd) {
  constexpr int kByte = 8;
  // The instruction rotates its operand for nothing.
  if (odd)
    word = builder.CreateIntrinsic(llvm::Intrinsic::fshr, {word->getType()},
                                   {word, word, builder.getInt32(kByte)});
  const char* name = is_signed ? "llvm.arm.sxtb16" : "llvm.arm.uxtb16";
  return call_intrinsic(builder, name, word->getType(), {word});
}

llvm::Value* add_products_of_halves(Builder& builder, const NarrowProduct& row, llvm::Value* sum,
                                    llvm::Value* first, llvm::Value* second) {
  return call_intrinsic(builder, row.intrinsic, sum->getType(), {first, second, sum});
}

void add_word_steps(Builder& builder, std::vector<llvm::Value*>& sums, llvm::Value* words,
                    llvm::Value* weights, const std::vector<WordStep>& steps,
                    const std::pair<bool, bool>& are_signed) {
  std::vector<WordStep> piece;
  for (const WordStep& step : steps) {
    if (!piece.empty() && (piece.size() == kMostSteps || !reaches(piece.front(), step))) {
      add_piece(builder, sums, words, weights, piece, are_signed);
      piece.clear();
    }
    piece.push_back(step);
  }
  if (!piece.empty()) add_piece(builder, sums, words, weights, piece, are_signed);
}

void add_widened_steps(Builder& builder, std::vector<llvm::Value*>& sums, const WidenedSteps& steps) {
  WidenedWriter writer(steps);
  TC_CHECK(static_cast<size_t>(writer.sums()) == sums.size(), "as the sums of products of widened words");
  constexpr int kAddresses = WidenedWriter::kAddresses, kTemporaries = WidenedWriter::kTemporaries;
  std::string constraints;
  for (int i = 0; i < writer.sums() + kAddresses; ++i) constraints += "=r,";
  for (int i = 0; i < kTemporaries; ++i) constraints += "=&r,";
  for (int i = 0; i < writer.sums() + kAddresses; ++i) constraints += text(i, ",");
  constraints += "t,~{cc},~{memory}";
  std::vector<llvm::Value*> inputs = sums;
  inputs.push_back(steps.words);
  inputs.push_back(steps.weights);
  const int64_t bytes = steps.steps * steps.columns * 8;
  llvm::Value* end =
      builder.CreateConstGEP1_64(builder.getInt8Ty(), steps.words, static_cast<uint64_t>(bytes));
  inputs.push_back(
      builder.CreateBitCast(builder.CreatePtrToInt(end, builder.getInt32Ty()), builder.getFloatTy()));
  std::vector<llvm::Type*> types, results(sums.size(), builder.getInt32Ty());
  for (const llvm::Value* input : inputs) types.push_back(input->getType());
  results.insert(results.end(), kAddresses, builder.getPtrTy());
  results.insert(results.end(), kTemporaries, builder.getInt32Ty());
  llvm::Type* result = llvm::StructType::get(builder.getContext(), results);
  auto* type = llvm::FunctionType::get(result, types, false);
  auto* loop = llvm::InlineAsm::get(type, writer.text(steps.steps), constraints, /*hasSideEffects=*/true);
  llvm::Value* outcome = builder.CreateCall(type, loop, inputs);
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = builder.CreateExtractValue(outcome, {static_cast<unsigned>(i)});
}

bool reaches_window(int64_t rows, int64_t row_bytes) {
  constexpr int64_t kPairs = kMostColumnsOfWindow + 1;
  return (rows - 1) * row_bytes + 4 * kPairs <= kReachOfPair;
}

void add_window_rows(Builder& builder, std::vector<llvm::Value*>& sums, const WindowRows& window) {
  const auto columns = static_cast<int64_t>(sums.size());
  WindowWriter writer(columns, window.stride);
  for (int64_t row = 0; row < window.rows; ++row) writer.row(row * window.row_bytes, 8 * row);
  std::string constraints;
  const int64_t outputs = columns + WindowWriter::kTemporaries;
  for (int64_t i = 0; i < outputs; ++i) constraints += "=&r,";
  for (int64_t i = 0; i < columns; ++i) constraints += text(i, ",");
  constraints += "r,r";
  std::vector<llvm::Value*> inputs = sums;
  inputs.push_back(window.pixels);
  inputs.push_back(window.weights);
  std::vector<llvm::Type*> types;
  for (const llvm::Value* input : inputs) types.push_back(input->getType());
  llvm::Type* result = llvm::StructType::get(
      builder.getContext(), std::vector<llvm::Type*>(static_cast<size_t>(outputs), builder.getInt32Ty()));
  auto* type = llvm::FunctionType::get(result, types, false);
  auto* piece = llvm::InlineAsm::get(type, writer.text(), constraints, /*hasSideEffects=*/true);
  llvm::CallInst* outcome = builder.CreateCall(type, piece, inputs);
  // Loads of a channel's constants may leave the loops over its tiles.
  outcome->setOnlyReadsMemory();
  outcome->setDoesNotThrow();
  outcome->addFnAttr(llvm::Attribute::WillReturn);
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = builder.CreateExtractValue(outcome, {static_cast<unsigned>(i)});
}

}  // namespace tc
