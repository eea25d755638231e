// Products of vectors: `vpdpbusd`, `vpdpwssd`, `vdpbf16ps`.
#include "codegen/llvm/units/matrix_unit.h"

namespace tc {
namespace {

// The instructions take the columns' operand first. LLVM's intrinsics take short integers as vectors of the
// 32-bit lanes that contain them.
class X86Vectors : public VectorInstructions {
 public:
  using VectorInstructions::VectorInstructions;

  llvm::Value* multiply_add(llvm::Value* sums, llvm::Value* a, llvm::Value* b) override {
    return call(sums, numbers(b), numbers(a));
  }

 private:
  llvm::Value* numbers(llvm::Value* lanes) {
    if (row_.a != DType::BF16) return lanes;
    return builder_.CreateBitCast(lanes, llvm::FixedVectorType::get(builder_.getBFloatTy(), 2 * columns_));
  }
};

}  // namespace

std::unique_ptr<VectorInstructions> x86_vectors(KernelContext& context, const NarrowProduct& row) {
  return std::make_unique<X86Vectors>(context, row);
}

}  // namespace tc
