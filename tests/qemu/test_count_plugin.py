"""The counting plugin, against programs whose instruction counts are known by construction."""

import pathlib
import subprocess
import sys

import pytest

from . import VECTOR_LENGTHS, plugin_path, qemu_path, run_riscv64
from .assemble import EXIT, assemble, missing_tools

pytestmark = [
    pytest.mark.skipif(qemu_path() is None, reason="qemu-riscv64 is not installed"),
    pytest.mark.skipif(bool(missing_tools()), reason=f"not installed: {missing_tools()}"),
]


def counted(program, **options):
    code, out, err, counts = run_riscv64(program.path, count=True, **options)
    assert (code, err) == (0, b""), (code, out, err)
    assert counts["unknown"] == 0
    classes = {name: value for name, value in counts.items() if name not in ("total", "threads")}
    assert counts["total"] == sum(classes.values())
    return {name: value for name, value in classes.items() if value}


# y += a * x over 1,000 floats, the loop's trip count depending on the vector length, then 77 rounds
# of a scalar loop. Every instruction is one line.
SAXPY = (
    """
_start:
    lla a1, x                    # 2 instructions
    lla a2, y                    # 2
    li a0, 1000
    flw fa0, 0(a1)
loop:
    vsetvli t0, a0, e32, m4, ta, ma
    vle32.v v8, (a1)
    vle32.v v16, (a2)
    vfmacc.vf v16, fa0, v8
    vadd.vv v8, v8, v8
    vse32.v v16, (a2)
    sub a0, a0, t0
    slli t0, t0, 2
    add a1, a1, t0
    add a2, a2, t0
    bnez a0, loop
    li a0, 77
scalar:
    fmul.s fa1, fa0, fa0
    fmadd.d fa2, fa3, fa3, fa3
    fadd.s fa1, fa1, fa0
    fld fa4, -8(a2)
    fsw fa1, -4(a2)
    addi a0, a0, -1
    bnez a0, scalar
scalar_end:
"""
    + EXIT
    + """
.bss
.balign 64
x: .space 4096
y: .space 4096
"""
)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("vlen", VECTOR_LENGTHS)
def test_loops_are_counted_exactly(tmp_path, vlen, compressed):
    program = assemble(tmp_path, SAXPY, compressed=compressed)
    rounds = -(-1000 // (4 * vlen // 32))
    # QEMU gives vl = VLMAX while more than VLMAX elements are left, so the trip count is exact.
    assert counted(program, vlen=vlen) == {
        "scalar_integer": 4 + 1 + 4 * rounds + 1 + 77 + 3,
        "scalar_float_multiply": 2 * 77,
        "scalar_float_other": 77,
        "scalar_load": 1 + 77,
        "scalar_store": 77,
        "vector_config": rounds,
        "vector_load": 2 * rounds,
        "vector_store": rounds,
        "vector_multiply": rounds,
        "vector_other": rounds,
        "branch": rounds + 77,
    }


def test_only_the_named_ranges_are_counted(tmp_path):
    program = assemble(tmp_path, SAXPY)
    scalar = program.range("scalar", "scalar_end")
    expected = {
        "scalar_integer": 77,
        "scalar_float_multiply": 154,
        "scalar_float_other": 77,
        "scalar_load": 77,
        "scalar_store": 77,
        "branch": 77,
    }
    assert counted(program, ranges=[scalar]) == expected
    # Two ranges, one of which ends inside the loop: only its first two instructions are in.
    both = counted(program, ranges=[program.range("_start", "loop"), (scalar[0], scalar[0] + 8)])
    assert both == {"scalar_integer": 5, "scalar_load": 1, "scalar_float_multiply": 154}
    assert counted(program, ranges=[(0x10, 0x20)]) == {}


# Every instruction of these lists runs once, in a straight line, between two labels. `!` ahead of a
# line switches the vector type first, outside the counted range.
INSTRUCTIONS = {
    "scalar_integer": """
        lui t0, 5; auipc t0, 1; addi t0, t1, 5; slti t0, t1, 5; sltiu t0, t1, 5; xori t0, t1, 5
        ori t0, t1, 5; andi t0, t1, 5; slli t0, t1, 5; srli t0, t1, 5; srai t0, t1, 5
        add t0, t1, t2; sub t0, t1, t2; sll t0, t1, t2; slt t0, t1, t2; sltu t0, t1, t2
        xor t0, t1, t2; srl t0, t1, t2; sra t0, t1, t2; or t0, t1, t2; and t0, t1, t2
        addiw t0, t1, 5; slliw t0, t1, 5; srliw t0, t1, 5; sraiw t0, t1, 5; addw t0, t1, t2
        subw t0, t1, t2; sllw t0, t1, t2; srlw t0, t1, t2; sraw t0, t1, t2
        mul t0, t1, t2; mulh t0, t1, t2; mulhsu t0, t1, t2; mulhu t0, t1, t2; div t0, t1, t2
        divu t0, t1, t2; rem t0, t1, t2; remu t0, t1, t2; mulw t0, t1, t2; divw t0, t1, t2
        divuw t0, t1, t2; remw t0, t1, t2; remuw t0, t1, t2; fence; fence.i; csrr t0, vlenb
        csrr t0, fcsr; csrwi frm, 0; c.addi4spn a1, sp, 16; c.nop; c.addi a1, 3; c.addiw a1, 3
        c.li a1, 3; c.lui a1, 3; c.addi16sp sp, 16; c.addi16sp sp, -16; c.srli a1, 3; c.srai a1, 3
        c.andi a1, 3; c.sub a1, a2; c.xor a1, a2; c.or a1, a2; c.and a1, a2; c.subw a1, a2
        c.addw a1, a2; c.slli a1, 3; c.mv a1, a2; c.add a1, a2
        li a7, 172; ecall""",
    "scalar_float_multiply": """
        fmul.s fa0, fa1, fa2; fmul.d fa0, fa1, fa2; fmul.h fa0, fa1, fa2
        fmadd.s fa0, fa1, fa2, fa3; fmadd.d fa0, fa1, fa2, fa3; fmadd.h fa0, fa1, fa2, fa3
        fmsub.s fa0, fa1, fa2, fa3; fmsub.d fa0, fa1, fa2, fa3; fmsub.h fa0, fa1, fa2, fa3
        fnmadd.s fa0, fa1, fa2, fa3; fnmadd.d fa0, fa1, fa2, fa3; fnmadd.h fa0, fa1, fa2, fa3
        fnmsub.s fa0, fa1, fa2, fa3; fnmsub.d fa0, fa1, fa2, fa3; fnmsub.h fa0, fa1, fa2, fa3""",
    "scalar_float_other": """
        fadd.s fa0, fa1, fa2; fsub.s fa0, fa1, fa2; fdiv.s fa0, fa1, fa2; fsqrt.s fa0, fa1
        fadd.d fa0, fa1, fa2; fsub.d fa0, fa1, fa2; fdiv.d fa0, fa1, fa2; fsqrt.d fa0, fa1
        fadd.h fa0, fa1, fa2; fdiv.h fa0, fa1, fa2; fsgnj.s fa0, fa1, fa2; fsgnjn.d fa0, fa1, fa2
        fsgnjx.s fa0, fa1, fa2; fmin.s fa0, fa1, fa2; fmax.d fa0, fa1, fa2; fcvt.s.d fa0, fa1
        fcvt.d.s fa0, fa1; fcvt.h.s fa0, fa1; feq.s t0, fa1, fa2; flt.d t0, fa1, fa2
        fle.s t0, fa1, fa2; fcvt.w.s t0, fa1; fcvt.wu.d t0, fa1; fcvt.l.s t0, fa1
        fcvt.lu.d t0, fa1; fcvt.s.w fa0, t0; fcvt.d.wu fa0, t0; fcvt.s.l fa0, t0
        fcvt.d.lu fa0, t0; fmv.x.w t0, fa1; fmv.x.d t0, fa1; fmv.w.x fa0, t0; fmv.d.x fa0, t0
        fclass.s t0, fa1; fclass.d t0, fa1""",
    "scalar_load": """
        lb t0, (s0); lh t0, (s0); lw t0, (s0); ld t0, (s0); lbu t0, (s0); lhu t0, (s0)
        lwu t0, (s0); flh fa0, (s0); flw fa0, (s0); fld fa0, (s0); lr.w t0, (s0); lr.d t0, (s0)
        c.lw a1, 0(s0); c.ld a1, 0(s0); c.fld fa1, 0(s0); c.lwsp a1, 0(sp); c.ldsp a1, 0(sp)
        c.fldsp fa1, 0(sp)""",
    "scalar_store": """
        sb t0, (s0); sh t0, (s0); sw t0, (s0); sd t0, (s0); fsh fa0, (s0); fsw fa0, (s0)
        fsd fa0, (s0); sc.w t0, t1, (s0); sc.d t0, t1, (s0); amoadd.w t0, t1, (s0)
        amoswap.d t0, t1, (s0); amomaxu.w t0, t1, (s0); c.sw a1, 0(s0); c.sd a1, 0(s0)
        c.fsd fa1, 0(s0); c.swsp a1, 0(sp); c.sdsp a1, 0(sp); c.fsdsp fa1, 0(sp)""",
    "vector_config": """
        vsetvli t0, x0, e8, m1, ta, ma; vsetvli x0, x0, e16, m2, tu, mu
        vsetivli t0, 4, e32, m4, ta, mu; vsetvl x0, t0, t1; vsetivli x0, 0, e64, m8, ta, ma
        vsetvli t0, t1, e32, mf2, ta, ma; vsetivli x0, 4, e32, m1, ta, ma""",
    "vector_load": """
        vle8.v v8, (s0); vle16.v v8, (s0); vle32.v v8, (s0); vle64.v v8, (s0); vlm.v v8, (s0)
        vlse32.v v8, (s0), x0; vluxei32.v v8, (s0), v0; vloxei32.v v8, (s0), v0
        vle32ff.v v8, (s0); vlseg2e32.v v8, (s0); vlseg4e32.v v8, (s0); vlsseg2e32.v v8, (s0), x0
        vluxseg2ei32.v v8, (s0), v0; vl1re8.v v8, (s0); vl2re32.v v8, (s0); vl8re64.v v8, (s0)
        vle32.v v8, (s0), v0.t""",
    "vector_store": """
        vse8.v v8, (s0); vse16.v v8, (s0); vse32.v v8, (s0); vse64.v v8, (s0); vsm.v v8, (s0)
        vsse32.v v8, (s0), x0; vsuxei32.v v8, (s0), v0; vsoxei32.v v8, (s0), v0
        vsseg2e32.v v8, (s0); vssseg2e32.v v8, (s0), x0; vs1r.v v8, (s0); vs4r.v v8, (s0)
        vse32.v v8, (s0), v0.t""",
    "vector_multiply": """
        vfmul.vv v8, v9, v10; vfmul.vf v8, v9, fa0; vfmadd.vv v8, v9, v10; vfmadd.vf v8, fa0, v10
        vfnmadd.vv v8, v9, v10; vfmsub.vf v8, fa0, v10; vfnmsub.vv v8, v9, v10
        vfmacc.vv v8, v9, v10; vfmacc.vf v8, fa0, v10; vfnmacc.vv v8, v9, v10
        vfmsac.vf v8, fa0, v10; vfnmsac.vv v8, v9, v10; vfnmsac.vf v8, fa0, v10
        vfmacc.vf v8, fa0, v10, v0.t; vfwmul.vv v8, v10, v11; vfwmul.vf v8, v10, fa0
        vfwmacc.vv v8, v10, v11; vfwmacc.vf v8, fa0, v11; vfwnmacc.vv v8, v10, v11
        vfwmsac.vf v8, fa0, v11; vfwnmsac.vv v8, v10, v11
        vmul.vv v8, v9, v10; vmul.vx v8, v9, t0; vmulh.vv v8, v9, v10; vmulhu.vx v8, v9, t0
        vmulhsu.vv v8, v9, v10; vwmul.vv v8, v10, v11; vwmulu.vx v8, v10, t0
        vwmulsu.vv v8, v10, v11; vmacc.vv v8, v9, v10; vmacc.vx v8, t0, v10; vnmsac.vv v8, v9, v10
        vmadd.vv v8, v9, v10; vmadd.vx v8, t0, v10; vnmsub.vv v8, v9, v10
        vwmacc.vv v8, v10, v11; vwmaccu.vx v8, t0, v11; vwmaccsu.vv v8, v10, v11
        vwmaccus.vx v8, t0, v11; vsmul.vv v8, v9, v10; vsmul.vx v8, v9, t0""",
    "vector_other": """
        vadd.vv v8, v9, v10; vadd.vx v8, v9, t0; vadd.vi v8, v9, 5; vsub.vv v8, v9, v10
        vrsub.vi v8, v9, 5; vand.vv v8, v9, v10; vor.vi v8, v9, 5; vxor.vx v8, v9, t0
        vminu.vv v8, v9, v10; vmin.vx v8, v9, t0; vmaxu.vv v8, v9, v10; vmax.vv v8, v9, v10
        vsll.vi v8, v9, 3; vsrl.vv v8, v9, v10; vsra.vx v8, v9, t0; vnsrl.wi v8, v10, 3
        vnsra.wv v8, v10, v9; vmseq.vv v8, v9, v10; vmsltu.vx v8, v9, t0; vmsle.vi v8, v9, 3
        vadc.vvm v8, v9, v10, v0; vmadc.vv v8, v9, v10; vsbc.vxm v8, v9, t0, v0
        vmerge.vvm v8, v9, v10, v0; vmerge.vim v8, v9, 3, v0; vmv.v.v v8, v9; vmv.v.x v8, t0
        vmv.v.i v8, 5; vsaddu.vv v8, v9, v10; vssub.vv v8, v9, v10; vaaddu.vv v8, v9, v10
        vasub.vx v8, v9, t0; vssrl.vi v8, v9, 3; vnclip.wi v8, v10, 3; vwadd.vv v8, v10, v11
        vwaddu.wv v8, v10, v12; vwsub.vx v8, v10, t0; vzext.vf2 v8, v10; vsext.vf4 v8, v10
        vdiv.vv v8, v9, v10; vdivu.vx v8, v9, t0; vrem.vv v8, v9, v10; vremu.vv v8, v9, v10
        vredsum.vs v8, v9, v10; vredmaxu.vs v8, v9, v10; vredxor.vs v8, v9, v10
        vwredsum.vs v8, v9, v10; vwredsumu.vs v8, v9, v10; vmand.mm v8, v9, v10
        vmnand.mm v8, v9, v10; vmxnor.mm v8, v9, v10; vcpop.m t0, v9; vfirst.m t0, v9
        vmsbf.m v8, v9; vmsif.m v8, v9; vmsof.m v8, v9; viota.m v8, v9; vid.v v8
        vmv.x.s t0, v9; vmv.s.x v8, t0; vfmv.f.s fa0, v9; vfmv.s.f v8, fa0; vfmv.v.f v8, fa0
        vslideup.vi v8, v9, 1; vslideup.vx v8, v9, t0; vslidedown.vi v8, v9, 1
        vslide1up.vx v8, v9, t0; vslide1down.vx v8, v9, t0; vfslide1up.vf v8, v9, fa0
        vfslide1down.vf v8, v9, fa0; vrgather.vv v8, v9, v10; vrgather.vi v8, v9, 1
        vrgatherei16.vv v8, v9, v10; vcompress.vm v8, v9, v10; vmv1r.v v8, v9; vmv2r.v v8, v10
        vmv8r.v v8, v16; vfadd.vv v8, v9, v10; vfadd.vf v8, v9, fa0; vfsub.vv v8, v9, v10
        vfrsub.vf v8, v9, fa0; vfdiv.vv v8, v9, v10; vfdiv.vf v8, v9, fa0; vfrdiv.vf v8, v9, fa0
        vfsqrt.v v8, v9; vfrsqrt7.v v8, v9; vfrec7.v v8, v9; vfclass.v v8, v9
        vfmin.vv v8, v9, v10; vfmax.vf v8, v9, fa0; vfsgnj.vv v8, v9, v10; vfsgnjn.vf v8, v9, fa0
        vfsgnjx.vv v8, v9, v10; vmfeq.vv v8, v9, v10; vmfle.vf v8, v9, fa0; vmflt.vv v8, v9, v10
        vmfgt.vf v8, v9, fa0; vfmerge.vfm v8, v9, fa0, v0; vfcvt.x.f.v v8, v9; vfcvt.f.x.v v8, v9
        vfcvt.rtz.xu.f.v v8, v9; vfwcvt.f.f.v v8, v10; vfncvt.f.f.w v8, v10
        vfwcvt.rtz.x.f.v v8, v10; vfwadd.vv v8, v10, v11; vfwadd.wv v8, v10, v12
        vfwsub.vf v8, v10, fa0; vfredusum.vs v8, v9, v10; vfredosum.vs v8, v9, v10
        vfredmax.vs v8, v9, v10; vfredmin.vs v8, v9, v10; vfwredusum.vs v8, v9, v10
        vfwredosum.vs v8, v9, v10""",
}


def instruction_list(group):
    return [line.strip() for line in group.replace("\n", ";").split(";") if line.strip()]


def straight_line(name):
    body = "\n".join(instruction_list(INSTRUCTIONS[name]))
    return f"""
_start:
    lla s0, middle
    mv sp, s0
    li t0, 0
    li t1, 0xd0                 # e32, m1, ta, ma
    vsetivli x0, 4, e32, m1, ta, ma
    vmv.v.i v0, 0
begin:
{body}
end:
    {EXIT}
.bss
.balign 64
.space 4096
middle: .space 4096
"""


@pytest.mark.parametrize("name", list(INSTRUCTIONS))
def test_every_instruction_is_in_its_class(tmp_path, name):
    program = assemble(tmp_path, straight_line(name))
    expected = len(instruction_list(INSTRUCTIONS[name]))
    code, _, err, counts = run_riscv64(
        program.path,
        count=True,
        vlen=128,
        extensions=["Zfh"],
        ranges=[program.range("begin", "end")],
    )
    assert (code, err) == (0, b"")
    assert {
        key: value for key, value in counts.items() if value and key not in ("total", "threads")
    } == {name: expected}


# Every kind of jump, each executed once.
BRANCHES = f"""
_start:
    lla t0, target
    lla t2, target2
    li a1, 0
begin:
    beq t0, t0, 1f
1:  bne t0, t0, 1f
1:  blt t0, t0, 1f
1:  bge t0, t0, 1f
1:  bltu t0, t0, 1f
1:  bgeu t0, t0, 1f
1:  c.beqz a1, 1f
1:  c.bnez a1, 1f
1:  .option push
    .option norvc
    j 1f
    .option pop
1:  c.j 1f
1:  jal ra, function
    .option push
    .option norvc
    jalr ra, 0(t0)
    .option pop
resume:
    c.jr t2
target:
    ret
target2:
    lla t2, function
middle:
    c.jalr t2
end:
    {EXIT}
function:
    ret
function_end:
"""


def test_every_jump_is_a_branch(tmp_path):
    program = assemble(tmp_path, BRANCHES)
    ranges = [
        program.range("begin", "target2"),
        program.range("middle", "end"),
        program.range("function", "function_end"),
    ]
    # 11 up to the call, jalr, c.jr, the return at target, c.jalr, two returns of function.
    assert counted(program, ranges=ranges) == {"branch": 11 + 2 + 1 + 1 + 2}


# Four threads run the same loop; the first waits for the others in code outside the range.
THREADS = f"""
_start:
    li s0, 3                    # threads to start
    lla s1, stacks
    lla s2, finished
start_one:
    li a0, 0x50f00              # VM FS FILES SIGHAND THREAD SYSVSEM
    li t0, 4096
    add s1, s1, t0
    mv a1, s1
    li a2, 0
    li a3, 0
    li a4, 0
    li a7, 220                  # clone
    ecall
    beqz a0, child
    addi s0, s0, -1
    bnez s0, start_one
    jal ra, work
wait:
    lw t0, 0(s2)
    li t1, 3
    bne t0, t1, wait
    li a7, 94                   # exit_group
    li a0, 0
    ecall
child:
    jal ra, work
    li t0, 1
    amoadd.w x0, t0, (s2)
    li a7, 93                   # exit
    li a0, 0
    ecall
work:
    li t0, 100000
    vsetivli x0, 4, e32, m1, ta, ma
work_loop:
    fmul.s fa0, fa1, fa2
    vfmul.vv v8, v9, v10
    addi t0, t0, -1
    bnez t0, work_loop
work_end:
    ret
.bss
.balign 64
finished: .space 64
stacks: .space 65536
"""


def test_threads_are_counted_exactly(tmp_path):
    program = assemble(tmp_path, THREADS)
    each = 4 * 100000
    for _ in range(3):
        assert counted(program, ranges=[program.range("work_loop", "work_end")]) == {
            "scalar_float_multiply": each,
            "vector_multiply": each,
            "scalar_integer": each,
            "branch": each,
        }


# The parent forks, waits for the child and only then runs its own loop.
FORK = f"""
_start:
    li a0, 17                   # SIGCHLD, as fork does
    li a1, 0
    li a2, 0
    li a3, 0
    li a4, 0
    li a7, 220
    ecall
    bnez a0, parent
    fmul.s fa0, fa0, fa0
    {EXIT}
parent:
    li a0, -1
    li a1, 0
    li a2, 0
    li a3, 0
    li a7, 260                  # wait4
    ecall
    fadd.s fa0, fa0, fa0
    {EXIT}
"""


def test_a_forked_child_does_not_report(tmp_path):
    assert counted(assemble(tmp_path, FORK)) == {
        "scalar_integer": 7 + 6 + 3,
        "branch": 1,
        "scalar_float_other": 1,
    }


def test_exit_codes_signals_and_output(tmp_path):
    text = """
_start:
    li a0, 1
    lla a1, message
    li a2, 3
    li a7, 64
    ecall
    li a0, 42
    li a7, 93
    ecall
message: .ascii "hi\\n"
"""
    program = assemble(tmp_path, text, "greeting")
    assert run_riscv64(program.path) == (42, b"hi\n", b"", None)
    assert run_riscv64(program.path, vector=False, count=True)[3]["total"] == 9
    # A vector instruction on a core without vectors is an illegal instruction: no counts.
    vector = assemble(tmp_path, "_start: vsetivli x0, 4, e32, m1, ta, ma\n" + EXIT, "vector")
    code, _, _, counts = run_riscv64(vector.path, vector=False, count=True)
    assert (code, counts) == (-4, None)
    assert run_riscv64(vector.path, vector=True)[0] == 0


def test_a_comma_in_the_path_of_the_counts(tmp_path, monkeypatch):
    folder = tmp_path / "a,b"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    program = assemble(tmp_path, "_start:" + EXIT)
    assert counted(program) == {"scalar_integer": 3}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("", "the argument out=PATH is missing"),
        ("out=/dev/null,range=5", "range '5' is not START-END in hexadecimal with START below END"),
        (
            "out=/dev/null,range=20-10",
            "range '20-10' is not START-END in hexadecimal with START below END",
        ),
        ("out=/dev/null,colour=red", "argument 'colour=red' is not one of"),
        ("out=/dev/null,cycles=maybe", "argument 'cycles=maybe' is not one of"),
        ("out=/dev/null,guest=much", "guest 'much' is not a number of bytes"),
        ("out=/dev/null,vlen=100", "vlen '100' is not a power of two from 64 to 65536"),
        ("out=/dev/null,dlen=x", "dlen 'x' is not a power of two from 64 to 65536"),
        (
            "out=/dev/null,core=x60",
            "core 'x60' is not one of generic, spacemit-x60, spacemit-x100, sifive-p670, sifive-x280, thead-c908, "
            "thead-c920v2",
        ),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, arguments, message):
    program = assemble(tmp_path, "_start:" + EXIT)
    done = subprocess.run(
        [qemu_path(), "-plugin", f"{plugin_path()},{arguments}", program.path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert message in done.stderr


def test_an_unwritable_path_is_said(tmp_path):
    program = assemble(tmp_path, "_start:" + EXIT)
    done = subprocess.run(
        [qemu_path(), "-plugin", f"{plugin_path()},out=/nowhere/counts.json", program.path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "cannot write the counts to '/nowhere/counts.json'" in done.stderr


def test_the_command_prints_the_counts(tmp_path):
    program = assemble(tmp_path, SAXPY)
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "tests.qemu", "--vlen", "512", "--cycles", program.path],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    printed = {
        name: int(value.replace(",", ""))
        for name, value in (line.split() for line in done.stdout.splitlines())
    }
    assert printed["scalar_float_multiply"] == 154
    assert printed["vector_config"] == 16
    assert printed["simulated_cycles"] > 0
