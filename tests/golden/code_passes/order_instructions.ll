pass order_instructions for rv64gcv_zvl256b
define void @kernel(ptr noalias %in, ptr noalias %weights, ptr noalias %out) {
  %t0 = load volatile i8, ptr %in, !tc.role !0
  %t1 = load volatile i8, ptr %weights, !tc.role !0
  %a = load <16 x float>, ptr %in
  %s0 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a, <16 x float> %a, <16 x float> %a)
  %s1 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a, <16 x float> %a, <16 x float> %s0)
  %s2 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a, <16 x float> %a, <16 x float> %s1)
  %place = getelementptr i8, ptr %weights, i64 64
  %b = load <16 x float>, ptr %place
  %e = load float, ptr %in
  %i = insertelement <16 x float> poison, float %e, i64 0
  %splat = shufflevector <16 x float> %i, <16 x float> poison, <16 x i32> zeroinitializer
  %s3 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b, <16 x float> %splat, <16 x float> %s2), !tc.role !1
  %s4 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b, <16 x float> %splat, <16 x float> %s3), !tc.role !1
  %s5 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b, <16 x float> %splat, <16 x float> %s4), !tc.role !1
  %r = fadd <16 x float> %s2, %a
  store <16 x float> %r, ptr %out
  %far = getelementptr i8, ptr %out, i64 64
  store <16 x float> %s5, ptr %far
  ret void
}

!0 = !{!"prefetch"}
!1 = !{!"broadcast product"}
----
define void @kernel(ptr noalias %in, ptr noalias %weights, ptr noalias %out) #0 {
  %a = load <16 x float>, ptr %in, align 64
  %place = getelementptr i8, ptr %weights, i64 64
  %b = load <16 x float>, ptr %place, align 64
  %e = load float, ptr %in, align 4
  %s0 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a, <16 x float> %a, <16 x float> %a)
  %s1 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a, <16 x float> %a, <16 x float> %s0)
  %t1 = load volatile i8, ptr %weights, align 1, !tc.role !0
  %s2 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a, <16 x float> %a, <16 x float> %s1)
  %i = insertelement <16 x float> poison, float %e, i64 0
  %splat = shufflevector <16 x float> %i, <16 x float> poison, <16 x i32> zeroinitializer
  %s3 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b, <16 x float> %splat, <16 x float> %s2), !tc.role !1
  %s4 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b, <16 x float> %splat, <16 x float> %s3), !tc.role !1
  %r = fadd <16 x float> %s2, %a
  %s5 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %b, <16 x float> %splat, <16 x float> %s4), !tc.role !1
  %t0 = load volatile i8, ptr %in, align 1, !tc.role !0
  store <16 x float> %r, ptr %out, align 64
  %far = getelementptr i8, ptr %out, i64 64
  store <16 x float> %s5, ptr %far, align 64
  ret void
}
