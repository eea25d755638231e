pass pipeline_epilogues for x86-64-v4+avx512vnni
define void @kernel(ptr noalias %in, ptr noalias %weights, ptr noalias %out) {
entry:
  br label %tile

tile:
  %i = phi i64 [ 0, %entry ], [ %next, %tile ]
  %bytes = shl i64 %i, 6
  %row = getelementptr i8, ptr %in, i64 %bytes
  %p0 = getelementptr i8, ptr %weights, i64 0
  %w0 = load <16 x i32>, ptr %p0
  %p1 = getelementptr i8, ptr %weights, i64 64
  %w1 = load <16 x i32>, ptr %p1
  %p2 = getelementptr i8, ptr %weights, i64 128
  %w2 = load <16 x i32>, ptr %p2
  %p3 = getelementptr i8, ptr %weights, i64 192
  %w3 = load <16 x i32>, ptr %p3
  %q0 = getelementptr i8, ptr %row, i64 0
  %e0 = load <16 x i32>, ptr %q0
  %s0_0 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> zeroinitializer, <16 x i32> %e0, <16 x i32> %w0), !tc.role !0
  %s0_1 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s0_0, <16 x i32> %e0, <16 x i32> %w1), !tc.role !0
  %s0_2 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s0_1, <16 x i32> %e0, <16 x i32> %w2), !tc.role !0
  %s0_3 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s0_2, <16 x i32> %e0, <16 x i32> %w3), !tc.role !0
  %q1 = getelementptr i8, ptr %row, i64 512
  %e1 = load <16 x i32>, ptr %q1
  %s1_0 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> zeroinitializer, <16 x i32> %e1, <16 x i32> %w0), !tc.role !0
  %s1_1 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s1_0, <16 x i32> %e1, <16 x i32> %w1), !tc.role !0
  %s1_2 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s1_1, <16 x i32> %e1, <16 x i32> %w2), !tc.role !0
  %s1_3 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s1_2, <16 x i32> %e1, <16 x i32> %w3), !tc.role !0
  %q2 = getelementptr i8, ptr %row, i64 1024
  %e2 = load <16 x i32>, ptr %q2
  %s2_0 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> zeroinitializer, <16 x i32> %e2, <16 x i32> %w0), !tc.role !0
  %s2_1 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s2_0, <16 x i32> %e2, <16 x i32> %w1), !tc.role !0
  %s2_2 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s2_1, <16 x i32> %e2, <16 x i32> %w2), !tc.role !0
  %s2_3 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s2_2, <16 x i32> %e2, <16 x i32> %w3), !tc.role !0
  %q3 = getelementptr i8, ptr %row, i64 1536
  %e3 = load <16 x i32>, ptr %q3
  %s3_0 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> zeroinitializer, <16 x i32> %e3, <16 x i32> %w0), !tc.role !0
  %s3_1 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s3_0, <16 x i32> %e3, <16 x i32> %w1), !tc.role !0
  %s3_2 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s3_1, <16 x i32> %e3, <16 x i32> %w2), !tc.role !0
  %s3_3 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s3_2, <16 x i32> %e3, <16 x i32> %w3), !tc.role !0
  %f0 = sitofp <16 x i32> %s0_3 to <16 x float>
  %o0 = getelementptr i8, ptr %out, i64 0
  %r0 = getelementptr i8, ptr %o0, i64 %bytes
  store <16 x float> %f0, ptr %r0
  %f1 = sitofp <16 x i32> %s1_3 to <16 x float>
  %o1 = getelementptr i8, ptr %out, i64 512
  %r1 = getelementptr i8, ptr %o1, i64 %bytes
  store <16 x float> %f1, ptr %r1
  %f2 = sitofp <16 x i32> %s2_3 to <16 x float>
  %o2 = getelementptr i8, ptr %out, i64 1024
  %r2 = getelementptr i8, ptr %o2, i64 %bytes
  store <16 x float> %f2, ptr %r2
  %f3 = sitofp <16 x i32> %s3_3 to <16 x float>
  %o3 = getelementptr i8, ptr %out, i64 1536
  %r3 = getelementptr i8, ptr %o3, i64 %bytes
  store <16 x float> %f3, ptr %r3
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 8
  br i1 %more, label %tile, label %end

end:
  ret void
}

!0 = !{!"byte product"}
----
define void @kernel(ptr noalias %in, ptr noalias %weights, ptr noalias %out) {
entry:
  %p0 = getelementptr i8, ptr %weights, i64 0
  %p1 = getelementptr i8, ptr %weights, i64 64
  %p2 = getelementptr i8, ptr %weights, i64 128
  %p3 = getelementptr i8, ptr %weights, i64 192
  %o0 = getelementptr i8, ptr %out, i64 0
  %o1 = getelementptr i8, ptr %out, i64 512
  %o2 = getelementptr i8, ptr %out, i64 1024
  %o3 = getelementptr i8, ptr %out, i64 1536
  br label %tile.first

tile.first:                                       ; preds = %entry
  %0 = shl i64 0, 6
  %1 = getelementptr i8, ptr %in, i64 %0
  %2 = load <16 x i32>, ptr %p0, align 64
  %3 = load <16 x i32>, ptr %p1, align 64
  %4 = load <16 x i32>, ptr %p2, align 64
  %5 = load <16 x i32>, ptr %p3, align 64
  %6 = getelementptr i8, ptr %1, i64 0
  %7 = load <16 x i32>, ptr %6, align 64
  %8 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> zeroinitializer, <16 x i32> %7, <16 x i32> %2), !tc.role !0
  %9 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %8, <16 x i32> %7, <16 x i32> %3), !tc.role !0
  %10 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %9, <16 x i32> %7, <16 x i32> %4), !tc.role !0
  %11 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %10, <16 x i32> %7, <16 x i32> %5), !tc.role !0
  %12 = getelementptr i8, ptr %1, i64 512
  %13 = load <16 x i32>, ptr %12, align 64
  %14 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> zeroinitializer, <16 x i32> %13, <16 x i32> %2), !tc.role !0
  %15 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %14, <16 x i32> %13, <16 x i32> %3), !tc.role !0
  %16 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %15, <16 x i32> %13, <16 x i32> %4), !tc.role !0
  %17 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %16, <16 x i32> %13, <16 x i32> %5), !tc.role !0
  %18 = getelementptr i8, ptr %1, i64 1024
  %19 = load <16 x i32>, ptr %18, align 64
  %20 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> zeroinitializer, <16 x i32> %19, <16 x i32> %2), !tc.role !0
  %21 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %20, <16 x i32> %19, <16 x i32> %3), !tc.role !0
  %22 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %21, <16 x i32> %19, <16 x i32> %4), !tc.role !0
  %23 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %22, <16 x i32> %19, <16 x i32> %5), !tc.role !0
  %24 = getelementptr i8, ptr %1, i64 1536
  %25 = load <16 x i32>, ptr %24, align 64
  %26 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> zeroinitializer, <16 x i32> %25, <16 x i32> %2), !tc.role !0
  %27 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %26, <16 x i32> %25, <16 x i32> %3), !tc.role !0
  %28 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %27, <16 x i32> %25, <16 x i32> %4), !tc.role !0
  %29 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %28, <16 x i32> %25, <16 x i32> %5), !tc.role !0
  %30 = add i64 0, 1
  %31 = icmp ult i64 %30, 8
  br i1 %31, label %tile.both, label %tile.last

tile.both:                                        ; preds = %tile.both, %tile.first
  %32 = phi i64 [ %30, %tile.first ], [ %77, %tile.both ]
  %33 = phi i64 [ 0, %tile.first ], [ %32, %tile.both ]
  %34 = phi <16 x i32> [ %11, %tile.first ], [ %53, %tile.both ]
  %35 = phi <16 x i32> [ %17, %tile.first ], [ %60, %tile.both ]
  %36 = phi <16 x i32> [ %23, %tile.first ], [ %68, %tile.both ]
  %37 = phi <16 x i32> [ %29, %tile.first ], [ %75, %tile.both ]
  %38 = shl i64 %32, 6
  %39 = getelementptr i8, ptr %in, i64 %38
  %40 = load <16 x i32>, ptr %p0, align 64
  %41 = sitofp <16 x i32> %34 to <16 x float>
  %42 = load <16 x i32>, ptr %p1, align 64
  %43 = load <16 x i32>, ptr %p2, align 64
  %44 = load <16 x i32>, ptr %p3, align 64
  %45 = shl i64 %33, 6
  %46 = getelementptr i8, ptr %o0, i64 %45
  %47 = getelementptr i8, ptr %39, i64 0
  %48 = load <16 x i32>, ptr %47, align 64
  store <16 x float> %41, ptr %46, align 64
  %49 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> zeroinitializer, <16 x i32> %48, <16 x i32> %40), !tc.role !0
  %50 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %49, <16 x i32> %48, <16 x i32> %42), !tc.role !0
  %51 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %50, <16 x i32> %48, <16 x i32> %43), !tc.role !0
  %52 = sitofp <16 x i32> %35 to <16 x float>
  %53 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %51, <16 x i32> %48, <16 x i32> %44), !tc.role !0
  %54 = getelementptr i8, ptr %39, i64 512
  %55 = load <16 x i32>, ptr %54, align 64
  %56 = getelementptr i8, ptr %o1, i64 %45
  %57 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> zeroinitializer, <16 x i32> %55, <16 x i32> %40), !tc.role !0
  %58 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %57, <16 x i32> %55, <16 x i32> %42), !tc.role !0
  store <16 x float> %52, ptr %56, align 64
  %59 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %58, <16 x i32> %55, <16 x i32> %43), !tc.role !0
  %60 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %59, <16 x i32> %55, <16 x i32> %44), !tc.role !0
  %61 = getelementptr i8, ptr %39, i64 1024
  %62 = sitofp <16 x i32> %36 to <16 x float>
  %63 = load <16 x i32>, ptr %61, align 64
  %64 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> zeroinitializer, <16 x i32> %63, <16 x i32> %40), !tc.role !0
  %65 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %64, <16 x i32> %63, <16 x i32> %42), !tc.role !0
  %66 = getelementptr i8, ptr %o2, i64 %45
  %67 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %65, <16 x i32> %63, <16 x i32> %43), !tc.role !0
  %68 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %67, <16 x i32> %63, <16 x i32> %44), !tc.role !0
  store <16 x float> %62, ptr %66, align 64
  %69 = getelementptr i8, ptr %39, i64 1536
  %70 = load <16 x i32>, ptr %69, align 64
  %71 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> zeroinitializer, <16 x i32> %70, <16 x i32> %40), !tc.role !0
  %72 = sitofp <16 x i32> %37 to <16 x float>
  %73 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %71, <16 x i32> %70, <16 x i32> %42), !tc.role !0
  %74 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %73, <16 x i32> %70, <16 x i32> %43), !tc.role !0
  %75 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %74, <16 x i32> %70, <16 x i32> %44), !tc.role !0
  %76 = getelementptr i8, ptr %o3, i64 %45
  %77 = add i64 %32, 1
  %78 = icmp ult i64 %77, 8
  store <16 x float> %72, ptr %76, align 64
  br i1 %78, label %tile.both, label %tile.last

tile.last:                                        ; preds = %tile.both, %tile.first
  %79 = phi i64 [ 0, %tile.first ], [ %32, %tile.both ]
  %80 = phi <16 x i32> [ %11, %tile.first ], [ %53, %tile.both ]
  %81 = phi <16 x i32> [ %17, %tile.first ], [ %60, %tile.both ]
  %82 = phi <16 x i32> [ %23, %tile.first ], [ %68, %tile.both ]
  %83 = phi <16 x i32> [ %29, %tile.first ], [ %75, %tile.both ]
  %84 = sitofp <16 x i32> %80 to <16 x float>
  %85 = shl i64 %79, 6
  %86 = getelementptr i8, ptr %o0, i64 %85
  store <16 x float> %84, ptr %86, align 64
  %87 = sitofp <16 x i32> %81 to <16 x float>
  %88 = getelementptr i8, ptr %o1, i64 %85
  store <16 x float> %87, ptr %88, align 64
  %89 = sitofp <16 x i32> %82 to <16 x float>
  %90 = getelementptr i8, ptr %o2, i64 %85
  store <16 x float> %89, ptr %90, align 64
  %91 = sitofp <16 x i32> %83 to <16 x float>
  %92 = getelementptr i8, ptr %o3, i64 %85
  store <16 x float> %91, ptr %92, align 64
  br label %end

end:                                              ; preds = %tile.last
  ret void
}
