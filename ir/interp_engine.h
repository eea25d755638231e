// What both interpreters share: buffers as cells of double or int64, and statements compiled to flat
// programs. Internal to ir/interp.cc and ir/scheduled_interp.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/loop.h"

namespace tc::interp {

union Cell {
  double number;    // float types
  int64_t integer;  // integers and bool; u64 as its bit pattern
};

struct Storage {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape, strides;
  std::vector<Cell> cells;
  // Register buffers under a schedule: number of the leaf run that wrote each element.
  std::vector<uint32_t> stamps;
};

// The buffers of one run. Elements that nothing has written are poison: NaN, or an odd integer.
class Memory {
 public:
  // `registers_are_private`: elements of Register buffers are lost at the end of each leaf run; reading one
  // that the current run has not written is an error.
  Memory(const Kernel& kernel, const std::map<std::string, int64_t>& parameters,
         const std::map<std::string, Tensor>& buffers, bool round_to_storage, bool registers_are_private);

  // Writes outputs and private buffers back. Those that are missing in `buffers` are created: outputs with
  // the buffer's type, private buffers of float types as f64 unless values are rounded.
  void finish(const Kernel& kernel, std::map<std::string, Tensor>& buffers) const;

  std::vector<Storage> storages;  // one per buffer of the kernel
  bool round_to_storage;
  uint32_t leaf = 1;  // number of the leaf run
};

// The value of an operator on operands of type `dtype`, in double or wrapped to the integer type.
Cell apply(UnaryOp op, DType dtype, Cell a);
Cell apply(BinaryOp op, DType dtype, Cell a, Cell b);
Cell apply(Reduction reduction, DType dtype, Cell a, Cell b);
// `round`: whether a value converted to f32 is rounded to f32; conversions to shorter floats always round.
Cell convert(DType from, DType to, Cell a, bool round);

// One statement inside loops: a value, where to store it, and for which instances.
class StatementProgram {
 public:
  struct Loop {
    std::string name;
    Affine extent;  // affine in outer variables
  };
  // What an instance does; an instance runs only where no constraint is negative.
  struct Body {
    std::string name;
    const Access& write;
    Reduction reduction;
    const ExprPtr& value;
    const std::vector<Affine>& constraints;
  };
  // `outer` points to the current value of each outer variable, parameters included; the names of `loops` are
  // visible in addition. `kernel`, `memory` and `outer` must outlive the program.
  StatementProgram(const Kernel& kernel, Memory& memory, const Body& body, std::vector<Loop> loops,
                   const std::map<std::string, const int64_t*>& outer);

  // Runs all instances in the order of the loops, for the outer variables' current values.
  void run();

 private:
  // An affine value that is updated as the loops run: a base, and for each loop what one trip adds.
  struct Register {
    Affine affine;
    std::vector<std::pair<const int64_t*, int64_t>> outer;
    int64_t constant = 0;
    std::vector<int64_t> steps;  // per loop
  };
  struct Place {  // a compiled access
    int buffer = -1;
    int flat = -1;                // register of the element's index; -1 with dynamic subscripts
    std::vector<int> dimensions;  // register of each subscript's affine part
    std::vector<bool> dynamic;    // per dimension: the next value on the stack is added
    std::vector<bool> may_be_negative, may_be_large;  // per dimension: the constraints do not rule it out
    int dynamic_count = 0;
  };
  enum class Code : uint8_t { Const, Load, Index, Unary, Binary, Cast, Jump, JumpIfFalse };
  struct Instruction {
    Code code;
    DType dtype;         // operand type; Cast: source
    uint8_t detail = 0;  // operator; Cast: target type
    int argument = 0;    // place, register or target of a jump
    Cell constant{};
  };

  int make_register(const Affine& affine);
  Place compile(const Access& access);
  // Marks the bounds of the place's dimensions that the constraints imply: they need no check.
  void drop_implied_checks(Place& place, const std::vector<Affine>& constraints) const;
  void compile(const Expr& expr);
  void emit(Code code, DType dtype, int detail, int argument, Cell constant = {});
  void run_loop(size_t depth);
  void run_instance(const int64_t* values);
  Cell evaluate(const int64_t* values, size_t begin, size_t end, Cell* stack);
  // The element's index; pops the dynamic parts of subscripts off `stack`.
  size_t locate(const Place& place, const int64_t* values, Cell*& stack);
  Cell read(const Place& place, size_t element);
  void store(Storage& target, size_t element, Cell value);
  [[noreturn]] void out_of_range(const Place& place, size_t dimension, int64_t index);
  std::string instance_text() const;

  const Kernel& kernel_;
  Memory& memory_;
  std::string name_;
  Reduction reduction_;
  DType dtype_;
  std::vector<Loop> loops_;
  const std::map<std::string, const int64_t*>& outer_;
  std::vector<Register> registers_;
  std::vector<Place> places_;
  Place write_;
  std::vector<int> constraints_;
  std::vector<Instruction> code_;
  size_t value_begin_ = 0;        // before it: the dynamic subscripts of the store
  bool is_multiply_add_ = false;  // the value is load * load, added to a float

  // State of a run.
  std::vector<int64_t> extents_, counters_;
  std::vector<std::vector<int64_t>> values_;  // per depth: the registers
  // Per loop: the registers that change with it and their steps; and the constraints whose value is known
  // once the loop is entered (without those that the loops' ranges imply).
  std::vector<std::vector<std::pair<int, int64_t>>> updates_;
  std::vector<std::vector<int>> decided_;
  bool check_ranges_ = true;
  std::vector<Cell> stack_;
};

}  // namespace tc::interp
