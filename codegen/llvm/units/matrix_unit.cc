// Chooses the class that emits products on a target's matrix unit, and has the methods that instructions on
// vectors of one row share.
#include "codegen/llvm/units/matrix_unit.h"

#include "codegen/llvm/role_metadata.h"
#include "codegen/llvm/units/riscv_vector_instructions.h"
#include "ir/error.h"

namespace tc {

llvm::Value* call_intrinsic(Builder& builder, const char* name, llvm::Type* result,
                            const std::vector<llvm::Value*>& arguments) {
  const llvm::Intrinsic::ID id = llvm::Function::lookupIntrinsicID(name);
  TC_CHECK(id != llvm::Intrinsic::not_intrinsic, "for LLVM's ", name);
  return builder.CreateIntrinsic(result, id, arguments);
}

llvm::Value* add_products(Builder& builder, const Target& target, const NarrowProduct& row, llvm::Value* sums,
                          llvm::Value* first, llvm::Value* second) {
  if (row.encoding.opcode != 0) return add_encoded_products(builder, target, row, sums, first, second);
  llvm::Value* result = call_intrinsic(builder, row.intrinsic, sums->getType(), {sums, first, second});
  if (size_of(row.a) == 1) set_role(result, Role::ByteProduct);
  return result;
}

llvm::Type* VectorInstructions::lanes_of(DType dtype, unsigned count) const {
  return llvm::FixedVectorType::get(dtype == DType::F32 ? builder_.getFloatTy() : builder_.getInt32Ty(),
                                    count);
}

llvm::Value* VectorInstructions::call(llvm::Value* sums, llvm::Value* a, llvm::Value* b) {
  return add_products(builder_, context_.target, row_, sums, a, b);
}

llvm::Value* VectorInstructions::zero_sums() {
  return llvm::Constant::getNullValue(lanes_of(row_.sum, columns_));
}

llvm::Value* VectorInstructions::load_sums(const MemoryRows& rows, DType dtype) {
  return builder_.CreateAlignedLoad(lanes_of(dtype, columns_), rows.place, llvm::Align(4));
}

void VectorInstructions::store_sums(const MemoryRows& rows, llvm::Value* sums) {
  builder_.CreateAlignedStore(sums, rows.place, llvm::Align(4));
}

llvm::Value* VectorInstructions::load_a(const MemoryRows& rows) {
  llvm::Value* group = builder_.CreateAlignedLoad(builder_.getInt32Ty(), rows.place, llvm::Align(1));
  return builder_.CreateVectorSplat(columns_, group);
}

llvm::Value* VectorInstructions::load_b(llvm::Value* place) {
  return builder_.CreateAlignedLoad(lanes_of(DType::I32, columns_), place, llvm::Align(1));
}

std::unique_ptr<TileInstructions> tile_instructions(KernelContext& context) {
  if (context.target.arch == Arch::X86_64) return x86_tiles(context);
  fail(ErrorKind::Internal, "internal error: nothing emits tiles of target '", context.target.name, "'");
}

std::unique_ptr<VectorInstructions> vector_instructions(KernelContext& context, const NarrowProduct& row) {
  switch (context.target.arch) {
    case Arch::X86_64: return x86_vectors(context, row);
    case Arch::AArch64: return aarch64_vectors(context, row);
    case Arch::ArmM: return cortex_m_vectors(context, row);
    case Arch::RiscV64:
    case Arch::RiscV32: break;
  }
  return riscv_vectors(context, row);
}

}  // namespace tc
