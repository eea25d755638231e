pass spill_accumulators_early for rv64gcv_zvl256b
define void @kernel(ptr noalias %in, ptr noalias %weights, ptr noalias %out) {
  %e = load float, ptr %in
  %i = insertelement <64 x float> poison, float %e, i64 0
  %splat = shufflevector <64 x float> %i, <64 x float> poison, <64 x i32> zeroinitializer
  %w = load <64 x float>, ptr %weights
  %p0 = getelementptr i8, ptr %weights, i64 256
  %b0 = load <64 x float>, ptr %p0
  %s0 = call <64 x float> @llvm.fmuladd.v64f32(<64 x float> %w, <64 x float> %splat, <64 x float> %b0), !tc.role !0
  %p1 = getelementptr i8, ptr %weights, i64 512
  %b1 = load <64 x float>, ptr %p1
  %s1 = call <64 x float> @llvm.fmuladd.v64f32(<64 x float> %w, <64 x float> %splat, <64 x float> %b1), !tc.role !0
  %p2 = getelementptr i8, ptr %weights, i64 768
  %b2 = load <64 x float>, ptr %p2
  %s2 = call <64 x float> @llvm.fmuladd.v64f32(<64 x float> %w, <64 x float> %splat, <64 x float> %b2), !tc.role !0
  %x0_0 = fmul <64 x float> %s0, %s0
  %x0_1 = fmul <64 x float> %x0_0, %s0
  %x0_2 = fmul <64 x float> %x0_1, %s0
  %x0_3 = fmul <64 x float> %x0_2, %s0
  %x0_4 = fmul <64 x float> %x0_3, %s0
  %x0_5 = fmul <64 x float> %x0_4, %s0
  %x0_6 = fmul <64 x float> %x0_5, %s0
  %x0_7 = fmul <64 x float> %x0_6, %s0
  %o0 = getelementptr i8, ptr %out, i64 0
  store <64 x float> %x0_7, ptr %o0
  %x1_0 = fmul <64 x float> %s1, %s1
  %x1_1 = fmul <64 x float> %x1_0, %s1
  %x1_2 = fmul <64 x float> %x1_1, %s1
  %x1_3 = fmul <64 x float> %x1_2, %s1
  %x1_4 = fmul <64 x float> %x1_3, %s1
  %x1_5 = fmul <64 x float> %x1_4, %s1
  %x1_6 = fmul <64 x float> %x1_5, %s1
  %x1_7 = fmul <64 x float> %x1_6, %s1
  %o1 = getelementptr i8, ptr %out, i64 256
  store <64 x float> %x1_7, ptr %o1
  %x2_0 = fmul <64 x float> %s2, %s2
  %x2_1 = fmul <64 x float> %x2_0, %s2
  %x2_2 = fmul <64 x float> %x2_1, %s2
  %x2_3 = fmul <64 x float> %x2_2, %s2
  %x2_4 = fmul <64 x float> %x2_3, %s2
  %x2_5 = fmul <64 x float> %x2_4, %s2
  %x2_6 = fmul <64 x float> %x2_5, %s2
  %x2_7 = fmul <64 x float> %x2_6, %s2
  %o2 = getelementptr i8, ptr %out, i64 512
  store <64 x float> %x2_7, ptr %o2
  ret void
}

!0 = !{!"broadcast product"}
----
define void @kernel(ptr noalias %in, ptr noalias %weights, ptr noalias %out) {
  %e = load float, ptr %in, align 4
  %i = insertelement <64 x float> poison, float %e, i64 0
  %splat = shufflevector <64 x float> %i, <64 x float> poison, <64 x i32> zeroinitializer
  %w = load <64 x float>, ptr %weights, align 256
  %p0 = getelementptr i8, ptr %weights, i64 256
  %b0 = load <64 x float>, ptr %p0, align 256
  %s0 = call <64 x float> @llvm.fmuladd.v64f32(<64 x float> %w, <64 x float> %splat, <64 x float> %b0), !tc.role !0
  %p1 = getelementptr i8, ptr %weights, i64 512
  %b1 = load <64 x float>, ptr %p1, align 256
  %s1 = call <64 x float> @llvm.fmuladd.v64f32(<64 x float> %w, <64 x float> %splat, <64 x float> %b1), !tc.role !0
  %o1 = getelementptr i8, ptr %out, i64 256
  store <64 x float> %s1, ptr %o1, align 256
  %p2 = getelementptr i8, ptr %weights, i64 768
  %b2 = load <64 x float>, ptr %p2, align 256
  %s2 = call <64 x float> @llvm.fmuladd.v64f32(<64 x float> %w, <64 x float> %splat, <64 x float> %b2), !tc.role !0
  %o2 = getelementptr i8, ptr %out, i64 512
  store <64 x float> %s2, ptr %o2, align 256
  %x0_0 = fmul <64 x float> %s0, %s0
  %x0_1 = fmul <64 x float> %x0_0, %s0
  %x0_2 = fmul <64 x float> %x0_1, %s0
  %x0_3 = fmul <64 x float> %x0_2, %s0
  %1 = call ptr asm "", "=r,0"(ptr %o1)
  %2 = load <64 x float>, ptr %1, align 256
  %x0_4 = fmul <64 x float> %x0_3, %s0
  %x0_5 = fmul <64 x float> %x0_4, %s0
  %x0_6 = fmul <64 x float> %x0_5, %s0
  %x0_7 = fmul <64 x float> %x0_6, %s0
  %o0 = getelementptr i8, ptr %out, i64 0
  store <64 x float> %x0_7, ptr %o0, align 256
  %x1_0 = fmul <64 x float> %2, %2
  %x1_1 = fmul <64 x float> %x1_0, %2
  %x1_2 = fmul <64 x float> %x1_1, %2
  %x1_3 = fmul <64 x float> %x1_2, %2
  %3 = call ptr asm "", "=r,0"(ptr %o2)
  %4 = load <64 x float>, ptr %3, align 256
  %x1_4 = fmul <64 x float> %x1_3, %2
  %x1_5 = fmul <64 x float> %x1_4, %2
  %x1_6 = fmul <64 x float> %x1_5, %2
  %x1_7 = fmul <64 x float> %x1_6, %2
  store <64 x float> %x1_7, ptr %o1, align 256
  %x2_0 = fmul <64 x float> %4, %4
  %x2_1 = fmul <64 x float> %x2_0, %4
  %x2_2 = fmul <64 x float> %x2_1, %4
  %x2_3 = fmul <64 x float> %x2_2, %4
  %x2_4 = fmul <64 x float> %x2_3, %4
  %x2_5 = fmul <64 x float> %x2_4, %4
  %x2_6 = fmul <64 x float> %x2_5, %4
  %x2_7 = fmul <64 x float> %x2_6, %4
  store <64 x float> %x2_7, ptr %o2, align 256
  ret void
}
