; Function Attrs: nounwind willreturn
define void @kernel(ptr noalias nocapture readonly %in0, ptr noalias nocapture readonly %const0, ptr noalias nocapture %out0, ptr %parameters, ptr %scratch, i32 %thread, i32 %threads) #0 {
entry:
  %0 = icmp eq i32 %thread, 0
  br i1 %0, label %leaf, label %if.end

if.end:                                           ; preds = %leaf, %entry
  ret void

leaf:                                             ; preds = %entry
  %1 = load float, ptr %in0, align 4
  %2 = load <8 x float>, ptr %const0, align 4, !invariant.load !1
  %.splatinsert = insertelement <8 x float> poison, float %1, i64 0
  %.splat = shufflevector <8 x float> %.splatinsert, <8 x float> poison, <8 x i32> zeroinitializer
  %3 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat, <8 x float> %2, <8 x float> zeroinitializer), !tc.role !2
  %4 = getelementptr i8, ptr %const0, i64 32
  %5 = load <8 x float>, ptr %4, align 4, !invariant.load !1
  %6 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat, <8 x float> %5, <8 x float> zeroinitializer), !tc.role !2
  %7 = getelementptr i8, ptr %in0, i64 16
  %8 = load float, ptr %7, align 4
  %.splatinsert3 = insertelement <8 x float> poison, float %8, i64 0
  %.splat4 = shufflevector <8 x float> %.splatinsert3, <8 x float> poison, <8 x i32> zeroinitializer
  %9 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat4, <8 x float> %2, <8 x float> zeroinitializer), !tc.role !2
  %10 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat4, <8 x float> %5, <8 x float> zeroinitializer), !tc.role !2
  %11 = getelementptr i8, ptr %in0, i64 32
  %12 = load float, ptr %11, align 4
  %.splatinsert7 = insertelement <8 x float> poison, float %12, i64 0
  %.splat8 = shufflevector <8 x float> %.splatinsert7, <8 x float> poison, <8 x i32> zeroinitializer
  %13 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat8, <8 x float> %2, <8 x float> zeroinitializer), !tc.role !2
  %14 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat8, <8 x float> %5, <8 x float> zeroinitializer), !tc.role !2
  %15 = getelementptr i8, ptr %in0, i64 4
  %16 = load float, ptr %15, align 4
  %17 = getelementptr i8, ptr %const0, i64 64
  %18 = load <8 x float>, ptr %17, align 4, !invariant.load !1
  %.splatinsert11 = insertelement <8 x float> poison, float %16, i64 0
  %.splat12 = shufflevector <8 x float> %.splatinsert11, <8 x float> poison, <8 x i32> zeroinitializer
  %19 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat12, <8 x float> %18, <8 x float> %3), !tc.role !2
  %20 = getelementptr i8, ptr %const0, i64 96
  %21 = load <8 x float>, ptr %20, align 4, !invariant.load !1
  %22 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat12, <8 x float> %21, <8 x float> %6), !tc.role !2
  %23 = getelementptr i8, ptr %in0, i64 20
  %24 = load float, ptr %23, align 4
  %.splatinsert15 = insertelement <8 x float> poison, float %24, i64 0
  %.splat16 = shufflevector <8 x float> %.splatinsert15, <8 x float> poison, <8 x i32> zeroinitializer
  %25 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat16, <8 x float> %18, <8 x float> %9), !tc.role !2
  %26 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat16, <8 x float> %21, <8 x float> %10), !tc.role !2
  %27 = getelementptr i8, ptr %in0, i64 36
  %28 = load float, ptr %27, align 4
  %.splatinsert19 = insertelement <8 x float> poison, float %28, i64 0
  %.splat20 = shufflevector <8 x float> %.splatinsert19, <8 x float> poison, <8 x i32> zeroinitializer
  %29 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat20, <8 x float> %18, <8 x float> %13), !tc.role !2
  %30 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat20, <8 x float> %21, <8 x float> %14), !tc.role !2
  %31 = getelementptr i8, ptr %in0, i64 8
  %32 = load float, ptr %31, align 4
  %33 = getelementptr i8, ptr %const0, i64 128
  %34 = load <8 x float>, ptr %33, align 4, !invariant.load !1
  %.splatinsert23 = insertelement <8 x float> poison, float %32, i64 0
  %.splat24 = shufflevector <8 x float> %.splatinsert23, <8 x float> poison, <8 x i32> zeroinitializer
  %35 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat24, <8 x float> %34, <8 x float> %19), !tc.role !2
  %36 = getelementptr i8, ptr %const0, i64 160
  %37 = load <8 x float>, ptr %36, align 4, !invariant.load !1
  %38 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat24, <8 x float> %37, <8 x float> %22), !tc.role !2
  %39 = getelementptr i8, ptr %in0, i64 24
  %40 = load float, ptr %39, align 4
  %.splatinsert27 = insertelement <8 x float> poison, float %40, i64 0
  %.splat28 = shufflevector <8 x float> %.splatinsert27, <8 x float> poison, <8 x i32> zeroinitializer
  %41 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat28, <8 x float> %34, <8 x float> %25), !tc.role !2
  %42 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat28, <8 x float> %37, <8 x float> %26), !tc.role !2
  %43 = getelementptr i8, ptr %in0, i64 40
  %44 = load float, ptr %43, align 4
  %.splatinsert31 = insertelement <8 x float> poison, float %44, i64 0
  %.splat32 = shufflevector <8 x float> %.splatinsert31, <8 x float> poison, <8 x i32> zeroinitializer
  %45 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat32, <8 x float> %34, <8 x float> %29), !tc.role !2
  %46 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat32, <8 x float> %37, <8 x float> %30), !tc.role !2
  %47 = getelementptr i8, ptr %in0, i64 12
  %48 = load float, ptr %47, align 4
  %49 = getelementptr i8, ptr %const0, i64 192
  %50 = load <8 x float>, ptr %49, align 4, !invariant.load !1
  %.splatinsert35 = insertelement <8 x float> poison, float %48, i64 0
  %.splat36 = shufflevector <8 x float> %.splatinsert35, <8 x float> poison, <8 x i32> zeroinitializer
  %51 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat36, <8 x float> %50, <8 x float> %35), !tc.role !2
  %52 = getelementptr i8, ptr %const0, i64 224
  %53 = load <8 x float>, ptr %52, align 4, !invariant.load !1
  %54 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat36, <8 x float> %53, <8 x float> %38), !tc.role !2
  %55 = getelementptr i8, ptr %in0, i64 28
  %56 = load float, ptr %55, align 4
  %.splatinsert39 = insertelement <8 x float> poison, float %56, i64 0
  %.splat40 = shufflevector <8 x float> %.splatinsert39, <8 x float> poison, <8 x i32> zeroinitializer
  %57 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat40, <8 x float> %50, <8 x float> %41), !tc.role !2
  %58 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat40, <8 x float> %53, <8 x float> %42), !tc.role !2
  %59 = getelementptr i8, ptr %in0, i64 44
  %60 = load float, ptr %59, align 4
  %.splatinsert43 = insertelement <8 x float> poison, float %60, i64 0
  %.splat44 = shufflevector <8 x float> %.splatinsert43, <8 x float> poison, <8 x i32> zeroinitializer
  %61 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat44, <8 x float> %50, <8 x float> %45), !tc.role !2
  %62 = call contract <8 x float> @llvm.fmuladd.v8f32(<8 x float> %.splat44, <8 x float> %53, <8 x float> %46), !tc.role !2
  store <8 x float> %51, ptr %out0, align 4
  %63 = getelementptr i8, ptr %out0, i64 32
  call void @llvm.masked.store.v8f32.p0(<8 x float> %54, ptr %63, i32 4, <8 x i1> <i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false>)
  %64 = getelementptr i8, ptr %out0, i64 44
  store <8 x float> %57, ptr %64, align 4
  %65 = getelementptr i8, ptr %out0, i64 76
  call void @llvm.masked.store.v8f32.p0(<8 x float> %58, ptr %65, i32 4, <8 x i1> <i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false>)
  %66 = getelementptr i8, ptr %out0, i64 88
  store <8 x float> %61, ptr %66, align 4
  %67 = getelementptr i8, ptr %out0, i64 120
  call void @llvm.masked.store.v8f32.p0(<8 x float> %62, ptr %67, i32 4, <8 x i1> <i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false>)
  br label %if.end
}
