// Products on RISC-V's vectors by instructions of vendors, which their rows encode: of one row, where each
// lane of the sums has a group of its column's numbers, or of small matrices, whose registers have row after
// row.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsRISCV.h>

#include <algorithm>
#include <vector>

#include "codegen/llvm/units/matrix_unit.h"
#include "codegen/llvm/units/riscv_vector_instructions.h"
#include "ir/error.h"

namespace tc {
namespace {

// An accumulator or a group of columns that takes several instructions is a struct of their parts, so that
// each part has registers of its own.
class RiscvVectors : public VectorInstructions {
 public:
  RiscvVectors(KernelContext& context, const NarrowProduct& row)
      : VectorInstructions(context, row),
        rows_(static_cast<unsigned>(row.rows)),
        part_(static_cast<unsigned>(row.columns)),
        pack_(static_cast<unsigned>(row.pack)) {
    TC_CHECK(row.encoding.opcode != 0 && row.pack == row.depth && columns_ % part_ == 0, "for instruction ",
             row.name);
  }

  llvm::Value* zero_sums() override {
    return joined([&](unsigned) { return llvm::Constant::getNullValue(lanes_of(row_.sum, rows_ * part_)); });
  }

  llvm::Value* load_sums(const MemoryRows& rows, DType dtype) override {
    return joined([&](unsigned part) {
      std::vector<llvm::Value*> all;
      for (unsigned row = 0; row < rows_; ++row) {
        llvm::Type* type = lanes_of(dtype, part_);
        all.push_back(static_cast<int>(row) < rows.count
                          ? builder_.CreateAlignedLoad(type, place_of(rows, row, part), llvm::Align(4))
                          : static_cast<llvm::Value*>(llvm::Constant::getNullValue(type)));
      }
      return llvm::concatenateVectors(builder_, all);
    });
  }

  // By intrinsics, since LLVM would join adjacent stores, and shifting one vector behind the other takes
  // longer than the second store.
  void store_sums(const MemoryRows& rows, llvm::Value* sums) override {
    auto* row_type = llvm::cast<llvm::FixedVectorType>(lanes_of(row_.sum, part_));
    const unsigned bits = row_type->getScalarSizeInBits();
    const auto register_bits = static_cast<unsigned>(context_.target.vector_bits);
    const unsigned registers = std::max(1U, part_ * bits / register_bits);
    // A scalable vector of one register has 64 bits for each unit of vscale.
    auto* scalable = llvm::ScalableVectorType::get(row_type->getElementType(), registers * 64 / bits);
    llvm::Value* count = builder_.getInt64(part_);
    // All rows are made before the first is stored, so that no store waits for its row.
    std::vector<std::pair<llvm::Value*, llvm::Value*>> stores;
    for (unsigned part = 0; part < parts(); ++part) {
      for (unsigned row = 0; static_cast<int>(row) < rows.count; ++row) {
        llvm::Value* lanes =
            builder_.CreateInsertVector(scalable, llvm::PoisonValue::get(scalable),
                                        slice(part_of(sums, part), row, part_), builder_.getInt64(0));
        stores.emplace_back(lanes, place_of(rows, row, part));
      }
    }
    for (const auto& [lanes, place] : stores)
      builder_.CreateIntrinsic(llvm::Intrinsic::riscv_vse, {scalable, count->getType()},
                               {lanes, place, count});
  }

  llvm::Value* load_a(const MemoryRows& rows) override {
    if (rows_ == 1) {
      llvm::Type* group = builder_.getIntNTy(static_cast<unsigned>(8 * group_bytes()));
      llvm::Value* loaded = builder_.CreateAlignedLoad(group, rows.place, llvm::Align(1));
      return builder_.CreateBitCast(builder_.CreateVectorSplat(part_, loaded), numbers(part_ * pack_));
    }
    const auto count = static_cast<unsigned>(rows.count);
    if (rows.bytes == group_bytes()) {
      llvm::Value* loaded = builder_.CreateAlignedLoad(numbers(count * pack_), rows.place, llvm::Align(1));
      return count == rows_ ? loaded : slice(loaded, 0, rows_ * pack_, count * pack_);
    }
    std::vector<llvm::Value*> all;
    for (unsigned row = 0; row < rows_; ++row) {
      all.push_back(row < count
                        ? builder_.CreateAlignedLoad(numbers(pack_), place_of(rows, row, 0), llvm::Align(1))
                        : static_cast<llvm::Value*>(llvm::Constant::getNullValue(numbers(pack_))));
    }
    return llvm::concatenateVectors(builder_, all);
  }

  llvm::Value* load_b(llvm::Value* place) override {
    return joined([&](unsigned part) {
      const int64_t bytes = int64_t{part} * part_ * group_bytes();
      llvm::Value* at =
          builder_.CreateConstGEP1_64(builder_.getInt8Ty(), place, static_cast<uint64_t>(bytes));
      return builder_.CreateAlignedLoad(numbers(part_ * pack_), at, llvm::Align(1));
    });
  }

  llvm::Value* multiply_add(llvm::Value* sums, llvm::Value* a, llvm::Value* b) override {
    return joined([&](unsigned part) { return call(part_of(sums, part), a, part_of(b, part)); });
  }

 private:
  int64_t group_bytes() const { return int64_t{row_.pack} * size_of(row_.a); }
  llvm::Type* numbers(unsigned count) const {
    llvm::Type* type = row_.a == DType::BF16 ? builder_.getBFloatTy()
                                             : builder_.getIntNTy(static_cast<unsigned>(8 * size_of(row_.a)));
    return llvm::FixedVectorType::get(type, count);
  }
  llvm::Value* place_of(const MemoryRows& rows, unsigned row, unsigned part) {
    const int64_t bytes = row * rows.bytes + int64_t{part} * part_ * size_of(row_.sum);
    return builder_.CreateConstGEP1_64(builder_.getInt8Ty(), rows.place, static_cast<uint64_t>(bytes));
  }

  // Lanes of equal slices of a vector; those from `present` on are undefined.
  llvm::Value* slice(llvm::Value* vector, unsigned which, unsigned lanes, unsigned present = UINT_MAX) {
    std::vector<int> mask;
    for (unsigned i = 0; i < lanes; ++i)
      mask.push_back(i < present ? static_cast<int>(which * lanes + i) : -1);
    return builder_.CreateShuffleVector(vector, mask);
  }

  unsigned parts() const { return columns_ / part_; }
  template <class Make>
  llvm::Value* joined(const Make& make) {
    std::vector<llvm::Value*> made;
    std::vector<llvm::Type*> types;
    for (unsigned part = 0; part < parts(); ++part) {
      made.push_back(make(part));
      types.push_back(made.back()->getType());
    }
    if (made.size() == 1) return made[0];
    llvm::Value* result = llvm::PoisonValue::get(llvm::StructType::get(builder_.getContext(), types));
    for (unsigned part = 0; part < parts(); ++part)
      result = builder_.CreateInsertValue(result, made[part], part);
    return result;
  }
  llvm::Value* part_of(llvm::Value* value, unsigned part) {
    return parts() == 1 ? value : builder_.CreateExtractValue(value, part);
  }

  const unsigned rows_, part_, pack_;  // rows and columns of one instruction
};

}  // namespace

std::unique_ptr<VectorInstructions> riscv_vectors(KernelContext& context, const NarrowProduct& row) {
  return std::make_unique<RiscvVectors>(context, row);
}

}  // namespace tc
