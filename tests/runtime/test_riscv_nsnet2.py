"""nsNet2 for RISC-V: no loop of its kernels does data one by one, and from PyTorch's own forms it
is what it is from ONNX."""

import re
import warnings

import numpy
import pytest
import tc
import torch

from .. import zoo
from ..qemu import qemu_path, run_riscv64
from ..support import input_options, output_file, worst_error

# Arithmetic of single floats, and stores of them. Loads alone are operands of vector instructions.
SCALAR = r"\t(f(add|sub|mul|div|min|max|sqrt|n?madd|n?msub)\.[sdh]|fs[wdh])\t"
VECTOR = r"\tv(?!set)\w"
TARGET = "rv64gcv_zvl256b"  # of the runs


def innermost_loops(assembly):
    """Lines of each stretch between a label and a branch back to it in which there is no other such
    stretch."""
    lines = assembly.splitlines()
    labels = {
        line[:-1]: number for number, line in enumerate(lines) if re.fullmatch(r"\.LBB\w+:", line)
    }
    loops = []
    for number, line in enumerate(lines):
        target = re.search(r"\t(?:b\w+|j)\t(?:.*, )?(\.LBB\w+)$", line)
        if target and labels.get(target[1], number) < number:
            loops.append((labels[target[1]], number))
    return [
        lines[begin : end + 1]
        for begin, end in loops
        if not any(
            (begin, end) != other and begin <= other[0] and other[1] <= end for other in loops
        )
    ]


def scalar_loops(assembly):
    """Innermost loops that compute or store single floats and have no vector instruction."""
    return [
        loop
        for loop in innermost_loops(assembly)
        if any(re.match(SCALAR, line) for line in loop)
        and not any(re.match(VECTOR, line) for line in loop)
    ]


def loops_of(name, target):
    """(loops with vector instructions, loops of single floats) of all kernels of a network."""
    inputs = zoo.example(name)
    kernels = tc.kernels(
        str(zoo.export(name)),
        target,
        {key: array.shape for key, array in inputs.items()},
        threads=1,
    )
    assemblies = [kernel.schedule().assembly for kernel in kernels]
    vectors = sum(
        any(re.match(VECTOR, line) for line in loop)
        for text in assemblies
        for loop in innermost_loops(text)
    )
    return vectors, [loop for text in assemblies for loop in scalar_loops(text)]


@pytest.mark.parametrize("name", ["nsnet2", "nsnet2_step"])
@pytest.mark.parametrize(
    "target", ["rv64gcv", "rv64gcv_zvl256b", "rv64gcv_zvl512b", "rv64gcv_zvl1024b"]
)
def test_no_loop_does_single_floats(name, target):
    vectors, scalars = loops_of(name, target)
    assert vectors >= 5 and not scalars, "\n\n".join("\n".join(loop) for loop in scalars)


def test_loops_of_single_floats_are_found():
    assert len(loops_of("nsnet2_step", "rv64gc")[1]) >= 5


def from_pytorch(form, folder, examples):
    """What tc.compile takes, of the network as PyTorch has it."""
    module = zoo.build("nsnet2")
    if form == "exported":
        return torch.export.export(module, examples, strict=False), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(module, examples).save(str(folder / "traced.pt"))
    return str(folder / "traced.pt"), examples


def simulated(module, folder):
    """(counts of the whole process, error) of a run of 100 frames at 256 bits, caches on."""
    inputs, expected = zoo.reference("nsnet2")
    executable = folder / "network"
    module.export(str(executable), kind="executable")
    (port,), (output,) = module.inputs, module.outputs
    options = [
        *input_options({port.name: inputs["input"]}, folder),
        "--output-dir",
        str(folder),
        "--threads",
        "1",
    ]
    code, _, error, counts = run_riscv64(executable, options, vlen=256, cache=True, timeout=1800)
    assert code == 0, error.decode()
    return counts, worst_error(numpy.load(folder / output_file(output.name)), expected["gains"])


@pytest.fixture(name="wanted", scope="module")
def counts_from_onnx(tmp_path_factory):
    shapes = zoo.shapes("nsnet2")
    return simulated(
        tc.compile(str(zoo.export("nsnet2")), TARGET, threads=1, shapes=shapes),
        tmp_path_factory.mktemp("onnx"),
    )[0]


@pytest.mark.skipif(qemu_path() is None, reason="qemu-riscv64 is not installed")
@pytest.mark.parametrize("form", ["archive", pytest.param("exported", marks=pytest.mark.full)])
def test_from_pytorch_it_takes_as_long_as_from_onnx(form, wanted, tmp_path):
    model, given = from_pytorch(
        form, tmp_path, tuple(map(torch.from_numpy, zoo.example("nsnet2").values()))
    )
    counts, error = simulated(tc.compile(model, TARGET, threads=1, inputs=given), tmp_path)
    cycles, from_onnx = counts["simulated_cycles"], wanted["simulated_cycles"]
    print(
        f"{form}: {cycles / 1e6:.1f} M cycles, {from_onnx / 1e6:.1f} M from ONNX, worst error {error:.1e} of the largest output"
    )
    assert error <= 1e-4
    assert cycles <= 1.02 * from_onnx


@pytest.mark.skipif(qemu_path() is None, reason="qemu-riscv64 is not installed")
def test_steps_begin_with_the_weights_that_the_second_cache_holds(wanted):
    # 100 steps of two GRUs with 400 by 1,200 weights each, of which three lie in two words, in 13
    # panels of three vectors of 32 lanes; a line of 64 bytes. The second cache holds 512 KiB, 39 %
    # of one's. All else in the process misses it 0.12 times as often; without what it holds there
    # were more misses than these lines.
    lines = 100 * 2 * 13 * 400 * 2 * 32 * 4 // 64
    print(
        f"{wanted['second_level_misses'] / lines:.2f} of the lines that the steps' weights have come from memory"
    )
    assert wanted["second_level_misses"] <= 0.82 * lines
