pass split_masked_by_register for x86-64-v3
define void @kernel(ptr %in, ptr %out, i1 %inside) {
  %one = insertelement <16 x i1> poison, i1 %inside, i64 0
  %all = shufflevector <16 x i1> %one, <16 x i1> poison, <16 x i32> zeroinitializer
  %lanes = and <16 x i1> %all, <i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>
  %a = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %in, i32 4, <16 x i1> %lanes, <16 x float> zeroinitializer)
  call void @llvm.masked.store.v16f32.p0(<16 x float> %a, ptr %out, i32 4, <16 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>)
  %far = getelementptr i8, ptr %in, i64 64
  %b = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %far, i32 4, <16 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false>, <16 x float> zeroinitializer)
  store <16 x float> %b, ptr %out
  ret void
}

define <16 x float> @several_conditions(ptr %in, <16 x i1> %near, i1 %inside) {
  %one = insertelement <16 x i1> poison, i1 %inside, i64 0
  %all = shufflevector <16 x i1> %one, <16 x i1> poison, <16 x i32> zeroinitializer
  %first = and <16 x i1> %near, <i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>
  %lanes = and <16 x i1> %first, %all
  %a = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %in, i32 4, <16 x i1> %lanes, <16 x float> zeroinitializer)
  ret <16 x float> %a
}
----
define void @kernel(ptr %in, ptr %out, i1 %inside) {
  %one = insertelement <16 x i1> poison, i1 %inside, i64 0
  %all = shufflevector <16 x i1> %one, <16 x i1> poison, <16 x i32> zeroinitializer
  %lanes = and <16 x i1> %all, <i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>
  %1 = getelementptr i8, ptr %in, i64 0
  %2 = shufflevector <16 x i1> %lanes, <16 x i1> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %3 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %1, i32 4, <8 x i1> %2, <8 x float> zeroinitializer)
  %4 = shufflevector <8 x float> %3, <8 x float> zeroinitializer, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %5 = getelementptr i8, ptr %out, i64 0
  %6 = shufflevector <16 x float> %4, <16 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  call void @llvm.masked.store.v8f32.p0(<8 x float> %6, ptr %5, i32 4, <8 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false>)
  %far = getelementptr i8, ptr %in, i64 64
  %b = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %far, i32 4, <16 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false>, <16 x float> zeroinitializer)
  store <16 x float> %b, ptr %out, align 64
  ret void
}
define <16 x float> @several_conditions(ptr %in, <16 x i1> %near, i1 %inside) {
  %one = insertelement <16 x i1> poison, i1 %inside, i64 0
  %all = shufflevector <16 x i1> %one, <16 x i1> poison, <16 x i32> zeroinitializer
  %first = and <16 x i1> %near, <i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>
  %lanes = and <16 x i1> %first, %all
  %1 = getelementptr i8, ptr %in, i64 0
  %2 = shufflevector <16 x i1> %lanes, <16 x i1> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %3 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %1, i32 4, <8 x i1> %2, <8 x float> zeroinitializer)
  %4 = shufflevector <8 x float> %3, <8 x float> zeroinitializer, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  ret <16 x float> %4
}
