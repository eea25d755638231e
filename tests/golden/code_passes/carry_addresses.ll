pass carry_addresses for cortex-m55
target datalayout = "e-m:e-p:32:32-Fi8-i64:64-v128:64:128-a:0:32-n32-S64"

define void @copy(ptr %from, ptr %to, i32 %row) {
entry:
  %start = mul i32 %row, 100
  br label %loop

loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %distance = shl i32 %i, 3
  %place = add i32 %distance, %start
  %first = getelementptr i8, ptr %from, i32 %place
  %a = load i32, ptr %first
  %second = getelementptr i8, ptr %first, i32 4
  %b = load i32, ptr %second
  %sum = add i32 %a, %b
  %result = getelementptr i32, ptr %to, i32 %i
  store i32 %sum, ptr %result
  %next = add nuw nsw i32 %i, 1
  %more = icmp ult i32 %i, 24
  br i1 %more, label %loop, label %end

end:
  ret void
}

define void @assembly(ptr %weights, ptr %from, ptr %to) {
entry:
  br label %loop

loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %distance = shl i32 %i, 4
  %place = getelementptr i8, ptr %from, i32 %distance
  %sum = call i32 asm sideeffect "ldr $0, [$1]", "=r,r,r"(ptr %weights, ptr %place)
  %result = getelementptr i32, ptr %to, i32 %i
  store i32 %sum, ptr %result
  %next = add nuw nsw i32 %i, 1
  %more = icmp ult i32 %i, 9
  br i1 %more, label %loop, label %end

end:
  ret void
}

define void @counter_is_read(ptr %to) {
entry:
  br label %loop

loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %result = getelementptr i32, ptr %to, i32 %i
  store i32 %i, ptr %result
  %next = add nuw nsw i32 %i, 1
  %more = icmp ult i32 %i, 9
  br i1 %more, label %loop, label %end

end:
  ret void
}

define void @goes_on_where_not_equal(ptr %to, i32 %value) {
entry:
  br label %loop

loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %distance = mul i32 %i, -8
  %high = getelementptr i8, ptr %to, i32 %distance
  %low = getelementptr i8, ptr %high, i32 -4
  store i32 %value, ptr %high
  store i32 %value, ptr %low
  %next = add nuw nsw i32 %i, 1
  %done = icmp eq i32 %next, 10
  br i1 %done, label %end, label %loop

end:
  ret void
}
----
define void @copy(ptr %from, ptr %to, i32 %row) {
entry:
  %start = mul i32 %row, 100
  %scevgep = getelementptr i8, ptr %from, i32 %start
  br label %loop

loop:                                             ; preds = %loop, %entry
  %left = phi i32 [ 25, %entry ], [ %left.next, %loop ]
  %address1 = phi ptr [ %to, %entry ], [ %address.next2, %loop ]
  %address = phi ptr [ %scevgep, %entry ], [ %address.next, %loop ]
  %a = load i32, ptr %address, align 4
  %0 = getelementptr i8, ptr %address, i32 4
  %b = load i32, ptr %0, align 4
  %sum = add i32 %a, %b
  store i32 %sum, ptr %address1, align 4
  %address.next = getelementptr i8, ptr %address, i32 8
  %address.next2 = getelementptr i8, ptr %address1, i32 4
  %left.next = sub i32 %left, 1
  %1 = icmp ne i32 %left.next, 0
  br i1 %1, label %loop, label %end

end:                                              ; preds = %loop
  ret void
}
define void @assembly(ptr %weights, ptr %from, ptr %to) {
entry:
  br label %loop

loop:                                             ; preds = %loop, %entry
  %left = phi i32 [ 10, %entry ], [ %left.next, %loop ]
  %kept = phi ptr [ %weights, %entry ], [ %0, %loop ]
  %address1 = phi ptr [ %to, %entry ], [ %address.next2, %loop ]
  %address = phi ptr [ %from, %entry ], [ %address.next, %loop ]
  %sum = call i32 asm sideeffect "ldr $0, [$1]", "=r,r,r"(ptr %kept, ptr %address)
  store i32 %sum, ptr %address1, align 4
  %address.next = getelementptr i8, ptr %address, i32 16
  %address.next2 = getelementptr i8, ptr %address1, i32 4
  %0 = call ptr asm "", "=r,0"(ptr %kept)
  %left.next = sub i32 %left, 1
  %1 = icmp ne i32 %left.next, 0
  br i1 %1, label %loop, label %end

end:                                              ; preds = %loop
  ret void
}
define void @counter_is_read(ptr %to) {
entry:
  br label %loop

loop:                                             ; preds = %loop, %entry
  %address = phi ptr [ %to, %entry ], [ %address.next, %loop ]
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  store i32 %i, ptr %address, align 4
  %next = add nuw nsw i32 %i, 1
  %more = icmp ult i32 %i, 9
  %address.next = getelementptr i8, ptr %address, i32 4
  br i1 %more, label %loop, label %end

end:                                              ; preds = %loop
  ret void
}
define void @goes_on_where_not_equal(ptr %to, i32 %value) {
entry:
  %0 = getelementptr i8, ptr %to, i32 -4
  br label %loop

loop:                                             ; preds = %loop, %entry
  %left = phi i32 [ 10, %entry ], [ %left.next, %loop ]
  %address = phi ptr [ %0, %entry ], [ %address.next, %loop ]
  %1 = getelementptr i8, ptr %address, i32 4
  store i32 %value, ptr %1, align 4
  store i32 %value, ptr %address, align 4
  %address.next = getelementptr i8, ptr %address, i32 -8
  %left.next = sub i32 %left, 1
  %2 = icmp eq i32 %left.next, 0
  br i1 %2, label %end, label %loop

end:                                              ; preds = %loop
  ret void
}
