"""Networks of the zoo, exported for rv64gcv and run under qemu, agree with PyTorch's float64."""

import numpy
import pytest

import tc

from . import zoo
from .support import output_file, run_under_qemu, worst_error

LIMIT = 1e-4
SIMULATED = ["squeezenet1_1", "mobilenet_v2", "nsnet2_step"]


def check(label, actual, expected):
    """Worst error within the limit, and close in numpy's sense too."""
    worst = 0.0
    for name, array in expected.items():
        worst = max(worst, worst_error(actual[name], array))
        largest = numpy.abs(array).max()
        assert numpy.allclose(actual[name], array, rtol=1e-3, atol=1e-3 * largest)
    print(f"{label}: worst error {worst:.2e} of the largest output")
    assert worst <= LIMIT


@pytest.mark.parametrize("name", SIMULATED)
def test_agrees_on_riscv64(name, tmp_path):
    path = zoo.export(name)
    inputs, expected = zoo.reference(name)
    executable = tmp_path / name
    tc.compile(str(path), target="rv64gcv").export(str(executable), kind="executable")
    outputs = run_under_qemu(executable, inputs, tmp_path)
    check(f"{name} rv64gcv", {key: outputs[output_file(key)] for key in expected}, expected)
