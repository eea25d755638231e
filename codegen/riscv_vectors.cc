#include "codegen/riscv_vectors.h"

#include <llvm/IR/IntrinsicsRISCV.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tc {
namespace {

constexpr int64_t kRegisterPart = 64;   // bits of what LLVM counts scalable vectors in

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
  return builder.CreateExtractVector(llvm::FixedVectorType::get(value->getType()->getScalarType(), static_cast<unsigned>(lanes)), value,
                                     builder.getInt64(0));
}

// The floats as integers of half as many bits, rounded to nearest even and cut at the integers' ends.
llvm::Value* to_short(Builder& builder, const Target& target, llvm::Value* numbers, bool has_sign) {
  constexpr int kCurrentRounding = 7;
  const int lanes = lanes_of(numbers);
  llvm::Value* from = to_scalable(builder, target, numbers);
  llvm::Type* type = scalable(target, builder.getInt16Ty(), lanes);
  llvm::Value* made = builder.CreateIntrinsic(has_sign ? llvm::Intrinsic::riscv_vfncvt_x_f_w : llvm::Intrinsic::riscv_vfncvt_xu_f_w,
                                              {type, from->getType(), builder.getInt64Ty()},
                                              {llvm::PoisonValue::get(type), from, builder.getInt64(kCurrentRounding),
                                               builder.getInt64(static_cast<uint64_t>(lanes))});
  return to_fixed(builder, made, lanes);
}

// Integers of 16 bits as bytes, cut at the bytes' ends.
llvm::Value* to_bytes(Builder& builder, const Target& target, llvm::Value* numbers, bool has_sign) {
  const int lanes = lanes_of(numbers);
  llvm::Value* from = to_scalable(builder, target, numbers);
  llvm::Type *type = scalable(target, builder.getInt8Ty(), lanes), *word = builder.getInt64Ty();
  llvm::Value* zero = builder.getInt64(0);   // bits that are shifted out, and how those are rounded
  llvm::Value* made = builder.CreateIntrinsic(has_sign ? llvm::Intrinsic::riscv_vnclip : llvm::Intrinsic::riscv_vnclipu,
                                              {type, from->getType(), word, word},
                                              {llvm::PoisonValue::get(type), from, zero, zero, builder.getInt64(static_cast<uint64_t>(lanes))});
  return to_fixed(builder, made, lanes);
}

// The number that an expression is, where it is an integer constant or one of a float type.
std::optional<int64_t> whole_constant(const Expr& expr) {
  if (expr.kind == Expr::Kind::Cast && expr.operands[0]->kind == Expr::Kind::Const && !is_storage(expr.operands[0]->dtype)) {
    return is_integer(expr.operands[0]->dtype) ? whole_constant(*expr.operands[0]) : std::nullopt;
  }
  constexpr double kMost = 1 << 15;
  if (expr.kind != Expr::Kind::Const || is_storage(expr.dtype)) return std::nullopt;
  const double number = is_float(expr.dtype) ? expr.number : static_cast<double>(expr.integer);
  if (!(std::fabs(number) < kMost) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

// A bound of the magnitude of what f32 integers and constants, which are finite, make; infinity where it may be that. Nothing where it
// may be NaN, as far as is known.
std::optional<double> magnitude(const Kernel& kernel, const Expr& expr) {
  constexpr double kLargest = std::numeric_limits<float>::max(), kInfinity = std::numeric_limits<double>::infinity();
  const auto bounded = [&](double bound) { return bound <= kLargest ? bound : kInfinity; };
  const auto of = [&](size_t operand) { return magnitude(kernel, *expr.operands[operand]); };
  switch (expr.kind) {
    case Expr::Kind::Const: return is_float(expr.dtype) && std::isfinite(expr.number) ? std::optional(std::fabs(expr.number)) : std::nullopt;
    case Expr::Kind::Load: return kernel.buffers[static_cast<size_t>(expr.access.buffer)].scope == Scope::Constant && expr.dtype == DType::F32
                                      ? std::optional(kLargest) : std::nullopt;
    case Expr::Kind::Cast: {
      const DType from = expr.operands[0]->dtype;
      return expr.dtype == DType::F32 && is_integer(from) ? std::optional(std::ldexp(1.0, static_cast<int>(bits_of(from)))) : std::nullopt;
    }
    case Expr::Kind::Unary: {
      const auto operand = expr.unary == UnaryOp::Round ? of(0) : std::nullopt;
      return operand ? std::optional(*operand + 1) : std::nullopt;
    }
    case Expr::Kind::Binary: break;
    default: return std::nullopt;
  }
  const auto a = of(0), b = of(1);
  if (!a || !b) return std::nullopt;
  const bool infinite = *a == kInfinity || *b == kInfinity;
  switch (expr.binary) {
    case BinaryOp::Mul: return infinite ? std::nullopt : std::optional(bounded(*a * *b));
    case BinaryOp::Add:
    case BinaryOp::Sub: return *a == kInfinity && *b == kInfinity ? std::nullopt : std::optional(bounded(*a + *b));
    case BinaryOp::Max:
    case BinaryOp::Min: {
      if (!is_bounded_float(expr)) return std::max(*a, *b);
      return static_cast<double>(std::max(std::abs(*whole_constant(*expr.operands[0]->operands[1])), std::abs(*whole_constant(*expr.operands[1]))));
    }
    default: return std::nullopt;
  }
}

// Takes constants that are added, and ends, from an expression, from the outside in.
class ByteForm {
 public:
  explicit ByteForm(RoundedByte& result) : result_(result) {}

  bool match(const Expr& cast) {
    ExprPtr expr = cast.operands[0];
    bool may_add = true;
    const bool saturates = expr->dtype == DType::F32;   // a float's conversion; an integer's keeps the low bits
    if (saturates) {
      low_ = least();
      high_ = most();
    }
    if (expr->dtype == DType::I32) {
      while (const auto inside = peeled(*expr, may_add)) expr = *inside;
      if (expr->kind != Expr::Kind::Cast || expr->operands[0]->dtype != DType::F32) return false;
      expr = expr->operands[0];
      result_.of_nan = result_.added;
      may_add = false;   // a sum of floats and integers apart is left to the general way
    }
    if (expr->dtype != DType::F32) return false;
    while (const auto inside = peeled(*expr, may_add)) expr = *inside;
    if (expr->kind != Expr::Kind::Unary || expr->unary != UnaryOp::Round) return false;
    expr = expr->operands[0];
    while (const auto inside = peeled(*expr, false)) expr = *inside;
    if (low_ > high_ || low_ < least() || high_ > most()) return false;
    result_.number = expr;
    result_.low = low_;
    result_.high = high_;
    return true;
  }

 private:
  int64_t least() const { return is_signed(result_.type) ? std::numeric_limits<int8_t>::min() : 0; }
  int64_t most() const { return is_signed(result_.type) ? std::numeric_limits<int8_t>::max() : std::numeric_limits<uint8_t>::max(); }

  // What is inside of a sum with a constant, or of an end.
  std::optional<ExprPtr> peeled(const Expr& expr, bool may_add) {
    if (expr.kind != Expr::Kind::Binary) return std::nullopt;
    const bool adds = expr.binary == BinaryOp::Add && may_add;
    if (!adds && expr.binary != BinaryOp::Max && expr.binary != BinaryOp::Min) return std::nullopt;
    for (const size_t side : {size_t{1}, size_t{0}}) {
      const auto number = whole_constant(*expr.operands[side]);
      if (!number) continue;
      if (adds) result_.added += *number;
      else if (!cut(expr.binary, *number + result_.added)) return std::nullopt;
      return expr.operands[1 - side];
    }
    return std::nullopt;
  }

  // False where the ends would change their order, so that it matters which comes first.
  bool cut(BinaryOp how, int64_t end) {
    if (how == BinaryOp::Max) low_ = std::max(low_, end);
    if (how == BinaryOp::Min) high_ = std::min(high_, end);
    return low_ <= high_;
  }

  RoundedByte& result_;
  int64_t low_ = std::numeric_limits<int64_t>::min(), high_ = std::numeric_limits<int64_t>::max();
};

}  // namespace

bool has_riscv_vectors(const Target& target, int lanes) {
  constexpr int kWord = 32, kLargestGroup = 8;
  return target.arch == Arch::RiscV64 && target.vector_bits > 0 && lanes > 1 && (lanes & (lanes - 1)) == 0 &&
         kWord * lanes <= kLargestGroup * target.vector_bits;
}

llvm::Value* add_short_products(Builder& builder, const Target& target, llvm::Value* sums, llvm::Value* a, llvm::Value* b) {
  if (!b->getType()->isVectorTy()) std::swap(a, b);
  const int lanes = lanes_of(sums);
  const auto* before = llvm::dyn_cast<llvm::Constant>(sums);
  if (before != nullptr && before->isNullValue()) {
    // Zero need not be put in a register to begin with.
    llvm::Value* first = a->getType()->isVectorTy() ? a : builder.CreateVectorSplat(static_cast<unsigned>(lanes), a);
    return builder.CreateMul(builder.CreateSExt(first, sums->getType()), builder.CreateSExt(b, sums->getType()));
  }
  llvm::Value *to = to_scalable(builder, target, sums), *apart = to_scalable(builder, target, b);
  llvm::Value* with = a->getType()->isVectorTy() ? to_scalable(builder, target, a) : a;
  constexpr int kLeaveTail = 3;   // what lies behind the lanes may become anything
  llvm::Value* made = builder.CreateIntrinsic(llvm::Intrinsic::riscv_vwmacc, {to->getType(), with->getType(), apart->getType(), builder.getInt64Ty()},
                                              {to, with, apart, builder.getInt64(static_cast<uint64_t>(lanes)), builder.getInt64(kLeaveTail)});
  return to_fixed(builder, made, lanes);
}

std::optional<RoundedByte> rounded_byte(const Kernel& kernel, const Expr& expr) {
  if (expr.kind != Expr::Kind::Cast || (expr.dtype != DType::U8 && expr.dtype != DType::I8)) return std::nullopt;
  RoundedByte result;
  result.type = expr.dtype;
  if (!ByteForm(result).match(expr)) return std::nullopt;
  result.may_be_nan = !magnitude(kernel, *result.number).has_value();
  return result;
}

llvm::Value* round_to_bytes(Builder& builder, const Target& target, const RoundedByte& how, llvm::Value* numbers) {
  const bool is_unsigned = how.type == DType::U8;
  const int lanes = lanes_of(numbers);
  // Bytes without a sign and without an addition are cut at zero by the first conversion already. Others are cut as bytes with one.
  const bool direct = is_unsigned && how.added == 0;
  const int64_t moved = is_unsigned && !direct ? 128 : 0;
  const int64_t least = direct ? 0 : std::numeric_limits<int8_t>::min();
  const int64_t most = direct ? std::numeric_limits<uint8_t>::max() : std::numeric_limits<int8_t>::max();
  llvm::Value* number = to_short(builder, target, numbers, !direct);
  const auto constant = [&](int64_t value) { return llvm::ConstantInt::get(number->getType(), static_cast<uint64_t>(value), true); };
  const auto combined = [&](llvm::Intrinsic::ID with, int64_t value) { number = builder.CreateBinaryIntrinsic(with, number, constant(value)); };
  if (how.added != moved) combined(llvm::Intrinsic::sadd_sat, how.added - moved);
  if (how.low - moved > least) combined(direct ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, how.low - moved);
  if (how.high - moved < most) combined(direct ? llvm::Intrinsic::umin : llvm::Intrinsic::smin, how.high - moved);
  llvm::Value* bytes = to_bytes(builder, target, number, !direct);
  if (moved != 0) bytes = builder.CreateXor(bytes, llvm::ConstantInt::get(bytes->getType(), 128));
  if (!how.may_be_nan) return bytes;
  llvm::Constant* of_nan = llvm::ConstantInt::get(widen(builder.getInt8Ty(), lanes), static_cast<uint64_t>(how.of_nan), true);
  return builder.CreateSelect(builder.CreateFCmpUNO(numbers, numbers), of_nan, bytes);
}

bool is_bounded_float(const Expr& expr) {
  if (expr.kind != Expr::Kind::Binary || (expr.binary != BinaryOp::Max && expr.binary != BinaryOp::Min) || expr.dtype != DType::F32) return false;
  const bool number = whole_constant(*expr.operands[1]).has_value();
  if (!number) return false;
  const Expr& inner = *expr.operands[0];
  return inner.kind == Expr::Kind::Binary && inner.binary == (expr.binary == BinaryOp::Max ? BinaryOp::Min : BinaryOp::Max) &&
         whole_constant(*inner.operands[1]).has_value();
}

// A number so large that the sum has no bits behind the point; the sign is that of a zero too.
llvm::Value* round_bounded(Builder& builder, llvm::Value* numbers) {
  constexpr double kWhole = 0x1.8p23;
  llvm::Constant* whole = llvm::ConstantFP::get(numbers->getType(), kWhole);
  llvm::Value* rounded = builder.CreateFSub(builder.CreateFAdd(numbers, whole), whole);
  return builder.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, rounded, numbers);
}

}  // namespace tc
