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

// How the loads of one operand reach its groups, in all steps: at distances from addresses that stay, or at
// addresses, one for each group, that move on from load to load.
struct Reach {
  std::vector<llvm::Value*> places;
  bool stays = false;
  bool words = false;  // whether loads are those of words, which reach further
  // Where addresses stay: of each group its place, and how far from it the first step's vector is.
  std::vector<size_t> place_of;
  std::vector<int64_t> distance;

  int64_t reach() const {
    constexpr int64_t kOfBytes = 127, kWord = 4;
    return words ? kOfBytes * kWord : kOfBytes;
  }
  const char* load() const { return words ? "vldrw.u32" : "vldrb.u8"; }
};

// Finds addresses that stay, one for all groups or one for each. `bytes` are those of a group's vectors.
class ReachFinder {
 public:
  ReachFinder(Builder& builder, const std::vector<llvm::Value*>& places,
              const std::vector<std::vector<int64_t>>& offsets, int64_t bytes)
      : builder_(builder), places_(places), offsets_(offsets), bytes_(bytes) {}

  // `apart`: how far the places are from the first one, where that is known.
  Reach find(const std::vector<int64_t>& apart, bool are_aligned) {
    Reach result;
    result.words = are_aligned && all_words(apart);
    if (!apart.empty() && stay_near(result, {places_.front()}, std::vector<size_t>(apart.size(), 0), apart))
      return result;
    std::vector<size_t> own;
    for (size_t i = 0; i < places_.size(); ++i) own.push_back(i);
    if (stay_near(result, places_, own, std::vector<int64_t>(places_.size(), 0))) return result;
    result.places = places_;
    return result;
  }

 private:
  bool all_words(const std::vector<int64_t>& apart) const {
    const auto is_word = [](int64_t offset) { return offset % 4 == 0; };
    return std::all_of(apart.begin(), apart.end(), is_word) &&
           std::all_of(offsets_.begin(), offsets_.end(), [&](const std::vector<int64_t>& each) {
             return std::all_of(each.begin(), each.end(), is_word);
           });
  }

  bool stay_near(Reach& result, const std::vector<llvm::Value*>& places, const std::vector<size_t>& place_of,
                 const std::vector<int64_t>& distance) {
    std::vector<int64_t> shifts;
    for (size_t place = 0; place < places.size(); ++place) {
      int64_t low = INT64_MAX, high = INT64_MIN;
      for (size_t group = 0; group < place_of.size(); ++group) {
        if (place_of[group] != place) continue;
        for (const std::vector<int64_t>& step : offsets_) {
          low = std::min(low, distance[group] + step[group]);
          high = std::max(high, distance[group] + step[group] + bytes_ - kVectorBytes);
        }
      }
      const int64_t reach = result.reach();
      if (high - low > 2 * reach) return false;
      shifts.push_back(high > reach ? high - reach : low < -reach ? low + reach : 0);
    }
    result.stays = true;
    result.place_of = place_of;
    for (size_t place = 0; place < places.size(); ++place)
      result.places.push_back(
          builder_.CreateConstGEP1_64(builder_.getInt8Ty(), places[place], shifts[place]));
    for (size_t group = 0; group < place_of.size(); ++group)
      result.distance.push_back(distance[group] - shifts[place_of[group]]);
    return true;
  }

  Builder& builder_;
  const std::vector<llvm::Value*>& places_;
  const std::vector<std::vector<int64_t>>& offsets_;
  const int64_t bytes_;
};

// Writes the instructions of steps. An accumulator has four sums, a group of b four vectors. The operands of
// the piece are the sums, and from the given numbers on a's places and b's.
class StepsWriter {
 public:
  StepsWriter(int columns, const ProductSteps& steps, const Reach& a, const Reach& b, bool from_zero)
      : columns_(columns), steps_(steps), a_(a), b_(b), from_zero_(from_zero) {}

  // In the vectors q0 and q1 b's columns, in q2 and what follows a's groups.
  std::string text(int number_of_a, int number_of_b) {
    number_of_a_ = number_of_a;
    number_of_b_ = number_of_b;
    const int a_count = static_cast<int>(steps_.a.size()), b_count = static_cast<int>(steps_.b.size());
    for (size_t step = 0; step < steps_.a_offsets.size(); ++step) {
      for (int b = 0; b < b_count; ++b) {
        for (int column = 0; column < columns_; ++column) {
          load(/*of_a=*/false, step, b, column);
          for (int a = 0; a < a_count && b == 0 && column == 0; ++a) load(/*of_a=*/true, step, a, 0);
          for (const ProductSteps::Product& product : steps_.products) {
            if (product.b == b) multiply(product, column, step);
          }
        }
      }
    }
    return text_;
  }

 private:
  void line(const std::string& instruction) { text_ += instruction + "\n"; }

  // By how much the address moves behind the load.
  int64_t after(bool of_a, size_t step, int group, int column) const {
    if (!of_a && column + 1 < columns_) return kVectorBytes;
    const auto& offsets = of_a ? steps_.a_offsets : steps_.b_offsets;
    const auto at = static_cast<size_t>(group);
    if (step + 1 == offsets.size()) return 0;
    return offsets[step + 1][at] - offsets[step][at] - column * kVectorBytes;
  }

  void load(bool of_a, size_t step, int group, int column) {
    const Reach& reach = of_a ? a_ : b_;
    const auto at = static_cast<size_t>(group);
    const size_t place = reach.stays ? reach.place_of[at] : at;
    const std::string from = tc::text("$", (of_a ? number_of_a_ : number_of_b_) + static_cast<int>(place));
    const std::string with =
        tc::text(reach.load(), " q", of_a ? kTurns + group : column % kTurns, ", [", from);
    if (reach.stays) {
      const auto& offsets = of_a ? steps_.a_offsets : steps_.b_offsets;
      const int64_t offset = reach.distance[at] + offsets[step][at] + column * kVectorBytes;
      line(offset == 0 ? with + "]" : tc::text(with, ", #", offset, "]"));
      return;
    }
    const int64_t then = after(of_a, step, group, column);
    const bool near = std::abs(then) <= 127 && (!reach.words || then % 4 == 0);
    line(near && then != 0 ? tc::text(with, "], #", then) : with + "]");
    if (!near) line(tc::text(then > 0 ? "addw " : "subw ", from, ", ", from, ", #", std::abs(then)));
  }

  void multiply(const ProductSteps::Product& product, int column, size_t step) {
    const char* with = from_zero_ && step == 0 ? "vmlav.s8" : "vmlava.s8";
    line(tc::text(with, " $", product.accumulator * columns_ + column, ", q", kTurns + product.a, ", q",
                  column % kTurns));
  }

  const int columns_;
  const ProductSteps& steps_;
  const Reach &a_, &b_;
  const bool from_zero_;
  int number_of_a_ = 0, number_of_b_ = 0;
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
    const size_t count = sums.size() * columns_;
    if (count != kSums || steps.a.size() + steps.b.size() > kAddresses ||
        !moves_within_reach(steps.a_offsets) || !moves_within_reach(steps.b_offsets))
      return false;
    std::vector<llvm::Value*> inputs;
    for (llvm::Value* accumulator : sums) {
      for (unsigned i = 0; i < columns_; ++i) {
        llvm::Value* part = llvm::FindInsertedValue(accumulator, {i});
        inputs.push_back(part != nullptr ? part : builder_.CreateExtractValue(accumulator, i));
      }
    }
    const bool from_zero = std::all_of(inputs.begin(), inputs.end(), [](const llvm::Value* part) {
      const auto* constant = llvm::dyn_cast<llvm::Constant>(part);
      return constant != nullptr && constant->isNullValue();
    });
    if (from_zero) inputs.clear();
    const Reach a = ReachFinder(builder_, steps.a, steps.a_offsets, kVectorBytes)
                        .find(steps.a_apart, steps.a_in_words || are_words(steps.a));
    const Reach b = ReachFinder(builder_, steps.b, steps.b_offsets, columns_ * kVectorBytes).find({}, true);
    llvm::CallInst* outcome = call_steps(steps, a, b, inputs, from_zero);
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
  bool are_words(const std::vector<llvm::Value*>& places) const {
    const llvm::DataLayout& layout = context_.function->getDataLayout();
    return std::all_of(places.begin(), places.end(), [&](llvm::Value* place) {
      return llvm::getKnownAlignment(place, layout) >= llvm::Align(4);
    });
  }

  // The piece's operands: the sums and the places that move, which it returns; what these are before, where
  // they are not zero; and the places that stay.
  llvm::CallInst* call_steps(const ProductSteps& steps, const Reach& a, const Reach& b,
                             std::vector<llvm::Value*> inputs, bool from_zero) {
    std::vector<llvm::Type*> types, results(steps.products.size() * columns_, builder_.getInt32Ty());
    std::string constraints;
    for (size_t i = 0; i < results.size(); ++i) constraints += "=&^Te,";
    std::string of_inputs;
    for (size_t i = 0; i < inputs.size(); ++i) of_inputs += text(i, ",");
    int number[2] = {};
    for (const bool stays : {false, true}) {
      for (const Reach* each : {&a, &b}) {
        if (each->stays != stays) continue;
        number[each == &b] = static_cast<int>(stays ? results.size() + inputs.size() : results.size());
        for (llvm::Value* place : each->places) {
          of_inputs += stays ? "^To," : text(results.size(), ",");
          if (!stays) constraints += "=&^To,";
          if (!stays) results.push_back(builder_.getPtrTy());
          inputs.push_back(place);
        }
      }
    }
    constraints += of_inputs;
    for (size_t i = 0; i < kTurns + steps.a.size(); ++i) constraints += text("~{q", i, "},");
    constraints += "~{memory}";
    for (const llvm::Value* input : inputs) types.push_back(input->getType());
    llvm::Type* result = llvm::StructType::get(builder_.getContext(), results);
    StepsWriter writer(static_cast<int>(columns_), steps, a, b, from_zero);
    auto* piece =
        llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), writer.text(number[0], number[1]),
                             constraints, /*hasSideEffects=*/true);
    return builder_.CreateCall(piece->getFunctionType(), piece, inputs);
  }

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
