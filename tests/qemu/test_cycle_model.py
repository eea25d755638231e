"""The cycle model, against loops whose cycles follow by hand from the model's description."""

import re
from pathlib import Path

import pytest

from . import VECTOR_LENGTHS, cores, qemu_path, run_riscv64
from .assemble import EXIT, assemble, missing_tools
from .test_count_plugin import THREADS

CORES_FILE = Path(__file__).resolve().parents[2] / "ir" / "target" / "riscv_cores.h"

pytestmark = [
    pytest.mark.skipif(qemu_path() is None, reason="qemu-riscv64 is not installed"),
    pytest.mark.skipif(bool(missing_tools()), reason=f"not installed: {missing_tools()}"),
]


def simulated(program, **options):
    code, out, err, counts = run_riscv64(program.path, cycles=True, **options)
    assert (code, err) == (0, b""), (code, out, err)
    return counts


def loop(body, setting, rounds):
    """A counted loop around `body`; what the loop itself costs is `addi` and `bnez`."""
    body = "\n".join(body.split(";"))
    return f"""
_start:
    lla s0, buffer
    lla s1, buffer
    {setting}
    li t0, {rounds}
loop:
{body}
    addi t0, t0, -1
    bnez t0, loop
loop_end:
    {EXIT}
.bss
.balign 64
buffer: .space 65536
"""


def cycles_per_round(folder, body, setting="", **options):
    """Cycles that one more round of the loop takes; exact, and the same for each further round."""
    cycles = [
        simulated(assemble(folder, loop(body, setting, rounds)), **options)["simulated_cycles"]
        for rounds in (100, 200, 400)
    ]
    assert cycles[2] - cycles[1] == 2 * (cycles[1] - cycles[0])
    return (cycles[1] - cycles[0]) / 100


M1 = "vsetvli t1, x0, e32, m1, ta, ma"
M4 = "vsetvli t1, x0, e32, m4, ta, ma"
M8 = "vsetvli t1, x0, e32, m8, ta, ma"
HALF = "vsetvli t1, x0, e32, mf2, ta, ma"


@pytest.mark.parametrize(
    "body, cycles",
    [
        # addi, then bnez a cycle later for its operand; a taken branch ends the cycle.
        ("", 2),
        # Two per cycle: four adds in two cycles, then addi and bnez.
        ("addi a1, x0, 1; addi a2, x0, 1; addi a3, x0, 1; addi a4, x0, 1", 4),
        # A chain of three takes three cycles; addi is beside the last.
        ("add a1, a1, a1; add a1, a1, a1; add a1, a1, a1", 4),
        # Latencies, as chains through the loop: float add and multiply-add, division, multiply.
        ("fadd.s fa0, fa0, fa1", 4),
        ("fmadd.s fa0, fa0, fa1, fa2", 4),
        ("fdiv.s fa0, fa0, fa1", 12),
        ("fdiv.d fa0, fa0, fa1", 20),
        ("mul a1, a1, a1", 3),
        ("div a1, a1, a2", 20),
        # One float unit: five independent adds, then addi beside the last, then bnez.
        (
            "fadd.s fa0, fa5, fa5; fadd.s fa1, fa5, fa5; fadd.s fa2, fa5, fa5; fadd.s fa3, fa5, fa5;"
            "fadd.s fa4, fa5, fa5",
            6,
        ),
        # Load to use: 3 cycles, then the add with addi, then bnez.
        ("lw a1, (s0); add a2, a1, a1", 5),
        # One memory port for loads and stores.
        ("lw a1, (s0); lw a2, 4(s0); sw a0, 8(s0); flw fa0, (s0)", 5),
        # A forward branch that is taken is predicted wrongly; one that is not taken is free.
        ("beq x0, x0, 1f; nop; 1:", 1 + 6 + 2),
        ("bne x0, x0, 1f; nop; 1:", 3),
    ],
)
def test_scalar_costs(tmp_path, body, cycles):
    assert cycles_per_round(tmp_path, body) == cycles


ADDS = "; ".join(f"addi a{i}, x0, 1" for i in range(1, 7))
FOUR_LOADS = "lw a1, (s0); lw a2, 4(s0); lw a3, 8(s0); lw a4, 12(s0)"


@pytest.mark.parametrize(
    "core, setting, body, cycles",
    [
        # Two ports: two loads a cycle, then addi, then bnez.
        ("generic", "", FOUR_LOADS, 5),
        ("spacemit-x60", "", FOUR_LOADS, 4),
        # A chain through the loop takes the latency.
        ("spacemit-x60", "", "mul a1, a1, a1", 6),
        ("spacemit-x60", "", "fmadd.s fa0, fa0, fa1, fa2", 5),
        ("spacemit-x60", "", "fdiv.d fa0, fa0, fa1", 22),
        ("spacemit-x60", M1, "vfmacc.vf v8, fa0, v16", 5),
        ("sifive-x280", M1, "vfmacc.vf v8, fa0, v16", 8),
        ("sifive-p670", M1, "vfmacc.vf v8, fa0, v16", 6),
        ("thead-c908", "", "fadd.s fa0, fa0, fa1", 5),
        ("thead-c920v2", "", "div a1, a1, a2", 20),
        # Integers, comparisons and moves: 4 cycles on the X280, one on the P670, as sums of floats
        # elsewhere; the loop takes two by itself.
        ("sifive-x280", M1, "vadd.vv v8, v8, v16", 4),
        ("sifive-x280", M1, "vfmin.vv v8, v8, v16", 4),
        ("sifive-x280", M1, "vfadd.vv v8, v8, v16", 8),
        (
            "sifive-p670",
            M1,
            "vadd.vv v8, v8, v16; vmerge.vvm v8, v8, v16, v0; vfmin.vv v8, v8, v16; vslideup.vi v9, v8, 1",
            3,
        ),
        ("spacemit-x60", M1, "vadd.vv v8, v8, v16", 5),
        # Division: 7 cycles an element of the X280 at 32 bits, whose unit is busy; by register on
        # the P670, beside its vector units; at any width.
        ("sifive-x280", M1, "vfdiv.vv v8, v16, v24", 112),
        ("sifive-x280", M4, "vfsqrt.v v8, v16", 448),
        ("sifive-x280", "vsetvli t1, x0, e64, m1, ta, ma", "vfdiv.vv v8, v16, v24", 112),
        ("sifive-x280", M1, "vfdiv.vv v8, v16, v24; vfadd.vv v9, v16, v24", 114),
        ("sifive-p670", M4, "vfdiv.vv v8, v16, v24; vfadd.vv v12, v16, v24", 304),
        ("sifive-p670", M1, "vfdiv.vv v8, v16, v24; vfsqrt.v v9, v16", 152),
        ("spacemit-x60", "vsetvli t1, x0, e64, m1, ta, ma", "vfdiv.vv v8, v16, v24", 32),
        # Reductions: the X280's keep the unit, 35 cycles and those of the group; by levels of 3 on
        # the P670; sums in order 6 an element on the X280.
        ("sifive-x280", M1, "vfredusum.vs v8, v16, v24", 37),
        ("sifive-x280", M4, "vredmax.vs v8, v16, v24", 43),
        ("sifive-x280", M1, "vfredosum.vs v8, v16, v24", 96),
        ("sifive-p670", M1, "vfredusum.vs v8, v16, v8", 6 + 3 * 2),
        ("sifive-p670", M4, "vfredusum.vs v8, v16, v8", 6 + 6 * 3 + 3 * 2),
        # Register groups: 4 registers of 256 bits through 128 or 256 bits, of 512 through 256, of
        # 128 through 128.
        ("spacemit-x60", M4, "vfadd.vv v8, v16, v16", 8),
        ("spacemit-x100", M4, "vfadd.vv v8, v16, v16", 4),
        ("sifive-x280", M4, "vfadd.vv v8, v16, v16", 8),
        ("thead-c908", M4, "vfadd.vv v8, v16, v16", 4),
        # Two vector units: four of one register in two cycles, six instructions of which four are
        # dispatched in one.
        ("sifive-p670", M1, "; ".join(f"vfadd.vv v{i}, v16, v16" for i in range(8, 12)), 2),
        # Gathers: 4 and 64 of the X60, 2 and 32 of the X100, by element of the X280, by register of
        # the P670 in one of its units.
        ("spacemit-x60", M1, "vrgather.vv v8, v16, v24", 4),
        ("spacemit-x60", M4, "vrgather.vv v8, v16, v24", 64),
        ("spacemit-x100", M1, "vrgather.vv v8, v16, v24", 2),
        ("spacemit-x100", M4, "vrgather.vv v8, v16, v24", 32),
        ("sifive-x280", M4, "vrgather.vv v8, v16, v24", 64),
        ("sifive-p670", M4, "vrgather.vv v8, v16, v24; vrgather.vv v12, v16, v24", 8),
        ("sifive-p670", M4, "vrgather.vv v8, v16, v24; vfadd.vv v12, v16, v24", 4),
        # Segments of four fields: 16 segments a register of 512 bits, one a cycle.
        ("sifive-x280", M1, "vlseg4e32.v v8, (s0)", 16),
        # Eight instructions, three a cycle, and the branch ends its group.
        ("spacemit-x100", "", ADDS, 3),
        # Nothing waits for a load but what reads it: four instructions, three and one.
        ("spacemit-x100", "", "lw a1, (s0); add a2, a1, a1", 2),
        # A wrong prediction costs its cycles, but for what the window has dispatched: the branch,
        # addi and bnez.
        ("spacemit-x60", "", "beq x0, x0, 1f; nop; 1:", 1 + 9 + 2),
    ],
)
def test_cores_by_their_rows(tmp_path, core, setting, body, cycles):
    assert cycles_per_round(tmp_path, body, setting, core=core) == cycles


def test_a_window_that_is_full_waits_for_its_oldest(tmp_path):
    # 64 elements one after the other, 256 cycles; 95 instructions fit behind it, the other 207 of
    # the round wait for its end.
    body = "vfredosum.vs v8, v16, v24; " + "; ".join(["addi a1, x0, 1"] * 300)
    assert cycles_per_round(tmp_path, body, M8, core="spacemit-x100") == 256 + 207 // 3


def test_every_core_has_its_row_and_runs(tmp_path):
    assert list(cores()) == re.findall(r"\.name = \"([^\"]+)\"", CORES_FILE.read_text())
    program = assemble(tmp_path, loop("vfadd.vv v8, v16, v16", M1, 100))
    for core in cores():
        assert simulated(program, core=core, cache=True)["simulated_cycles"] > 100


@pytest.mark.parametrize(
    "core, first, second",
    [("generic", 3 * 768, 768), ("spacemit-x100", 768, 768), ("thead-c908", 3 * 768, 768)],
)
def test_caches_have_their_rows_sizes(tmp_path, core, first, second):
    program = assemble(tmp_path, passes(48 << 10, 3))
    counts = simulated(program, cache=True, core=core, ranges=[program.range("begin", "end")])
    assert (counts["first_level_misses"], counts["second_level_misses"]) == (first, second)


@pytest.mark.parametrize("vlen", VECTOR_LENGTHS)
def test_a_group_costs_its_bits_by_the_datapath(tmp_path, vlen):
    body = "vfmacc.vf v8, fa0, v16; vfmacc.vf v24, fa0, v16"
    for setting, multiple in ((M4, 4), (M8, 8)):
        for dlen in (128, 256):
            expected = 2 * max(multiple * vlen // dlen, 4 / 2)
            assert cycles_per_round(tmp_path, body, setting, vlen=vlen, dlen=dlen) == expected


@pytest.mark.parametrize(
    "vlen, setting, body, cycles",
    [
        # One accumulator waits for its own latency; four fill the unit (then addi and bnez).
        (128, M1, "vfmacc.vf v8, fa0, v16", 4),
        (
            128,
            M1,
            "vfmacc.vf v8, fa0, v16; vfmacc.vf v9, fa0, v16; vfmacc.vf v10, fa0, v16;"
            "vfmacc.vf v11, fa0, v16",
            5,
        ),
        # The short vector still takes its cycle; half a long one takes half its cycles.
        (128, HALF, "vfadd.vv v8, v9, v9;" * 4 + "vfadd.vv v8, v9, v9", 6),
        (512, HALF, "vfadd.vv v8, v9, v9;" * 4 + "vfadd.vv v8, v9, v9", 10),
        # Lanes left empty are paid for: 4 elements asked of 16.
        (512, "vsetivli x0, 4, e32, m1, ta, ma", "vfadd.vv v8, v16, v16; vfadd.vv v9, v16, v16", 8),
        # Twice the group, 8 cycles of division per pass, reductions by steps of 4.
        (256, M1, "vfwmul.vv v8, v16, v17", 4),
        (256, M1, "vfdiv.vv v8, v16, v17", 16),
        (256, M1, "vfredusum.vs v8, v9, v8", 4 + 4 * 2 + 1),
        (256, M1, "vfredosum.vs v8, v9, v8", 32),
        (256, M1, "vrgather.vv v8, v16, v24", 2),
        (256, M4, "vrgather.vv v8, v16, v24", 32),
        (256, M4, "vmand.mm v8, v16, v24; vmand.mm v9, v16, v24", 4),
        (256, M4, "vmv2r.v v8, v16", 4),
        # Unit-stride moves a datapath a cycle, whatever SEW was; strided one element a cycle, and
        # knows the length that vsetivli asked for.
        (256, M4, "vle32.v v8, (s0)", 8),
        (256, M4, "vle8.v v8, (s0)", 2),
        (256, M4, "vse32.v v8, (s0)", 8),
        (256, M4, "vlse32.v v8, (s0), x0", 32),
        (256, "vsetivli x0, 5, e32, m4, ta, ma", "vlse32.v v8, (s0), x0", 5),
        (256, M1, "vlseg4e32.v v8, (s0)", 32),
        (256, M4, "vl2re32.v v8, (s0)", 4),
        # Loads go on beside arithmetic: the longer of the two.
        (256, M4, "vle32.v v8, (s0); vfadd.vv v16, v24, v24; vfadd.vv v20, v24, v24", 16),
        # The type changes inside the loop: 1 cycle of one register and 8 of eight, twice at 256
        # bits.
        (128, "", f"{M1}; vfadd.vv v8, v9, v9; {M8}; vfadd.vv v16, v24, v24", 9),
        (256, "", f"{M1}; vfadd.vv v8, v9, v9; {M8}; vfadd.vv v16, v24, v24", 18),
        # The length is kept by vsetvli x0, x0; the type is not: 16 bits, half the group.
        (
            256,
            "",
            "vsetivli x0, 5, e32, m4, ta, ma; vsetvli x0, x0, e16, m2, ta, ma;"
            "vlse16.v v8, (s0), x0; vle16.v v12, (s0); vle16.v v14, (s0)",
            5 + 4 + 4,
        ),
    ],
)
def test_vector_costs(tmp_path, vlen, setting, body, cycles):
    assert cycles_per_round(tmp_path, body, setting, vlen=vlen) == cycles


def passes(bytes_, count, vector=False):
    """Reads `bytes_` from the start, `count` times, waiting for each load before the next one."""
    load = (
        "vle32.v v8, (s0)\nvmv.x.s t3, v8\nadd s0, s0, t4"
        if vector
        else "lw t3, (s0)\naddi s0, s0, 64"
    )
    return f"""
_start:
    vsetvli t4, x0, e32, m8, ta, ma
    slli t4, t4, 2
    li t0, {count}
    lla s2, buffer
    li t1, {bytes_}
    add s1, s2, t1
begin:
again:
    mv s0, s2
next:
{load}
    add t5, t3, t3
    add s0, s0, t5              # the buffer holds zeros: a dependence, nothing more
    bltu s0, s1, next
    addi t0, t0, -1
    bnez t0, again
end:
    {EXIT}
.bss
.balign 64
buffer: .space {bytes_}
"""


def test_caches_miss_as_their_sizes_say(tmp_path):
    # (KB, passes, misses of each level): 512 lines fit the first level, 8,192 the second; going
    # round and round in more than fits, the least recently used is always the next one needed.
    costs = []
    for kilobytes, count, first, second in (
        (8, 50, 128, 128),
        (256, 4, 4 * 4096, 4096),
        (1024, 2, 2 * 16384, 2 * 16384),
    ):
        program = assemble(tmp_path, passes(kilobytes << 10, count))
        counts = simulated(program, cache=True, ranges=[program.range("begin", "end")])
        assert (counts["first_level_misses"], counts["second_level_misses"]) == (first, second)
        assert counts["scalar_load"] == kilobytes * 16 * count
        costs.append(counts["simulated_cycles"] / counts["scalar_load"])
        without = simulated(program, ranges=[program.range("begin", "end")])
        assert "first_level_misses" not in without
        assert without["simulated_cycles"] <= counts["simulated_cycles"]
    # A load in the first level, a mix of the second level and memory, memory only. Around the load:
    # two dependent adds and the branch.
    assert costs[0] == pytest.approx(3 + 1 + 1 + 1 + 77 / 50, abs=0.2)
    assert costs[1] == pytest.approx(12 + 3 + 68 / 4, abs=0.2)
    assert costs[2] == pytest.approx(80 + 3, abs=0.2)


@pytest.mark.parametrize("vlen", VECTOR_LENGTHS)
def test_vector_loads_touch_each_line_once(tmp_path, vlen):
    program = assemble(tmp_path, passes(64 << 10, 2, vector=True))
    counts = simulated(program, cache=True, vlen=vlen, ranges=[program.range("begin", "end")])
    assert counts["vector_load"] == 2 * (64 << 10) // vlen
    # 1,024 lines, which the first level does not hold and the second does.
    assert (counts["first_level_misses"], counts["second_level_misses"]) == (2048, 1024)


@pytest.mark.parametrize(
    "operation, count, cycles",
    [
        # Each touches a line of its own, and nothing waits for it but the end. Loads: all of the
        # first four lines come at 80 to 83; the ninth waits for two rounds before it.
        ("lw s{register}", 1, 80),
        ("lw s{register}", 4, 83),
        ("lw s{register}", 9, 240),
        # Stores are done when their line has a place: the fifth has one at 80, the ninth at 160.
        ("sw s{register}", 4, 4),
        ("sw s{register}", 5, 80),
        ("sw s{register}", 9, 160),
    ],
)
def test_only_four_misses_overlap(tmp_path, operation, count, cycles):
    body = "\n".join(f"{operation.format(register=i + 1)}, {64 * i}(s0)" for i in range(count))
    program = assemble(
        tmp_path,
        f"""
_start:
    lla s0, buffer
begin:
{body}
end:
    {EXIT}
.bss
.balign 64
buffer: .space 1024
""",
    )
    counts = simulated(program, cache=True, ranges=[program.range("begin", "end")])
    assert counts["second_level_misses"] == count
    assert counts["simulated_cycles"] == cycles


def test_the_vector_type_is_followed_outside_the_range(tmp_path):
    program = assemble(tmp_path, loop("vadd.vv v8, v16, v16", M8, 100))
    counts = simulated(program, vlen=256, ranges=[program.range("loop", "loop_end")])
    assert 1600 <= counts["simulated_cycles"] < 1620


def test_two_runs_give_the_same_cycles(tmp_path):
    for vector in (False, True):
        program = assemble(tmp_path, passes(128 << 10, 2, vector=vector))
        first = simulated(program, cache=True)
        assert first["simulated_cycles"] > 0
        assert simulated(program, cache=True) == first


def test_code_outside_the_range_takes_no_time(tmp_path):
    program = assemble(tmp_path, loop("fdiv.s fa0, fa0, fa1", "", 100))
    ranges = [program.range("loop", "loop_end")]
    inside = simulated(program, ranges=ranges)
    assert 1200 <= inside["simulated_cycles"] < 1220
    assert simulated(program)["simulated_cycles"] > inside["simulated_cycles"]
    assert simulated(program, ranges=[(0x10, 0x20)])["simulated_cycles"] == 0


# A handler of SIGILL that leaves the instruction out, installed by rt_sigaction.
SKIP = """
    j install
handler:
    ld t1, 176(a2)
    addi t1, t1, 4
    sd t1, 176(a2)
    ret
.data
.balign 8
action: .dword handler, 4, 0
.text
install:
    li a0, 4
    lla a1, action
    li a2, 0
    li a3, 8
    li a7, 134
    ecall
    vsetvli t1, x0, e8, m1, ta, ma
"""


@pytest.mark.parametrize(
    "sums, cycles",
    [
        # One chain waits for each result; six pairs of sums hide that, a product a cycle.
        ((8,) * 6, 6 * 6),
        ((8, 10, 12, 14, 16, 18), 6),
    ],
)
def test_products_of_matrices(tmp_path, sums, cycles):
    body = ";".join(f".insn r 0x2b, 3, 0x71, v{sum}, v0, v1" for sum in sums)

    def taken(rounds):
        program = assemble(tmp_path, loop(body, SKIP, rounds))
        ranges = [program.range("loop", "loop_end")]
        counts = simulated(program, ranges=ranges, core="spacemit-x60")
        assert counts["unknown"] == 0
        return counts["simulated_cycles"]

    each = (taken(200) - taken(100)) / 100
    # What the loop itself costs is in the shadow of a chain, else two cycles more.
    assert cycles <= each <= cycles + 2


def test_the_slowest_thread_counts(tmp_path):
    program = assemble(tmp_path, THREADS)
    counts = simulated(program, ranges=[program.range("work_loop", "work_end")])
    # fmul and vfmul together, addi, bnez: three cycles, 100,000 times in each of four threads.
    assert counts["total"] == 1_600_000
    assert 300_000 <= counts["simulated_cycles"] < 300_050
