// Multiply-accumulate instructions of x86-64: tiles of AMX, else vectors of AVX-512 or AVX-VNNI.
//
// The cycles of tile instructions are measured: products of 16 x 32 and 32 x 16 bfloat16 every 16 cycles with
// six sums in flight, 2,965 GFLOP/s where float32 multiply-adds make 179; i8 tiles do twice as many. A dot
// product of vectors takes as long as a vector's multiply-add in f32, of which two run per cycle; a depth is
// one block of channels, for which several are issued together. With i16 a depth is one, two or four blocks,
// because the sums of each depth are converted to f32.
#include "ir/target/tables.h"

namespace tc::targets {

const std::vector<ProductGroup>& x86_products() {
  using enum DType;
  using enum ProductRoute;
  static const std::vector<ProductGroup> groups = {
      // name, intrinsic, feature; a, b, sum; rows, columns, depth, pack; cycles, kept, depth multiples
      // clang-format off
      {"amx-tile", Tiles, 16, 16, 8, {
          {"tdpbf16ps", "llvm.x86.tdpbf16ps", "amx-bf16", BF16, BF16, F32, 16, 16, 32, 2, 16, F32, {1}},
          {"tdpbssd", "llvm.x86.tdpbssd", "amx-int8", I8, I8, I32, 16, 16, 64, 4, 16, I32, {1}}}},
      {"avx512f", Vectors, 1, 16, 32, {
          {"vdpbf16ps", "llvm.x86.avx512bf16.dpbf16ps.512", "avx512bf16", BF16, BF16, F32, 1, 16, 2, 2, 0.5,
           F32, {8}},
          {"vpdpbusd", "llvm.x86.avx512.vpdpbusd.512", "avx512vnni", I8, U8, I32, 1, 16, 4, 4, 0.5, I32, {4}},
          // Without the feature LLVM splits each instruction into a multiplication and an addition.
          {"vpdpwssd", "llvm.x86.avx512.vpdpwssd.512", "avx512vnni", I16, I16, I32, 1, 16, 2, 2, 0.5, F32,
           {32, 16, 8},
           "+fast-dpwssd"}}},
      {"avxvnni", Vectors, 1, 8, 16, {
          {"vpdpbusd", "llvm.x86.avx512.vpdpbusd.256", "avxvnni", I8, U8, I32, 1, 8, 4, 4, 0.5, I32, {2}},
          {"vpdpwssd", "llvm.x86.avx512.vpdpwssd.256", "avxvnni", I16, I16, I32, 1, 8, 2, 2, 0.5, F32,
           {16, 8, 4},
           "+fast-dpwssd"}}},
      // vpmaddubsw's sums of two products of bytes saturate: it takes unsigned numbers below 128.
      {"avx512bw", Lanes, 1, 16, 32, {
          {"vpdpbusd", "llvm.x86.avx512.vpdpbusd.512", "avx512vnni", U8, I8, I32, 1, 16, 4, 4, 0.5},
          {"vpmaddubsw", "llvm.x86.avx512.pmaddubs.w.512", "avx512bw", U8, I8, I16, 1, 16, 2, 2, 0.5},
          {"vpmaddwd", "llvm.x86.avx512.pmaddw.d.512", "avx512bw", I16, I16, I32, 1, 16, 2, 2, 0.5}}},
      {"avx2", Lanes, 1, 8, 16, {
          {"vpdpbusd", "llvm.x86.avx512.vpdpbusd.256", "avx512vnni", U8, I8, I32, 1, 8, 4, 4, 0.5},
          {"vpdpbusd", "llvm.x86.avx512.vpdpbusd.256", "avxvnni", U8, I8, I32, 1, 8, 4, 4, 0.5},
          {"vpmaddubsw", "llvm.x86.avx2.pmadd.ub.sw", "avx2", U8, I8, I16, 1, 8, 2, 2, 0.5},
          {"vpmaddwd", "llvm.x86.avx2.pmadd.wd", "avx2", I16, I16, I32, 1, 8, 2, 2, 0.5}}}};
  // clang-format on
  return groups;
}

}  // namespace tc::targets
