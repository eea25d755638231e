pass lower_maximum_chains for rv64gcv_zvl256b
define <16 x float> @chain(<16 x float> %first, <16 x float> %a, <16 x float> %b, <16 x float> %c) {
  %m1 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %a, <16 x float> %first)
  %m2 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %b, <16 x float> %m1)
  %m3 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %c, <16 x float> %m2)
  ret <16 x float> %m3
}

define <16 x float> @one(<16 x float> %a, <16 x float> %b) {
  %m = call <16 x float> @llvm.maximum.v16f32(<16 x float> %a, <16 x float> %b)
  ret <16 x float> %m
}
----
define <16 x float> @chain(<16 x float> %first, <16 x float> %a, <16 x float> %b, <16 x float> %c) {
  %1 = fmul <16 x float> %first, %first
  %2 = call <16 x float> @llvm.maxnum.v16f32(<16 x float> %a, <16 x float> %first)
  %3 = call <16 x float> @llvm.fma.v16f32(<16 x float> %a, <16 x float> %a, <16 x float> %1)
  %4 = call <16 x float> @llvm.maxnum.v16f32(<16 x float> %b, <16 x float> %2)
  %5 = call <16 x float> @llvm.fma.v16f32(<16 x float> %b, <16 x float> %b, <16 x float> %3)
  %6 = call <16 x float> @llvm.maxnum.v16f32(<16 x float> %c, <16 x float> %4)
  %7 = call <16 x float> @llvm.fma.v16f32(<16 x float> %c, <16 x float> %c, <16 x float> %5)
  %8 = fcmp uno <16 x float> %7, %7
  %9 = select <16 x i1> %8, <16 x float> %7, <16 x float> %6
  ret <16 x float> %9
}
define <16 x float> @one(<16 x float> %a, <16 x float> %b) {
  %1 = fcmp ogt <16 x float> %a, %b
  %2 = select <16 x i1> %1, <16 x float> %a, <16 x float> %b
  %3 = fcmp uno <16 x float> %a, %a
  %4 = select <16 x i1> %3, <16 x float> %a, <16 x float> %2
  ret <16 x float> %4
}
