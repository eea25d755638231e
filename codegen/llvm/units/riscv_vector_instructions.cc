#include "codegen/llvm/units/riscv_vector_instructions.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsRISCV.h>

#include <algorithm>
#include <limits>
#include <string>

#include "codegen/llvm/role_metadata.h"
#include "ir/error.h"

namespace tc {
namespace {

constexpr int64_t kRegisterPart = 64;  // bits of the unit in which LLVM counts scalable vectors
constexpr int kLeaveTail = 3;          // elements after the lanes may become anything
constexpr int kCurrentRounding = 7;

// LLVM's scalable vector that has the lanes of a fixed one in its first elements.
llvm::Type* scalable(const Target& target, llvm::Type* element, int lanes) {
  const int64_t count = std::max<int64_t>(1, lanes * kRegisterPart / target.vector_bits);
  return llvm::ScalableVectorType::get(element, static_cast<unsigned>(count));
}

llvm::Value* to_scalable(Builder& builder, const Target& target, llvm::Value* value) {
  llvm::Type* type = scalable(target, value->getType()->getScalarType(), lanes_of(value));
  return builder.CreateInsertVector(type, llvm::PoisonValue::get(type), value, builder.getInt64(0));
}

llvm::Value* to_fixed(Builder& builder, llvm::Value* value, int lanes) {
  return builder.CreateExtractVector(
      llvm::FixedVectorType::get(value->getType()->getScalarType(), static_cast<unsigned>(lanes)), value,
      builder.getInt64(0));
}

// The floats as integers of half as many bits, rounded to nearest even and clamped to the integers' range.
llvm::Value* to_short(Builder& builder, const Target& target, llvm::Value* numbers, bool has_sign) {
  const int lanes = lanes_of(numbers);
  llvm::Value* from = to_scalable(builder, target, numbers);
  llvm::Type* type = scalable(target, builder.getInt16Ty(), lanes);
  llvm::Value* made = builder.CreateIntrinsic(
      has_sign ? llvm::Intrinsic::riscv_vfncvt_x_f_w : llvm::Intrinsic::riscv_vfncvt_xu_f_w,
      {type, from->getType(), builder.getInt64Ty()},
      {llvm::PoisonValue::get(type), from, builder.getInt64(kCurrentRounding),
       builder.getInt64(static_cast<uint64_t>(lanes))});
  set_role(made, Role::Rounding);
  return to_fixed(builder, made, lanes);
}

// Integers of 16 bits as bytes, clamped to the bytes' range.
llvm::Value* to_bytes(Builder& builder, const Target& target, llvm::Value* numbers, bool has_sign) {
  const int lanes = lanes_of(numbers);
  llvm::Value* from = to_scalable(builder, target, numbers);
  llvm::Type *type = scalable(target, builder.getInt8Ty(), lanes), *word = builder.getInt64Ty();
  llvm::Value* zero = builder.getInt64(0);  // number of bits that are shifted out, and their rounding
  llvm::Value* made = builder.CreateIntrinsic(
      has_sign ? llvm::Intrinsic::riscv_vnclip : llvm::Intrinsic::riscv_vnclipu,
      {type, from->getType(), word, word},
      {llvm::PoisonValue::get(type), from, zero, zero, builder.getInt64(static_cast<uint64_t>(lanes))});
  set_role(made, Role::Rounding);
  return to_fixed(builder, made, lanes);
}

// The registers of a group (LMUL) that a vector of so many bits takes, as assemblers spell it.
std::string group_of(const Target& target, int64_t bits) {
  const int64_t least = std::max<int64_t>(bits, target.vector_bits / 8);
  return least >= target.vector_bits ? text("m", least / target.vector_bits)
                                     : text("mf", target.vector_bits / least);
}

int64_t bits_of(const llvm::Value* vector) {
  return static_cast<int64_t>(vector->getType()->getPrimitiveSizeInBits().getFixedValue());
}

}  // namespace

// Not for 32-bit addresses, where the intrinsics' lengths would have another type: there LLVM's generic
// operations are used.
bool has_riscv_vectors(const Target& target, int lanes) {
  constexpr int kWord = 32, kLargestGroup = 8;
  return target.arch == Arch::RiscV64 && target.vector_bits > 0 && lanes > 1 && (lanes & (lanes - 1)) == 0 &&
         kWord * lanes <= kLargestGroup * target.vector_bits;
}

llvm::Value* add_short_products(Builder& builder, const Target& target, const NarrowProduct& row,
                                llvm::Value* sums, llvm::Value* a, llvm::Value* b) {
  if (!b->getType()->isVectorTy()) std::swap(a, b);
  const int lanes = lanes_of(sums);
  const auto* before = llvm::dyn_cast<llvm::Constant>(sums);
  if (before != nullptr && before->isNullValue()) {
    // A sum that begins with zero needs no register for the zero.
    llvm::Value* first =
        a->getType()->isVectorTy() ? a : builder.CreateVectorSplat(static_cast<unsigned>(lanes), a);
    return builder.CreateMul(builder.CreateSExt(first, sums->getType()),
                             builder.CreateSExt(b, sums->getType()));
  }
  if (row.encoding.opcode != 0) {
    if (!a->getType()->isVectorTy()) a = builder.CreateVectorSplat(static_cast<unsigned>(lanes), a);
    return add_encoded_products(builder, target, row, sums, a, b);
  }
  llvm::Value *to = to_scalable(builder, target, sums), *each = to_scalable(builder, target, b);
  llvm::Value* with = a->getType()->isVectorTy() ? to_scalable(builder, target, a) : a;
  llvm::Value* made = builder.CreateIntrinsic(
      llvm::Function::lookupIntrinsicID(row.intrinsic),
      {to->getType(), with->getType(), each->getType(), builder.getInt64Ty()},
      {to, with, each, builder.getInt64(static_cast<uint64_t>(lanes)), builder.getInt64(kLeaveTail)});
  set_role(made, a->getType()->isVectorTy() ? Role::Product : Role::BroadcastProduct);
  return to_fixed(builder, made, lanes);
}

llvm::Value* add_byte_product(Builder& builder, const Target& target, const NarrowProduct& row,
                              llvm::Value* sums, llvm::Value* byte, llvm::Value* bytes) {
  const int lanes = lanes_of(sums);
  llvm::Value *to = to_scalable(builder, target, sums), *each = to_scalable(builder, target, bytes);
  llvm::Value* made = builder.CreateIntrinsic(
      llvm::Function::lookupIntrinsicID(row.intrinsic),
      {to->getType(), byte->getType(), each->getType(), builder.getInt64Ty()},
      {to, byte, each, builder.getInt64(static_cast<uint64_t>(lanes)), builder.getInt64(kLeaveTail)});
  set_role(made, Role::BroadcastProduct);
  return to_fixed(builder, made, lanes);
}

// LLVM does not know that the instruction needs the vector unit's length and type, so that the assembly sets
// both, and says so.
llvm::Value* add_encoded_products(Builder& builder, const Target& target, const NarrowProduct& row,
                                  llvm::Value* sums, llvm::Value* first, llvm::Value* second) {
  const ProductEncoding& encoding = row.encoding;
  const int64_t bits = bits_of(first), elements = bits / encoding.element_bits;
  TC_CHECK(bits == bits_of(second) && elements * encoding.element_bits == bits, "for the operands of ",
           row.name);
  llvm::Value *to = to_scalable(builder, target, sums), *a = to_scalable(builder, target, first),
              *b = to_scalable(builder, target, second);
  llvm::Type* word = builder.getIntNTy(static_cast<unsigned>(target.word_bits));
  if (row.intrinsic[0] != 0) {
    llvm::Value* made = builder.CreateIntrinsic(
        llvm::Function::lookupIntrinsicID(row.intrinsic), {to->getType(), a->getType(), b->getType(), word},
        {to, a, b, llvm::ConstantInt::get(word, static_cast<uint64_t>(elements)),
         llvm::ConstantInt::get(word, kLeaveTail)});
    set_role(made, Role::MatrixProduct);
    return to_fixed(builder, made, lanes_of(sums));
  }
  const std::string code =
      text("vsetvli zero, $4, e", encoding.element_bits, ", ", group_of(target, bits), ", ta, ma\n.insn r ",
           encoding.opcode, ", ", encoding.function3, ", ", encoding.function7, ", $0, $2, $3");
  auto* type =
      llvm::FunctionType::get(to->getType(), {to->getType(), a->getType(), b->getType(), word}, false);
  llvm::CallInst* made = builder.CreateCall(
      type, llvm::InlineAsm::get(type, code, "=&^vr,0,^vr,^vr,r,~{vl},~{vtype}", /*hasSideEffects=*/false),
      {to, a, b, llvm::ConstantInt::get(word, static_cast<uint64_t>(elements))});
  made->setDoesNotAccessMemory();
  set_role(made, Role::Product);
  return to_fixed(builder, made, lanes_of(sums));
}

llvm::Value* add_multiple(Builder& builder, const Target& target, llvm::Value* sum, llvm::Value* value,
                          llvm::Value* factor) {
  const int lanes = lanes_of(sum);
  llvm::Value *to = to_scalable(builder, target, sum), *from = to_scalable(builder, target, value);
  llvm::Value* made = builder.CreateIntrinsic(
      llvm::Intrinsic::riscv_vmacc, {to->getType(), factor->getType(), builder.getInt64Ty()},
      {to, factor, from, builder.getInt64(static_cast<uint64_t>(lanes)), builder.getInt64(kLeaveTail)});
  return to_fixed(builder, made, lanes);
}

llvm::Value* round_to_bytes_riscv(Builder& builder, const Target& target, const RoundedByte& how,
                                  llvm::Value* numbers) {
  const bool is_unsigned = how.type == DType::U8;
  const int lanes = lanes_of(numbers);
  // Unsigned bytes to which nothing is added are clamped at zero by the first conversion already. Others are
  // clamped as signed bytes.
  const bool direct = is_unsigned && how.added == 0;
  const int64_t moved = is_unsigned && !direct ? 128 : 0;
  const int64_t least = direct ? 0 : std::numeric_limits<int8_t>::min();
  const int64_t most = direct ? std::numeric_limits<uint8_t>::max() : std::numeric_limits<int8_t>::max();
  llvm::Value* number = to_short(builder, target, numbers, !direct);
  const auto constant = [&](int64_t value) {
    return llvm::ConstantInt::get(number->getType(), static_cast<uint64_t>(value), true);
  };
  const auto combined = [&](llvm::Intrinsic::ID with, int64_t value) {
    number = builder.CreateBinaryIntrinsic(with, number, constant(value));
  };
  if (how.added != moved) combined(llvm::Intrinsic::sadd_sat, how.added - moved);
  if (how.low - moved > least)
    combined(direct ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, how.low - moved);
  if (how.high - moved < most)
    combined(direct ? llvm::Intrinsic::umin : llvm::Intrinsic::smin, how.high - moved);
  llvm::Value* bytes = to_bytes(builder, target, number, !direct);
  if (moved != 0) bytes = builder.CreateXor(bytes, llvm::ConstantInt::get(bytes->getType(), 128));
  if (!how.may_be_nan) return bytes;
  llvm::Constant* of_nan =
      llvm::ConstantInt::get(widen(builder.getInt8Ty(), lanes), static_cast<uint64_t>(how.of_nan), true);
  return builder.CreateSelect(builder.CreateFCmpUNO(numbers, numbers), of_nan, bytes);
}

llvm::Value* estimate_reciprocal(Builder& builder, const Target& target, llvm::Value* numbers) {
  const int lanes = lanes_of(numbers);
  llvm::Value* from = to_scalable(builder, target, numbers);
  llvm::Value* made = builder.CreateIntrinsic(
      llvm::Intrinsic::riscv_vfrec7, {from->getType(), builder.getInt64Ty()},
      {llvm::PoisonValue::get(from->getType()), from, builder.getInt64(kCurrentRounding),
       builder.getInt64(static_cast<uint64_t>(lanes))});
  return to_fixed(builder, made, lanes);
}

// Adds and subtracts a number so large that the sum has no fractional bits; the sign is copied, so that a
// zero keeps it, too.
llvm::Value* round_bounded(Builder& builder, llvm::Value* numbers) {
  constexpr double kWhole = 0x1.8p23;
  llvm::Constant* whole = llvm::ConstantFP::get(numbers->getType(), kWhole);
  llvm::Value* rounded = builder.CreateFSub(builder.CreateFAdd(numbers, whole), whole);
  return builder.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, rounded, numbers);
}

}  // namespace tc
