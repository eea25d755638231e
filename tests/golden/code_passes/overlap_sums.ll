; Function Attrs: nounwind willreturn
define void @kernel(ptr noalias nocapture readonly %in0, ptr noalias nocapture %out0, ptr %parameters, ptr %scratch, i32 %thread, i32 %threads) #0 {
entry:
  %0 = icmp eq i32 %thread, 0
  br i1 %0, label %copy_i1_o, label %if.end

if.end:                                           ; preds = %copy_i1_i.end, %entry
  ret void

copy_i1_o:                                        ; preds = %entry, %copy_i1_i.end
  %copy_i1_o1 = phi i64 [ %1, %copy_i1_i.end ], [ 0, %entry ]
  br label %copy_i1_i

copy_i1_i:                                        ; preds = %copy_i3_o.end, %copy_i1_o
  %copy_i1_i2 = phi i64 [ 0, %copy_i1_o ], [ %17, %copy_i3_o.end ]
  br label %copy_i3_o

copy_i1_i.end:                                    ; preds = %copy_i3_o.end
  %1 = add nuw nsw i64 %copy_i1_o1, 1
  %2 = icmp eq i64 %copy_i1_o1, 0
  br i1 %2, label %copy_i1_o, label %if.end

copy_i3_o:                                        ; preds = %copy_i3_o, %copy_i1_i
  %copy_i3_o3 = phi i64 [ 0, %copy_i1_i ], [ %15, %copy_i3_o ]
  %3 = shl nsw i64 %copy_i1_o1, 10
  %4 = shl nsw i64 %copy_i3_o3, 8
  %5 = getelementptr i8, ptr %in0, i64 %copy_i1_i2
  %6 = getelementptr i8, ptr %5, i64 %3
  %7 = getelementptr i8, ptr %6, i64 %4
  %8 = shl nsw i64 %copy_i1_i2, 6
  %9 = shl nsw i64 %copy_i3_o3, 4
  %10 = getelementptr i8, ptr %out0, i64 %8
  %11 = getelementptr i8, ptr %10, i64 %3
  %12 = getelementptr i8, ptr %11, i64 %9
  %13 = getelementptr i8, ptr %7, <16 x i64> <i64 0, i64 16, i64 32, i64 48, i64 64, i64 80, i64 96, i64 112, i64 128, i64 144, i64 160, i64 176, i64 192, i64 208, i64 224, i64 240>
  %14 = call <16 x i8> @llvm.masked.gather.v16i8.v16p0(<16 x ptr> %13, i32 1, <16 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true>, <16 x i8> poison)
  store <16 x i8> %14, ptr %12, align 1
  %15 = add nuw nsw i64 %copy_i3_o3, 1
  %16 = icmp ult i64 %copy_i3_o3, 3
  br i1 %16, label %copy_i3_o, label %copy_i3_o.end

copy_i3_o.end:                                    ; preds = %copy_i3_o
  %17 = add nuw nsw i64 %copy_i1_i2, 1
  %18 = icmp ult i64 %copy_i1_i2, 15
  br i1 %18, label %copy_i1_i, label %copy_i1_i.end
}
