// The instructions of matrix units behind one interface, which a file per instruction set implements: all
// that `tile_matrix.cc` needs to know of a unit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/llvm/emit/kernel_context.h"
#include "codegen/llvm/emit/matrix_plan.h"

namespace tc {

// Instructions of a unit with tile registers, whose numbers tc assigns.
class TileInstructions {
 public:
  explicit TileInstructions(KernelContext& context) : context_(context), builder_(context.builder) {}
  virtual ~TileInstructions() = default;
  TileInstructions(const TileInstructions&) = delete;
  TileInstructions& operator=(const TileInstructions&) = delete;

  // configure() tells the unit the shapes of its registers from here on; release() that it is not needed any
  // more.
  virtual void configure(const TileShapes& shapes) = 0;
  virtual void release() = 0;
  virtual void zero(int number) = 0;
  virtual void load(int number, llvm::Value* place, int64_t row_bytes) = 0;
  virtual void store(int number, llvm::Value* place, int64_t row_bytes) = 0;
  virtual void multiply_add(const NarrowProduct& row, int sum, int a, int b) = 0;

 protected:
  KernelContext& context_;
  Builder& builder_;
};

// Rows in memory, of which the first is at `place`.
struct MemoryRows {
  llvm::Value* place = nullptr;
  int64_t bytes = 0;  // from one to the next
  int count = 1;
};

// Products one step after the other, each step with operands of its own. Of a step, `a` and `b` have as many
// groups as the first step has; products name an accumulator and groups of a and b by their numbers.
struct ProductSteps {
  struct Product {
    int accumulator = 0, a = 0, b = 0;
  };
  std::vector<llvm::Value*> a, b;  // places of the first step's groups
  std::vector<Product> products;   // of each step
  std::vector<std::vector<int64_t>> a_offsets,
      b_offsets;  // of each step's groups, in bytes from those places
  // By how many bytes the places of a's groups are behind the first one's; empty where that is not known.
  std::vector<int64_t> a_apart;
  // Whether all vectors of a begin at multiples of four bytes.
  bool a_in_words = false;
};

// Instructions of a unit whose sums and operands are vectors; LLVM allocates their registers. An accumulator,
// with all of its columns, is one value. The virtual methods that have a body here suit instructions whose
// accumulator is one row and whose lanes read four bytes of an operand each.
class VectorInstructions {
 public:
  VectorInstructions(KernelContext& context, const NarrowProduct& row)
      : context_(context),
        builder_(context.builder),
        row_(row),
        columns_(static_cast<unsigned>(context.target.matrix.columns)) {}
  virtual ~VectorInstructions() = default;
  VectorInstructions(const VectorInstructions&) = delete;
  VectorInstructions& operator=(const VectorInstructions&) = delete;

  // Sums have the instruction's type; in memory they are rows and may have another type.
  virtual llvm::Value* zero_sums();
  virtual llvm::Value* load_sums(const MemoryRows& rows, DType dtype);
  virtual void store_sums(const MemoryRows& rows, llvm::Value* sums);
  // Load one group of each row, or of each column; the columns' groups are adjacent in memory.
  virtual llvm::Value* load_a(const MemoryRows& rows);
  virtual llvm::Value* load_b(llvm::Value* place);
  // The sums plus the products of another group.
  virtual llvm::Value* multiply_add(llvm::Value* sums, llvm::Value* a, llvm::Value* b) = 0;
  // Adds the products of all steps to the sums as one piece of code, where the unit has such; false
  // otherwise.
  virtual bool add_steps(std::vector<llvm::Value*>& /*sums*/, const ProductSteps& /*steps*/) { return false; }

 protected:
  // A vector of numbers of four bytes.
  llvm::Type* lanes_of(DType dtype, unsigned count) const;
  llvm::Value* call(llvm::Value* sums, llvm::Value* a, llvm::Value* b);

  KernelContext& context_;
  Builder& builder_;
  const NarrowProduct& row_;
  const unsigned columns_;
};

// LLVM's instruction of this name.
llvm::Value* call_intrinsic(Builder& builder, const char* name, llvm::Type* result,
                            const std::vector<llvm::Value*>& arguments);

// The sums plus the products of two operands, given in the instruction's order, by the row's instruction:
// LLVM's or, where LLVM has none, the one that the row encodes.
llvm::Value* add_products(Builder& builder, const Target& target, const NarrowProduct& row, llvm::Value* sums,
                          llvm::Value* first, llvm::Value* second);

// The instructions of each architecture; a new file of `units` declares its function here.
std::unique_ptr<TileInstructions> x86_tiles(KernelContext& context);
std::unique_ptr<VectorInstructions> x86_vectors(KernelContext& context, const NarrowProduct& row);
std::unique_ptr<VectorInstructions> aarch64_vectors(KernelContext& context, const NarrowProduct& row);
std::unique_ptr<VectorInstructions> cortex_m_vectors(KernelContext& context, const NarrowProduct& row);
std::unique_ptr<VectorInstructions> riscv_vectors(KernelContext& context, const NarrowProduct& row);

// The instructions of the kernel's target.
std::unique_ptr<TileInstructions> tile_instructions(KernelContext& context);
std::unique_ptr<VectorInstructions> vector_instructions(KernelContext& context, const NarrowProduct& row);

}  // namespace tc
