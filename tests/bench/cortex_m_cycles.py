"""Cycles of a run on a core for microcontrollers, from how often each instruction executes.

A core of this kind executes one instruction after the other, so that a table of its timings tells
its cycles, without the waits for flash memory of a particular chip. The table of the Cortex-M4 is
that of its Technical Reference Manual ("Instruction set summary"). Loads count in full, though two
after each other overlap by a cycle. A branch that is taken refills the pipeline in one to three
cycles, here two; it counts as taken as often as it executes more often than what follows it.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    load: int = 2  # of one register
    store: int = 1
    first_of_several: int = 1  # of a load or store of several registers; each register is one more
    refill: int = 2  # after a branch that is taken
    divide: int = 7  # of 2 to 12
    float_fused: int = 3  # multiply-adds of floats
    float_divide: int = 14  # and square roots


TIMINGS = {"cortex-m4": Timing()}

SEVERAL = re.compile(r"(ldm|stm|push|pop|ldrd|strd|vldm|vstm|vpush|vpop)")
BRANCH = re.compile(r"(b|bl|bx|blx|b(eq|ne|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)|cbn?z)(\.w|\.n)?$")
ALWAYS = re.compile(r"(b|bl|bx|blx)(\.w|\.n)?$")


def registers_of(mnemonic, operands):
    """How many registers an instruction that loads or stores several has."""
    if mnemonic.startswith(("ldrd", "strd")):
        return 2
    count = 0
    for each in re.search(r"\{(.*)\}", operands).group(1).split(","):
        first, _, last = each.strip().partition("-")
        count += int(last[1:]) - int(first[1:]) + 1 if last else 1
    return count


def cycles_of(mnemonic, operands, timing):
    """Cycles of one instruction, a branch's refill apart."""
    if SEVERAL.match(mnemonic):
        leaves = timing.refill if "pc" in operands else 0
        return timing.first_of_several + registers_of(mnemonic, operands) + leaves
    if mnemonic.startswith(("ldr", "vldr")):
        return timing.load
    if mnemonic.startswith(("str", "vstr")):
        return timing.store
    if mnemonic.startswith(("udiv", "sdiv")):
        return timing.divide
    if mnemonic.startswith(("vmla", "vmls", "vfma", "vfms", "vnml", "vfnm")):
        return timing.float_fused
    if mnemonic.startswith(("vdiv", "vsqrt")):
        return timing.float_divide
    return 1


def modelled_cycles(disassembly, counts, timing):
    """Cycles of a run that executed the instruction at each address so many times. The disassembly
    is that of llvm-objdump, without the instructions' bytes."""
    lines = []
    for line in disassembly.splitlines():
        found = re.match(r"\s*([0-9a-f]+):\s+([a-z][a-z0-9.]*)\s*(.*)", line)
        if found:
            address, mnemonic, operands = found.groups()
            lines.append((int(address, 16), mnemonic, operands.split("@")[0]))
    total = 0
    for (address, mnemonic, operands), (following, _, _) in zip(
        lines, [*lines[1:], (None, "", "")], strict=True
    ):
        times = counts.get(address, 0)
        total += times * cycles_of(mnemonic, operands, timing)
        if BRANCH.match(mnemonic):
            falls_through = 0 if ALWAYS.match(mnemonic) else counts.get(following, 0)
            total += max(0, times - falls_through) * timing.refill
    return total
