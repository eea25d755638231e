pass scalarise_epilogues for cortex-m4
define void @scale(ptr noalias readonly %factors, ptr noalias %bytes, <2 x i32> %a, <2 x i32> %b) {
  %factor = load <2 x i32>, ptr %factors, align 8
  %left = mul <2 x i32> %a, %factor
  %right = mul <2 x i32> %b, %factor
  %low = call <2 x i32> @llvm.smax.v2i32(<2 x i32> %left, <2 x i32> zeroinitializer)
  %high = call <2 x i32> @llvm.smax.v2i32(<2 x i32> %right, <2 x i32> zeroinitializer)
  %first = trunc <2 x i32> %low to <2 x i8>
  %second = trunc <2 x i32> %high to <2 x i8>
  store <2 x i8> %first, ptr %bytes, align 2
  %next = getelementptr i8, ptr %bytes, i32 2
  store <2 x i8> %second, ptr %next, align 2
  ret void
}

define void @overlaps(ptr noalias %bytes, <2 x i8> %a, <2 x i8> %b) {
  store <2 x i8> %a, ptr %bytes, align 1
  %next = getelementptr i8, ptr %bytes, i32 1
  store <2 x i8> %b, ptr %next, align 1
  ret void
}

define void @reads_what_it_writes(ptr noalias %numbers, <2 x i32> %a) {
  %old = load <2 x i32>, ptr %numbers, align 4
  %sum = add <2 x i32> %old, %a
  store <2 x i32> %sum, ptr %numbers, align 4
  ret void
}
----
define void @scale(ptr noalias readonly %factors, ptr noalias %bytes, <2 x i32> %a, <2 x i32> %b) {
  %next = getelementptr i8, ptr %bytes, i32 2
  %1 = extractelement <2 x i32> %a, i64 0
  %2 = getelementptr i8, ptr %factors, i64 0
  %3 = load i32, ptr %2, align 8
  %4 = mul i32 %1, %3
  %5 = call i32 @llvm.smax.i32(i32 %4, i32 0)
  %6 = trunc i32 %5 to i8
  %7 = getelementptr i8, ptr %bytes, i64 0
  store i8 %6, ptr %7, align 2
  fence syncscope("singlethread") seq_cst
  %8 = extractelement <2 x i32> %b, i64 0
  %9 = mul i32 %8, %3
  %10 = call i32 @llvm.smax.i32(i32 %9, i32 0)
  %11 = trunc i32 %10 to i8
  %12 = getelementptr i8, ptr %next, i64 0
  store i8 %11, ptr %12, align 2
  fence syncscope("singlethread") seq_cst
  %13 = extractelement <2 x i32> %a, i64 1
  %14 = getelementptr i8, ptr %factors, i64 4
  %15 = load i32, ptr %14, align 4
  %16 = mul i32 %13, %15
  %17 = call i32 @llvm.smax.i32(i32 %16, i32 0)
  %18 = trunc i32 %17 to i8
  %19 = getelementptr i8, ptr %bytes, i64 1
  store i8 %18, ptr %19, align 1
  fence syncscope("singlethread") seq_cst
  %20 = extractelement <2 x i32> %b, i64 1
  %21 = mul i32 %20, %15
  %22 = call i32 @llvm.smax.i32(i32 %21, i32 0)
  %23 = trunc i32 %22 to i8
  %24 = getelementptr i8, ptr %next, i64 1
  store i8 %23, ptr %24, align 1
  fence syncscope("singlethread") seq_cst
  ret void
}
define void @overlaps(ptr noalias %bytes, <2 x i8> %a, <2 x i8> %b) {
  store <2 x i8> %a, ptr %bytes, align 1
  %next = getelementptr i8, ptr %bytes, i32 1
  store <2 x i8> %b, ptr %next, align 1
  ret void
}
define void @reads_what_it_writes(ptr noalias %numbers, <2 x i32> %a) {
  %old = load <2 x i32>, ptr %numbers, align 4
  %sum = add <2 x i32> %old, %a
  store <2 x i32> %sum, ptr %numbers, align 4
  ret void
}
