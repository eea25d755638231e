pass reduce_register_pressure for rv64gcv_zvl256b
define void @kernel(ptr noalias %in, ptr noalias %out) {
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
  %x0 = fmul <64 x float> %a0, %a0
  %qx0 = getelementptr i8, ptr %out, i64 0
  store <64 x float> %x0, ptr %qx0
  %x1 = fmul <64 x float> %a1, %a1
  %qx1 = getelementptr i8, ptr %out, i64 256
  store <64 x float> %x1, ptr %qx1
  %x2 = fmul <64 x float> %a2, %a2
  %qx2 = getelementptr i8, ptr %out, i64 512
  store <64 x float> %x2, ptr %qx2
  %x3 = fmul <64 x float> %a3, %a3
  %qx3 = getelementptr i8, ptr %out, i64 768
  store <64 x float> %x3, ptr %qx3
  %x4 = fmul <64 x float> %a4, %a4
  %qx4 = getelementptr i8, ptr %out, i64 1024
  store <64 x float> %x4, ptr %qx4
  %y0 = fmul <64 x float> %a0, %a0
  %qy0 = getelementptr i8, ptr %out, i64 1280
  store <64 x float> %y0, ptr %qy0
  %y1 = fmul <64 x float> %a1, %a1
  %qy1 = getelementptr i8, ptr %out, i64 1536
  store <64 x float> %y1, ptr %qy1
  %y2 = fmul <64 x float> %a2, %a2
  %qy2 = getelementptr i8, ptr %out, i64 1792
  store <64 x float> %y2, ptr %qy2
  %y3 = fmul <64 x float> %a3, %a3
  %qy3 = getelementptr i8, ptr %out, i64 2048
  store <64 x float> %y3, ptr %qy3
  %y4 = fmul <64 x float> %a4, %a4
  %qy4 = getelementptr i8, ptr %out, i64 2304
  store <64 x float> %y4, ptr %qy4
  ret void
}
----
define void @kernel(ptr noalias %in, ptr noalias %out) {
  %p0 = getelementptr i8, ptr %in, i64 0
  %a0 = load <64 x float>, ptr %p0, align 256
  %x0 = fmul <64 x float> %a0, %a0
  %qx0 = getelementptr i8, ptr %out, i64 0
  store <64 x float> %x0, ptr %qx0, align 256
  %p1 = getelementptr i8, ptr %in, i64 256
  %a1 = load <64 x float>, ptr %p1, align 256
  %x1 = fmul <64 x float> %a1, %a1
  %qx1 = getelementptr i8, ptr %out, i64 256
  store <64 x float> %x1, ptr %qx1, align 256
  %p2 = getelementptr i8, ptr %in, i64 512
  %a2 = load <64 x float>, ptr %p2, align 256
  %x2 = fmul <64 x float> %a2, %a2
  %qx2 = getelementptr i8, ptr %out, i64 512
  store <64 x float> %x2, ptr %qx2, align 256
  %p3 = getelementptr i8, ptr %in, i64 768
  %a3 = load <64 x float>, ptr %p3, align 256
  %x3 = fmul <64 x float> %a3, %a3
  %qx3 = getelementptr i8, ptr %out, i64 768
  store <64 x float> %x3, ptr %qx3, align 256
  %p4 = getelementptr i8, ptr %in, i64 1024
  %a4 = load <64 x float>, ptr %p4, align 256
  %x4 = fmul <64 x float> %a4, %a4
  %qx4 = getelementptr i8, ptr %out, i64 1024
  store <64 x float> %x4, ptr %qx4, align 256
  %y0 = fmul <64 x float> %a0, %a0
  %qy0 = getelementptr i8, ptr %out, i64 1280
  store <64 x float> %y0, ptr %qy0, align 256
  %1 = call ptr asm "", "=r,0"(ptr %p1)
  %2 = load <64 x float>, ptr %1, align 256
  %y1 = fmul <64 x float> %2, %2
  %qy1 = getelementptr i8, ptr %out, i64 1536
  store <64 x float> %y1, ptr %qy1, align 256
  %3 = call ptr asm "", "=r,0"(ptr %p2)
  %4 = load <64 x float>, ptr %3, align 256
  %y2 = fmul <64 x float> %4, %4
  %qy2 = getelementptr i8, ptr %out, i64 1792
  store <64 x float> %y2, ptr %qy2, align 256
  %5 = call ptr asm "", "=r,0"(ptr %p3)
  %6 = load <64 x float>, ptr %5, align 256
  %y3 = fmul <64 x float> %6, %6
  %qy3 = getelementptr i8, ptr %out, i64 2048
  store <64 x float> %y3, ptr %qy3, align 256
  %y4 = fmul <64 x float> %a4, %a4
  %qy4 = getelementptr i8, ptr %out, i64 2304
  store <64 x float> %y4, ptr %qy4, align 256
  ret void
}
