pass sink_extensions for cortex-m4
define void @scale(ptr %sums, i32 %factor, i32 %count) {
entry:
  %wide = sext i32 %factor to i64
  br label %loop

loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %place = getelementptr i32, ptr %sums, i32 %i
  %sum = load i32, ptr %place
  %long = sext i32 %sum to i64
  %product = mul i64 %long, %wide
  %upper = lshr i64 %product, 32
  %result = trunc i64 %upper to i32
  store i32 %result, ptr %place
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %count
  br i1 %more, label %loop, label %end

end:
  ret void
}

define i64 @of_shorts(i16 %factor, i64 %other, i1 %condition) {
entry:
  %wide = sext i16 %factor to i64
  br i1 %condition, label %then, label %end

then:
  %product = mul i64 %wide, %other
  ret i64 %product

end:
  ret i64 0
}
----
define void @scale(ptr %sums, i32 %factor, i32 %count) {
entry:
  br label %loop

loop:                                             ; preds = %loop, %entry
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %place = getelementptr i32, ptr %sums, i32 %i
  %sum = load i32, ptr %place, align 4
  %long = sext i32 %sum to i64
  %0 = sext i32 %factor to i64
  %product = mul i64 %long, %0
  %upper = lshr i64 %product, 32
  %result = trunc i64 %upper to i32
  store i32 %result, ptr %place, align 4
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %count
  br i1 %more, label %loop, label %end

end:                                              ; preds = %loop
  ret void
}
define i64 @of_shorts(i16 %factor, i64 %other, i1 %condition) {
entry:
  %wide = sext i16 %factor to i64
  br i1 %condition, label %then, label %end

then:                                             ; preds = %entry
  %product = mul i64 %wide, %other
  ret i64 %product

end:                                              ; preds = %entry
  ret i64 0
}
