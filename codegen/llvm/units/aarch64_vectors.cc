// Products on NEON's vectors (`sdot`, `bfdot`), and of small matrices in them (`smmla`, `bfmmla`).
#include <array>

#include "codegen/llvm/units/matrix_unit.h"
#include "ir/error.h"

namespace tc {
namespace {

constexpr unsigned kRegisterBytes = 16;

// One register of an operand, as the instruction takes it.
llvm::Value* numbers_of(Builder& builder, DType dtype, llvm::Value* value) {
  llvm::Type* type = dtype == DType::BF16 ? builder.getBFloatTy() : builder.getInt8Ty();
  return builder.CreateBitCast(
      value, llvm::FixedVectorType::get(type, kRegisterBytes / static_cast<unsigned>(size_of(dtype))));
}

// Products of one row: each lane has a group of its column's numbers.
class Dots : public VectorInstructions {
 public:
  using VectorInstructions::VectorInstructions;

  llvm::Value* multiply_add(llvm::Value* sums, llvm::Value* a, llvm::Value* b) override {
    return call(sums, numbers_of(builder_, row_.a, a), numbers_of(builder_, row_.b, b));
  }
};

// Products of two rows and four columns. A register of sums has two columns of both rows; a register of an
// operand has eight bytes of each of two rows or columns. An accumulator is one value of two registers, and
// so is a group of the columns.
class Matrices : public VectorInstructions {
 public:
  Matrices(KernelContext& context, const NarrowProduct& row) : VectorInstructions(context, row) {
    TC_CHECK(row.rows == kRows && row.columns == kRows && columns_ == 2 * kRows &&
                 row.pack * size_of(row.a) == kGroupBytes,
             "for instruction ", row.name);
  }

  llvm::Value* zero_sums() override { return llvm::Constant::getNullValue(lanes_of(row_.sum, 2 * columns_)); }

  llvm::Value* load_sums(const MemoryRows& rows, DType dtype) override {
    llvm::Type* type = lanes_of(dtype, columns_);
    std::array<llvm::Value*, kRows> each;
    for (int i = 0; i < kRows; ++i) {
      each[static_cast<size_t>(i)] = i < rows.count
                                         ? builder_.CreateAlignedLoad(type, place_of(rows, i), llvm::Align(4))
                                         : static_cast<llvm::Value*>(llvm::Constant::getNullValue(type));
    }
    return builder_.CreateShuffleVector(each[0], each[1], {0, 1, 4, 5, 2, 3, 6, 7});
  }

  void store_sums(const MemoryRows& rows, llvm::Value* sums) override {
    for (int i = 0; i < rows.count; ++i) {
      const int first = kRows * i;
      llvm::Value* row = builder_.CreateShuffleVector(sums, {first, first + 1, first + 4, first + 5});
      builder_.CreateAlignedStore(row, place_of(rows, i), llvm::Align(4));
    }
  }

  llvm::Value* load_a(const MemoryRows& rows) override {
    llvm::Type* both = llvm::FixedVectorType::get(builder_.getInt64Ty(), kRows);
    if (rows.count == kRows && rows.bytes == kGroupBytes) {
      return builder_.CreateAlignedLoad(both, rows.place, llvm::Align(1));
    }
    llvm::Value* result = llvm::Constant::getNullValue(both);
    for (int i = 0; i < rows.count; ++i) {
      llvm::Value* row = builder_.CreateAlignedLoad(builder_.getInt64Ty(), place_of(rows, i), llvm::Align(1));
      result = builder_.CreateInsertElement(result, row, builder_.getInt64(static_cast<uint64_t>(i)));
    }
    return result;
  }

  llvm::Value* load_b(llvm::Value* place) override {
    return builder_.CreateAlignedLoad(llvm::FixedVectorType::get(builder_.getInt64Ty(), columns_), place,
                                      llvm::Align(1));
  }

  llvm::Value* multiply_add(llvm::Value* sums, llvm::Value* a, llvm::Value* b) override {
    const auto half = [&](llvm::Value* value, int which, int lanes) {
      std::vector<int> mask;
      for (int i = 0; i < lanes; ++i) mask.push_back(which * lanes + i);
      return builder_.CreateShuffleVector(value, mask);
    };
    llvm::Value* rows = numbers_of(builder_, row_.a, a);
    std::array<llvm::Value*, 2> results;
    for (int i = 0; i < 2; ++i) {
      llvm::Value* before = half(sums, i, 4);
      results[static_cast<size_t>(i)] = call(before, rows, numbers_of(builder_, row_.b, half(b, i, kRows)));
    }
    return builder_.CreateShuffleVector(results[0], results[1], {0, 1, 2, 3, 4, 5, 6, 7});
  }

 private:
  static constexpr int kRows = 2, kGroupBytes = 8;

  llvm::Value* place_of(const MemoryRows& rows, int row) {
    return row == 0 ? rows.place
                    : builder_.CreateConstGEP1_64(builder_.getInt8Ty(), rows.place,
                                                  static_cast<uint64_t>(row * rows.bytes));
  }
};

}  // namespace

std::unique_ptr<VectorInstructions> aarch64_vectors(KernelContext& context, const NarrowProduct& row) {
  if (row.rows == 1) return std::make_unique<Dots>(context, row);
  return std::make_unique<Matrices>(context, row);
}

}  // namespace tc
