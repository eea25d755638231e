// Products on AMX's tiles. tc gives LLVM the numbers of the tile registers, so that none is spilled.
#include <array>

#include "codegen/llvm/units/matrix_unit.h"

namespace tc {
namespace {

class X86Tiles : public TileInstructions {
 public:
  using TileInstructions::TileInstructions;

  void configure(const TileShapes& shapes) override {
    // As `ldtilecfg` reads it: palette 1, bytes per row at 16, rows at 48.
    constexpr size_t kBytesAt = 16, kRowsAt = 48;
    std::array<uint8_t, 64> bytes{};
    bytes[0] = 1;
    for (size_t i = 0; i < shapes.size(); ++i) {
      bytes[kBytesAt + 2 * i] = static_cast<uint8_t>(shapes[i].bytes);
      bytes[kRowsAt + i] = static_cast<uint8_t>(shapes[i].rows);
    }
    llvm::Constant* constant = llvm::ConstantDataArray::get(context_.compiler.context(), bytes);
    auto* memory = new llvm::GlobalVariable(context_.compiler.module(), constant->getType(),
                                            /*isConstant=*/true, llvm::GlobalValue::InternalLinkage, constant,
                                            context_.function->getName() + ".tiles");
    memory->setAlignment(llvm::Align(64));
    instruction("llvm.x86.ldtilecfg", {memory});
  }

  void release() override { instruction("llvm.x86.tilerelease", {}); }
  void zero(int tile) override { instruction("llvm.x86.tilezero", {number(tile)}); }

  void load(int tile, llvm::Value* place, int64_t row_bytes) override {
    instruction("llvm.x86.tileloadd64", {number(tile), place, context_.i64(row_bytes)});
  }
  void store(int tile, llvm::Value* place, int64_t row_bytes) override {
    instruction("llvm.x86.tilestored64", {number(tile), place, context_.i64(row_bytes)});
  }
  void multiply_add(const NarrowProduct& row, int sum, int a, int b) override {
    instruction(row.intrinsic, {number(sum), number(a), number(b)});
  }

 private:
  llvm::Value* number(int tile) { return builder_.getInt8(static_cast<uint8_t>(tile)); }
  void instruction(const char* name, const std::vector<llvm::Value*>& arguments) {
    call_intrinsic(builder_, name, builder_.getVoidTy(), arguments);
  }
};

}  // namespace

std::unique_ptr<TileInstructions> x86_tiles(KernelContext& context) {
  return std::make_unique<X86Tiles>(context);
}

}  // namespace tc
