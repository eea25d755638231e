pass expand_rounding for cortex-m4
define float @nearest(float %x) {
  %y = call float @llvm.roundeven.f32(float %x)
  ret float %y
}

define float @below(float %x) {
  %y = call float @llvm.floor.f32(float %x)
  ret float %y
}

define float @towards_zero(float %x) {
  %y = call float @llvm.trunc.f32(float %x)
  ret float %y
}
----
define float @nearest(float %x) {
  %1 = call float @llvm.fabs.f32(float %x)
  %2 = fadd float %1, 0x4160000000000000
  %3 = fsub float %2, 0x4160000000000000
  %4 = fcmp olt float %1, 0x4160000000000000
  %5 = select i1 %4, float %3, float %1
  %6 = call float @llvm.copysign.f32(float %5, float %x)
  ret float %6
}
define float @below(float %x) {
  %1 = call float @llvm.fabs.f32(float %x)
  %2 = fadd float %1, 0x4160000000000000
  %3 = fsub float %2, 0x4160000000000000
  %4 = fcmp olt float %1, 0x4160000000000000
  %5 = select i1 %4, float %3, float %1
  %6 = call float @llvm.copysign.f32(float %5, float %x)
  %7 = fsub float %6, 1.000000e+00
  %8 = fcmp ogt float %6, %x
  %9 = select i1 %8, float %7, float %6
  ret float %9
}
define float @towards_zero(float %x) {
  %1 = call float @llvm.fabs.f32(float %x)
  %2 = fadd float %1, 0x4160000000000000
  %3 = fsub float %2, 0x4160000000000000
  %4 = fcmp olt float %1, 0x4160000000000000
  %5 = select i1 %4, float %3, float %1
  %6 = fsub float %5, 1.000000e+00
  %7 = fcmp ogt float %5, %1
  %8 = select i1 %7, float %6, float %5
  %9 = call float @llvm.copysign.f32(float %8, float %x)
  ret float %9
}
