pass branchless_borders for rv64gcv_zvl256b
@zeros = internal global [256 x i8] zeroinitializer

define void @kernel(ptr noalias %in, ptr noalias %out, i64 %row) {
  %inside = icmp ult i64 %row, 14
  %place = getelementptr i8, ptr %in, i64 %row
  %element = getelementptr i8, ptr %place, i64 64
  %address = select i1 %inside, ptr %element, ptr @zeros
  %a = load <16 x float>, ptr %address
  store <16 x float> %a, ptr %out
  ret void
}
----
@zeros = internal global [256 x i8] zeroinitializer
define void @kernel(ptr noalias %in, ptr noalias %out, i64 %row) {
  %inside = icmp ult i64 %row, 14
  %1 = xor i1 %inside, true
  %2 = sext i1 %1 to i64
  %place = getelementptr i8, ptr %in, i64 %row
  %3 = ptrtoint ptr %place to i64
  %4 = sub i64 ptrtoint (ptr @zeros to i64), %3
  %element = getelementptr i8, ptr %place, i64 64
  %5 = sub i64 %4, 64
  %6 = and i64 %5, %2
  %7 = getelementptr i8, ptr %place, i64 %6
  %8 = getelementptr i8, ptr %7, i64 64
  %a = load <16 x float>, ptr %8, align 64
  store <16 x float> %a, ptr %out, align 64
  ret void
}
