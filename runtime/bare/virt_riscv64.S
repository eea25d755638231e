# From reset to example_main() on qemu's machine `virt`, in machine mode on the first core.
    .section .text.start, "ax"
    .globl _start
_start:
    csrr t0, mhartid
    bnez t0, .Lpark
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, stack_end
    la t0, trap
    csrw mtvec, t0
    # Sets FS and VS of mstatus; without them, the first float or vector instruction traps.
    li t0, 0x6600
    csrs mstatus, t0
    csrwi fcsr, 0                   # rounding to nearest, no flags
    csrr t0, misa
    srli t0, t0, 'V' - 'A'
    andi t0, t0, 1
    beqz t0, .Ldata
    csrwi 0x00f, 0                  # vcsr: the same for fixed-point vectors
.Ldata:                               # copies initial values from read-only memory
    la t0, data_begin
    la t1, data_end
    la t2, data_source
1:  bgeu t0, t1, .Lzero
    lw t3, 0(t2)
    sw t3, 0(t0)
    addi t0, t0, 4
    addi t2, t2, 4
    j 1b
.Lzero:
    la t0, zero_begin
    la t1, zero_end
1:  bgeu t0, t1, .Lstack
    sw x0, 0(t0)
    addi t0, t0, 4
    j 1b
.Lstack:
    la t0, stack_begin
    li t3, 0x5a5a5a5a               # STACK_FILL of board.h
1:  bgeu t0, sp, .Lgo
    sw t3, 0(t0)
    addi t0, t0, 4
    j 1b
.Lgo:
    call example_main
    call board_finish
.Lpark:
    wfi
    j .Lpark

    .balign 4
trap:
    la sp, stack_end
    csrr a0, mcause
    csrr a1, mepc
    call board_trap
    j .Lpark
