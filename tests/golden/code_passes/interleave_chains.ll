pass interleave_chains for rv64gcv_zvl256b
define void @kernel(ptr noalias %in, ptr noalias %out) {
  %p0 = getelementptr i8, ptr %in, i64 0
  %a = load <16 x float>, ptr %p0
  %a0 = fmul <16 x float> %a, %a
  %a1 = fmul <16 x float> %a0, %a0
  %a2 = fmul <16 x float> %a1, %a1
  %a3 = fmul <16 x float> %a2, %a2
  %a4 = fmul <16 x float> %a3, %a3
  %a5 = fmul <16 x float> %a4, %a4
  %q0 = getelementptr i8, ptr %out, i64 0
  store <16 x float> %a5, ptr %q0
  %p1 = getelementptr i8, ptr %in, i64 64
  %b = load <16 x float>, ptr %p1
  %b0 = fmul <16 x float> %b, %b
  %b1 = fmul <16 x float> %b0, %b0
  %b2 = fmul <16 x float> %b1, %b1
  %b3 = fmul <16 x float> %b2, %b2
  %b4 = fmul <16 x float> %b3, %b3
  %b5 = fmul <16 x float> %b4, %b4
  %q1 = getelementptr i8, ptr %out, i64 64
  store <16 x float> %b5, ptr %q1
  ret void
}
----
define void @kernel(ptr noalias %in, ptr noalias %out) {
  %p0 = getelementptr i8, ptr %in, i64 0
  %a = load <16 x float>, ptr %p0, align 64
  %a0 = fmul <16 x float> %a, %a
  %p1 = getelementptr i8, ptr %in, i64 64
  %b = load <16 x float>, ptr %p1, align 64
  %b0 = fmul <16 x float> %b, %b
  %a1 = fmul <16 x float> %a0, %a0
  %b1 = fmul <16 x float> %b0, %b0
  %a2 = fmul <16 x float> %a1, %a1
  %b2 = fmul <16 x float> %b1, %b1
  %a3 = fmul <16 x float> %a2, %a2
  %b3 = fmul <16 x float> %b2, %b2
  %a4 = fmul <16 x float> %a3, %a3
  %b4 = fmul <16 x float> %b3, %b3
  %a5 = fmul <16 x float> %a4, %a4
  %b5 = fmul <16 x float> %b4, %b4
  %q0 = getelementptr i8, ptr %out, i64 0
  store <16 x float> %a5, ptr %q0, align 64
  %q1 = getelementptr i8, ptr %out, i64 64
  store <16 x float> %b5, ptr %q1, align 64
  ret void
}
