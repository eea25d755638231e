// LLVM values that read like numbers: operators for code that generates arithmetic.
#include "codegen/llvm/emit/number.h"

#include <llvm/IR/Intrinsics.h>

namespace tc {

llvm::Type* Number::shaped(llvm::Type* scalar) const {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value_->getType());
  return vector == nullptr ? scalar : llvm::FixedVectorType::get(scalar, vector->getNumElements());
}

Number Number::same(double value) const {
  if (is_float()) return wrap(llvm::ConstantFP::get(value_->getType(), value));
  return integer(static_cast<int64_t>(value));
}

Number Number::integer(int64_t value) const {
  return wrap(llvm::ConstantInt::get(value_->getType(), static_cast<uint64_t>(value), true));
}

Number Number::nan() const { return wrap(llvm::ConstantFP::getNaN(value_->getType())); }

Number Number::operator-() const {
  return wrap(is_float() ? builder_->CreateFNeg(value_) : builder_->CreateNeg(value_));
}
Number Number::operator!() const { return wrap(builder_->CreateNot(value_)); }

Number Number::operator+(const Number& other) const {
  return wrap(is_float() ? builder_->CreateFAdd(value_, other.value_)
                         : builder_->CreateAdd(value_, other.value_));
}
Number Number::operator-(const Number& other) const {
  return wrap(is_float() ? builder_->CreateFSub(value_, other.value_)
                         : builder_->CreateSub(value_, other.value_));
}
Number Number::operator*(const Number& other) const {
  return wrap(is_float() ? builder_->CreateFMul(value_, other.value_)
                         : builder_->CreateMul(value_, other.value_));
}
Number Number::operator/(const Number& other) const {
  return wrap(builder_->CreateFDiv(value_, other.value_));
}
Number Number::operator&(const Number& other) const {
  return wrap(builder_->CreateAnd(value_, other.value_));
}
Number Number::operator|(const Number& other) const { return wrap(builder_->CreateOr(value_, other.value_)); }
Number Number::operator^(const Number& other) const {
  return wrap(builder_->CreateXor(value_, other.value_));
}

Number Number::operator<(const Number& other) const {
  return wrap(is_float() ? builder_->CreateFCmpOLT(value_, other.value_)
                         : builder_->CreateICmpSLT(value_, other.value_));
}
Number Number::operator>=(double other) const {
  const Number limit = same(other);
  return wrap(is_float() ? builder_->CreateFCmpOGE(value_, limit.value_)
                         : builder_->CreateICmpSGE(value_, limit.value_));
}
Number Number::operator==(const Number& other) const {
  return wrap(is_float() ? builder_->CreateFCmpOEQ(value_, other.value_)
                         : builder_->CreateICmpEQ(value_, other.value_));
}
Number Number::operator!=(const Number& other) const {
  return wrap(is_float() ? builder_->CreateFCmpUNE(value_, other.value_)
                         : builder_->CreateICmpNE(value_, other.value_));
}

Number Number::abs() const { return wrap(builder_->CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value_)); }
Number Number::sqrt() const { return wrap(builder_->CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, value_)); }
Number Number::round_even() const {
  return wrap(builder_->CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, value_));
}
Number Number::copy_sign(const Number& sign) const {
  return wrap(builder_->CreateBinaryIntrinsic(llvm::Intrinsic::copysign, value_, sign.value_));
}
Number Number::sign_bit() const { return bits() < 0; }
Number Number::is_nan() const { return wrap(builder_->CreateFCmpUNO(value_, value_)); }

Number Number::bits() const {
  const unsigned width = value_->getType()->getScalarSizeInBits();
  return wrap(builder_->CreateBitCast(value_, shaped(builder_->getIntNTy(width))));
}
Number Number::extend_float() const {
  return wrap(builder_->CreateFPExt(value_, shaped(builder_->getDoubleTy())));
}
Number Number::truncate_float() const {
  return wrap(builder_->CreateFPTrunc(value_, shaped(builder_->getFloatTy())));
}

Number Number::times(int64_t other) const { return wrap(builder_->CreateMul(value_, integer(other).value_)); }
Number Number::shift_left(int64_t count) const {
  return wrap(builder_->CreateShl(value_, integer(count).value_));
}
Number Number::shift_right(int64_t count) const {
  return wrap(builder_->CreateLShr(value_, integer(count).value_));
}
Number Number::shift_right_signed(int64_t count) const {
  return wrap(builder_->CreateAShr(value_, integer(count).value_));
}
Number Number::as_float() const {
  const bool single = value_->getType()->getScalarSizeInBits() == 32;
  return wrap(
      builder_->CreateBitCast(value_, shaped(single ? builder_->getFloatTy() : builder_->getDoubleTy())));
}
Number Number::to_float() const {
  const bool single = value_->getType()->getScalarSizeInBits() == 32;
  return wrap(
      builder_->CreateSIToFP(value_, shaped(single ? builder_->getFloatTy() : builder_->getDoubleTy())));
}
Number Number::to_double() const {
  return wrap(builder_->CreateSIToFP(value_, shaped(builder_->getDoubleTy())));
}
Number Number::extend() const { return wrap(builder_->CreateSExt(value_, shaped(builder_->getInt64Ty()))); }

Number Number::gather(llvm::Value* table, const Number& index) const {
  llvm::Type* element = value_->getType()->getScalarType();
  llvm::Value* pointers = builder_->CreateGEP(element, table, index.value_);
  const llvm::Align align(element->getScalarSizeInBits() / 8);
  if (!value_->getType()->isVectorTy()) {
    return wrap(builder_->CreateAlignedLoad(element, pointers, align));
  }
  return wrap(builder_->CreateMaskedGather(value_->getType(), pointers, align));
}

Number fma(const Number& a, const Number& b, const Number& c) {
  return a.wrap(a.builder_->CreateIntrinsic(llvm::Intrinsic::fma, {a.value_->getType()},
                                            {a.value_, b.value_, c.value_}));
}

Number select(const Number& condition, const Number& a, const Number& b) {
  return a.wrap(a.builder_->CreateSelect(condition.value_, a.value_, b.value_));
}

}  // namespace tc
