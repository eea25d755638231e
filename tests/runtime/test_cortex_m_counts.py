"""How many instructions networks take on an emulated Cortex-M4, and cycles by the table of its
timings."""

import pytest

from tests.bench.cortex_m_cycles import TIMINGS, cycles_of, modelled_cycles
from tests.bench.microcontrollers import build, count, disassembly, plugin

from ..support import models_folder

# Bounds that leave a few percent for other versions of LLVM.
MOST_INSTRUCTIONS = {
    "kws_ref_model": 3_400_000,
    "pretrainedResnet_quant": 14_700_000,
    "vww_96_int8": 7_200_000,
    "ad01_int8": 395_000,
}
MOST_CYCLES = {
    "kws_ref_model": 4_820_000,
    "pretrainedResnet_quant": 20_300_000,
    "vww_96_int8": 10_000_000,
    "ad01_int8": 490_000,
}
# The same of a Cortex-M55 with its vectors.
MOST_WITH_VECTORS = {
    "kws_ref_model": 790_000,
    "pretrainedResnet_quant": 2_350_000,
    "vww_96_int8": 1_810_000,
    "ad01_int8": 55_000,
}


def instructions_of(name, target, folder):
    """The program, its counts and their sum."""
    pytest.importorskip("tflite")
    path = models_folder() / "mlperf_tiny" / f"{name}.tflite"
    program, _, _ = build(path, target, folder)
    counts, _ = count(program, target, folder, plugin(folder))
    return program, counts, sum(counts.values())


def check_counts(name, folder):
    program, counts, instructions = instructions_of(name, "cortex-m4", folder)
    cycles = modelled_cycles(disassembly(program), counts, TIMINGS["cortex-m4"])
    print(f"{name}: {instructions:,} instructions, {cycles:,} cycles")
    assert instructions <= MOST_INSTRUCTIONS[name]
    assert cycles <= MOST_CYCLES[name]
    # Each instruction takes at least a cycle, most of them no more.
    assert instructions < cycles < 2 * instructions


def test_instructions_of_keywords(tmp_path):
    check_counts("kws_ref_model", tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in MOST_INSTRUCTIONS if name != "kws_ref_model"])
def test_instructions_of_other_models(name, tmp_path):
    check_counts(name, tmp_path)


def check_counts_with_vectors(name, folder):
    _, _, instructions = instructions_of(name, "cortex-m55", folder)
    print(f"{name}: {instructions:,} instructions")
    assert instructions <= MOST_WITH_VECTORS[name]


def test_instructions_of_keywords_with_vectors(tmp_path):
    check_counts_with_vectors("kws_ref_model", tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in MOST_WITH_VECTORS if name != "kws_ref_model"])
def test_instructions_of_other_models_with_vectors(name, tmp_path):
    check_counts_with_vectors(name, tmp_path)


@pytest.mark.parametrize(
    "mnemonic, operands, cycles",
    [
        ("smlad", "r0, r1, r2, r0", 1),
        ("ldrb.w", "r0, [r1]", 2),
        ("strb", "r0, [r1]", 1),
        ("ldrd", "r0, r1, [r2], #8", 3),
        ("ldm.w", "r0, {r1, r2, r7}", 4),
        ("push.w", "{r4-r11, lr}", 10),
        ("pop.w", "{r4, r5, pc}", 6),
        ("vldr", "s0, [r1]", 2),
        ("vfma.f32", "s0, s1, s2", 3),
        ("vdiv.f32", "s0, s1, s2", 14),
        ("udiv", "r0, r1, r2", 7),
    ],
)
def test_cycles_of_instructions(mnemonic, operands, cycles):
    assert cycles_of(mnemonic, operands, TIMINGS["cortex-m4"]) == cycles


def test_cycles_of_branches():
    """A loop of ten trips: nine of its branches are taken, as is the return."""
    code = """
       100:      	ldr	r0, [r1], #4
       102:      	subs	r2, #0x1
       104:      	bne	0x100 <f> @ imm = #-0x8
       106:      	bx	lr
    """
    counts = {0x100: 10, 0x102: 10, 0x104: 10, 0x106: 1}
    assert modelled_cycles(code, counts, TIMINGS["cortex-m4"]) == 20 + 10 + 10 + 9 * 2 + 1 + 2
