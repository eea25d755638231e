// Dot products of 16 bytes by MVE, the vectors of Arm's microcontrollers (`vmladava`).
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/Transforms/Utils/Local.h>

#include <algorithm>

#include "codegen/llvm/role_metadata.h"
#include "codegen/llvm/units/matrix_unit.h"
#include "ir/error.h"

namespace tc {
namespace {

constexpr int64_t kVectorBytes = 16;
// Vectors that columns of b take turns in, so that a load need not wait for the products before it. The other
// vectors are left to the epilogue's constants.
constexpr int kTurns = 2;

// Writes the instructions of steps: the operands of the piece are the sums, then the addresses of a's groups
// and of b's, which move on from step to step. An accumulator has four sums, a group of b four vectors.
class StepsWriter {
 public:
  StepsWriter(int columns, const ProductSteps& steps, int sums, bool from_zero)
      : columns_(columns), steps_(steps), sums_(sums), from_zero_(from_zero) {}

  // In the vectors q0 and q1 b's columns, in q2 and what follows a's groups.
  std::string text() {
    const int a_count = static_cast<int>(steps_.a.size()), b_count = static_cast<int>(steps_.b.size());
    for (size_t step = 0; step < steps_.a_offsets.size(); ++step) {
      for (int b = 0; b < b_count; ++b) {
        for (int column = 0; column < columns_; ++column) {
          const int64_t then = column + 1 < columns_ ? kVectorBytes : after(steps_.b_offsets, step, b);
          load("vldrw.u32", column % kTurns, address(a_count + b), then);
          for (int a = 0; a < a_count && b == 0 && column == 0; ++a)
            load("vldrb.u8", kTurns + a, address(a), after(steps_.a_offsets, step, a));
          for (const ProductSteps::Product& product : steps_.products) {
            if (product.b == b) multiply(product, column, step);
          }
        }
      }
    }
    return text_;
  }

 private:
  std::string address(int number) const { return tc::text("$", sums_ + number); }
  void line(const std::string& instruction) { text_ += instruction + "\n"; }

  // By how much the address moves behind the last load of the step.
  int64_t after(const std::vector<std::vector<int64_t>>& offsets, size_t step, int group) const {
    const auto at = static_cast<size_t>(group);
    const bool of_b = &offsets == &steps_.b_offsets;
    if (step + 1 == offsets.size()) return of_b ? kVectorBytes : 0;
    const int64_t moved = offsets[step + 1][at] - offsets[step][at];
    return of_b ? moved - (columns_ - 1) * kVectorBytes : moved;
  }

  void load(const char* with, int vector, const std::string& from, int64_t then) {
    constexpr int64_t kReach = 127;
    const bool near = then >= -kReach && then <= kReach && (with[4] != 'w' || then % 4 == 0);
    const std::string place = tc::text(with, " q", vector, ", [", from, "]");
    line(near && then != 0 ? tc::text(place, ", #", then) : place);
    if (!near) line(tc::text(then > 0 ? "addw " : "subw ", from, ", ", from, ", #", then > 0 ? then : -then));
  }

  void multiply(const ProductSteps::Product& product, int column, size_t step) {
    const char* with = from_zero_ && step == 0 ? "vmlav.s8" : "vmlava.s8";
    line(tc::text(with, " $", product.accumulator * columns_ + column, ", q", kTurns + product.a, ", q",
                  column % kTurns));
  }

  const int columns_;
  const ProductSteps& steps_;
  const int sums_;
  const bool from_zero_;
  std::string text_;
};

// Whether each address moves by what one addition can add.
bool moves_within_reach(const std::vector<std::vector<int64_t>>& offsets) {
  constexpr int64_t kReach = 4000;
  for (size_t step = 1; step < offsets.size(); ++step) {
    for (size_t i = 0; i < offsets[step].size(); ++i) {
      if (std::abs(offsets[step][i] - offsets[step - 1][i]) > kReach) return false;
    }
  }
  return true;
}

// An accumulator is one row of sums, each in a general-purpose register: a structure, whose parts loops carry
// on their own. A group of the columns has a vector for each column.
class DotsOfVectors : public VectorInstructions {
 public:
  DotsOfVectors(KernelContext& context, const NarrowProduct& row) : VectorInstructions(context, row) {
    TC_CHECK(row.rows == 1 && row.columns == 1 && row.pack == row.depth && row.sum == DType::I32 &&
                 size_of(row.a) == 1,
             "for instruction ", row.name);
  }

  llvm::Value* zero_sums() override {
    const std::vector<llvm::Type*> sums(columns_, builder_.getInt32Ty());
    return llvm::Constant::getNullValue(llvm::StructType::get(builder_.getContext(), sums));
  }

  llvm::Value* load_sums(const MemoryRows& rows, DType /*dtype*/) override {
    llvm::Value* result = llvm::PoisonValue::get(zero_sums()->getType());
    for (unsigned i = 0; i < columns_; ++i) {
      llvm::Value* place = builder_.CreateConstGEP1_64(builder_.getInt32Ty(), rows.place, i);
      llvm::Value* sum = builder_.CreateAlignedLoad(builder_.getInt32Ty(), place, llvm::Align(4));
      result = builder_.CreateInsertValue(result, sum, i);
    }
    return result;
  }

  void store_sums(const MemoryRows& rows, llvm::Value* sums) override {
    // As a vector, which an epilogue that follows takes from its register: two instructions put four sums
    // there.
    llvm::Value* row = llvm::PoisonValue::get(lanes_of(DType::I32, columns_));
    for (unsigned i = 0; i < columns_; ++i)
      row = builder_.CreateInsertElement(row, builder_.CreateExtractValue(sums, i), builder_.getInt32(i));
    builder_.CreateAlignedStore(row, rows.place, llvm::Align(4));
  }

  llvm::Value* load_a(const MemoryRows& rows) override {
    const llvm::DataLayout& layout = context_.function->getDataLayout();
    if (llvm::getKnownAlignment(rows.place, layout) >= llvm::Align(4)) return load_words(rows.place);
    return builder_.CreateAlignedLoad(numbers(1), rows.place, llvm::Align(1));
  }

  llvm::Value* load_b(llvm::Value* place) override {
    llvm::Value* result = llvm::PoisonValue::get(llvm::ArrayType::get(numbers(1), columns_));
    for (unsigned i = 0; i < columns_; ++i) {
      llvm::Value* column = load_words(builder_.CreateConstGEP1_64(numbers(1), place, i));
      result = builder_.CreateInsertValue(result, column, i);
    }
    return result;
  }

  llvm::Value* multiply_add(llvm::Value* sums, llvm::Value* a, llvm::Value* b) override {
    for (unsigned i = 0; i < columns_; ++i) {
      // Signed numbers, whose products are added up as they are, without exchanging neighbours.
      llvm::Value* none = builder_.getInt32(0);
      llvm::Value* sum = call_intrinsic(
          builder_, row_.intrinsic, builder_.getInt32Ty(),
          {none, none, none, builder_.CreateExtractValue(sums, i), a, builder_.CreateExtractValue(b, i)});
      set_role(sum, Role::ByteProduct);
      sums = builder_.CreateInsertValue(sums, sum, i);
    }
    return sums;
  }

  // Two accumulators have all general-purpose registers of even numbers. LLVM would use some of them for
  // addresses, and so move sums to and fro.
  bool add_steps(std::vector<llvm::Value*>& sums, const ProductSteps& steps) override {
    constexpr size_t kSums = 8, kAddresses = 4;
    const size_t count = sums.size() * columns_, addresses = steps.a.size() + steps.b.size();
    if (count != kSums || addresses > kAddresses || !moves_within_reach(steps.a_offsets) ||
        !moves_within_reach(steps.b_offsets))
      return false;
    std::vector<llvm::Value*> inputs, parts;
    for (llvm::Value* accumulator : sums) {
      for (unsigned i = 0; i < columns_; ++i) {
        llvm::Value* part = llvm::FindInsertedValue(accumulator, {i});
        parts.push_back(part != nullptr ? part : builder_.CreateExtractValue(accumulator, i));
      }
    }
    const bool from_zero = std::all_of(parts.begin(), parts.end(), [](const llvm::Value* part) {
      const auto* constant = llvm::dyn_cast<llvm::Constant>(part);
      return constant != nullptr && constant->isNullValue();
    });
    std::string constraints;
    for (size_t i = 0; i < count; ++i) constraints += "=&^Te,";
    for (size_t i = 0; i < addresses; ++i) constraints += "=&^To,";
    for (size_t i = from_zero ? count : 0; i < count + addresses; ++i) constraints += text(i, ",");
    for (size_t i = 0; i < kTurns + steps.a.size(); ++i) constraints += text("~{q", i, "},");
    constraints += "~{memory}";
    if (!from_zero) inputs = parts;
    inputs.insert(inputs.end(), steps.a.begin(), steps.a.end());
    inputs.insert(inputs.end(), steps.b.begin(), steps.b.end());
    std::vector<llvm::Type*> types, results(count, builder_.getInt32Ty());
    for (const llvm::Value* input : inputs) types.push_back(input->getType());
    results.insert(results.end(), addresses, builder_.getPtrTy());
    llvm::Type* result = llvm::StructType::get(builder_.getContext(), results);
    auto* type = llvm::FunctionType::get(result, types, false);
    StepsWriter writer(static_cast<int>(columns_), steps, static_cast<int>(count), from_zero);
    auto* piece = llvm::InlineAsm::get(type, writer.text(), constraints, /*hasSideEffects=*/true);
    llvm::CallInst* outcome = builder_.CreateCall(type, piece, inputs);
    // Loads of constants may leave the loops around it.
    outcome->setOnlyReadsMemory();
    outcome->setDoesNotThrow();
    outcome->addFnAttr(llvm::Attribute::WillReturn);
    context_.function->addFnAttr("tc-keeps-constants");
    for (size_t i = 0; i < count; ++i) {
      llvm::Value* part = builder_.CreateExtractValue(outcome, {static_cast<unsigned>(i)});
      llvm::Value*& accumulator = sums[i / columns_];
      accumulator = builder_.CreateInsertValue(accumulator, part, static_cast<unsigned>(i % columns_));
    }
    return true;
  }

 private:
  // As words, whose loads reach further from an address: constants and copies of the input are aligned for
  // them.
  llvm::Value* load_words(llvm::Value* place) {
    llvm::Type* words = lanes_of(DType::I32, static_cast<unsigned>(row_.pack / 4));
    return builder_.CreateBitCast(builder_.CreateAlignedLoad(words, place, llvm::Align(4)), numbers(1));
  }

  llvm::Type* numbers(unsigned columns) const {
    return llvm::FixedVectorType::get(builder_.getInt8Ty(), columns * static_cast<unsigned>(row_.pack));
  }
};

}  // namespace

std::unique_ptr<VectorInstructions> cortex_m_vectors(KernelContext& context, const NarrowProduct& row) {
  return std::make_unique<DotsOfVectors>(context, row);
}

}  // namespace tc
