pass pipeline_operand_loads for rv64gcv_zvl256b
define void @kernel(ptr noalias %in, ptr noalias %weights, ptr noalias %out, i64 %last) {
entry:
  br label %trip

trip:
  %i = phi i64 [ 0, %entry ], [ %next, %trip ]
  %s0 = phi <16 x float> [ zeroinitializer, %entry ], [ %t0, %trip ]
  %s1 = phi <16 x float> [ zeroinitializer, %entry ], [ %t1, %trip ]
  %s2 = phi <16 x float> [ zeroinitializer, %entry ], [ %t2, %trip ]
  %s3 = phi <16 x float> [ zeroinitializer, %entry ], [ %t3, %trip ]
  %s4 = phi <16 x float> [ zeroinitializer, %entry ], [ %t4, %trip ]
  %s5 = phi <16 x float> [ zeroinitializer, %entry ], [ %t5, %trip ]
  %s6 = phi <16 x float> [ zeroinitializer, %entry ], [ %t6, %trip ]
  %s7 = phi <16 x float> [ zeroinitializer, %entry ], [ %t7, %trip ]
  %b = mul nuw nsw i64 %i, 12544
  %row = getelementptr i8, ptr %in, i64 %b
  %c = shl nsw i64 %i, 6
  %place = getelementptr i8, ptr %weights, i64 %c
  %w = load <16 x float>, ptr %place
  %p0 = getelementptr i8, ptr %row, i64 0
  %a0 = load float, ptr %p0
  %e0 = insertelement <16 x float> poison, float %a0, i64 0
  %v0 = shufflevector <16 x float> %e0, <16 x float> poison, <16 x i32> zeroinitializer
  %t0 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v0, <16 x float> %w, <16 x float> %s0), !tc.role !0
  %p1 = getelementptr i8, ptr %row, i64 64
  %a1 = load float, ptr %p1
  %e1 = insertelement <16 x float> poison, float %a1, i64 0
  %v1 = shufflevector <16 x float> %e1, <16 x float> poison, <16 x i32> zeroinitializer
  %t1 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v1, <16 x float> %w, <16 x float> %s1), !tc.role !0
  %p2 = getelementptr i8, ptr %row, i64 128
  %a2 = load float, ptr %p2
  %e2 = insertelement <16 x float> poison, float %a2, i64 0
  %v2 = shufflevector <16 x float> %e2, <16 x float> poison, <16 x i32> zeroinitializer
  %t2 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v2, <16 x float> %w, <16 x float> %s2), !tc.role !0
  %p3 = getelementptr i8, ptr %row, i64 192
  %a3 = load float, ptr %p3
  %e3 = insertelement <16 x float> poison, float %a3, i64 0
  %v3 = shufflevector <16 x float> %e3, <16 x float> poison, <16 x i32> zeroinitializer
  %t3 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v3, <16 x float> %w, <16 x float> %s3), !tc.role !0
  %p4 = getelementptr i8, ptr %row, i64 256
  %a4 = load float, ptr %p4
  %e4 = insertelement <16 x float> poison, float %a4, i64 0
  %v4 = shufflevector <16 x float> %e4, <16 x float> poison, <16 x i32> zeroinitializer
  %t4 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v4, <16 x float> %w, <16 x float> %s4), !tc.role !0
  %p5 = getelementptr i8, ptr %row, i64 320
  %a5 = load float, ptr %p5
  %e5 = insertelement <16 x float> poison, float %a5, i64 0
  %v5 = shufflevector <16 x float> %e5, <16 x float> poison, <16 x i32> zeroinitializer
  %t5 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v5, <16 x float> %w, <16 x float> %s5), !tc.role !0
  %p6 = getelementptr i8, ptr %row, i64 384
  %a6 = load float, ptr %p6
  %e6 = insertelement <16 x float> poison, float %a6, i64 0
  %v6 = shufflevector <16 x float> %e6, <16 x float> poison, <16 x i32> zeroinitializer
  %t6 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v6, <16 x float> %w, <16 x float> %s6), !tc.role !0
  %p7 = getelementptr i8, ptr %row, i64 448
  %a7 = load float, ptr %p7
  %e7 = insertelement <16 x float> poison, float %a7, i64 0
  %v7 = shufflevector <16 x float> %e7, <16 x float> poison, <16 x i32> zeroinitializer
  %t7 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v7, <16 x float> %w, <16 x float> %s7), !tc.role !0
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %i, 15
  br i1 %more, label %trip, label %end

end:
  %q0 = getelementptr i8, ptr %out, i64 0
  store <16 x float> %t0, ptr %q0
  %q1 = getelementptr i8, ptr %out, i64 64
  store <16 x float> %t1, ptr %q1
  %q2 = getelementptr i8, ptr %out, i64 128
  store <16 x float> %t2, ptr %q2
  %q3 = getelementptr i8, ptr %out, i64 192
  store <16 x float> %t3, ptr %q3
  %q4 = getelementptr i8, ptr %out, i64 256
  store <16 x float> %t4, ptr %q4
  %q5 = getelementptr i8, ptr %out, i64 320
  store <16 x float> %t5, ptr %q5
  %q6 = getelementptr i8, ptr %out, i64 384
  store <16 x float> %t6, ptr %q6
  %q7 = getelementptr i8, ptr %out, i64 448
  store <16 x float> %t7, ptr %q7
  ret void
}

!0 = !{!"broadcast product"}
----
define void @kernel(ptr noalias %in, ptr noalias %weights, ptr noalias %out, i64 %last) #0 {
entry:
  %0 = load <16 x float>, ptr %weights, align 64
  %1 = load float, ptr %in, align 4
  %2 = getelementptr i8, ptr %in, i64 64
  %3 = load float, ptr %2, align 4
  %4 = getelementptr i8, ptr %in, i64 128
  %5 = load float, ptr %4, align 4
  %6 = getelementptr i8, ptr %in, i64 192
  %7 = load float, ptr %6, align 4
  %8 = getelementptr i8, ptr %in, i64 256
  %9 = load float, ptr %8, align 4
  %10 = getelementptr i8, ptr %in, i64 320
  %11 = load float, ptr %10, align 4
  %12 = getelementptr i8, ptr %in, i64 384
  %13 = load float, ptr %12, align 4
  br label %trip

trip:                                             ; preds = %trip, %entry
  %i = phi i64 [ 0, %entry ], [ %next, %trip ]
  %s0 = phi <16 x float> [ zeroinitializer, %entry ], [ %t0, %trip ]
  %s1 = phi <16 x float> [ zeroinitializer, %entry ], [ %t1, %trip ]
  %s2 = phi <16 x float> [ zeroinitializer, %entry ], [ %t2, %trip ]
  %s3 = phi <16 x float> [ zeroinitializer, %entry ], [ %t3, %trip ]
  %s4 = phi <16 x float> [ zeroinitializer, %entry ], [ %t4, %trip ]
  %s5 = phi <16 x float> [ zeroinitializer, %entry ], [ %t5, %trip ]
  %s6 = phi <16 x float> [ zeroinitializer, %entry ], [ %t6, %trip ]
  %s7 = phi <16 x float> [ zeroinitializer, %entry ], [ %t7, %trip ]
  %14 = phi ptr [ %weights, %entry ], [ %20, %trip ]
  %15 = phi ptr [ %in, %entry ], [ %18, %trip ]
  %w = phi <16 x float> [ %0, %entry ], [ %21, %trip ]
  %a0 = phi float [ %1, %entry ], [ %22, %trip ]
  %a1 = phi float [ %3, %entry ], [ %24, %trip ]
  %a2 = phi float [ %5, %entry ], [ %26, %trip ]
  %a3 = phi float [ %7, %entry ], [ %28, %trip ]
  %a4 = phi float [ %9, %entry ], [ %30, %trip ]
  %a5 = phi float [ %11, %entry ], [ %32, %trip ]
  %a6 = phi float [ %13, %entry ], [ %34, %trip ]
  %more = icmp ult i64 %i, 15
  %16 = sext i1 %more to i64
  %17 = and i64 %16, 12544
  %18 = getelementptr i8, ptr %15, i64 %17
  %19 = and i64 %16, 64
  %20 = getelementptr i8, ptr %14, i64 %19
  %e0 = insertelement <16 x float> poison, float %a0, i64 0
  %v0 = shufflevector <16 x float> %e0, <16 x float> poison, <16 x i32> zeroinitializer
  %t0 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v0, <16 x float> %w, <16 x float> %s0), !tc.role !0
  %e1 = insertelement <16 x float> poison, float %a1, i64 0
  %v1 = shufflevector <16 x float> %e1, <16 x float> poison, <16 x i32> zeroinitializer
  %t1 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v1, <16 x float> %w, <16 x float> %s1), !tc.role !0
  %e2 = insertelement <16 x float> poison, float %a2, i64 0
  %v2 = shufflevector <16 x float> %e2, <16 x float> poison, <16 x i32> zeroinitializer
  %t2 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v2, <16 x float> %w, <16 x float> %s2), !tc.role !0
  %e3 = insertelement <16 x float> poison, float %a3, i64 0
  %v3 = shufflevector <16 x float> %e3, <16 x float> poison, <16 x i32> zeroinitializer
  %t3 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v3, <16 x float> %w, <16 x float> %s3), !tc.role !0
  %e4 = insertelement <16 x float> poison, float %a4, i64 0
  %v4 = shufflevector <16 x float> %e4, <16 x float> poison, <16 x i32> zeroinitializer
  %t4 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v4, <16 x float> %w, <16 x float> %s4), !tc.role !0
  %e5 = insertelement <16 x float> poison, float %a5, i64 0
  %v5 = shufflevector <16 x float> %e5, <16 x float> poison, <16 x i32> zeroinitializer
  %t5 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v5, <16 x float> %w, <16 x float> %s5), !tc.role !0
  %e6 = insertelement <16 x float> poison, float %a6, i64 0
  %v6 = shufflevector <16 x float> %e6, <16 x float> poison, <16 x i32> zeroinitializer
  %t6 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v6, <16 x float> %w, <16 x float> %s6), !tc.role !0
  %p7 = getelementptr i8, ptr %15, i64 448
  %a7 = load float, ptr %p7, align 4
  %e7 = insertelement <16 x float> poison, float %a7, i64 0
  %v7 = shufflevector <16 x float> %e7, <16 x float> poison, <16 x i32> zeroinitializer
  %t7 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v7, <16 x float> %w, <16 x float> %s7), !tc.role !0
  %next = add nuw nsw i64 %i, 1
  %21 = load <16 x float>, ptr %20, align 64
  %22 = load float, ptr %18, align 4
  %23 = getelementptr i8, ptr %18, i64 64
  %24 = load float, ptr %23, align 4
  %25 = getelementptr i8, ptr %18, i64 128
  %26 = load float, ptr %25, align 4
  %27 = getelementptr i8, ptr %18, i64 192
  %28 = load float, ptr %27, align 4
  %29 = getelementptr i8, ptr %18, i64 256
  %30 = load float, ptr %29, align 4
  %31 = getelementptr i8, ptr %18, i64 320
  %32 = load float, ptr %31, align 4
  %33 = getelementptr i8, ptr %18, i64 384
  %34 = load float, ptr %33, align 4
  br i1 %more, label %trip, label %end

end:                                              ; preds = %trip
  %q0 = getelementptr i8, ptr %out, i64 0
  store <16 x float> %t0, ptr %q0, align 64
  %q1 = getelementptr i8, ptr %out, i64 64
  store <16 x float> %t1, ptr %q1, align 64
  %q2 = getelementptr i8, ptr %out, i64 128
  store <16 x float> %t2, ptr %q2, align 64
  %q3 = getelementptr i8, ptr %out, i64 192
  store <16 x float> %t3, ptr %q3, align 64
  %q4 = getelementptr i8, ptr %out, i64 256
  store <16 x float> %t4, ptr %q4, align 64
  %q5 = getelementptr i8, ptr %out, i64 320
  store <16 x float> %t5, ptr %q5, align 64
  %q6 = getelementptr i8, ptr %out, i64 384
  store <16 x float> %t6, ptr %q6, align 64
  %q7 = getelementptr i8, ptr %out, i64 448
  store <16 x float> %t7, ptr %q7, align 64
  ret void
}
