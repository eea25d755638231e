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
