// Products on RISC-V's vectors by instructions of vendors, which their rows encode: of one row, where each
// lane of the sums has a group of its column's numbers, or of small matrices, whose registers have row after
// row.
#include <llvm/Analysis/VectorUtils.h>

#include <vector>

#include "codegen/llvm/units/matrix_unit.h"
#include "codegen/llvm/units/riscv_instructions.h"
#include "ir/error.h"

namespace tc {
namespace {

// An accumulator that takes several instructions is one value: the parts of each, one behind the other.
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
    return llvm::Constant::getNullValue(lanes_of(row_.sum, rows_ * columns_));
  }

  llvm::Value* load_sums(const MemoryRows& rows, DType dtype) override {
    std::vector<llvm::Value*> parts;
    for (unsigned part = 0; part < columns_ / part_; ++part) {
      for (unsigned row = 0; row < rows_; ++row) {
        llvm::Type* type = lanes_of(dtype, part_);
        parts.push_back(static_cast<int>(row) < rows.count
                            ? builder_.CreateAlignedLoad(type, place_of(rows, row, part), llvm::Align(4))
                            : static_cast<llvm::Value*>(llvm::Constant::getNullValue(type)));
      }
    }
    return joined(parts);
  }

  void store_sums(const MemoryRows& rows, llvm::Value* sums) override {
    for (unsigned part = 0; part < columns_ / part_; ++part) {
      for (unsigned row = 0; static_cast<int>(row) < rows.count; ++row) {
        builder_.CreateAlignedStore(slice(sums, part * rows_ + row, part_), place_of(rows, row, part),
                                    llvm::Align(4));
      }
    }
  }

  llvm::Value* load_a(const MemoryRows& rows) override {
    if (rows_ == 1) {
      llvm::Type* group = builder_.getIntNTy(static_cast<unsigned>(8 * group_bytes()));
      llvm::Value* loaded = builder_.CreateAlignedLoad(group, rows.place, llvm::Align(1));
      return builder_.CreateBitCast(builder_.CreateVectorSplat(part_, loaded), numbers(part_ * pack_));
    }
    std::vector<llvm::Value*> all;
    for (unsigned row = 0; row < rows_; ++row) {
      all.push_back(static_cast<int>(row) < rows.count
                        ? builder_.CreateAlignedLoad(numbers(pack_), place_of(rows, row, 0), llvm::Align(1))
                        : static_cast<llvm::Value*>(llvm::Constant::getNullValue(numbers(pack_))));
    }
    return joined(all);
  }

  llvm::Value* load_b(llvm::Value* place) override {
    return builder_.CreateAlignedLoad(numbers(columns_ * pack_), place, llvm::Align(1));
  }

  llvm::Value* multiply_add(llvm::Value* sums, llvm::Value* a, llvm::Value* b) override {
    if (columns_ == part_) return call(sums, a, b);
    std::vector<llvm::Value*> parts;
    for (unsigned part = 0; part < columns_ / part_; ++part)
      parts.push_back(call(slice(sums, part, rows_ * part_), a, slice(b, part, part_ * pack_)));
    return joined(parts);
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

  // The lanes of part `which` of equal parts.
  llvm::Value* slice(llvm::Value* vector, unsigned which, unsigned lanes) {
    std::vector<int> mask;
    for (unsigned i = 0; i < lanes; ++i) mask.push_back(static_cast<int>(which * lanes + i));
    return builder_.CreateShuffleVector(vector, mask);
  }
  llvm::Value* joined(const std::vector<llvm::Value*>& parts) {
    return llvm::concatenateVectors(builder_, parts);
  }

  const unsigned rows_, part_, pack_;  // rows and columns of one instruction
};

}  // namespace

std::unique_ptr<VectorInstructions> riscv_vectors(KernelContext& context, const NarrowProduct& row) {
  return std::make_unique<RiscvVectors>(context, row);
}

}  // namespace tc
