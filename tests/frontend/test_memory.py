"""Peak memory of runs, and the plans' arenas, stay within what the project promises."""

import contextlib
import io
import os
import re
import subprocess

import pytest

import tc
import tc.cli

from .. import memory, zoo
from ..bench import quantised
from .plan_text import Plan, PlanFault, check_disjoint, largest_live_set, live_pieces, value_of
from .data_sizes import branches

# Of networks that are much alike one by default.
LIKE_OTHERS = ("caffenet", "squeezenet1_0", "mobilenet_v1")
EVERY = [
    pytest.param(name, marks=pytest.mark.full if network.large or name in LIKE_OTHERS else ())
    for name, network in zoo.NETWORKS.items()
]
FRAMES = (1, 7, 100, 1000)
ALIGNMENT = 64  # bytes, of each constant in the file: codegen/llvm/artefact/constants.cc
# Every second of those that are not large, by default: a run of each takes some seconds.
PEAKS = [
    pytest.param(name, marks=pytest.mark.full if network.large or number % 2 else ())
    for number, (name, network) in enumerate(zoo.NETWORKS.items())
]
# Whose compilation is measured by default.
COMPILED = ("squeezenet1_1", "resnet50")


def dumped_plan(path, *options):
    """What `python -m tc inspect PATH --dump=plan` prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert tc.cli.main(["inspect", str(path), "--dump=plan", *options]) == 0
    return printed.getvalue()


@pytest.mark.parametrize("name", PEAKS)
def test_peak_is_constants_and_arena(name):
    """At most the file's constants once, the arena and 12 MB, beside the caller's own buffers."""
    path = zoo.export(name)
    row = memory.measure_artefact(path, name)
    constants = memory.constants_once(path)
    print(
        f"{name}: peak {row['peak'] / 1e6:.1f} MB = constants {row['constants'] / 1e6:.1f} "
        f"(in the file {constants / 1e6:.1f}) + arena {row['arena'] / 1e6:.1f} + inputs and "
        f"outputs {row['inputs_outputs'] / 1e6:.1f} + {memory.beside(row) / 1e6:.1f}"
    )
    assert row["inputs_outputs"] > 0 and row["peak"] > row["arena"]
    assert row["constants"] <= 1.05 * constants + 100_000
    assert row["peak"] - row["inputs_outputs"] <= constants + row["arena"] + memory.ALLOWANCE


@pytest.mark.parametrize("target", ["native", "native,-amx-tile"])
@pytest.mark.parametrize("name", ["superres", "googlenet"])
def test_transformed_filters_count_once(name, target):
    """With the default tolerance the constants are the artefact's, some of them transformed."""
    path = zoo.export(name)
    row = memory.measure_artefact(path, name, tolerance=1e-4, target=target)
    if "-amx" in target:  # else digits may be smaller by as much as filters are larger
        assert row["constants"] > 1.1 * memory.constants_once(path)
    assert row["peak"] - row["inputs_outputs"] <= row["constants"] + row["arena"] + memory.ALLOWANCE


@pytest.mark.parametrize("command", ["tc.compile", "tc compile -o"])
@pytest.mark.parametrize("target", ["native", "native,-amx-tile"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in COMPILED else pytest.mark.full)
        for name in zoo.NETWORKS
    ],
)
def test_compiling_needs_three_files_and_400_mb(name, target, command, tmp_path):
    """At the default tolerance: without a matrix unit filters are stored up to four times as
    large."""
    path = zoo.export(name)
    peak = memory.compile_peak(path, target, tmp_path / "model.so" if "-o" in command else "")
    size = os.path.getsize(path)
    print(f"{name}: {command} needs {peak / 1e6:.0f} MB for a file of {size / 1e6:.0f} MB")
    assert peak <= 3 * size + 400e6


@pytest.mark.parametrize("name", EVERY)
def test_arena_is_near_the_largest_live_set(name):
    """At most 1.3 times, and no two blocks that live at once share bytes."""
    plan = Plan(dumped_plan(zoo.export(name)))
    for symbols in [{"frames": frames} for frames in FRAMES] if name == "nsnet2" else [{}]:
        pieces = live_pieces(plan, symbols)
        check_disjoint(pieces)
        live, arena = largest_live_set(pieces), plan.arena_bytes(symbols)
        print(
            f"{name} {symbols or ''}: arena {arena / 1e6:.3f} MB, largest live set "
            f"{live / 1e6:.3f} MB, ratio {arena / live:.3f}"
        )
        assert live > 0
        assert arena <= 1.3 * live


@pytest.mark.parametrize("n", [8, 100])
def test_what_a_branch_begins_with_leaves_the_condition_alone(n, tmp_path):
    """A thread may still be about to look at the condition when another one is in the branch."""
    path = tmp_path / "branches.onnx"
    path.write_bytes(branches())
    for shape in ([], [f"--shape=x={n},"]):
        check_disjoint(live_pieces(Plan(dumped_plan(path, *shape)), {"n": n}))


def test_the_dumped_plan_is_the_compiled_one():
    path = zoo.export("squeezenet1_1")
    module = tc.compile(str(path))
    text = dumped_plan(path)
    assert Plan(text).arena_bytes({}) == module.memory.arena
    aligned = [-(-size // ALIGNMENT) * ALIGNMENT for size in Plan(text).constants]
    assert sum(aligned) == module.memory.constants
    assert text.split("\nsteps\n")[1].strip() == module._compiled.plan.split("\nsteps\n")[1].strip()


@pytest.mark.full
@pytest.mark.parametrize("build", [memory.run_onnxruntime_program, memory.run_openvino_program])
def test_peers_are_measured_alike(build):
    """The programs that the table compares with run the same model on as many bytes."""
    try:
        program = build()
    except (ImportError, OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"the peer's header or library cannot be had: {error}")
    peer = memory.measure(program, zoo.export("squeezenet1_1"))
    print(f"squeezenet1_1: {program.name}'s peak {peer['peak'] / 1e6:.1f} MB")
    assert peer["inputs_outputs"] == (3 * 224 * 224 + 1000) * 4
    assert peer["peak"] > 10_000_000


@pytest.mark.full
def test_a_network_of_bytes_takes_less_than_a_third_and_less_than_peers():
    """Arena and constants of a quantised file beside those of the floats that it was made of, and
    the peaks of runs."""
    floats = memory.measure_artefact(zoo.export("resnet50"), "resnet50")
    own = memory.measure_artefact(quantised.export("resnet50"), "resnet50")
    share = (own["constants"] + own["arena"]) / (floats["constants"] + floats["arena"])
    print(
        f"resnet50: constants and arena {share:.3f} of those of floats, peak {own['peak'] / 1e6:.1f} MB"
    )
    assert share <= 0.3
    for build in (memory.run_onnxruntime_program, memory.run_openvino_program):
        try:
            peer = memory.measure(build(), quantised.export("resnet50"))
        except (ImportError, OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"the peer's header or library cannot be had: {error}")
        assert own["peak"] < peer["peak"]


def test_the_page_has_every_network():
    rows = memory.page_rows(zoo.NETWORKS)
    assert list(rows) == list(zoo.NETWORKS)
    for name, line in rows.items():
        peak, constants, arena, inputs_outputs, *peers = map(float, line.split("|")[2:-1])
        assert len(peers) == 2 and peak < min(peers), name
        assert peak <= constants + arena + inputs_outputs + memory.ALLOWANCE / 1e6, name


# A plan by hand: a writes block 0, b makes block 1 of it, the loop hands block 2 on.
PLAN = """plan small for x86-64-v3
input x f32[n, 16]
constant 0 f32[16] 64 bytes
arena 64*n + 192 bytes, scratch 0 bytes
block 0 first [0, +64*n) steps 9 .. 9
block 1 second [64*n, +64) steps 9 .. 9
block 2 state, [a] [64*n + 64, +64) steps 9 .. 9
block 3 third [64*n + 128, +64) steps 9 .. 9
steps
  call 0 one, (two)(input0, constant0, block0@[0]) with n  # one, (two)
  copy 64 bytes (block2@[64*n + 64], constant0)  # initial state
  loop t0 < n  # recurrent
    call 1 next(block2@[64*n + 64], block0@[64*t0], block1@[64*n])
    copy 64 bytes (block2@[64*n + 64], block1@[64*n]) no_barrier
  call 2 last(block2@[64*n + 64], block3@[64*n + 128]) single_thread
  copy 64 bytes (output0, block3@[64*n + 128])
kernel 0:
kernel "one, (two)"
  parameter p0 = n in [1, 99]
  input in0 f32[p0, 16]
  constant const0 f32[16]
  output out0 f32[p0, 16]
kernel 1:
kernel "next"
  input in0 f32[16]
  input in1 f32[16] as "c"
  output out0 f32[1, 16]
  register tmp0 f32[16]
kernel 2:
kernel "last"
  input in0 f32[16]
  output out0 f32[16]
"""


def faults(text):
    """What is wrong with the plan's memory."""
    with pytest.raises(PlanFault) as caught:
        check_disjoint(live_pieces(Plan(text), {"n": 5}))
    return str(caught.value)


def moved(block, offset, text=PLAN):
    """The plan with a block elsewhere."""
    for old in re.findall(rf"block{block}@\[(.*?)\]", text)[:1]:
        text = text.replace(f"block{block}@[{old}]", f"block{block}@[{offset}]")
        text = re.sub(rf"(?m)^(block {block} .*) \[{re.escape(old)}, ", rf"\1 [{offset}, ", text)
    return text


def test_lives_follow_from_the_steps():
    plan = Plan(PLAN)
    pieces = live_pieces(plan, {"n": 5})
    check_disjoint(pieces)
    lives = {piece.block: (piece.first, piece.last, piece.end - piece.begin) for piece in pieces}
    # Block 0 is read in every iteration, block 2 handed from each to the next; block 1 is not.
    assert lives == {0: (0, 5, 320), 1: (3, 4, 64), 2: (1, 6, 64), 3: (6, 7, 64)}
    assert largest_live_set(pieces) == 320 + 64 + 64
    assert plan.arena_bytes({"n": 5}) == 512
    assert value_of("64*floor((75*n + 1)/2) + max(n, 3)", {"n": 5}) == 64 * 188 + 5


def test_dead_blocks_may_share():
    # Block 3 lives after the loop, where block 0 and block 1 are dead.
    check_disjoint(live_pieces(Plan(moved(3, "0")), {"n": 5}))
    check_disjoint(live_pieces(Plan(moved(3, "64*n")), {"n": 5}))


def test_scratch_memory_may_share_with_the_dead_alone():
    # The first thread works in block 4 while call 2 runs: block 2 is read then, block 0 is dead.
    with_scratch = PLAN.replace(
        "steps\n", "block 4 work [64*n + 192, +64) steps 9 .. 9\nsteps\n", 1
    )
    with_scratch = with_scratch.replace("arena 64*n + 192", "arena 64*n + 256")
    with_scratch = with_scratch.replace(
        "single_thread\n", "single_thread scratch block4@[64*n + 192]\n"
    )
    check_disjoint(live_pieces(Plan(with_scratch), {"n": 5}))
    check_disjoint(live_pieces(Plan(moved(4, "0", with_scratch)), {"n": 5}))
    assert re.search("blocks (2 and 4|4 and 2) share", faults(moved(4, "64*n + 64", with_scratch)))
    assert re.search("blocks (3 and 4|4 and 3) share", faults(moved(4, "64*n + 128", with_scratch)))


@pytest.mark.parametrize(
    "block, offset, fault",
    [
        (1, "0", "share bytes 0 .. 64"),
        (1, "64*n + 64", "blocks 1 and 2 share|blocks 2 and 1 share"),
        (2, "64*n - 8", "share bytes"),
        (3, "64*n + 64", "share bytes"),
        (3, "64*n + 136", "block 3 leaves the arena"),
    ],
)
def test_faults_are_found(block, offset, fault):
    assert re.search(fault, faults(moved(block, offset)))


def test_wrong_accesses_are_found():
    beyond = PLAN.replace(
        "copy 64 bytes (output0, block3@[64*n + 128])",
        "copy 64 bytes (output0, block3@[64*n + 132])",
    )
    assert "leaves block 3" in faults(beyond)
    unwritten = PLAN.replace(
        "  copy 64 bytes (block2@[64*n + 64], constant0)  # initial state\n", ""
    )
    assert "reads bytes of block 2 that nothing wrote" in faults(unwritten)
    larger = PLAN.replace("  output out0 f32[1, 16]", "  output out0 f32[2, 16]")
    assert "leaves block 1" in faults(larger)
