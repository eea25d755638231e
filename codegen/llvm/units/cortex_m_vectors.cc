// Dot products of 16 bytes by MVE, the vectors of Arm's microcontrollers (`vmladava`).
#include "codegen/llvm/role_metadata.h"
#include "codegen/llvm/units/matrix_unit.h"
#include "ir/error.h"

namespace tc {
namespace {

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
    for (unsigned i = 0; i < columns_; ++i) {
      llvm::Value* place = builder_.CreateConstGEP1_64(builder_.getInt32Ty(), rows.place, i);
      builder_.CreateAlignedStore(builder_.CreateExtractValue(sums, i), place, llvm::Align(4));
    }
  }

  llvm::Value* load_a(const MemoryRows& rows) override {
    return builder_.CreateAlignedLoad(numbers(1), rows.place, llvm::Align(1));
  }

  llvm::Value* load_b(llvm::Value* place) override {
    llvm::Value* result = llvm::PoisonValue::get(llvm::ArrayType::get(numbers(1), columns_));
    for (unsigned i = 0; i < columns_; ++i) {
      // As words, whose loads reach further from an address; constants are aligned for them.
      llvm::Value* column = builder_.CreateConstGEP1_64(numbers(1), place, i);
      llvm::Value* words = builder_.CreateAlignedLoad(lanes_of(DType::I32, columns_), column, llvm::Align(4));
      result = builder_.CreateInsertValue(result, builder_.CreateBitCast(words, numbers(1)), i);
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

 private:
  llvm::Type* numbers(unsigned columns) const {
    return llvm::FixedVectorType::get(builder_.getInt8Ty(), columns * static_cast<unsigned>(row_.pack));
  }
};

}  // namespace

std::unique_ptr<VectorInstructions> cortex_m_vectors(KernelContext& context, const NarrowProduct& row) {
  return std::make_unique<DotsOfVectors>(context, row);
}

}  // namespace tc
