"""Networks of the zoo, exported for rv64gcv and run under qemu, agree with PyTorch's float64.

The convolutional ones are also held to what they may execute: see docs/riscv.md.
"""

import numpy
import pytest

import tc

from .. import zoo
from ..support import count_under_qemu, output_file, worst_error

LIMIT = 1e-4
# Executed instructions per multiply-add of the graph, at most; more where layers are depthwise.
INSTRUCTIONS = 0.2
INSTRUCTIONS_OF = {"mobilenet_v1": 0.5, "mobilenet_v2": 0.5}
# Executed scalar floating-point multiplies per multiply-add of the graph, at most.
SCALAR_MULTIPLIES = 0.01
# Bytes of an executable beside its constants, at most: kernels, runtime and C library.
BESIDE = 1e6
# Seconds each; those of `LARGE` take longer, or have layers like those of others.
SMALL = ["squeezenet1_1", "mobilenet_v2", "alexnet", "googlenet"]
LARGE = [
    "mobilenet_v1",
    "caffenet",
    "squeezenet1_0",
    "nin",
    "superres",
    "resnet50",
    "yolov6n",
    "yolov7_tiny",
    "resnet101",
    "unet",
]
CONVOLUTIONAL = SMALL + [pytest.param(name, marks=pytest.mark.full) for name in LARGE]


def check(label, actual, expected):
    """Worst error within the limit, and close in numpy's sense too."""
    worst = 0.0
    for name, array in expected.items():
        worst = max(worst, worst_error(actual[name], array))
        largest = numpy.abs(array).max()
        assert numpy.allclose(actual[name], array, rtol=1e-3, atol=1e-3 * largest)
    print(f"{label}: worst error {worst:.2e} of the largest output")
    assert worst <= LIMIT


def run(name, folder, target="rv64gcv"):
    """Checks the network's outputs; returns what the whole process executed, by class."""
    path = zoo.export(name)
    inputs, expected = zoo.reference(name)
    executable = folder / name
    module = tc.compile(str(path), target=target)
    # Local response normalisation is a sum of products that the authors do not count.
    compiled = sum(report["multiply_adds"] for report in module.kernels)
    assert 1 <= compiled / zoo.NETWORKS[name].multiply_adds < 1.003
    module.export(str(executable), kind="executable")
    beside = executable.stat().st_size - module.memory.constants
    print(f"{name} {target}: the executable has {beside / 1e3:.0f} KB beside its constants")
    assert beside <= BESIDE
    outputs, counts = count_under_qemu(
        executable, inputs, folder, vlen=256, arguments=["--threads", "1"]
    )
    check(f"{name} {target}", {key: outputs[output_file(key)] for key in expected}, expected)
    return counts


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_convolutions_are_vectorised(name, tmp_path):
    counts = run(name, tmp_path)
    multiply_adds = zoo.NETWORKS[name].multiply_adds
    executed = {kind: count / multiply_adds for kind, count in counts.items() if kind != "threads"}
    print(
        f"{name}: {multiply_adds / 1e6:.0f} M multiply-adds; executed for each:",
        ", ".join(f"{kind} {share:.4f}" for kind, share in executed.items()),
    )
    assert executed["scalar_float_multiply"] <= SCALAR_MULTIPLIES
    assert executed["total"] <= INSTRUCTIONS_OF.get(name, INSTRUCTIONS)
    # The whole network ran: the widest group of 256-bit registers has 64 lanes.
    assert executed["vector_multiply"] >= 1 / 64
    assert counts["unknown"] == 0


@pytest.mark.parametrize("target, vectorised", [("rv64gcv", True), ("rv64gc", False)])
def test_recurrent_step(target, vectorised, tmp_path):
    """Vectorised too; and code without vectors, for contrast, is counted as what it is."""
    counts = run("nsnet2_step", tmp_path, target)
    scalar = counts["scalar_float_multiply"] / zoo.NETWORKS["nsnet2_step"].multiply_adds
    print(f"nsnet2_step {target}: {scalar:.5f} scalar multiplies for each multiply-add")
    assert scalar <= SCALAR_MULTIPLIES if vectorised else scalar > 0.9


def test_every_convolutional_network_is_counted():
    others = {"nsnet2", "nsnet2_step", "bert_base", "tinybert", "roberta_base"}
    assert set(SMALL) | set(LARGE) == set(zoo.NETWORKS) - others
