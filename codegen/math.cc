// Elementary functions as generated vector code: no library is called.
#include "codegen/math.h"

#include "ir/error.h"

namespace tc {

llvm::Value* emit_function(Builder&, const Target&, UnaryOp op, llvm::Value*) {
  fail(ErrorKind::Internal, "internal error: ", name_of(op));
}
llvm::Value* emit_function(Builder&, const Target&, BinaryOp op, llvm::Value*, llvm::Value*) {
  fail(ErrorKind::Internal, "internal error: ", name_of(op));
}

}  // namespace tc
