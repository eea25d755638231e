pass drop_unused_products for cortex-m55
define i32 @one_is_read(ptr %a, ptr %b) {
  %sums = call { i32, i32, ptr } asm sideeffect "vldrw.u32 q0, [$3]\0Avldrb.u8 q2, [$2], #16\0Avldrb.u8 q3, [$3, #64]\0Avmlav.s8 $0, q2, q0\0Avmlav.s8 $1, q3, q0\0Avldrw.u32 q1, [$3, #16]\0Avmlava.s8 $1, q3, q1\0A", "=&^Te,=&^Te,=&^To,2,^To,~{q0},~{q1},~{q2},~{q3},~{memory}"(ptr %a, ptr %b)
  %first = extractvalue { i32, i32, ptr } %sums, 0
  ret i32 %first
}

define i32 @all_are_read(ptr %a, ptr %b) {
  %sums = call { i32, i32, ptr } asm sideeffect "vldrw.u32 q0, [$3]\0Avldrb.u8 q2, [$2], #16\0Avmlav.s8 $0, q2, q0\0Avmlav.s8 $1, q2, q0\0A", "=&^Te,=&^Te,=&^To,2,^To,~{q0},~{q2},~{memory}"(ptr %a, ptr %b)
  %first = extractvalue { i32, i32, ptr } %sums, 0
  %second = extractvalue { i32, i32, ptr } %sums, 1
  %both = add i32 %first, %second
  ret i32 %both
}
----
define i32 @one_is_read(ptr %a, ptr %b) {
  %sums = call { i32, i32, ptr } asm sideeffect "vldrw.u32 q0, [$3]\0Avldrb.u8 q2, [$2], #16\0Avmlav.s8 $0, q2, q0\0A", "=&^Te,=&^Te,=&^To,2,^To,~{q0},~{q1},~{q2},~{q3},~{memory}"(ptr %a, ptr %b)
  %first = extractvalue { i32, i32, ptr } %sums, 0
  ret i32 %first
}
define i32 @all_are_read(ptr %a, ptr %b) {
  %sums = call { i32, i32, ptr } asm sideeffect "vldrw.u32 q0, [$3]\0Avldrb.u8 q2, [$2], #16\0Avmlav.s8 $0, q2, q0\0Avmlav.s8 $1, q2, q0\0A", "=&^Te,=&^Te,=&^To,2,^To,~{q0},~{q2},~{memory}"(ptr %a, ptr %b)
  %first = extractvalue { i32, i32, ptr } %sums, 0
  %second = extractvalue { i32, i32, ptr } %sums, 1
  %both = add i32 %first, %second
  ret i32 %both
}
