pass if_convert_borders for rv64gcv_zvl256b
define void @kernel(ptr noalias %in, ptr noalias %out, i64 %row, i64 %column) {
  %p0 = getelementptr i8, ptr %in, i64 0
  %a0 = load <64 x float>, ptr %p0
  %p1 = getelementptr i8, ptr %in, i64 256
  %a1 = load <64 x float>, ptr %p1
  %p2 = getelementptr i8, ptr %in, i64 512
  %a2 = load <64 x float>, ptr %p2
  %p3 = getelementptr i8, ptr %in, i64 768
  %a3 = load <64 x float>, ptr %p3
  %p4 = getelementptr i8, ptr %in, i64 1024
  %a4 = load <64 x float>, ptr %p4
  %is_row = icmp ult i64 %row, 55
  br i1 %is_row, label %below, label %end

below:
  %q0 = getelementptr i8, ptr %out, i64 0
  store <64 x float> %a0, ptr %q0
  %q1 = getelementptr i8, ptr %out, i64 256
  store <64 x float> %a1, ptr %q1
  %q2 = getelementptr i8, ptr %out, i64 512
  store <64 x float> %a2, ptr %q2
  %q3 = getelementptr i8, ptr %out, i64 768
  store <64 x float> %a3, ptr %q3
  %no_column = icmp uge i64 %column, 55
  br i1 %no_column, label %end, label %beside

beside:
  %q4 = getelementptr i8, ptr %out, i64 1024
  store <64 x float> %a4, ptr %q4
  br label %end

end:
  ret void
}
----
define void @kernel(ptr noalias %in, ptr noalias %out, i64 %row, i64 %column) {
end:
  %0 = alloca [512 x i8], align 64
  %1 = ptrtoint ptr %out to i64
  %2 = ptrtoint ptr %0 to i64
  %3 = sub i64 %2, %1
  %p0 = getelementptr i8, ptr %in, i64 0
  %a0 = load <64 x float>, ptr %p0, align 256
  %p1 = getelementptr i8, ptr %in, i64 256
  %a1 = load <64 x float>, ptr %p1, align 256
  %p2 = getelementptr i8, ptr %in, i64 512
  %a2 = load <64 x float>, ptr %p2, align 256
  %p3 = getelementptr i8, ptr %in, i64 768
  %a3 = load <64 x float>, ptr %p3, align 256
  %p4 = getelementptr i8, ptr %in, i64 1024
  %a4 = load <64 x float>, ptr %p4, align 256
  %is_row = icmp ult i64 %row, 55
  %4 = xor i1 %is_row, true
  %5 = sext i1 %4 to i64
  %q0 = getelementptr i8, ptr %out, i64 0
  %6 = sub i64 %3, 0
  %7 = and i64 %6, %5
  %8 = getelementptr i8, ptr %out, i64 %7
  %9 = getelementptr i8, ptr %8, i64 0
  store <64 x float> %a0, ptr %9, align 256
  %q1 = getelementptr i8, ptr %out, i64 256
  %10 = sub i64 %3, 256
  %11 = and i64 %10, %5
  %12 = getelementptr i8, ptr %out, i64 %11
  %13 = getelementptr i8, ptr %12, i64 256
  store <64 x float> %a1, ptr %13, align 256
  %q2 = getelementptr i8, ptr %out, i64 512
  %14 = sub i64 %3, 512
  %15 = and i64 %14, %5
  %16 = getelementptr i8, ptr %out, i64 %15
  %17 = getelementptr i8, ptr %16, i64 512
  store <64 x float> %a2, ptr %17, align 256
  %q3 = getelementptr i8, ptr %out, i64 768
  %18 = sub i64 %3, 768
  %19 = and i64 %18, %5
  %20 = getelementptr i8, ptr %out, i64 %19
  %21 = getelementptr i8, ptr %20, i64 768
  store <64 x float> %a3, ptr %21, align 256
  %no_column = icmp uge i64 %column, 55
  %22 = sext i1 %no_column to i64
  %q4 = getelementptr i8, ptr %out, i64 1024
  %23 = sub i64 %3, 1024
  %24 = and i64 %23, %22
  %25 = getelementptr i8, ptr %out, i64 %24
  %26 = getelementptr i8, ptr %25, i64 1024
  %27 = or i64 %22, %5
  %28 = sub i64 %3, 1024
  %29 = and i64 %28, %27
  %30 = getelementptr i8, ptr %out, i64 %29
  %31 = getelementptr i8, ptr %30, i64 1024
  store <64 x float> %a4, ptr %31, align 256
  ret void
}
