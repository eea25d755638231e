#include "codegen/llvm/units/x86_vector_instructions.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <limits>

namespace tc {

llvm::Value* round_to_bytes_x86(Builder& builder, const Target& target, const RoundedByte& how,
                                llvm::Value* numbers) {
  constexpr int kLanes = 16, kCurrentRounding = 4;
  constexpr int64_t kMost = std::numeric_limits<uint8_t>::max();
  if (target.arch != Arch::X86_64 || target.vector_bits < 32 * kLanes || lanes_of(numbers) != kLanes)
    return nullptr;
  if (how.type != DType::U8 || how.high != kMost || how.may_be_nan) return nullptr;
  // Floats from 0 on are ordered like their bits, and negative ones have the sign bit. Integers are
  // compared, since more of the core's ports can do that.
  llvm::Type* words = widen(builder.getInt32Ty(), kLanes);
  const int64_t least = how.low - how.added;
  if (least == 0) {
    llvm::Value* bits = builder.CreateBinaryIntrinsic(
        llvm::Intrinsic::smax, builder.CreateBitCast(numbers, words), llvm::Constant::getNullValue(words));
    numbers = builder.CreateBitCast(bits, numbers->getType());
  } else {
    llvm::Constant* low = llvm::ConstantFP::get(numbers->getType(), static_cast<double>(least));
    numbers = builder.CreateSelect(builder.CreateFCmpOGT(numbers, low), numbers, low);
  }
  // A number outside of i32 becomes the least i32, which as an unsigned number is larger than all bytes.
  llvm::Value* whole = builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_cvtps2dq_512, {},
                                               {numbers, llvm::Constant::getNullValue(words),
                                                builder.getInt16(-1), builder.getInt32(kCurrentRounding)});
  if (how.added != 0)
    whole = builder.CreateAdd(whole, llvm::ConstantInt::get(words, static_cast<uint64_t>(how.added), true));
  whole = builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin, whole, llvm::ConstantInt::get(words, kMost));
  return builder.CreateTrunc(whole, widen(builder.getInt8Ty(), kLanes));
}

}  // namespace tc
