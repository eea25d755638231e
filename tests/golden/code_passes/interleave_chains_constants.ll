pass interleave_chains for rv64gcv_zvl256b
declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)

define void @kernel(ptr noalias %in, ptr noalias %out) {
  %p0 = getelementptr i8, ptr %in, i64 0
  %a = load <16 x float>, ptr %p0
  %a0 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a, <16 x float> %a, <16 x float> splat (float 1.0e+00))
  %a1 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a0, <16 x float> %a, <16 x float> splat (float 2.0e+00))
  %a2 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a1, <16 x float> %a, <16 x float> splat (float 3.0e+00))
  %a3 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a2, <16 x float> %a, <16 x float> splat (float 4.0e+00))
  %a4 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a3, <16 x float> %a, <16 x float> splat (float 5.0e+00))
  %a5 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a4, <16 x float> %a, <16 x float> splat (float 6.0e+00))
  %a6 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a5, <16 x float> %a, <16 x float> splat (float 7.0e+00))
  %a7 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a6, <16 x float> %a, <16 x float> splat (float 8.0e+00))
  %a8 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a7, <16 x float> %a, <16 x float> splat (float 9.0e+00))
  %a9 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a8, <16 x float> %a, <16 x float> splat (float 1.0e+01))
  %a10 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a9, <16 x float> %a, <16 x float> splat (float 1.1e+01))
  %a11 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a10, <16 x float> %a, <16 x float> splat (float 1.2e+01))
  %a12 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a11, <16 x float> %a, <16 x float> splat (float 1.3e+01))
  %q0 = getelementptr i8, ptr %out, i64 0
  store <16 x float> %a12, ptr %q0
  %p1 = getelementptr i8, ptr %in, i64 64
  %b = load <16 x float>, ptr %p1
  %b0 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b, <16 x float> %b, <16 x float> splat (float 1.0e+00))
  %b1 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b0, <16 x float> %b, <16 x float> splat (float 2.0e+00))
  %b2 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b1, <16 x float> %b, <16 x float> splat (float 3.0e+00))
  %b3 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b2, <16 x float> %b, <16 x float> splat (float 4.0e+00))
  %b4 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b3, <16 x float> %b, <16 x float> splat (float 5.0e+00))
  %b5 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b4, <16 x float> %b, <16 x float> splat (float 6.0e+00))
  %b6 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b5, <16 x float> %b, <16 x float> splat (float 7.0e+00))
  %b7 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b6, <16 x float> %b, <16 x float> splat (float 8.0e+00))
  %b8 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b7, <16 x float> %b, <16 x float> splat (float 9.0e+00))
  %b9 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b8, <16 x float> %b, <16 x float> splat (float 1.0e+01))
  %b10 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b9, <16 x float> %b, <16 x float> splat (float 1.1e+01))
  %b11 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b10, <16 x float> %b, <16 x float> splat (float 1.2e+01))
  %b12 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b11, <16 x float> %b, <16 x float> splat (float 1.3e+01))
  %q1 = getelementptr i8, ptr %out, i64 64
  store <16 x float> %b12, ptr %q1
  ret void
}
----
define void @kernel(ptr noalias %in, ptr noalias %out) {
  %p0 = getelementptr i8, ptr %in, i64 0
  %a = load <16 x float>, ptr %p0, align 64
  %a0 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a, <16 x float> %a, <16 x float> <float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00>)
  %p1 = getelementptr i8, ptr %in, i64 64
  %b = load <16 x float>, ptr %p1, align 64
  %b0 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b, <16 x float> %b, <16 x float> <float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00, float 1.000000e+00>)
  %a1 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a0, <16 x float> %a, <16 x float> <float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00>)
  %b1 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b0, <16 x float> %b, <16 x float> <float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00, float 2.000000e+00>)
  %a2 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a1, <16 x float> %a, <16 x float> <float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00>)
  %b2 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b1, <16 x float> %b, <16 x float> <float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00, float 3.000000e+00>)
  %a3 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a2, <16 x float> %a, <16 x float> <float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00>)
  %b3 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b2, <16 x float> %b, <16 x float> <float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00, float 4.000000e+00>)
  %a4 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a3, <16 x float> %a, <16 x float> <float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00>)
  %b4 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b3, <16 x float> %b, <16 x float> <float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00, float 5.000000e+00>)
  %a5 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a4, <16 x float> %a, <16 x float> <float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00>)
  %b5 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b4, <16 x float> %b, <16 x float> <float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00, float 6.000000e+00>)
  %a6 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a5, <16 x float> %a, <16 x float> <float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00>)
  %b6 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b5, <16 x float> %b, <16 x float> <float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00, float 7.000000e+00>)
  %a7 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a6, <16 x float> %a, <16 x float> <float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00>)
  %b7 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b6, <16 x float> %b, <16 x float> <float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00, float 8.000000e+00>)
  %a8 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a7, <16 x float> %a, <16 x float> <float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00>)
  %b8 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b7, <16 x float> %b, <16 x float> <float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00, float 9.000000e+00>)
  %a9 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a8, <16 x float> %a, <16 x float> <float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01>)
  %b9 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b8, <16 x float> %b, <16 x float> <float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01, float 1.000000e+01>)
  %a10 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a9, <16 x float> %a, <16 x float> <float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01>)
  %b10 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b9, <16 x float> %b, <16 x float> <float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01, float 1.100000e+01>)
  %a11 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a10, <16 x float> %a, <16 x float> <float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01>)
  %b11 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b10, <16 x float> %b, <16 x float> <float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01, float 1.200000e+01>)
  %a12 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a11, <16 x float> %a, <16 x float> <float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01>)
  %b12 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b11, <16 x float> %b, <16 x float> <float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01, float 1.300000e+01>)
  %q0 = getelementptr i8, ptr %out, i64 0
  store <16 x float> %a12, ptr %q0, align 64
  %q1 = getelementptr i8, ptr %out, i64 64
  store <16 x float> %b12, ptr %q1, align 64
  ret void
}
